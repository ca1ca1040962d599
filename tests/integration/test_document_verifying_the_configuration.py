# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's documentation, "Verifying the MPS Configuration": what a node advertises, and the vectorAdd workload."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.integration.observation import allocatable, capacity, label_node, node_labels, patch_policy, sharing_config, wait_for_allocatable, write_config_map
from tests.testbed.bed import TestBed

NODE = "gpu-t4-2"  # four T4, as in the documentation's example
MAP = "mps-config-fine"


def share(bed: TestBed, *, rename: bool) -> None:
    """Share the node's GPUs four times, by hand."""
    write_config_map(bed, MAP, {"mps-four": sharing_config(4, rename=rename)})
    patch_policy(bed, {"name": MAP})
    label_node(bed, NODE, "mps-four")
    wait_for_allocatable(bed, {NODE: 16}, "gpu.shared" if rename else "gpu")
    bed.wait_until_settled()  # while the operator still replaces pods, a node's labels may come and go


def verdict(run_module: Callable[..., dict[str, Any]], bed: TestBed) -> dict[str, Any]:
    """Return what the collection says of the node."""
    result = run_module(bed, "mps_verify_info", {"nodes": [NODE], "limits": "all", "wait": True})
    (node,) = result["nodes"]
    return node


def test_the_node_advertises_more_under_the_same_name(clean_lab: TestBed, run_module: Callable[..., dict[str, Any]]) -> None:
    share(clean_lab, rename=False)
    labels = node_labels(clean_lab, NODE)
    assert labels["gpu.count"] == "4"
    assert labels["gpu.product"] == "Tesla-T4-SHARED"
    assert labels["gpu.sharing-strategy"] == "mps"
    assert capacity(clean_lab, NODE)["gpu"] == "16"
    # "The replicas label matches the reported capacity", says the documentation. Its own example shows that it is per GPU.
    assert labels["gpu.replicas"] == "4"
    assert verdict(run_module, clean_lab)["verdict"] == "verified"


def test_the_node_advertises_a_shared_resource_when_renamed(clean_lab: TestBed, run_module: Callable[..., dict[str, Any]]) -> None:
    share(clean_lab, rename=True)
    labels = node_labels(clean_lab, NODE)
    assert labels["gpu.count"] == "4"
    assert labels["gpu.product"] == "Tesla-T4"
    assert labels["gpu.sharing-strategy"] == "mps"
    assert capacity(clean_lab, NODE)["gpu.shared"] == "16"
    # The former name stays because it was registered before: nothing of it can be had at once, and the capacity follows later.
    assert allocatable(clean_lab)[NODE] == 0
    clean_lab.wait_for("capacity of 0", lambda: capacity(clean_lab, NODE)["gpu"] == "0", 30)
    assert verdict(run_module, clean_lab)["verdict"] == "verified"


WORKLOAD = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "mps-verification", "labels": {"app": "mps-verification"}},
    "spec": {
        "replicas": 5,
        "selector": {"matchLabels": {"app": "mps-verification"}},
        "template": {
            "metadata": {"labels": {"app": "mps-verification"}},
            "spec": {
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                "hostPID": True,
                "containers": [
                    {
                        "name": "cuda-sample-vector-add",
                        "image": "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda11.7.1-ubuntu20.04",
                        "command": ["/bin/bash", "-c", "--"],
                        "args": ["while true; do /cuda-samples/vectorAdd; done"],
                        "resources": {"limits": {"nvidia.com/gpu": 1}},
                    }
                ],
                "nodeSelector": {"nvidia.com/gpu.sharing-strategy": "mps"},
            },
        },
    },
}


def test_the_vector_add_workload_by_hand(clean_lab: TestBed) -> None:
    share(clean_lab, rename=False)
    clean_lab.kubectl("apply", "-f", "-", input=json.dumps(WORKLOAD))
    clean_lab.kubectl("rollout", "status", "deployment/mps-verification", "--timeout=60s")
    clean_lab.wait_for("passed test", lambda: "Test PASSED" in clean_lab.kubectl("logs", "deploy/mps-verification"), 30)
    for question, answer in (("get_default_active_thread_percentage", "25.0"), ("get_default_device_pinned_mem_limit", "3G")):
        command = f"echo {question} | nvidia-cuda-mps-control"
        assert clean_lab.kubectl("exec", "deploy/mps-verification", "--", "bash", "-c", command).strip() == answer
    clean_lab.kubectl("delete", "deployment/mps-verification", "--timeout=30s")


def test_the_vector_add_workload_as_the_collection_runs_it(clean_lab: TestBed, run_module: Callable[..., dict[str, Any]]) -> None:
    share(clean_lab, rename=False)
    proof = run_module(clean_lab, "mps_proof", {"form": "document", "replicas": 5, "wait_timeout": 60})
    assert proof["passed"], proof
    (node,) = proof["nodes"]
    assert (node["node"], node["clients"], node["findings"]) == (NODE, 5, [])
    assert node["limits"]["thread_percentage"] == "25.0"
    assert clean_lab.api.list("/apis/apps/v1/namespaces/default/deployments") == [], "the Deployment was left behind"
