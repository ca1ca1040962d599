# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is tried under faults: each operation with the state it starts from, its arguments, and how its end is recognised."""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass, field

from tests.testbed.bed import TestBed

NAMESPACE = "gpu-operator"
MAP = "mps-configs"
MAP_PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{MAP}"
POLICY_PATH = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
LABEL = "nvidia.com/device-plugin.config"
CONFIGS: dict[str, t.Any] = {"none": {}, "mps-four": {"replicas": 4}}
GROUPS = [{"name": "all", "config": "mps-four", "match": {"product": "Tesla-T4"}}]
FOREIGN = {"annotations": {"example.com/owner": "platform team"}, "labels": {"example.com/tier": "gold"}}


@dataclass(frozen=True)
class Operation:
    """One module call. ``prepare`` brings the bed to where it starts, ``converged`` tells whether its work is done there."""

    name: str
    module: str
    arguments: t.Mapping[str, t.Any]
    prepare: t.Callable[[TestBed], None]
    converged: t.Callable[[TestBed], bool]
    writes: bool = True
    watches: bool = False
    slow: bool = False
    users: tuple[str, ...] = field(default=("admin",))


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
    bed.wait_until_settled()


def share(bed: TestBed) -> None:
    """Every GPU shared by four clients, agents settled."""
    write_map_and_policy(bed)
    for name in config_labels(bed):
        bed.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {LABEL: "mps-four"}}})
    bed.wait_for("shared GPUs", lambda: all(count == 8 for count in allocatable(bed).values()), 120)


def nothing(bed: TestBed) -> None:
    """Start from the bed's first state."""


def shared_everywhere(bed: TestBed) -> bool:
    """Whether the whole main job is done: map, policy, labels, allocatable; and nothing of a rollout is left behind."""
    nodes = [node for node in bed.api.list("/api/v1/nodes") if node["metadata"]["name"].startswith("gpu-")]
    cordoned = [node["metadata"]["name"] for node in nodes if node["spec"].get("unschedulable")]
    labelled = set(config_labels(bed).values()) == {"mps-four"}
    return not cordoned and labelled and policy_config(bed).get("name") == MAP and all(count == 8 for count in allocatable(bed).values())


def no_proof_left(bed: TestBed) -> bool:
    """Whether no workload of the proof is left in any namespace."""
    left = bed.api.list("/apis/apps/v1/deployments") + bed.api.list("/api/v1/pods")
    return not [item for item in left if "mps-verification" in item["metadata"]["name"] or "gpuops.mps" in json.dumps(item["metadata"].get("labels", {}))]


def always(bed: TestBed) -> bool:
    """For readers: there is nothing to converge to."""
    return True


DECLARATION = {"configs": CONFIGS, "node_groups": GROUPS, "namespace": NAMESPACE, "config_map": MAP}
OPERATIONS: t.Mapping[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation("info", "mps_info", {}, share, always, writes=False),
        Operation("plan", "mps_plan_info", DECLARATION, share, always, writes=False),
        Operation("verify", "mps_verify_info", {"wait": True, "wait_timeout": 30}, share, always, writes=False, watches=True),
        Operation(
            "config",
            "mps_config",
            {"configs": CONFIGS, "namespace": NAMESPACE, "config_map": MAP},
            nothing,
            lambda bed: set(config_texts(bed)) == set(CONFIGS),
        ),
        Operation(
            "policy",
            "mps_policy",
            {"config_map": MAP, "default": "none", "namespace": NAMESPACE},
            write_map,
            lambda bed: policy_config(bed) == {"name": MAP, "default": "none"},
        ),
        Operation(
            "nodes",
            "mps_nodes",
            {"node_groups": GROUPS, "namespace": NAMESPACE},
            write_map_and_policy,
            lambda bed: set(config_labels(bed).values()) == {"mps-four"},
        ),
        Operation("rollout", "mps_rollout", DECLARATION, nothing, shared_everywhere, watches=True, slow=True),
        Operation("proof", "mps_proof", {}, share, no_proof_left, watches=True, slow=True),
    )
}
