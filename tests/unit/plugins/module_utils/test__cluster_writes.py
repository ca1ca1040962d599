# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is sent for a plan, and what happens when the cluster has changed since."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_writes import apply_config_map, apply_label, apply_policy, delete_config_map
from ansible_collections.gpuops.mps.plugins.module_utils._nodes import LabelChange
from ansible_collections.gpuops.mps.plugins.module_utils._plan import ConfigMapPlan, KeyChange, PolicyPlan
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot_build import config_map_of, node_of
from tests.unit.memory_cluster import MemoryCluster

MAP = "/api/v1/namespaces/ns/configmaps/map"
POLICY = "/apis/nvidia.com/v1/clusterpolicies/policy"
NODE = "/api/v1/nodes/gpu-1"
LABEL = "nvidia.com/device-plugin.config"


def cluster(**objects: Any) -> tuple[Cluster, MemoryCluster]:
    memory = MemoryCluster(objects)
    return cast(Cluster, memory), memory


def map_object(data: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": "map", "namespace": "ns", "resourceVersion": "1"}, "data": data}


CHANGE = ConfigMapPlan("ns", "map", True, "1", (KeyChange("a", "change", "old", "new"),))


def test_a_missing_map_is_created_with_our_mark() -> None:
    seam, memory = cluster()
    apply_config_map(seam, ConfigMapPlan("ns", "map", False, None, (KeyChange("a", "add", None, "new"),)), None)
    assert memory.objects[MAP]["data"] == {"a": "new"}
    assert memory.objects[MAP]["metadata"]["annotations"]["gpuops.mps/managed-keys"] == '["a"]'


def test_a_plan_without_changes_sends_nothing() -> None:
    seam, memory = cluster(**{MAP: map_object({"a": "new"})})
    assert apply_config_map(seam, ConfigMapPlan("ns", "map", True, "1"), config_map_of(memory.objects[MAP])) is None
    assert apply_policy(seam, PolicyPlan("policy", "1", "m", "m", "", "")) is None
    assert memory.writes == 0


def test_another_key_may_change_meanwhile_but_not_ours() -> None:
    seam, memory = cluster(**{MAP: map_object({"a": "old"})})
    found = config_map_of(memory.objects[MAP])
    memory.merge(MAP, {"data": {"b": "theirs"}})
    apply_config_map(seam, CHANGE, found)
    assert memory.objects[MAP]["data"] == {"a": "new", "b": "theirs"}
    memory.merge(MAP, {"data": {"a": "theirs"}})
    with pytest.raises(ClusterError) as caught:
        apply_config_map(seam, CHANGE, found)
    assert caught.value.code == "changed-meanwhile" and memory.objects[MAP]["data"]["a"] == "theirs"


def test_a_map_is_deleted() -> None:
    seam, memory = cluster(**{MAP: map_object({})})
    assert delete_config_map(seam, config_map_of(memory.objects[MAP]))
    assert MAP not in memory.objects


def test_a_policy_that_does_not_keep_the_fields_is_an_error() -> None:
    class Pruning(MemoryCluster):
        def patch_seen(self, path: str, body: dict[str, Any], **guards: Any) -> dict[str, Any]:
            return super().patch_seen(path, {"spec": {"devicePlugin": {"config": None}}}, **guards)

    memory = Pruning({POLICY: {"metadata": {"name": "policy", "resourceVersion": "1"}, "spec": {}}})
    with pytest.raises(ClusterError, match="did not keep spec.devicePlugin.config") as caught:
        apply_policy(cast(Cluster, memory), PolicyPlan("policy", "1", "", "map", "", "none"))
    assert caught.value.code == "policy-pruned"


def test_fields_beside_the_config_go_in_the_same_patch() -> None:
    seam, memory = cluster(**{POLICY: {"metadata": {"name": "policy", "resourceVersion": "1"}, "spec": {"driver": {"enabled": True}}}})
    apply_policy(seam, PolicyPlan("policy", "1", "", "map", "", ""), beside={"daemonsets": {"updateStrategy": "OnDelete"}})
    assert memory.objects[POLICY]["spec"] == {
        "driver": {"enabled": True},
        "devicePlugin": {"config": {"name": "map"}},
        "daemonsets": {"updateStrategy": "OnDelete"},
    }
    assert memory.writes == 1


@pytest.mark.parametrize(("before", "after", "labels"), [(None, "a", {LABEL: "a"}), ("a", None, {})])
def test_a_label_is_written_or_removed(before: str | None, after: str | None, labels: dict[str, str]) -> None:
    metadata = {"name": "gpu-1", "uid": "u", "resourceVersion": "1", "labels": {LABEL: before} if before else {}}
    seam, memory = cluster(**{NODE: {"metadata": metadata}})
    apply_label(seam, LabelChange("gpu-1", "g", before, after), node_of(memory.objects[NODE]))
    assert memory.objects[NODE]["metadata"]["labels"] == labels


def test_a_label_is_written_whatever_else_changes_and_left_alone_when_it_changes() -> None:
    seam, memory = cluster(**{NODE: {"metadata": {"name": "gpu-1", "uid": "u", "resourceVersion": "1", "labels": {}}}})
    seen = node_of(memory.objects[NODE])
    memory.merge(NODE, {"metadata": {"annotations": {"heartbeat": "2"}}})
    change = LabelChange("gpu-1", "g", None, "ours")
    apply_label(seam, change, seen)
    apply_label(seam, change, seen)  # sent again after an answer that got lost
    assert memory.writes == 2
    memory.merge(NODE, {"metadata": {"labels": {LABEL: "theirs"}}})
    with pytest.raises(ClusterError) as caught:
        apply_label(seam, change, seen)
    assert caught.value.code == "changed-meanwhile" and memory.objects[NODE]["metadata"]["labels"] == {LABEL: "theirs"}
