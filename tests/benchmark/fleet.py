# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of realistic size for the benchmark: about 75 labels and 50 images each, settled under one MPS config."""

from __future__ import annotations

import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from tests.testbed.bed import TestBed

CONFIG_LABEL = "nvidia.com/device-plugin.config"
GPUS, REPLICAS = 4, 4
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
        {"name": f"gpu-{index:05d}", "gpus": gpus, "labels": {**(SETTLED if settled else {}), **filler, "bench": "gpu"}} for index in range(count)
    ]
    path.write_text(yaml.safe_dump({"nodes": [*nodes, {"name": "cpu-1", "gpus": []}]}), encoding="utf-8")


def settle(bed: TestBed) -> list[str]:
    """Give every GPU node its allocatable GPUs and its images, as kubelet would have; returns the nodes' names."""
    images = [{"names": [f"registry.example/team/image-{index:02d}@sha256:{index:064x}"], "sizeBytes": 10**8 + index} for index in range(IMAGES)]
    amount = {"nvidia.com/gpu": str(GPUS * REPLICAS)}
    body = {"status": {"capacity": amount, "allocatable": amount, "images": images}}
    names = [node["metadata"]["name"] for node in bed.api.list("/api/v1/nodes") if node["metadata"]["labels"].get("bench") == "gpu"]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: bed.api.patch(f"/api/v1/nodes/{name}/status", body), names))
    return names


def label_all(bed: TestBed, values: t.Mapping[str, str | None]) -> None:
    """Put the config label of each named node to a value (None: absent) by the bed's own client; nodes that have it are left alone."""
    present = {node["metadata"]["name"]: node["metadata"]["labels"].get(CONFIG_LABEL) for node in bed.api.list("/api/v1/nodes")}
    wanted = [(name, value) for name, value in values.items() if present[name] != value]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda pair: bed.api.patch(f"/api/v1/nodes/{pair[0]}", {"metadata": {"labels": {CONFIG_LABEL: pair[1]}}}), wanted))
