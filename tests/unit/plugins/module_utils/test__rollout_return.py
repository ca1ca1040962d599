# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where nodes came from and how they can go back, decided before the first write."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import content_hash
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._plan import ConfigMapPlan, KeyChange, Plan, PolicyPlan
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import APPLIED_ANNOTATION, ROLLOUT_ANNOTATION, Applied, Former, write_annotation
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_record import SCOPE_NODE, SCOPE_WHOLE, Record
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_return import (
    FormerConfigs,
    former_configs,
    former_of,
    former_target,
    plan_way_back,
    preserved_key,
    relabelled_target,
    return_label,
    with_preserved,
)
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import Node
from tests.unit.plugins.module_utils.rollout_model import text

OLDER, NEWER = PluginVersion(0, 17, 4), PluginVersion(0, 20, 0)
NONE = "version: v1\n"
TEXTS = {"none": NONE, "two": text(2), "four": text(4)}
KEPT = f"two-{content_hash(text(2))}"


def former(label: str | None, config: str | None, source: str = "label") -> Former:
    """Where a node came from."""
    return Former(label, config, source, content_hash(TEXTS[config]) if config else None, True, {"nvidia.com/gpu.replicas": "2"}, {"nvidia.com/gpu": 4})


def plan(edited: str | None = None, default: tuple[str, str] = ("none", "none"), name: tuple[str, str] = ("map", "map")) -> Plan:
    """A plan that edits one text, or changes the policy."""
    keys = (KeyChange(edited, "change", TEXTS[edited], text(8)),) if edited else ()
    return Plan(ConfigMapPlan("gpu-operator", "map", True, "1", keys), PolicyPlan("p", "1", name[0], name[1], *default), (), ())


@pytest.mark.parametrize(
    ("what", "version", "labels", "scope", "preserved", "led_back"),
    [
        (plan(), NEWER, ["two"], SCOPE_NODE, {}, {"two": "two"}),
        (plan("two"), OLDER, ["two"], SCOPE_NODE, {KEPT: text(2)}, {"two": KEPT}),
        (plan("two"), OLDER, ["none"], SCOPE_NODE, {}, {"none": "none"}),
        (plan("two", default=("two", "two")), OLDER, [None], SCOPE_NODE, {KEPT: text(2)}, {None: KEPT}),
        (plan("two", default=("two", "two")), NEWER, [None], SCOPE_WHOLE, {}, {}),
        (plan(default=("two", "four")), OLDER, [None], SCOPE_NODE, {}, {None: "two"}),
        (plan(default=("two", "four")), NEWER, [None], SCOPE_WHOLE, {}, {}),
        (plan(default=("none", "four")), NEWER, [None], SCOPE_NODE, {}, {None: "none"}),
        (plan(default=("two", "four")), OLDER, ["two"], SCOPE_NODE, {}, {"two": "two"}),
        (plan(name=("other", "map")), OLDER, ["two"], SCOPE_WHOLE, {}, {}),
    ],
)
def test_the_way_back(
    what: Plan, version: PluginVersion, labels: list[str | None], scope: str, preserved: dict[str, str], led_back: dict[str | None, str]
) -> None:
    """One by one where a label can still mean the former content, together where it cannot."""
    assert what.policy is not None
    formers = FormerConfigs(what.policy.name_before, what.policy.default_before, TEXTS)
    way = plan_way_back(what, labels, formers, TEXTS, version)
    assert (way.scope, way.preserved) == (scope, preserved) and way.reason
    for label, wanted in led_back.items():
        config, source = formers.selection(label)
        assert return_label(former(label, config, source), way) == wanted
    assert {change.key for change in with_preserved(what.config_map, way.preserved).keys} >= set(preserved)


def test_nodes_without_any_config_go_back_to_one_without_sharing() -> None:
    """Before the first rollout there was no map: the nodes shared nothing, and a text that says so takes them back."""
    formers = FormerConfigs("", "", {})
    way = plan_way_back(plan(default=("", "two"), name=("", "map")), [None], formers, {"two": text(2)}, NEWER)
    assert way.scope == SCOPE_NODE and way.preserved.keys() == {preserved_key("none", NONE)}
    with_none = plan_way_back(plan(default=("", "two"), name=("", "map")), [None], formers, {"none": NONE}, NEWER)
    assert with_none.preserved == {} and return_label(Former(None, None, "none", None, False), with_none) == "none"


def test_removals_wait_until_the_end() -> None:
    """A key must not go while a label may still name it."""
    changes = (KeyChange("old", "remove", "x", None), KeyChange("new", "add", None, "y"))
    assert [change.key for change in with_preserved(ConfigMapPlan("n", "map", True, "1", changes), {"kept": "z"}).keys] == ["new", "kept"]


@pytest.mark.parametrize("name", ["two", "x" * 63, "a" * 51 + "-" + "b" * 11])
def test_preserved_names_are_label_values(name: str) -> None:
    """At most 63 characters, the hash whole, no separator doubled at the cut."""
    key = preserved_key(name, text(2))
    assert len(key) <= 63 and key.endswith(f"-{content_hash(text(2))}") and "--" not in key


def record(**hashes: str | None) -> Record:
    """A rollout that changes these keys."""
    return Record("r1", "2026-01-01T00:00:00Z", "map", "p", "map", "two", former_hashes=hashes)


def test_former_texts_are_known_by_their_hash() -> None:
    """Before and after the map is written, and however often it is edited since."""
    found = record(two=content_hash(text(2)), added=None)
    for current, kept in (({"two": text(2)}, {}), ({"two": text(8), "added": "x"}, {"two": text(2)}), ({"two": text(8)}, {"two": text(2), "other": "y"})):
        assert former_configs(found, {**current, "none": NONE}, kept).texts == {"two": text(2), "none": NONE}
    assert former_configs(found, {"two": text(8)}, {"two": text(4)}).texts == {}


def node(**annotations: str) -> Node:
    """A node that is labelled four now."""
    labels = {"nvidia.com/device-plugin.config": "four", "nvidia.com/mps.capable": "true", "nvidia.com/gpu.replicas": "4"}
    return Node("gpu-1", "u", "1", labels, annotations, {}, {"nvidia.com/gpu": 8, "nvidia.com/gpu.shared": 0}, True, False, "2026-01-01T00:00:00Z")


def test_where_a_node_came_from() -> None:
    """What the unfinished rollout has noted goes before what is there now; other rollouts' notes do not count."""
    formers = FormerConfigs("map", "two", TEXTS)
    now = former_of(node(), formers, record())
    assert (now.label, now.config, now.source, now.content, now.daemon) == ("four", "four", "label", content_hash(text(4)), True)
    assert now.allocatable == {"nvidia.com/gpu": 8}
    noted = former("two", "two")
    applied = Applied("four", "x", {}, "r1", "now", noted)
    assert former_of(node(**{APPLIED_ANNOTATION: write_annotation(applied)}), formers, record()) == noted
    other = Applied("four", "x", {}, "r0", "now", noted)
    assert former_of(node(**{APPLIED_ANNOTATION: write_annotation(other)}), formers, record()) == now
    assert former_of(node(**{ROLLOUT_ANNOTATION: "nonsense"}), formers, record()) == now


def test_the_former_config_as_a_target() -> None:
    """What was seen before must show again; only the daemon's limits are computed."""
    target = former_target(former("two", "two"), FormerConfigs("map", "none", TEXTS), OLDER)
    assert target.prediction.resources == {"nvidia.com/gpu": 4} and target.prediction.thread_percentage == 50 and target.prediction.daemon
    assert target.prediction.labels["nvidia.com/mps.capable"] is None
    moved = relabelled_target(target, KEPT, "none")
    assert (moved.label, moved.config, moved.source, moved.content) == (KEPT, KEPT, "label", target.content)
    assert relabelled_target(target, None, "none").config == "none" and relabelled_target(target, "two", "none") == target
