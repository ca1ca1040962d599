# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is tried under faults: each operation with the state it starts from, its arguments, and how its end is recognised."""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass

from tests.testbed.bed import TestBed

NAMESPACE = "gpu-operator"
MAP = "mps-configs"
MAP_PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{MAP}"
POLICY_PATH = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
LABEL = "nvidia.com/device-plugin.config"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/gpuops-mps-rollout"
FAULT = "testbed.gpuops.example/fault"
CONFIGS: dict[str, t.Any] = {"none": {}, "mps-four": {"replicas": 4}}
GROUPS = [{"name": "all", "config": "mps-four", "match": {"product": "Tesla-T4"}}]
Result = t.Mapping[str, t.Any]
FOREIGN = {"annotations": {"example.com/owner": "platform team"}, "labels": {"example.com/tier": "gold"}}


@dataclass(frozen=True)
class Operation:
    """One module call. ``prepare`` brings the bed to where it starts, ``converged`` tells from bed and result whether its work is done.

    ``meanwhile`` is done when the operation's first watch is under way. ``slow`` ones wait for agents;
    those with an ``action`` need Ansible around them; without ``agents`` a bed on which nothing moves by itself will do;
    without ``pages`` it lists nothing of which there can be more than one page.
    """

    name: str
    module: str
    arguments: t.Mapping[str, t.Any]
    prepare: t.Callable[[TestBed], None]
    converged: t.Callable[[TestBed, t.Mapping[str, t.Any]], bool]
    writes: bool = True
    watches: bool = False
    slow: bool = False
    action: bool = False
    agents: bool = True
    pages: bool = True
    meanwhile: t.Callable[[TestBed], None] | None = None


def config_texts(bed: TestBed) -> dict[str, str]:
    """The map's data, empty when there is no map."""
    found = bed.api.find(MAP_PATH)
    return (found or {}).get("data") or {}


def config_labels(bed: TestBed) -> dict[str, str | None]:
    """Node name -> config label, GPU nodes only."""
    nodes = [node["metadata"] for node in bed.api.list("/api/v1/nodes") if node["metadata"]["name"].startswith("gpu-")]
    return {node["name"]: node["labels"].get(LABEL) for node in nodes}


def policy_config(bed: TestBed) -> dict[str, str]:
    """spec.devicePlugin.config of the policy without empty fields."""
    found = bed.api.get(POLICY_PATH)["spec"]["devicePlugin"].get("config") or {}
    return {key: value for key, value in found.items() if value}


def allocatable(bed: TestBed) -> dict[str, int]:
    """Node name -> allocatable nvidia.com/gpu."""
    nodes = [node for node in bed.api.list("/api/v1/nodes") if node["metadata"]["name"].startswith("gpu-")]
    return {node["metadata"]["name"]: int(node["status"]["allocatable"].get("nvidia.com/gpu", 0)) for node in nodes}


def write_map(bed: TestBed) -> None:
    """Put the map there as mps_config writes it, with something of somebody else's in it."""
    four = "version: v1\nsharing:\n  mps:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MAP, "namespace": NAMESPACE, **FOREIGN}}
    bed.api.post(MAP_PATH.rpartition("/")[0], {**body, "data": {"none": "version: v1\n", "mps-four": four}})


def write_map_and_policy(bed: TestBed) -> None:
    """The map, and the policy that points at it."""
    write_map(bed)
    bed.api.patch(POLICY_PATH, {"spec": {"devicePlugin": {"config": {"name": MAP}}}})
    if bed.settings.operator:
        bed.wait_until_settled()


def share(bed: TestBed) -> None:
    """Every GPU shared by four clients, agents settled."""
    write_map_and_policy(bed)
    for name in config_labels(bed):
        bed.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {LABEL: "mps-four"}}})
    if bed.settings.agents:
        bed.wait_for("shared GPUs", lambda: all(count == 8 for count in allocatable(bed).values()), 120)


def nothing(bed: TestBed) -> None:
    """Start from the bed's first state."""


def stuck(bed: TestBed) -> None:
    """Every GPU shared, but the device plugin of one node has just been restarted and does not register its GPUs yet."""
    share(bed)
    bed.api.patch("/api/v1/nodes/gpu-2", {"metadata": {"annotations": {FAULT: "plugin-stuck"}}})
    plugin = f"/api/v1/namespaces/{NAMESPACE}/pods"
    for pod in bed.api.list(plugin, labelSelector="app=nvidia-device-plugin-daemonset", fieldSelector="spec.nodeName=gpu-2"):
        bed.api.delete(f"{plugin}/{pod['metadata']['name']}")
    bed.wait_for("missing GPUs", lambda: allocatable(bed)["gpu-2"] == 0, 60)


def unstick(bed: TestBed) -> None:
    """Let the device plugin register."""
    bed.api.patch("/api/v1/nodes/gpu-2", {"metadata": {"annotations": {FAULT: None}}})


def shared_everywhere(bed: TestBed, _result: Result) -> bool:
    """Whether the whole main job is done: map, policy, labels, allocatable; and nothing of a rollout is left behind."""
    nodes = [node for node in bed.api.list("/api/v1/nodes") if node["metadata"]["name"].startswith("gpu-")]
    cordoned = [node["metadata"]["name"] for node in nodes if node["spec"].get("unschedulable")]
    labelled = set(config_labels(bed).values()) == {"mps-four"}
    held = ((bed.api.find(LEASE) or {}).get("spec") or {}).get("holderIdentity")
    done = not cordoned and not held and labelled and policy_config(bed).get("name") == MAP
    return done and all(count == 8 for count in allocatable(bed).values())


def proven(bed: TestBed, result: Result) -> bool:
    """Whether every node was proven, and no workload of the proof is left in any namespace."""
    left = bed.api.list("/apis/apps/v1/deployments") + bed.api.list("/api/v1/pods")
    ours = [item for item in left if "gpuops.mps" in json.dumps(item["metadata"].get("labels", {}))]
    return bool(result.get("passed")) and not ours


def unchanged(bed: TestBed, result: Result) -> bool:
    """For the sharing as it is: the answer is about both nodes, and all is as it was."""
    nodes = {node["name"] for node in result["nodes"]}
    return not result["changed"] and nodes == {"gpu-1", "gpu-2"} and all(count == 8 for count in allocatable(bed).values())


def planned(bed: TestBed, result: Result) -> bool:
    """For the plan of what is there already: it speaks of both nodes and changes nothing."""
    nodes = {name for node in result["plan"]["nodes"] for name in node["names"]}
    right = all(count == 8 for count in allocatable(bed).values())
    return not result["changed"] and not result["plan_changed"] and result["admitted"] and nodes == {"gpu-1", "gpu-2"} and right


def verified(bed: TestBed, result: Result) -> bool:
    """For the verification: what it says of both nodes is true. By a clock that is wrong nothing is young enough to be waited for."""
    right = all(count == 8 for count in allocatable(bed).values())
    return not result["changed"] and {name for node in result["nodes"] for name in node["names"]} == {"gpu-1", "gpu-2"} and bool(result["verified"]) is right


def removed(bed: TestBed) -> None:
    """Something to remove that nothing uses: the map beside a policy that does not refer to it."""
    write_map(bed)
    annotations = {"gpuops.mps/managed-keys": json.dumps(sorted(CONFIGS))}
    bed.api.patch(MAP_PATH, {"metadata": {"annotations": annotations}, "data": {"theirs": "version: v1\n"}})


DECLARATION = {"configs": CONFIGS, "node_groups": GROUPS, "namespace": NAMESPACE, "config_map": MAP}
ABSENT = {"namespace": NAMESPACE, "config_map": MAP, "state": "absent"}
OPERATIONS: t.Mapping[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation("info", "mps_info", {}, share, unchanged, writes=False),
        Operation("plan", "mps_plan_info", DECLARATION, share, planned, writes=False),
        Operation("verify", "mps_verify_info", {"wait": True, "wait_timeout": 45}, stuck, verified, writes=False, watches=True, meanwhile=unstick),
        Operation(
            "config",
            "mps_config",
            {"configs": CONFIGS, "namespace": NAMESPACE, "config_map": MAP},
            nothing,
            lambda bed, _result: set(config_texts(bed)) == set(CONFIGS),
            agents=False,
        ),
        Operation(
            "policy",
            "mps_policy",
            {"config_map": MAP, "default": "none", "namespace": NAMESPACE},
            write_map,
            lambda bed, _result: policy_config(bed) == {"name": MAP, "default": "none"},
            agents=False,
            pages=False,
        ),
        Operation(
            "nodes",
            "mps_nodes",
            {"node_groups": GROUPS, "namespace": NAMESPACE},
            write_map_and_policy,
            lambda bed, _result: set(config_labels(bed).values()) == {"mps-four"},
            agents=False,
        ),
        Operation("rollout", "mps_rollout", DECLARATION, nothing, shared_everywhere, watches=True, slow=True, action=True),
        Operation("proof", "mps_proof", {}, share, proven, watches=True, slow=True),
        Operation("config-absent", "mps_config", ABSENT, removed, lambda bed, _result: set(config_texts(bed)) == {"theirs"}, agents=False),
        Operation("policy-absent", "mps_policy", ABSENT, write_map_and_policy, lambda bed, _result: policy_config(bed) == {}, agents=False, pages=False),
        Operation(
            "nodes-absent",
            "mps_nodes",
            {**ABSENT, "node_groups": [{"name": "all", "match": {"product": "Tesla-T4"}}]},
            share,
            lambda bed, _result: set(config_labels(bed).values()) == {None},
            agents=False,
        ),
    )
}
