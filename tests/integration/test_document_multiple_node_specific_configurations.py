# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's documentation, "Applying Multiple Node-Specific Configurations", step by step with the collection's modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.integration.observation import (
    DAEMON,
    DISCOVERY,
    LAB_GPUS,
    PLUGIN,
    allocatable,
    node_labels,
    pod_identities,
    pods,
    wait_for_allocatable,
    wait_for_new_pods,
)
from tests.testbed.bed import TestBed

CONFIGS = {"mps-four": {"replicas": 4}, "mps-two": {"replicas": 2}}


def test_nodes_without_a_label_are_untouched_and_labels_reach_nodes_by_name_and_by_selector(
    clean_lab: TestBed, run_module: Callable[..., dict[str, Any]]
) -> None:
    former = {app: pod_identities(clean_lab, app) for app in (PLUGIN, DISCOVERY)}
    assert run_module(clean_lab, "mps_config", {"config_map": "mps-config-fine", "configs": CONFIGS})["changed"]
    assert run_module(clean_lab, "mps_policy", {"config_map": "mps-config-fine"})["changed"]
    for app, identities in former.items():
        wait_for_new_pods(clean_lab, app, identities)

    # No default: the pods were replaced, and every node offers what it offered before. The documentation shows MPS daemon
    # pods at this point; without a labelled node there are none.
    wait_for_allocatable(clean_lab, LAB_GPUS)
    assert not pods(clean_lab, DAEMON)
    for node in LAB_GPUS:
        assert node_labels(clean_lab, node)["gpu.sharing-strategy"] == "none"
        assert not node_labels(clean_lab, node)["gpu.product"].endswith("-SHARED")

    by_name = [{"name": "one", "config": "mps-two", "nodes": ["gpu-a100-1"]}]
    assert run_module(clean_lab, "mps_nodes", {"config_map": "mps-config-fine", "node_groups": by_name})["changed"]
    wait_for_allocatable(clean_lab, {**LAB_GPUS, "gpu-a100-1": 8})
    assert set(pods(clean_lab, DAEMON)) == {"gpu-a100-1"}

    # By a selector on a label of the administrator's own. The documentation selects by nvidia.com/gpu.product, which MPS itself
    # changes on the nodes it selected: the same selector finds nothing the next time.
    by_selector = [{"name": "inference", "config": "mps-four", "selector": ["pool=inference"]}]
    assert run_module(clean_lab, "mps_nodes", {"config_map": "mps-config-fine", "node_groups": by_selector})["changed"]
    wait_for_allocatable(clean_lab, {**LAB_GPUS, "gpu-a100-1": 8, "gpu-t4-1": 8, "gpu-t4-2": 16})
    assert node_labels(clean_lab, "gpu-t4-1")["gpu.product"] == "Tesla-T4-SHARED"
    untouched = set(LAB_GPUS) - {"gpu-a100-1", "gpu-t4-1", "gpu-t4-2"}
    assert {node: allocatable(clean_lab)[node] for node in untouched} == {node: LAB_GPUS[node] for node in untouched}


# GPU Feature Discovery labels a node of several products with one of them, chosen anew each time it starts.
NOT_MIXED = "kubernetes.io/hostname!=gpu-mixed-1"


def test_a_product_selects_the_same_nodes_after_mps_renamed_it(clean_lab: TestBed, run_module: Callable[..., dict[str, Any]]) -> None:
    groups = [{"name": "t4", "config": "mps-two", "match": {"product": "Tesla-T4"}, "selector": [NOT_MIXED]}]
    run_module(clean_lab, "mps_config", {"config_map": "mps-config-fine", "configs": CONFIGS})
    run_module(clean_lab, "mps_policy", {"config_map": "mps-config-fine"})
    first = run_module(clean_lab, "mps_nodes", {"config_map": "mps-config-fine", "node_groups": groups})
    assert first["changed"], first
    wait_for_allocatable(clean_lab, {"gpu-t4-1": 4, "gpu-t4-2": 8})
    clean_lab.wait_for("new product label", lambda: node_labels(clean_lab, "gpu-t4-2").get("gpu.product") == "Tesla-T4-SHARED")
    former = f"nvidia.com/gpu.product=Tesla-T4,{NOT_MIXED}"
    clean_lab.wait_for("the documentation's selector finding nothing any more", lambda: not clean_lab.api.list("/api/v1/nodes", labelSelector=former), 60)
    again = run_module(clean_lab, "mps_nodes", {"config_map": "mps-config-fine", "node_groups": groups})
    assert again["changed"] is False, again
