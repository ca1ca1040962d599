# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Break nodes of a test bed on purpose and verify them, in this process, on the real API server."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.integration.ansible_runs import COLLECTIONS
from tests.integration.rights import signed_in
from tests.testbed.bed import TestBed

sys.path.insert(0, str(COLLECTIONS))

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_proof_run import prove_cluster
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_verification import Reading, verify_cluster
from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import write_config
from ansible_collections.gpuops.mps.plugins.modules.mps_proof import ARGUMENT_SPEC as PROOF_OPTIONS
from ansible_collections.gpuops.mps.plugins.modules.mps_verify_info import ARGUMENT_SPEC as VERIFY_OPTIONS

__all__ = ["SharingConfig", "Strategy", "write_config"]

NAMESPACE = "gpu-operator"
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
MAP = f"{MAPS}/mps-configs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LABEL = "nvidia.com/device-plugin.config"
FAULT = "testbed.gpuops.example/fault"
GFD, DAEMON, PLUGIN = "gpu-feature-discovery", "nvidia-device-plugin-mps-control-daemon", "nvidia-device-plugin-daemonset"
MPS_NODES = ("gpu-t4-1", "gpu-t4-2", "gpu-v100-1", "gpu-a100-1", "gpu-h100-1", "gpu-mixed-1")


def shared(strategy: str, replicas: int) -> str:
    """A config that shares each GPU so often, as the real components read it."""
    return f"version: v1\nsharing:\n  {strategy}:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: {replicas}\n"


CONFIGS = {
    "none": "version: v1\n",
    "mps-four": shared("mps", 4),
    "mps-two": shared("mps", 2),
    "mps-twenty": shared("mps", 20),
    "refused": shared("mps", 1),
    "sliced": shared("timeSlicing", 4),
    "edited": "version: v1\n",
}


def verify(bed: TestBed, *, limits: str = "doubtful", patience: int = 3, account: str = "operator", **options: Any) -> dict[str, Any]:
    """One verification with the module's defaults and little patience: the bed's agents are quick."""
    defaults = {name: spec.get("default") for name, spec in VERIFY_OPTIONS.items()}
    parameters = {**defaults, "kubeconfig": str(signed_in(bed, account)), **options}
    return verify_cluster(Cluster.connect(parameters), parameters, Reading(limits=limits, patience=patience))


def prove(bed: TestBed, *, check: bool = False, **options: Any) -> dict[str, Any]:
    """One proof with the module's defaults and a short time."""
    defaults = {name: spec.get("default") for name, spec in PROOF_OPTIONS.items()}
    parameters = {**defaults, "kubeconfig": str(signed_in(bed, "operator")), "wait_timeout": 60, **options}
    return prove_cluster(Cluster.connect(parameters, dry_run=check), parameters, check_mode=check)


def configure(bed: TestBed, labels: Mapping[str, str | None], *, default: str = "none") -> None:
    """Write the configs, let the policy refer to them, label the nodes, and wait until all is well."""
    write_map(bed, CONFIGS)
    bed.api.patch(POLICY, {"spec": {"devicePlugin": {"config": {"name": "mps-configs", "default": default}}}})
    for node, value in labels.items():
        label(bed, node, value)
    bed.wait_until_settled()  # a pod that the operator replaces later would undo what a test then breaks
    until(bed, lambda result: result["verified"], limits="doubtful", wait=True, wait_timeout=60, patience=30)


def write_map(bed: TestBed, data: Mapping[str, str]) -> None:
    """Make the ConfigMap hold exactly these keys."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mps-configs", "namespace": NAMESPACE}, "data": dict(data)}
    if bed.api.find(MAP):
        bed.api.put(MAP, body)
    else:
        bed.api.post(MAPS, body)
    time.sleep(1.1)  # the API's times are whole seconds: what follows the write is to be later by them too


def label(bed: TestBed, node: str, value: str | None, key: str = LABEL) -> None:
    """Give a node a label, or take it away."""
    bed.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {key: value}}})


def fault(bed: TestBed, node: str, value: str | None) -> None:
    """Give a node's agents a fault, or take it away."""
    bed.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {FAULT: value}}})


def restart(bed: TestBed, node: str, *apps: str) -> None:
    """Delete pods of agents on a node, one agent after the other."""
    for app in apps:
        for pod in bed.api.list(PODS, labelSelector=f"app={app}", fieldSelector=f"spec.nodeName={node}"):
            bed.api.delete(f"{PODS}/{pod['metadata']['name']}")


def until(bed: TestBed, enough: Callable[[dict[str, Any]], bool], seconds: float = 180, **options: Any) -> dict[str, Any]:
    """Verify again and again until the result is as a test wants it. Raises AssertionError with the last verdicts when the time is up."""
    result = look_until(bed, enough, seconds, **options)
    assert enough(result), verdicts(result)
    return result


def look_until(bed: TestBed, enough: Callable[[dict[str, Any]], bool], seconds: float, **options: Any) -> dict[str, Any]:
    """The same for a test that judges each node by itself: returns the last result, also when the time is up."""
    deadline = time.monotonic() + seconds
    while True:
        result = verify(bed, **options)
        if enough(result) or time.monotonic() > deadline:
            return result
        time.sleep(1)


def verdicts(result: Mapping[str, Any]) -> dict[str, tuple[str, str | None, str | None]]:
    """Node -> verdict, link and code."""
    return {name: (node["verdict"], node["link"], node["code"]) for node in result["nodes"] for name in node["names"]}


def told_of(result: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What the result says of one node, and of those that are like it."""
    return next(node for node in result["nodes"] if name in node["names"])
