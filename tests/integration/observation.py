# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user would look at with kubectl, read from the API independently of the collection."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.testbed.bed import TestBed
from tests.testbed.chart import NAMESPACE

PLUGIN = "nvidia-device-plugin-daemonset"
DISCOVERY = "gpu-feature-discovery"
DAEMON = "nvidia-device-plugin-mps-control-daemon"
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
GPU_NODES = "nvidia.com/gpu.present=true"
CONFIG_LABEL = "nvidia.com/device-plugin.config"

# How many GPUs each node of the lab has; the MIG node offers its two instances.
LAB_GPUS = {"gpu-t4-1": 2, "gpu-t4-2": 4, "gpu-v100-1": 1, "gpu-a100-1": 4, "gpu-h100-1": 8, "gpu-mixed-1": 3}
MIG_NODE, MIG_INSTANCES = "gpu-mig-1", 2
# An operator of a later version has this kind beside the ClusterPolicy.
GPU_CLUSTERS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gpuclusters.nvidia.com"},
    "spec": {
        "group": "nvidia.com",
        "scope": "Cluster",
        "names": {"kind": "GPUCluster", "listKind": "GPUClusterList", "plural": "gpuclusters", "singular": "gpucluster"},
        "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}],
    },
}


def nvidia(entries: Mapping[str, str]) -> dict[str, str]:
    """Return the entries of nvidia.com, without the prefix."""
    return {key.removeprefix("nvidia.com/"): value for key, value in entries.items() if key.startswith("nvidia.com/")}


def node_labels(bed: TestBed, node: str) -> dict[str, str]:
    """Return the node's labels of nvidia.com, without the prefix."""
    return nvidia(bed.api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"])


def capacity(bed: TestBed, node: str) -> dict[str, str]:
    """Return the node's capacity of nvidia.com, without the prefix."""
    return nvidia(bed.api.get(f"/api/v1/nodes/{node}")["status"]["capacity"])


def allocatable(bed: TestBed, resource: str = "gpu") -> dict[str, int]:
    """Return GPU node -> how many nvidia.com/`resource` it offers."""
    nodes = bed.api.list("/api/v1/nodes", labelSelector=GPU_NODES)
    return {node["metadata"]["name"]: int(nvidia(node["status"]["allocatable"]).get(resource, "0")) for node in nodes}


def wait_for_allocatable(bed: TestBed, wanted: Mapping[str, int], resource: str = "gpu", seconds: float = 120) -> None:
    """Wait until each named node offers exactly so many. Raises BedError."""
    bed.wait_for(f"nodes with {dict(wanted)}", lambda: wanted.items() <= allocatable(bed, resource).items(), seconds, poll=0.5)


def pods(bed: TestBed, app: str) -> dict[str, dict[str, Any]]:
    """Return node -> the operand's living pod."""
    found = bed.api.list(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=f"app={app}")
    return {pod["spec"]["nodeName"]: pod for pod in found if "deletionTimestamp" not in pod["metadata"] and pod["spec"].get("nodeName")}


def pod_identities(bed: TestBed, app: str) -> dict[str, str]:
    """Return node -> unique id of the operand's living pod."""
    return {node: pod["metadata"]["uid"] for node, pod in pods(bed, app).items()}


def wait_for_new_pods(bed: TestBed, app: str, former: Mapping[str, str], seconds: float = 120) -> None:
    """Wait until every node has a ready pod of the operand that is none of the former ones. Raises BedError."""

    def replaced() -> bool:
        present = pods(bed, app)
        new = {node for node, pod in present.items() if is_ready(pod) and pod["metadata"]["uid"] != former.get(node)}
        return new >= set(former)

    bed.wait_for(f"new pods of {app}", replaced, seconds, poll=0.5)


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Tell whether all containers of the pod are ready."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))


def restarts(bed: TestBed, app: str, node: str) -> int:
    """Return how often the containers of the operand's pod on the node, init containers included, were started again."""
    status = pods(bed, app).get(node, {}).get("status", {})
    return sum(each["restartCount"] for key in ("containerStatuses", "initContainerStatuses") for each in status.get(key, []))


def events(bed: TestBed) -> set[tuple[str, str]]:
    """Return (reason, kind/name without its random end) of the events in the operator's namespace."""
    found = bed.api.list(f"/api/v1/namespaces/{NAMESPACE}/events")
    return {(e["reason"], f"{e['involvedObject']['kind']}/{e['involvedObject']['name']}") for e in found}


def ask_daemon(bed: TestBed, node: str, question: str, resource: str = "gpu") -> str:
    """Return what the MPS control daemon on the node answers, as `kubectl exec` into its pod would show it."""
    pod = pods(bed, DAEMON)[node]["metadata"]["name"]
    command = f"export CUDA_MPS_PIPE_DIRECTORY=/mps/nvidia.com/{resource}/pipe; echo {question} | nvidia-cuda-mps-control"
    return bed.kubectl("exec", f"--namespace={NAMESPACE}", pod, "--container=mps-control-daemon-ctr", "--", "bash", "-c", command).strip()


def sharing_config(replicas: int, *, rename: bool = False) -> str:
    """Return a device plugin config file, written by hand as in NVIDIA's documentation."""
    spec = {"renameByDefault": rename, "resources": [{"name": "nvidia.com/gpu", "replicas": replicas}]}
    return json.dumps({"version": "v1", "sharing": {"mps": spec}})


def write_config_map(bed: TestBed, name: str, data: Mapping[str, str]) -> None:
    """Create or replace a ConfigMap in the operator's namespace by hand."""
    body = {"metadata": {"name": name}, "data": dict(data)}
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    if bed.api.find(f"{path}/{name}"):
        bed.api.put(f"{path}/{name}", body)
    else:
        bed.api.post(path, body)


def patch_policy(bed: TestBed, config: Mapping[str, Any] | None) -> None:
    """Merge `config` into the ClusterPolicy's spec.devicePlugin.config by hand, as the documentation does."""
    bed.api.patch(POLICY, {"spec": {"devicePlugin": {"config": config}}})


def label_node(bed: TestBed, node: str, config: str | None) -> None:
    """Set or remove the node's config label by hand."""
    bed.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {CONFIG_LABEL: config}}})
