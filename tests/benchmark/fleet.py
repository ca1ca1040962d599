# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of realistic size for the benchmark: about 75 labels and 50 images each, settled under one MPS config.

The first GPU node is played by the real controllers and KWOK, the others are copies of it and of its pods. Controllers need half
an hour of a small machine to bring thousands of pods up, and the leases of thousands of nodes half of its time for ever.
"""

from __future__ import annotations

import os
import signal
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from tests.testbed.agents.cluster_io import Api, read_kubeconfig
from tests.testbed.bed import TestBed

CONFIG_LABEL = "nvidia.com/device-plugin.config"
GPUS, REPLICAS = 4, 4
WRITERS = 8
# What stays of a cluster whose controllers are stopped: nothing else takes time from the contestants.
SERVERS = ("etcd", "kube-apiserver")
MERGE_PATCH = "application/merge-patch+json"
# What the API server gives an object; a copy gets its own.
GIVEN = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
Object = dict[str, t.Any]
SETTLED = {
    CONFIG_LABEL: "mps-four",
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.deploy.device-plugin": "true",
    "nvidia.com/gpu.product": "Tesla-T4-SHARED",
    "nvidia.com/gpu.count": str(GPUS),
    "nvidia.com/gpu.replicas": str(REPLICAS),
    "nvidia.com/gpu.sharing-strategy": "mps",
    "nvidia.com/gpu.memory": "15360",
    "nvidia.com/gpu.compute.major": "7",
    "nvidia.com/gpu.compute.minor": "5",
    "nvidia.com/gpu.family": "turing",
    "nvidia.com/gpu.mode": "compute",
    "nvidia.com/gpu.machine": "Standard-PC",
    "nvidia.com/mig.capable": "false",
    "nvidia.com/mig.strategy": "single",
    "nvidia.com/mps.capable": "true",
    "nvidia.com/cuda.driver.major": "580",
}
LABELS, IMAGES = 75, 50


def write_node_set(path: Path, count: int, *, settled: bool) -> None:
    """Write the node set file of ``count`` GPU nodes, labelled as GPU Feature Discovery leaves them or not yet, and one node for everything else."""
    filler = {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{index:02d}": "true" for index in range(LABELS - len(SETTLED) - 12)}
    gpus = [{"product": "Tesla T4", "count": GPUS, "memory_mib": 15360, "compute": "7.5"}]
    nodes: list[dict[str, t.Any]] = [
        {"name": node_name(index), "gpus": gpus, "labels": {**(SETTLED if settled else {}), **filler, "bench": "gpu"}} for index in range(count)
    ]
    path.write_text(yaml.safe_dump({"nodes": [*nodes, {"name": "cpu-1", "gpus": []}]}), encoding="utf-8")


def node_name(index: int) -> str:
    """The name of the benchmark's GPU node of that number."""
    return f"gpu-{index:05d}"


def settle(bed: TestBed) -> None:
    """Give every GPU node its allocatable GPUs and its images, as kubelet would have."""
    images = [{"names": [f"registry.example/team/image-{index:02d}@sha256:{index:064x}"], "sizeBytes": 10**8 + index} for index in range(IMAGES)]
    amount = {"nvidia.com/gpu": str(GPUS * REPLICAS)}
    body = {"status": {"capacity": amount, "allocatable": amount, "images": images}}
    for name in gpu_nodes(bed):
        bed.api.patch(f"/api/v1/nodes/{name}/status", body)


def gpu_nodes(bed: TestBed) -> list[str]:
    """The names of the benchmark's GPU nodes."""
    return [node["metadata"]["name"] for node in bed.api.list("/api/v1/nodes", labelSelector="bench=gpu")]


def grow(bed: TestBed, count: int) -> list[str]:
    """Stop all controllers, then copy the first GPU node with its pods until there are ``count``; returns the nodes' names.

    The DaemonSets' counts are written as their controller would have them.
    """
    stop_controllers(bed)
    present = gpu_nodes(bed)
    first = present[0]
    node = bed.api.get(f"/api/v1/nodes/{first}")
    pods = bed.api.list("/api/v1/pods", fieldSelector=f"spec.nodeName={first}")
    api = Api(read_kubeconfig(bed.kubeconfig), WRITERS)

    def add_node(index: int) -> None:
        name = node_name(index)
        _copy(api, "/api/v1/nodes", node, name, labels={**node["metadata"]["labels"], "kubernetes.io/hostname": name})

    def add_pods(index: int) -> None:
        for number, pod in enumerate(pods):
            target = {**pod, "spec": {**pod["spec"], "nodeName": node_name(index)}}
            _copy(api, f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", target, f"{pod['metadata']['generateName']}{index:05d}-{number}")

    new = range(len(present), count)
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(add_node, new))
        # Agents that are younger than their node's label are known to have read it, and times are whole seconds.
        time.sleep(1.1)
        list(pool.map(add_pods, new))
    fields = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberReady", "numberAvailable")
    for one in bed.api.list("/apis/apps/v1/daemonsets"):
        path = f"/apis/apps/v1/namespaces/{one['metadata']['namespace']}/daemonsets/{one['metadata']['name']}/status"
        bed.api.patch(path, {"status": {field: count for field in fields if one["status"].get(field)}})
    return gpu_nodes(bed)


def stop_controllers(bed: TestBed) -> None:
    """Kill everything of a bed but its API server and etcd; what starts others again goes first."""
    found = {name: pid for name, pid in bed.processes().items() if name not in SERVERS}
    for name in sorted(found, key=lambda name: name != "operator-runner"):
        os.kill(found[name], signal.SIGKILL)
    bed.wait_for("end of all controllers", lambda: set(bed.processes()) <= set(SERVERS))


def _copy(api: Api, collection: str, source: Object, name: str, **metadata: t.Any) -> None:
    """Create an object like ``source`` under another name, and give it the same status."""
    kept = {key: value for key, value in source["metadata"].items() if key not in GIVEN}
    api.request("POST", collection, {**source, "metadata": {**kept, "name": name, **metadata}})
    api.request("PATCH", f"{collection}/{name}/status", {"status": source["status"]}, MERGE_PATCH)


def label_all(bed: TestBed, values: t.Mapping[str, str | None]) -> None:
    """Put the config label of each named node to a value (None: absent) by the bed's own client; nodes that have it are left alone."""
    present = {node["metadata"]["name"]: node["metadata"]["labels"].get(CONFIG_LABEL) for node in bed.api.list("/api/v1/nodes")}
    wanted = [(name, value) for name, value in values.items() if present[name] != value]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda pair: bed.api.patch(f"/api/v1/nodes/{pair[0]}", {"metadata": {"labels": {CONFIG_LABEL: pair[1]}}}), wanted))
