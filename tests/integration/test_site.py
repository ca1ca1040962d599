# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The main job, run from the built artefact: gpuops.mps.site from an empty cluster, and again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.artefact import build_artefact, install_artefact
from tests.integration.observation import (
    DAEMON,
    LAB_GPUS,
    MIG_INSTANCES,
    MIG_NODE,
    allocatable,
    ask_daemon,
    label_node,
    pods,
    wait_for_allocatable,
)
from tests.integration.operator_variables import LAB_DECLARATION, operator_variables
from tests.integration.rights import requests_of_accounts
from tests.testbed.bed import BedError, TestBed

T4_NODES = ("gpu-t4-1", "gpu-t4-2")
# gpu-mixed-1 has a T4 beside two L4. Which of the two its labels show is chance, so no group here selects by product.
DECLARATION = {
    **LAB_DECLARATION,
    "mps_node_groups": [
        {"name": "t4", "config": "mps-four", "selector": ["pool=inference"]},
        {"name": "partitioned", "config": "none", "nodes": [MIG_NODE]},
    ],
}


@pytest.fixture
def run_site(run_ansible: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """`run_site(bed, variables) -> AnsibleRun`: the playbook of the archive, installed into an otherwise empty path."""
    collections = tmp_path / "collections"
    install_artefact(build_artefact(tmp_path), collections)

    def run(bed: TestBed, variables: dict[str, Any]) -> Any:
        return run_ansible("gpuops.mps.site", bed, variables=variables, environ={"ANSIBLE_COLLECTIONS_PATH": str(collections)})

    return run


@pytest.mark.slow
def test_the_main_job_from_nothing_then_again_then_with_other_replicas(
    bed_factory: Callable[..., TestBed], run_site: Callable[..., Any], run_module: Callable[..., Any]
) -> None:
    bed = bed_factory("site")
    variables = {**DECLARATION, **operator_variables(bed)}

    first = run_site(bed, variables)
    assert first.status == 0, first.failure()
    assert first.changed > 0
    replicas = dict.fromkeys(LAB_GPUS, 2) | dict.fromkeys(T4_NODES, 4)
    shared = {node: replicas[node] * count for node, count in LAB_GPUS.items()} | {MIG_NODE: MIG_INSTANCES}
    assert allocatable(bed) == shared
    assert ask_daemon(bed, "gpu-t4-1", "get_default_active_thread_percentage") == "25.0"
    assert bed.api.list("/apis/apps/v1/namespaces/default/deployments") == [], "the proof's Deployment was left behind"

    since = bed.mark()
    second = run_site(bed, variables)
    assert (second.status, second.changed) == (0, 0), second.failure()
    requests = requests_of_accounts(bed, since)
    assert len(requests) > 5, "the second run was not seen in the audit log"
    assert [event for event in requests if event.mutating] == []
    assert allocatable(bed) == shared

    variables["mps_configs"] = {**DECLARATION["mps_configs"], "mps-four": {"replicas": 8}}
    third = run_site(bed, variables)
    assert third.status == 0, third.failure()
    assert allocatable(bed) == shared | {node: 8 * LAB_GPUS[node] for node in T4_NODES}
    assert ask_daemon(bed, "gpu-t4-1", "get_default_active_thread_percentage") == "12.0"
    see_what_a_killed_daemon_leaves(bed, run_module)


def see_what_a_killed_daemon_leaves(bed: TestBed, run_module: Callable[..., Any]) -> None:
    """On a node that shares: its GPUs are exclusive, and stay so when its daemon is killed and the node stops sharing."""
    shared = run_module(bed, "mps_info", {"compute_modes": True}, account="operator")
    assert (shared["compute_modes"]["gpu-t4-1"], shared["left_exclusive"]) == (["exclusive_process"] * 2, [])
    assert shared["compute_modes"][MIG_NODE] == ["default"]
    bed.api.patch("/api/v1/nodes/gpu-t4-1", {"metadata": {"annotations": {"testbed.gpuops.example/fault": "daemon-killed"}}})
    bed.wait_for("a daemon that does not answer", lambda: not answers(bed, "gpu-t4-1"))
    label_node(bed, "gpu-t4-1", "none")
    wait_for_allocatable(bed, {"gpu-t4-1": LAB_GPUS["gpu-t4-1"]})
    bed.wait_for("the end of the daemon", lambda: "gpu-t4-1" not in pods(bed, DAEMON))
    left = run_module(bed, "mps_info", {"compute_modes": True}, account="operator")
    assert (left["compute_modes"]["gpu-t4-1"], left["left_exclusive"]) == (["exclusive_process"] * 2, ["gpu-t4-1"])


def answers(bed: TestBed, node: str) -> bool:
    """Tell whether the node's daemon can be asked."""
    try:
        return bool(ask_daemon(bed, node, "get_default_active_thread_percentage"))
    except BedError:
        return False
