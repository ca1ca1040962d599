# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node sets: from a small YAML file, or `fleet:N`, to Node objects as a kubelet and NFD would have written them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

READY_MADE = Path(__file__).parent / "nodes"
GPU_ANNOTATION = "testbed.gpuops.example/gpus"
DEFAULT_KERNEL = "6.8.0-79-generic"
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}

# The models a generated fleet goes through in turn.
FLEET_MODELS: tuple[Mapping[str, Any], ...] = (
    {"product": "Tesla T4", "count": 4, "memory_mib": 15360, "compute": "7.5"},
    {"product": "NVIDIA A100-SXM4-40GB", "count": 8, "memory_mib": 40960, "compute": "8.0", "mig_capable": True},
    {"product": "NVIDIA L4", "count": 2, "memory_mib": 23034, "compute": "8.9"},
    {"product": "NVIDIA H100 80GB HBM3", "count": 8, "memory_mib": 81559, "compute": "9.0", "mig_capable": True},
    {"product": "Tesla V100-SXM2-16GB", "count": 1, "memory_mib": 16384, "compute": "7.0"},
)


class NodeSetError(Exception):
    """The node set named on the command line does not exist or is not one."""


def read_node_set(nodes: str) -> list[dict[str, Any]]:
    """Return the node descriptions of `lab`, `fleet:N` or the YAML file at the path `nodes`. Raises NodeSetError."""
    if nodes.startswith("fleet:"):
        return _fleet(nodes.removeprefix("fleet:"))
    path = Path(nodes) if nodes.endswith((".yml", ".yaml")) else READY_MADE / f"{nodes}.yml"
    try:
        descriptions = yaml.safe_load(path.read_text())["nodes"]
    except FileNotFoundError:
        raise NodeSetError(f"There is no node set {nodes!r}: say lab, fleet:N, or the path of a YAML file.") from None
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise NodeSetError(f"{path} is no node set (a mapping with the list `nodes`): {error}") from None
    return descriptions


def node_objects(descriptions: Sequence[Mapping[str, Any]], kubelet_port: int) -> list[dict[str, Any]]:
    """Return the Node objects for the descriptions; `kubelet_port` is where logs and exec are served."""
    return [_node(description, kubelet_port) for description in descriptions]


def _fleet(count: str) -> list[dict[str, Any]]:
    if not count.isdigit() or int(count) < 1:
        raise NodeSetError(f"fleet:{count} says no number of nodes; fleet:200 would.")
    fleet: list[dict[str, Any]] = [
        {"name": f"gpu-{index:04d}", "gpus": [dict(FLEET_MODELS[index % len(FLEET_MODELS)])], "labels": {"pool": f"rack-{index // 20}"}}
        for index in range(int(count))
    ]
    return [*fleet, {"name": "cpu-1", "gpus": []}]


def _node(description: Mapping[str, Any], kubelet_port: int) -> dict[str, Any]:
    name = description["name"]
    gpus = description.get("gpus") or []
    taints = description.get("taints", [GPU_TAINT] if gpus else [])
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**_labels(name, description), **(description.get("labels") or {})},
            "annotations": {
                GPU_ANNOTATION: json.dumps(gpus),
                "kwok.x-k8s.io/node": "fake",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                **(description.get("annotations") or {}),
            },
        },
        "spec": {"taints": taints, "providerID": f"testbed://{name}"},
        "status": _status(name, description.get("kernel", DEFAULT_KERNEL), kubelet_port),
    }


def _labels(name: str, description: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of kubelet and Node Feature Discovery (installed apart from the GPU Operator here)."""
    kernel = description.get("kernel", DEFAULT_KERNEL)
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "feature.node.kubernetes.io/cpu-model.vendor_id": "Intel",
        "feature.node.kubernetes.io/kernel-version.full": kernel,
        "feature.node.kubernetes.io/kernel-version.major": kernel.split(".")[0],
        "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
        "feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04",
    }
    if description.get("gpus"):
        labels["feature.node.kubernetes.io/pci-10de.present"] = "true"
    return labels


def _status(name: str, kernel: str, kubelet_port: int) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    resources = {"cpu": "64", "memory": "528280256Ki", "ephemeral-storage": "1843269236Ki", "pods": "110"}
    condition = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    return {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
        "capacity": resources,
        "allocatable": resources,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
        "conditions": [
            {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory", **condition},
            {"type": "DiskPressure", "status": "False", "reason": "KubeletHasNoDiskPressure", **condition},
            {"type": "PIDPressure", "status": "False", "reason": "KubeletHasSufficientPID", **condition},
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", **condition},
        ],
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": f"boot-{name}",
            "containerRuntimeVersion": "containerd://2.1.4",
            "kernelVersion": kernel,
            "kubeProxyVersion": "",
            "kubeletVersion": "v1.37.2",
            "machineID": f"machine-{name}",
            "operatingSystem": "linux",
            "osImage": "Ubuntu 24.04.3 LTS",
            "systemUUID": f"system-{name}",
        },
    }
