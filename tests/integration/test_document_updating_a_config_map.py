# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's documentation, "Updating an MPS Config Map": what an edit does by itself, what its restarts do, and what is missing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.integration.observation import (
    DAEMON,
    DISCOVERY,
    PLUGIN,
    allocatable,
    ask_daemon,
    label_node,
    node_labels,
    patch_policy,
    pod_identities,
    sharing_config,
    wait_for_allocatable,
    wait_for_new_pods,
    write_config_map,
)
from tests.testbed.bed import TestBed
from tests.testbed.chart import NAMESPACE

NODE = "gpu-t4-2"
MAP = "mps-config-edited"


def restart(bed: TestBed, app: str) -> None:
    """Restart the operand's pods as the documentation does, and wait until that is done."""
    former = {node: uid for node, uid in pod_identities(bed, app).items() if node == NODE}
    bed.kubectl("rollout", "restart", f"--namespace={NAMESPACE}", f"daemonset/{app}")
    wait_for_new_pods(bed, app, former)


def test_an_edit_has_no_effect_until_all_three_daemon_sets_restart(clean_lab: TestBed) -> None:
    write_config_map(clean_lab, MAP, {"mps": sharing_config(2)})
    patch_policy(clean_lab, {"name": MAP})
    label_node(clean_lab, NODE, "mps")
    wait_for_allocatable(clean_lab, {NODE: 8})
    clean_lab.wait_until_settled()  # a pod that the operator replaces only after the edit would read it

    write_config_map(clean_lab, MAP, {"mps": sharing_config(4)})
    time.sleep(5)  # longer than the kubelet takes to bring the new text into the pods
    assert allocatable(clean_lab)[NODE] == 8, "nothing watches the config map"

    restart(clean_lab, PLUGIN)
    restart(clean_lab, DAEMON)
    wait_for_allocatable(clean_lab, {NODE: 16})
    # The plugin offers sixteen on the former daemon's word, and the new daemon's pod is ready before its daemon answers.
    clean_lab.wait_for("right limit", lambda: ask_daemon(clean_lab, NODE, "get_default_active_thread_percentage") == "25.0")
    # The documentation ends here. GPU Feature Discovery read its config at its own start, so the node's label is now wrong:
    # it says two where four are offered.
    assert node_labels(clean_lab, NODE)["gpu.replicas"] == "2"
    restart(clean_lab, DISCOVERY)
    clean_lab.wait_for("right label", lambda: node_labels(clean_lab, NODE).get("gpu.replicas") == "4")


def test_the_collection_restarts_all_three(clean_lab: TestBed, run_ansible: Callable[..., Any]) -> None:
    write_config_map(clean_lab, MAP, {"mps": sharing_config(2)})
    patch_policy(clean_lab, {"name": MAP})
    label_node(clean_lab, NODE, "mps")
    wait_for_allocatable(clean_lab, {NODE: 8})

    rollout = {
        "name": "Roll out",
        "gpuops.mps.mps_rollout": {
            "config_map": MAP,
            "configs": {"mps": {"replicas": 4}},
            "node_groups": [{"name": "edited", "config": "mps", "nodes": [NODE]}],
            "wait_timeout": 120,
        },
    }
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [rollout]}
    former = {app: pod_identities(clean_lab, app)[NODE] for app in (PLUGIN, DAEMON, DISCOVERY)}
    run = run_ansible([play], clean_lab)
    assert run.status == 0, run.failure()
    assert run.changed == 1
    assert allocatable(clean_lab)[NODE] == 16
    assert node_labels(clean_lab, NODE)["gpu.replicas"] == "4"
    assert ask_daemon(clean_lab, NODE, "get_default_active_thread_percentage") == "25.0"
    for app, identity in former.items():
        assert pod_identities(clean_lab, app)[NODE] != identity, f"{app} still runs with the old config"
    again = run_ansible([play], clean_lab)
    assert (again.status, again.changed) == (0, 0), again.failure()
