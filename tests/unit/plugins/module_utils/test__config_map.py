# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ConfigMap's plan: which keys are added, changed and removed, and what is left alone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._config_map import (
    FORMER_ANNOTATION,
    FORMER_BYTES,
    MANAGED_ANNOTATION,
    RESERVED_NAMES,
    Users,
    check_name,
    check_owners,
    config_map_patch,
    data_after,
    keys_of,
    managed_keys,
    only_removals,
    plan_absent,
    plan_config_map,
    users_now,
    versioned_key,
    without_removals,
)
from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import write_config
from ansible_collections.gpuops.mps.plugins.module_utils._plan import ConfigMapPlan, KeyChange
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import Owner, Snapshot
from tests.unit.clusters import MPS_EIGHT, MPS_FOUR, NONE, SLICED, config_map, policy, snapshot, with_map

FOUR = SharingConfig("mps-four", Strategy.MPS, 4)
EIGHT = SharingConfig("mps-eight", Strategy.MPS, 8)
NOTHING = SharingConfig("none", Strategy.NONE)
NOBODY = Users({})


def managed(*keys: str) -> dict[str, str]:
    return {MANAGED_ANNOTATION: json.dumps(keys)}


def actions(plan: ConfigMapPlan) -> dict[str, str]:
    return {change.key: change.action for change in plan.keys}


def plan_of(*configs: SharingConfig, cluster: Snapshot, users: Users = NOBODY) -> tuple[dict[str, str], set[str]]:
    plan, findings = plan_config_map(configs, cluster, keys=keys_of(configs, "in_place"), users=users)
    return actions(plan), {found.code for found in findings}


def test_a_missing_map_is_created_with_every_config() -> None:
    plan, findings = plan_config_map((FOUR, NOTHING), snapshot(config_map=None, referred_map=None), keys={"mps-four": "mps-four", "none": "none"}, users=NOBODY)
    assert (plan.exists, actions(plan), findings) == (False, {"mps-four": "add", "none": "add"}, ())


def test_a_text_with_the_same_meaning_is_left_alone_with_its_comments() -> None:
    text = "# ours since May\n" + MPS_FOUR + "flags: {plugin: {passDeviceSpecs: true}}\n"
    assert plan_of(FOUR, cluster=with_map(data={"mps-four": text, "slices": SLICED})) == ({}, set())


def test_a_text_that_means_something_else_is_replaced_and_said_when_it_was_not_ours() -> None:
    other = {"data": {"mps-four": MPS_EIGHT}}
    assert plan_of(FOUR, cluster=with_map(**other)) == ({"mps-four": "change"}, {"key-taken-over"})
    assert plan_of(FOUR, cluster=with_map(**other, annotations=managed("mps-four"))) == ({"mps-four": "change"}, set())


def test_a_text_that_cannot_be_read_is_replaced() -> None:
    assert plan_of(FOUR, cluster=with_map(data={"mps-four": "sharing: ["}, annotations=managed("mps-four")))[0] == {"mps-four": "change"}


def test_only_our_own_keys_are_removed() -> None:
    cluster = with_map(data={"mps-four": MPS_FOUR, "old": MPS_EIGHT, "foreign": SLICED}, annotations=managed("mps-four", "old", "gone"))
    assert plan_of(FOUR, cluster=cluster) == ({"old": "remove"}, set())


def test_a_key_in_use_is_not_removed_and_its_users_are_named() -> None:
    cluster = with_map(data={"old": MPS_EIGHT}, annotations=managed("old"))
    users = Users({"old": ("gpu-1", "gpu-2")}, default="old")
    plan, findings = plan_config_map((), cluster, keys={}, users=users)
    assert plan.keys == ()
    (found,) = findings
    assert found.code == "key-in-use"
    assert found.message.endswith("it is used by the label of 'gpu-1', 'gpu-2' and the default of the ClusterPolicy")


def test_an_immutable_map_is_said_before_the_write() -> None:
    assert plan_of(FOUR, EIGHT, cluster=with_map(immutable=True))[1] == {"config-map-immutable"}
    assert plan_of(FOUR, cluster=with_map(immutable=True))[1] == set()


def test_a_map_that_would_be_too_large_is_said_before_the_write() -> None:
    full = with_map(data={"theirs": "#" * (1024 * 1024 - 30)})
    assert "config-map-too-large" in plan_of(FOUR, cluster=full)[1]
    assert "config-map-too-large" not in plan_of(FOUR, cluster=with_map(data={"theirs": "#" * (1024 * 1024 - 300)}))[1]
    # Taking something out of a map that is full helps.
    ours = with_map(data={"theirs": "#" * (1024 * 1024), "old": MPS_EIGHT}, annotations=managed("old"))
    assert plan_of(cluster=ours) == ({"old": "remove"}, set())


@pytest.mark.parametrize("name", ["mps-configs", "a", "a" * 63, "0mps"])
def test_a_name_that_the_operator_can_mount(name: str) -> None:
    assert list(check_name(name)) == []


@pytest.mark.parametrize("name", ["mps.configs", "Mps", "-mps", "mps-", "a" * 64, "", *sorted(RESERVED_NAMES)])
def test_a_name_that_breaks_the_operators_daemon_sets(name: str) -> None:
    (found,) = check_name(name)
    assert found.code == "config-map-name-unusable"


def test_users_are_labels_and_default_of_the_policy_that_refers_to_the_map() -> None:
    assert users_now(snapshot()) == Users({"mps-four": ("gpu-1",)}, "none")
    assert users_now(snapshot(policies=(policy(config_name="other"),))) == Users({}, "")
    assert users_now(snapshot(policies=())) == Users({}, "")


# state absent


def test_absent_removes_our_keys_and_leaves_foreign_ones() -> None:
    plan, findings = plan_absent(with_map(data={"mps-four": MPS_FOUR, "foreign": NONE}, annotations=managed("mps-four")), users=NOBODY)
    assert (actions(plan), plan.deletes, findings) == ({"mps-four": "remove"}, False, ())


def test_absent_deletes_a_map_of_ours_that_nothing_refers_to() -> None:
    found = config_map(data={"mps-four": MPS_FOUR}, annotations=managed("mps-four"))
    cluster = snapshot(config_map=found, policies=(policy(config_name=""),))
    plan, findings = plan_absent(cluster, users=users_now(cluster))
    assert (plan.deletes, plan.changed, findings) == (True, True, ())


def test_absent_is_refused_while_something_refers_to_it() -> None:
    cluster = with_map(data={"mps-four": MPS_FOUR}, annotations=managed("mps-four"))
    _plan, findings = plan_absent(cluster, users=users_now(cluster))
    assert {found.code for found in findings} == {"key-in-use", "config-map-in-use"}


def test_absent_without_a_map_has_nothing_to_do() -> None:
    plan, findings = plan_absent(snapshot(config_map=None), users=NOBODY)
    assert (plan.changed, findings) == (False, ())


# What is written


def test_the_patch_holds_our_keys_and_our_annotations_only() -> None:
    found = config_map(data={"old": NONE, "mps-four": MPS_EIGHT, "foreign": NONE}, annotations={**managed("old"), "team": "a"})
    plan = ConfigMapPlan(
        "gpu-operator", "mps-configs", True, "6", (KeyChange("mps-four", "change", MPS_EIGHT, MPS_FOUR), KeyChange("old", "remove", NONE, None))
    )
    patch = config_map_patch(plan, found)
    assert patch["data"] == {"mps-four": MPS_FOUR, "old": None}
    annotations = patch["metadata"]["annotations"]
    assert set(annotations) == {MANAGED_ANNOTATION, FORMER_ANNOTATION}
    assert json.loads(annotations[MANAGED_ANNOTATION]) == ["mps-four"]
    assert json.loads(annotations[FORMER_ANNOTATION]) == {"mps-four": MPS_EIGHT, "old": NONE}


def test_former_texts_stay_below_the_size_of_annotations() -> None:
    large = "#" * (FORMER_BYTES // 2)
    plan = ConfigMapPlan("n", "m", True, "6", tuple(KeyChange(f"key-{number}", "change", large, MPS_FOUR) for number in range(4)))
    kept = config_map_patch(plan, config_map())["metadata"]["annotations"][FORMER_ANNOTATION]
    assert len(kept) <= FORMER_BYTES and len(json.loads(kept)) == 1


@pytest.mark.parametrize("text", ["", "no json", "{}", "7", "null"])
def test_an_annotation_that_somebody_broke_counts_as_absent(text: str) -> None:
    assert managed_keys(config_map(annotations={MANAGED_ANNOTATION: text})) == frozenset()


def test_removals_can_be_written_apart() -> None:
    plan = ConfigMapPlan("n", "m", False, None, (KeyChange("a", "add", None, NONE), KeyChange("b", "remove", NONE, None)))
    assert actions(without_removals(plan)) == {"a": "add"}
    assert actions(only_removals(plan)) == {"b": "remove"}
    assert replace(only_removals(plan), keys=()).changed is False


@pytest.mark.parametrize(("owner", "expected"), [(Owner("helm", "gpu-operator"), ["config-map-owned-elsewhere"]), (None, [])])
def test_a_map_that_somebody_else_keeps_is_named_when_it_changes(owner: Owner | None, expected: list[str]) -> None:
    cluster = with_map(owners=(owner,) if owner else ())
    plan, _findings = plan_config_map((EIGHT,), cluster, keys={"mps-eight": "mps-eight"}, users=NOBODY)
    assert [found.code for found in check_owners(cluster, plan)] == expected
    unchanged, _findings = plan_config_map((FOUR,), cluster, keys={"mps-four": "mps-four"}, users=NOBODY)
    assert list(check_owners(cluster, unchanged)) == []


# Properties

TEXTS = st.sampled_from([NONE, MPS_FOUR, MPS_EIGHT, SLICED, "", "sharing: [", "# a comment\nversion: v1\n"])
NAMES = st.sampled_from(["none", "mps-four", "mps-eight", "a", "b"])
CONFIGS = st.lists(
    st.builds(SharingConfig, NAMES, st.just(Strategy.MPS), st.integers(2, 48), st.booleans()) | st.builds(SharingConfig, NAMES, st.just(Strategy.NONE)),
    unique_by=lambda config: config.name,
)


@given(data=st.dictionaries(NAMES, TEXTS), ours=st.sets(NAMES), configs=CONFIGS, versioned=st.booleans())
def test_the_plan_reaches_what_is_declared_and_touches_nothing_else(
    data: dict[str, str], ours: set[str], configs: list[SharingConfig], versioned: bool
) -> None:
    cluster = with_map(data=data, annotations=managed(*sorted(ours)))
    keys = keys_of(configs, "versioned" if versioned else "in_place")
    plan, _findings = plan_config_map(configs, cluster, keys=keys, users=NOBODY)
    after = data_after(cluster.config_map, plan)
    assert set(after) == (set(data) - ours) | set(keys.values())
    for name in set(data) - ours - set(keys.values()):
        assert after[name] == data[name]
    patch = config_map_patch(plan, cluster.config_map)
    again = with_map(data=after, annotations={key: value for key, value in patch["metadata"]["annotations"].items() if value})
    second, _findings = plan_config_map(configs, again, keys=keys, users=NOBODY)
    assert not second.changed


@given(config=st.builds(SharingConfig, st.text("abc-", min_size=1, max_size=63).map(lambda name: f"a{name[1:]}"), st.just(Strategy.MPS), st.integers(2, 48)))
def test_a_versioned_key_is_a_label_value_that_follows_the_text(config: SharingConfig) -> None:
    key = versioned_key(config)
    assert len(key) <= 63
    assert (versioned_key(replace(config, replicas=49)) == key) == (write_config(replace(config, replicas=49)) == write_config(config))
