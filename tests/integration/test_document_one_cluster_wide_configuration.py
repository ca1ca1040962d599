# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's documentation, "Applying One Cluster-Wide Configuration", step by step with the collection's modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.integration.observation import (
    DAEMON,
    DISCOVERY,
    LAB_GPUS,
    MIG_NODE,
    PLUGIN,
    ask_daemon,
    events,
    is_ready,
    pod_identities,
    pods,
    restarts,
    wait_for_allocatable,
)
from tests.integration.rights import requests_of_accounts
from tests.testbed.bed import TestBed


def test_one_configuration_reaches_every_gpu_node(clean_lab: TestBed, run_module: Callable[..., dict[str, Any]]) -> None:
    former = {app: pod_identities(clean_lab, app) for app in (PLUGIN, DISCOVERY)}
    assert not pods(clean_lab, DAEMON)

    written = run_module(clean_lab, "mps_config", {"config_map": "mps-config-all", "configs": {"mps-any": {"replicas": 4}}})
    assert written["changed"], written
    patched = run_module(clean_lab, "mps_policy", {"config_map": "mps-config-all", "default": "mps-any"})
    assert patched["changed"], patched
    wait_for_allocatable(clean_lab, {node: 4 * count for node, count in LAB_GPUS.items()})

    for app in (PLUGIN, DISCOVERY):
        present = pod_identities(clean_lab, app)
        assert set(present) == set(former[app])
        assert not set(present.values()) & set(former[app].values()), f"pods of {app} were not replaced"
        assert {("SuccessfulDelete", f"DaemonSet/{app}"), ("SuccessfulCreate", f"DaemonSet/{app}")} <= events(clean_lab)

    # One MPS control daemon for each GPU node, says the documentation. A node with MIG enabled gets none: its GPU Feature
    # Discovery refuses the config and dies, so that nothing ever labels the node as capable of MPS.
    clean_lab.wait_for("MPS daemons", lambda: all(map(is_ready, pods(clean_lab, DAEMON).values())) and len(pods(clean_lab, DAEMON)) == 6)
    assert set(pods(clean_lab, DAEMON)) == set(LAB_GPUS)
    clean_lab.wait_for("crash loop on the MIG node", lambda: restarts(clean_lab, DISCOVERY, MIG_NODE) > 1)
    assert ask_daemon(clean_lab, "gpu-t4-1", "get_default_active_thread_percentage") == "25.0"
    assert ask_daemon(clean_lab, "gpu-t4-1", "get_default_device_pinned_mem_limit") == "3G"


def test_the_same_again_writes_nothing(clean_lab: TestBed, run_module: Callable[..., dict[str, Any]]) -> None:
    steps = (
        ("mps_config", {"config_map": "mps-config-all", "configs": {"mps-any": {"replicas": 4}}}),
        ("mps_policy", {"config_map": "mps-config-all", "default": "mps-any"}),
    )
    for module, arguments in steps:
        run_module(clean_lab, module, arguments)
    since = clean_lab.mark()
    for module, arguments in steps:
        assert run_module(clean_lab, module, arguments)["changed"] is False
    requests = requests_of_accounts(clean_lab, since)
    assert requests
    assert not [event for event in requests if event.mutating]
