# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The declaration: what is right, and everything that is wrong with it in one pass."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import (
    Declaration,
    Match,
    NodeGroup,
    SharingConfig,
    Strategy,
    is_template,
    parse_declaration,
)

CONFIGS: dict[str, Any] = {"none": {}, "mps-two": {"replicas": 2}, "mps-four": {"replicas": 4}}


def test_the_whole_of_it() -> None:
    declaration, findings = parse_declaration(
        {
            "none": {},
            "mig": {"mig_strategy": "single"},
            "mps-four": {"replicas": 4, "rename_by_default": True, "mig_strategy": "none", "fail_requests_greater_than_one": False},
        },
        "none",
        [
            {"name": "t4", "config": "mps-four", "match": {"product": "Tesla-T4", "count": 2, "labels": {"zone": "b", "a": ""}}},
            {"name": "big", "config": "none", "match": {"memory_at_least": 40000, "memory_at_most": 90000, "architecture": "hopper"}},
            {"name": "lab", "config": "mig", "nodes": ["gpu-07", "gpu-07", "gpu-08"]},
            {"name": "pool", "config": "none", "selector": ["pool=inference", "!cordoned"]},
        ],
    )
    assert findings == ()
    assert declaration == Declaration(
        (
            SharingConfig("none", Strategy.NONE),
            SharingConfig("mig", Strategy.NONE, mig_strategy="single"),
            SharingConfig("mps-four", Strategy.MPS, 4, True, "none", False),
        ),
        "none",
        (
            NodeGroup("t4", "mps-four", match=Match(product="Tesla-T4", count=2, labels=(("a", ""), ("zone", "b")))),
            NodeGroup("big", "none", match=Match(memory_at_least=40000, memory_at_most=90000, architecture="hopper")),
            NodeGroup("lab", "mig", nodes=("gpu-07", "gpu-08")),
            NodeGroup("pool", "none", selectors=("pool=inference", "!cordoned")),
        ),
    )
    assert declaration.config("mps-four") == declaration.configs[2]
    assert declaration.config("mps-five") is None


@pytest.mark.parametrize("default", [None, "", "mps-two"])
@pytest.mark.parametrize("groups", [None, [], [{"name": "a", "config": "none", "nodes": []}]])
def test_default_and_groups_are_optional(default: str | None, groups: list[dict[str, Any]] | None) -> None:
    declaration, findings = parse_declaration(CONFIGS, default, groups)
    assert findings == ()
    assert declaration is not None and declaration.default == (default or None)


def test_the_bounds_of_replicas_are_included() -> None:
    declaration, findings = parse_declaration({"a": {"replicas": 2}, "b": {"replicas": 48}})
    assert declaration is not None and findings == ()


# Every finding: code, path, configs, default, groups.
FINDINGS = [
    ("declaration-shape", "mps_configs", [], None, None),
    ("configs-missing", "mps_configs", {}, None, None),
    ("config-name", "mps_configs.a b", {"a b": {}}, None, None),
    ("config-name", "mps_configs.4", {4: {}}, None, None),
    ("config-name", "mps_configs.True", {True: {}}, None, None),
    ("config-name", f"mps_configs.{'a' * 64}", {"a" * 64: {}}, None, None),
    ("unrendered-template", "mps_configs.{{ a }}", {"{{ a }}": {}}, None, None),
    ("declaration-shape", "mps_configs.a", {"a": None}, None, None),
    ("declaration-shape", "mps_configs.a", {"a": 4}, None, None),
    ("unknown-option", "mps_configs.a.replica", {"a": {"replica": 4}}, None, None),
    ("unknown-option", "mps_configs.a.4", {"a": {4: 4}}, None, None),
    ("option-type", "mps_configs.a.replicas", {"a": {"replicas": "4"}}, None, None),
    ("option-type", "mps_configs.a.replicas", {"a": {"replicas": True}}, None, None),
    ("option-type", "mps_configs.a.replicas", {"a": {"replicas": 4.0}}, None, None),
    ("option-type", "mps_configs.a.replicas", {"a": {"replicas": None}}, None, None),
    ("unrendered-template", "mps_configs.a.replicas", {"a": {"replicas": "{{ n }}"}}, None, None),
    ("replicas-below-two", "mps_configs.a.replicas", {"a": {"replicas": 1}}, None, None),
    ("replicas-below-two", "mps_configs.a.replicas", {"a": {"replicas": -1}}, None, None),
    ("replicas-above-every-cap", "mps_configs.a.replicas", {"a": {"replicas": 49}}, None, None),
    ("option-type", "mps_configs.a.rename_by_default", {"a": {"replicas": 4, "rename_by_default": "yes"}}, None, None),
    ("option-type", "mps_configs.a.rename_by_default", {"a": {"replicas": 4, "rename_by_default": 1}}, None, None),
    ("option-type", "mps_configs.a.fail_requests_greater_than_one", {"a": {"replicas": 4, "fail_requests_greater_than_one": 0}}, None, None),
    ("option-type", "mps_configs.a.mig_strategy", {"a": {"mig_strategy": False}}, None, None),
    ("mig-strategy-unknown", "mps_configs.a.mig_strategy", {"a": {"mig_strategy": "None"}}, None, None),
    ("unrendered-template", "mps_configs.a.mig_strategy", {"a": {"mig_strategy": "{{ m }}"}}, None, None),
    ("mig-mixed-with-mps", "mps_configs.a.mig_strategy", {"a": {"replicas": 4, "mig_strategy": "mixed"}}, None, None),
    ("option-without-replicas", "mps_configs.a.rename_by_default", {"a": {"rename_by_default": True}}, None, None),
    ("option-without-replicas", "mps_configs.a.fail_requests_greater_than_one", {"a": {"fail_requests_greater_than_one": True}}, None, None),
    ("config-unknown", "mps_default", CONFIGS, "mps-too", None),
    ("option-type", "mps_default", CONFIGS, 4, None),
    ("unrendered-template", "mps_default", CONFIGS, "{{ d }}", None),
    ("config-name", "mps_default", None, "a b", None),
    ("declaration-shape", "mps_node_groups", CONFIGS, None, {}),
    ("declaration-shape", "mps_node_groups[0]", CONFIGS, None, ["a"]),
    ("option-missing", "mps_node_groups[0].name", CONFIGS, None, [{"config": "none", "nodes": []}]),
    ("option-missing", "mps_node_groups[0].name", CONFIGS, None, [{"name": "", "config": "none", "nodes": []}]),
    ("option-missing", "mps_node_groups[0].config", CONFIGS, None, [{"name": "a", "nodes": []}]),
    ("config-unknown", "mps_node_groups[0].config", CONFIGS, None, [{"name": "a", "config": "x", "nodes": []}]),
    ("unknown-option", "mps_node_groups[0].selectors", CONFIGS, None, [{"name": "a", "config": "none", "nodes": [], "selectors": []}]),
    ("group-selects-nothing", "mps_node_groups[0]", CONFIGS, None, [{"name": "a", "config": "none"}]),
    ("group-selects-nothing", "mps_node_groups[0]", CONFIGS, None, [{"name": "a", "config": "none", "selector": []}]),
    ("group-duplicate", "mps_node_groups[1].name", CONFIGS, None, [{"name": "a", "config": "none", "nodes": []}] * 2),
    ("option-type", "mps_node_groups[0].nodes", CONFIGS, None, [{"name": "a", "config": "none", "nodes": "gpu-07"}]),
    ("option-type", "mps_node_groups[0].nodes[0]", CONFIGS, None, [{"name": "a", "config": "none", "nodes": [7]}]),
    ("unrendered-template", "mps_node_groups[0].nodes[0]", CONFIGS, None, [{"name": "a", "config": "none", "nodes": ["{{ n }}"]}]),
    ("node-name", "mps_node_groups[0].nodes[1]", CONFIGS, None, [{"name": "a", "config": "none", "nodes": ["a", "GPU_07"]}]),
    ("option-type", "mps_node_groups[0].selector", CONFIGS, None, [{"name": "a", "config": "none", "selector": "pool=a"}]),
    ("selector-syntax", "mps_node_groups[0].selector[0]", CONFIGS, None, [{"name": "a", "config": "none", "selector": ["pool = = a"]}]),
    ("declaration-shape", "mps_node_groups[0].match", CONFIGS, None, [{"name": "a", "config": "none", "match": "Tesla-T4"}]),
    ("match-value", "mps_node_groups[0].match", CONFIGS, None, [{"name": "a", "config": "none", "match": {}}]),
    ("unknown-option", "mps_node_groups[0].match.memory", CONFIGS, None, [{"name": "a", "config": "none", "match": {"memory": 1}}]),
    ("option-type", "mps_node_groups[0].match.product", CONFIGS, None, [{"name": "a", "config": "none", "match": {"product": ["T4"]}}]),
    ("match-value", "mps_node_groups[0].match.product", CONFIGS, None, [{"name": "a", "config": "none", "match": {"product": "Tesla T4"}}]),
    ("match-value", "mps_node_groups[0].match.architecture", CONFIGS, None, [{"name": "a", "config": "none", "match": {"architecture": ""}}]),
    ("match-product-shared", "mps_node_groups[0].match.product", CONFIGS, None, [{"name": "a", "config": "none", "match": {"product": "T4-SHARED"}}]),
    ("option-type", "mps_node_groups[0].match.count", CONFIGS, None, [{"name": "a", "config": "none", "match": {"count": "2"}}]),
    ("match-value", "mps_node_groups[0].match.count", CONFIGS, None, [{"name": "a", "config": "none", "match": {"count": 0}}]),
    ("match-value", "mps_node_groups[0].match.memory_at_most", CONFIGS, None, [{"name": "a", "config": "none", "match": {"memory_at_most": -1}}]),
    (
        "match-value",
        "mps_node_groups[0].match.memory_at_least",
        CONFIGS,
        None,
        [{"name": "a", "config": "none", "match": {"memory_at_least": 2, "memory_at_most": 1}}],
    ),
    ("option-type", "mps_node_groups[0].match.labels", CONFIGS, None, [{"name": "a", "config": "none", "match": {"labels": ["a=b"]}}]),
    ("option-type", "mps_node_groups[0].match.labels.a", CONFIGS, None, [{"name": "a", "config": "none", "match": {"labels": {"a": 1}}}]),
    ("unrendered-template", "mps_node_groups[0].match.labels.a", CONFIGS, None, [{"name": "a", "config": "none", "match": {"labels": {"a": "{{ b }}"}}}]),
    ("match-value", "mps_node_groups[0].match.labels.a b", CONFIGS, None, [{"name": "a", "config": "none", "match": {"labels": {"a b": "c"}}}]),
    ("match-value", "mps_node_groups[0].match.labels.a", CONFIGS, None, [{"name": "a", "config": "none", "match": {"labels": {"a": "b c"}}}]),
    (
        "node-in-two-groups",
        "mps_node_groups[1].nodes",
        CONFIGS,
        None,
        [{"name": "a", "config": "none", "nodes": ["x"]}, {"name": "b", "config": "mps-two", "nodes": ["y", "x"]}],
    ),
]


@pytest.mark.parametrize(("code", "path", "configs", "default", "groups"), FINDINGS)
def test_what_is_wrong_is_named_with_its_place(code: str, path: str, configs: object, default: object, groups: object) -> None:
    declaration, findings = parse_declaration(configs, default, groups)
    assert [(found.code, found.path) for found in findings] == [(code, path)]
    assert (declaration is None) == (code not in ("match-product-shared", "mig-mixed-with-mps"))


def test_everything_is_found_in_one_pass() -> None:
    declaration, findings = parse_declaration(
        {"a b": {"replicas": "4"}, "c": {"replica": 4}},
        "d",
        [{"name": "g", "config": "e", "nodes": ["N"]}, {"config": "c", "match": {"count": 0}}],
    )
    assert declaration is None
    assert [found.code for found in findings] == [
        "config-name",
        "option-type",
        "unknown-option",
        "config-unknown",
        "config-unknown",
        "node-name",
        "option-missing",
        "match-value",
    ]


@pytest.mark.parametrize(
    ("configs", "default", "message", "remedy"),
    [
        ({"a": {"replica": 4}}, None, "'replica' is no option", "Did you mean 'replicas'?"),
        (
            {"a": {"zzz": 4}},
            None,
            "'zzz' is no option",
            "The options are: replicas, rename_by_default, mig_strategy, fail_requests_greater_than_one.",
        ),
        ({"a": {"replicas": "4"}}, None, "'4' is a text where a whole number belongs", "Write a whole number without quotes."),
        ({"a": {"replicas": True}}, None, "True is a boolean where a whole number belongs", "Write a whole number."),
        ({"a": {"replicas": 4.5}}, None, "4.5 is a number where a whole number belongs", "Write a whole number."),
        ({"a": {"mig_strategy": []}}, None, "[] is a list where a text belongs", "Write a text."),
        ({"a": {"mig_strategy": {}}}, None, "{} is a mapping where a text belongs", "Write a text."),
        ({"a": None}, None, "this is null where a mapping of options belongs", "Write {} for a config that shares nothing."),
        (CONFIGS, "mps-too", "'mps-too' is not one of the configs: mps-four, mps-two, none", "Did you mean 'mps-two'?"),
    ],
)
def test_message_and_remedy_are_about_the_case_at_hand(configs: object, default: object, message: str, remedy: str) -> None:
    (found,) = parse_declaration(configs, default)[1]
    assert (found.message, found.remedy) == (message, remedy)


def test_one_replica_points_to_a_config_without_replicas() -> None:
    (one,) = parse_declaration({"a": {"replicas": 1}})[1]
    (zero,) = parse_declaration({"a": {"replicas": 0}})[1]
    assert "For whole GPUs write the config as {}" in one.message
    assert "For whole GPUs" not in zero.message


def test_a_node_in_two_groups_names_both() -> None:
    groups = [{"name": "a", "config": "none", "nodes": ["x"]}, {"name": "b", "config": "mps-two", "nodes": ["x"]}]
    (found,) = parse_declaration(CONFIGS, None, groups)[1]
    assert found.message == "the node x is in the groups 'a' (config none) and 'b' (config mps-two)"


def test_a_node_in_two_groups_with_one_config_is_fine() -> None:
    groups = [{"name": "a", "config": "none", "nodes": ["x"]}, {"name": "b", "config": "none", "nodes": ["x"]}]
    assert parse_declaration(CONFIGS, None, groups)[1] == ()


def test_a_product_loses_the_suffix_of_sharing() -> None:
    declaration, _findings = parse_declaration(CONFIGS, None, [{"name": "a", "config": "none", "match": {"product": "Tesla-T4-SHARED"}}])
    assert declaration is not None and declaration.groups[0].match == Match(product="Tesla-T4")


def test_configs_that_exist_elsewhere() -> None:
    assert parse_declaration(None, "x") == (Declaration((), "x"), ())
    assert parse_declaration(CONFIGS, "x", existing=["x"])[1] == ()
    assert parse_declaration(None, "x", existing=["x"])[1] == ()
    assert [found.code for found in parse_declaration(None, "x", existing=[])[1]] == ["config-unknown"]


def test_one_mistake_in_a_name_is_reported_once() -> None:
    assert [found.code for found in parse_declaration({"a b": {}}, "a b")[1]] == ["config-name"]


@pytest.mark.parametrize("text", ["{{ a }}", "{% if %}", "<% a %>", "${A}", "%(a)s"])
def test_templates(text: str) -> None:
    assert is_template(f"x {text} y")


@pytest.mark.parametrize("text", ["", "{a}", "$A", "100%", "a: {b: c}"])
def test_what_is_no_template(text: str) -> None:
    assert not is_template(text)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=3),
    max_leaves=8,
)
OPTIONS = st.dictionaries(
    st.sampled_from(["replicas", "rename_by_default", "mig_strategy", "name", "config", "nodes", "selector", "match", "product", "count", "labels"]),
    ANYTHING,
)


@given(ANYTHING | st.dictionaries(st.text(max_size=8), OPTIONS), ANYTHING, ANYTHING | st.lists(OPTIONS))
@settings(max_examples=2_000)
def test_nothing_makes_the_parser_fail(configs: object, default: object, groups: object) -> None:
    declaration, findings = parse_declaration(configs, default, groups)
    assert declaration is not None or any(found.severity == "error" for found in findings)
