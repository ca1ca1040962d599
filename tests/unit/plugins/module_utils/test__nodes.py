# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The label that every GPU node gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import NodeGroup
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding
from ansible_collections.gpuops.mps.plugins.module_utils._nodes import LabelChange, LabelPlan, label_operations, plan_labels
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import CONFIG_LABEL, Node
from tests.unit.clusters import T4, gpu_node, snapshot

KEYS = {"none", "mps-four"}


def node(name: str, label: str | None = None, owner: str | None = "gpuops.mps") -> Node:
    labels = {**T4, CONFIG_LABEL: label} if label is not None else T4
    return gpu_node(name, labels=labels, label_owner=owner if label is not None else None)


def group(config: str, *nodes: str, name: str = "group") -> NodeGroup:
    return NodeGroup(name, config, nodes, (), None)


def plan_of(groups: list[NodeGroup], *nodes: Node, on_left_group: str = "keep", keys: dict[str, str] | None = None) -> LabelPlan:
    return plan_labels(groups, snapshot(nodes=nodes), keys=keys or {}, available=KEYS | set((keys or {}).values()), on_left_group=on_left_group)


def changes(plan: LabelPlan) -> dict[str, tuple[str | None, str | None]]:
    return {change.node: (change.before, change.after) for change in plan.nodes if change.changed}


def by_code(plan: LabelPlan) -> dict[str, Finding]:
    return {found.code: found for found in plan.findings}


def test_only_labels_that_differ_change() -> None:
    plan = plan_of([group("mps-four", "gpu-1", "gpu-2", "gpu-3")], node("gpu-1"), node("gpu-2", "none"), node("gpu-3", "mps-four"))
    assert changes(plan) == {"gpu-1": (None, "mps-four"), "gpu-2": ("none", "mps-four")}


@pytest.mark.parametrize(("option", "after"), [("keep", "none"), ("remove", None)])
def test_a_node_that_left_every_group_keeps_or_loses_its_label_and_is_named(option: str, after: str | None) -> None:
    plan = plan_of([group("mps-four", "gpu-1")], node("gpu-1"), node("gpu-2", "none"), on_left_group=option)
    (change,) = [one for one in plan.nodes if one.node == "gpu-2"]
    assert (change.after, change.left_group) == (after, True)
    assert "1 node is in no group any more" in by_code(plan)["node-left-group"].message


def test_a_label_that_somebody_else_wrote_stays() -> None:
    plan = plan_of([group("mps-four", "gpu-1")], node("gpu-1"), node("gpu-2", "none", owner="kubectl-label"), on_left_group="remove")
    assert "gpu-2" not in changes(plan)
    assert "node-left-group" not in by_code(plan)


def test_a_node_in_dispute_is_not_touched() -> None:
    plan = plan_of([group("mps-four", "gpu-1", name="a"), group("none", "gpu-1", name="b")], node("gpu-1", "none"), on_left_group="remove")
    assert changes(plan) == {}
    assert set(by_code(plan)) == {"group-overlap"}


def test_a_config_that_names_no_key_is_refused_with_the_keys_there_are() -> None:
    found = by_code(plan_of([group("mps-eight", "gpu-1")], node("gpu-1")))["key-of-label-absent"]
    assert found.severity == "error"
    assert found.message == "the group 'group' wants the config 'mps-eight', which is not one of the keys of the ConfigMap 'mps-configs': mps-four, none"


def test_a_label_that_stays_but_names_no_key_is_said() -> None:
    found = by_code(plan_of([], node("gpu-1", "gone", owner="kubectl"), node("gpu-2", "gone", owner="kubectl")))["key-of-label-absent"]
    assert "the label of 'gpu-1', 'gpu-2' names the config 'gone'" in found.message


def test_a_name_may_have_another_key() -> None:
    plan = plan_of([group("mps-four", "gpu-1")], node("gpu-1"), keys={"mps-four": "mps-four-0a1b2c3d4e"})
    assert changes(plan) == {"gpu-1": (None, "mps-four-0a1b2c3d4e")}


def test_a_write_is_bound_to_the_node_and_to_the_label_that_was_seen() -> None:
    path = "/metadata/labels/nvidia.com~1device-plugin.config"
    assert label_operations(LabelChange("gpu-1", "a", None, "none"), "u") == [
        {"op": "test", "path": path, "value": None},
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "add", "path": path, "value": "none"},
    ]
    assert label_operations(LabelChange("gpu-1", None, "none", None), "") == [{"op": "test", "path": path, "value": "none"}, {"op": "remove", "path": path}]


LABELS = st.sampled_from([None, "none", "mps-four", "gone", ""])


@given(
    labels=st.lists(st.tuples(LABELS, st.sampled_from(["gpuops.mps", "kubectl"])), min_size=1, max_size=6),
    members=st.sets(st.integers(0, 5)),
    option=st.sampled_from(["keep", "remove"]),
)
def test_a_second_plan_has_nothing_to_do(labels: list[tuple[str | None, str]], members: set[int], option: str) -> None:
    groups = [group("mps-four", *(f"gpu-{number}" for number in members))]
    nodes = [node(f"gpu-{number}", label, owner) for number, (label, owner) in enumerate(labels)]
    plan = plan_of(groups, *nodes, on_left_group=option)
    for change, before in zip(plan.nodes, nodes, strict=True):
        if change.group is None and before.label_owner != "gpuops.mps":
            assert not change.changed
    kept = [node(change.node, change.after, before.label_owner) for change, before in zip(plan.nodes, nodes, strict=True)]
    assert changes(plan_of(groups, *kept, on_left_group=option)) == {}
