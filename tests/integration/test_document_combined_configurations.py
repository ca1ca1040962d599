# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's documentation, "You can combine the two approaches": a cluster-wide default, and labels for some nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.integration.observation import LAB_GPUS, MIG_INSTANCES, MIG_NODE, ask_daemon, label_node, node_labels, wait_for_allocatable
from tests.testbed.bed import TestBed

CONFIGS = {"none": {}, "mps-two": {"replicas": 2}, "mps-four": {"replicas": 4}}


def test_a_label_wins_over_the_default_and_its_removal_gives_the_node_back(clean_lab: TestBed, run_module: Callable[..., dict[str, Any]]) -> None:
    groups = [
        {"name": "t4", "config": "mps-four", "nodes": ["gpu-t4-1", "gpu-t4-2"]},
        {"name": "partitioned", "config": "none", "nodes": [MIG_NODE]},
    ]
    run_module(clean_lab, "mps_config", {"config_map": "mps-config-both", "configs": CONFIGS})
    # The labels first: the MIG node's agents cannot live with the default, not even for a moment.
    assert run_module(clean_lab, "mps_nodes", {"config_map": "mps-config-both", "node_groups": groups})["changed"]
    assert run_module(clean_lab, "mps_policy", {"config_map": "mps-config-both", "default": "mps-two"})["changed"]

    doubled = {node: 2 * count for node, count in LAB_GPUS.items()}
    wait_for_allocatable(clean_lab, {**doubled, "gpu-t4-1": 8, "gpu-t4-2": 16, MIG_NODE: MIG_INSTANCES})
    clean_lab.wait_for("the label's label", lambda: node_labels(clean_lab, "gpu-t4-1")["gpu.replicas"] == "4")
    clean_lab.wait_for("the default's label", lambda: node_labels(clean_lab, "gpu-h100-1")["gpu.replicas"] == "2")
    assert ask_daemon(clean_lab, "gpu-t4-2", "get_default_active_thread_percentage") == "25.0"
    assert ask_daemon(clean_lab, "gpu-h100-1", "get_default_active_thread_percentage") == "50.0"

    label_node(clean_lab, "gpu-t4-1", None)
    wait_for_allocatable(clean_lab, {"gpu-t4-1": 4, "gpu-t4-2": 16})
    # The node's daemon was not restarted: the resource is shared by two, but every client still gets a quarter.
    clean_lab.wait_for("the default's label", lambda: node_labels(clean_lab, "gpu-t4-1")["gpu.replicas"] == "2")
    assert ask_daemon(clean_lab, "gpu-t4-1", "get_default_active_thread_percentage") == "25.0"
