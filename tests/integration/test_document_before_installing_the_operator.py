# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's documentation, "Configuring Multi-Process Server Before Installing the NVIDIA GPU Operator", step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.integration.observation import DAEMON, LAB_GPUS, MIG_INSTANCES, MIG_NODE, node_labels, pods, wait_for_allocatable
from tests.testbed.bed import TestBed
from tests.testbed.chart import NAMESPACE

CONFIGS = {"none": {}, "mps-two": {"replicas": 2}}


def test_a_config_written_before_the_installation_is_used_by_it(bed_factory: Callable[..., TestBed], run_module: Callable[..., dict[str, Any]]) -> None:
    bed = bed_factory("before")
    bed.api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    written = run_module(bed, "mps_config", {"namespace": NAMESPACE, "config_map": "mps-config", "configs": CONFIGS})
    assert written["changed"], written
    bed.install_operator_objects({"devicePlugin": {"config": {"name": "mps-config"}}})

    # Helm named the config map and no default: every node works, none shares.
    wait_for_allocatable(bed, {**LAB_GPUS, MIG_NODE: MIG_INSTANCES})
    assert not pods(bed, DAEMON)

    groups = [{"name": "partitioned", "config": "none", "nodes": [MIG_NODE]}]
    assert run_module(bed, "mps_nodes", {"config_map": "mps-config", "node_groups": groups})["changed"]
    assert run_module(bed, "mps_policy", {"config_map": "mps-config", "default": "mps-two"})["changed"]
    wait_for_allocatable(bed, {**{node: 2 * count for node, count in LAB_GPUS.items()}, MIG_NODE: MIG_INSTANCES})
    assert node_labels(bed, "gpu-v100-1")["gpu.sharing-strategy"] == "mps"
    bed.wait_until_settled()
