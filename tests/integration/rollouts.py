# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run rollouts against a test bed, and look at the cluster with other eyes than the collection's own.

Most rollouts run in this process, on the real API server: an Ansible run costs seconds of start-up and adds nothing to
what is tested here. Tests that kill a run, or that test the action plugin, start Ansible.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from tests.integration.ansible_runs import COLLECTIONS
from tests.integration.rights import signed_in
from tests.testbed.audit import AuditEvent
from tests.testbed.bed import TestBed

sys.path.insert(0, str(COLLECTIONS))

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster
from ansible_collections.gpuops.mps.plugins.module_utils._options import DECLARATION_OPTIONS
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_module import ROLLOUT_OPTIONS, rollout

NAMESPACE = "gpu-operator"
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/gpuops-mps-rollout"
MAP = f"/api/v1/namespaces/{NAMESPACE}/configmaps/mps-configs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LABEL = "nvidia.com/device-plugin.config"
FAULT = "testbed.gpuops.example/fault"
MARK = "gpuops.mps/rollout"
DEFAULTS: dict[str, Any] = {name: spec.get("default") for name, spec in {**DECLARATION_OPTIONS, **ROLLOUT_OPTIONS}.items()}
NODE_SET = """\
nodes:
  - {name: gpu-a, gpus: [{product: Tesla T4, count: 2, memory_mib: 15360, compute: "7.5"}], labels: {pool: one}}
  - {name: gpu-b, gpus: [{product: NVIDIA L4, count: 3, memory_mib: 23034, compute: "8.9"}], labels: {pool: one}}
  - {name: gpu-c, gpus: [{product: Tesla V100-SXM2-16GB, count: 1, memory_mib: 16384, compute: "7.0"}], labels: {pool: two}}
  - {name: gpu-d, gpus: [{product: Tesla T4, count: 4, memory_mib: 15360, compute: "7.5"}], labels: {pool: two}}
  - {name: cpu-1, gpus: []}
"""
GPUS = {"gpu-a": 2, "gpu-b": 3, "gpu-c": 1, "gpu-d": 4}


def write_node_set(directory: Path) -> str:
    """The small node set as a file, for TestBed.start."""
    path = directory / "four.yml"
    path.write_text(NODE_SET)
    return str(path)


def roll(bed: TestBed, *, check: bool = False, **options: Any) -> dict[str, Any]:
    """One rollout in this process, with the module's defaults, short deadlines, and a Lease that expires soon."""
    parameters = {**DEFAULTS, "wait_timeout": 120, "drain_timeout": 60, "lease_duration": 4, "kubeconfig": str(signed_in(bed, "operator")), **options}
    result = rollout(Cluster.connect(parameters, dry_run=check), parameters, check_mode=check)
    assert result["state"] != "verified" or not result.get("failed"), result["msg"]
    return result


def group(config: str, *nodes: str, name: str = "group") -> dict[str, Any]:
    """A group of named nodes."""
    return {"name": name, "config": config, "nodes": list(nodes)}


def gpu_nodes(bed: TestBed) -> dict[str, dict[str, Any]]:
    """The GPU nodes by name."""
    return {node["metadata"]["name"]: node for node in bed.api.list("/api/v1/nodes", labelSelector="nvidia.com/gpu.present=true")}


def allocatable(bed: TestBed) -> dict[str, dict[str, int]]:
    """What each GPU node offers: resource -> count, names at 0 left out."""
    offered = {name: node["status"].get("allocatable", {}) for name, node in gpu_nodes(bed).items()}
    return {
        name: {key: int(value) for key, value in resources.items() if key in ("nvidia.com/gpu", "nvidia.com/gpu.shared") and int(value)}
        for name, resources in offered.items()
    }


def labels(bed: TestBed) -> dict[str, str | None]:
    """The config label of each GPU node."""
    return {name: node["metadata"]["labels"].get(LABEL) for name, node in gpu_nodes(bed).items()}


def agents(bed: TestBed, app: str) -> dict[str, str]:
    """Node -> uid of the pod of one agent."""
    return {pod["spec"]["nodeName"]: pod["metadata"]["uid"] for pod in bed.api.list(PODS, labelSelector=f"app={app}")}


def set_fault(bed: TestBed, node: str, fault: str | None) -> None:
    """Give a node's agents a fault, or take it away."""
    bed.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {FAULT: fault}}})


def nothing_left_behind(bed: TestBed) -> None:
    """No cordon, no half-done node, no held Lease, no changed update strategy."""
    for name, node in gpu_nodes(bed).items():
        assert not node["spec"].get("unschedulable"), f"{name} is left cordoned"
        assert MARK not in node["metadata"].get("annotations", {}), f"{name} is left half done"
    lease = bed.api.find(LEASE)
    assert lease is None or not lease["spec"].get("holderIdentity"), "the Lease is still held"
    assert bed.api.get(POLICY)["spec"]["daemonsets"]["updateStrategy"] == "RollingUpdate"


def agreement(bed: TestBed) -> None:
    """Every node's agents run what the content under its label, or the default, says: read from map and agents with simple means."""
    config = bed.api.get(POLICY)["spec"]["devicePlugin"].get("config", {})
    data = (bed.api.find(MAP) or {}).get("data", {})
    offered = allocatable(bed)
    for name, label in labels(bed).items():
        key = label or config.get("default") or ""
        text = data.get(key, "") if config.get("name") else ""
        replicas = int(text.split("replicas:")[1].split()[0]) if "replicas:" in text else 1
        resource = "nvidia.com/gpu.shared" if "renameByDefault: true" in text else "nvidia.com/gpu"
        assert offered[name] == {resource: GPUS[name] * replicas}, f"{name} offers {offered[name]}, but '{key}' says {replicas} replicas"
        percentages = {100 // replicas} if "mps:" in text else set()
        bed.wait_for(f"daemon on {name} that runs '{key}'", partial(daemon_runs, bed, name, percentages), 5)


def daemon_runs(bed: TestBed, node: str, percentages: set[int]) -> bool:
    """Whether the MPS daemons on a simulated node give these percentages of the threads, by the agents' own notes; none without a daemon."""
    host = json.loads((bed.directory / "agents" / "nodes" / f"{node}.json").read_text())["host"]
    return {daemon["thread_percentage"] for daemon in host["daemons"].values()} == percentages


def own_writes(bed: TestBed, since: int) -> list[AuditEvent]:
    """The mutating requests that the collection has sent since a marker."""
    return [event for event in bed.audit(since) if event.mutating and event.user_agent.startswith("gpuops.mps")]


def wait_until(condition: Any, seconds: float = 30.0) -> None:
    """Wait for something that a test has set off; raises AssertionError when it does not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.1)
