# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan as plain data and as a diff for people."""

from __future__ import annotations

import json
from dataclasses import replace

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import Declaration, NodeGroup, SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._findings import finding
from ansible_collections.gpuops.mps.plugins.module_utils._nodes import LabelChange
from ansible_collections.gpuops.mps.plugins.module_utils._plan import ConfigMapPlan, KeyChange, Plan, PolicyPlan
from ansible_collections.gpuops.mps.plugins.module_utils._plan_build import make_plan
from ansible_collections.gpuops.mps.plugins.module_utils._plan_report import (
    config_map_data,
    config_map_diff,
    label_diff,
    plan_data,
    plan_diff,
    policy_data,
    policy_diff,
    refusal,
)
from tests.unit.clusters import MPS_FOUR, NONE, policy, snapshot

EIGHT = SharingConfig("mps-eight", Strategy.MPS, 8)


def plan(**changes: object) -> Plan:
    declaration = Declaration((EIGHT,), None, (NodeGroup("t4", "mps-eight", ("gpu-1",)),))
    return make_plan(declaration, snapshot(**changes))


def test_a_maps_diff_shows_only_keys_that_change() -> None:
    changes = (KeyChange("a", "add", None, NONE), KeyChange("b", "change", NONE, MPS_FOUR), KeyChange("c", "remove", NONE, None))
    diff = config_map_diff(ConfigMapPlan("ns", "map", True, "1", changes))
    assert diff["before"] == "b: |\n  version: v1\nc: |\n  version: v1\n"
    assert diff["after"].startswith("a: |\n  version: v1\nb: |\n  version: v1\n  sharing:\n")
    assert diff["before_header"] == diff["after_header"] == "configmap/ns/map"
    assert config_map_diff(ConfigMapPlan("ns", "map", False, None))["before_header"] == "configmap/ns/map (absent)"
    assert config_map_data(ConfigMapPlan("ns", "map", True, "1", changes)) == {
        "namespace": "ns",
        "name": "map",
        "exists": True,
        "add": ["a"],
        "change": ["b"],
        "remove": ["c"],
    }


def test_a_policys_diff_names_unset_fields() -> None:
    change = PolicyPlan("p", "1", "", "map", "old", "")
    assert policy_diff(change)["before"] == "spec.devicePlugin.config.name: (unset)\nspec.devicePlugin.config.default: old\n"
    assert policy_diff(change)["after"] == "spec.devicePlugin.config.name: map\nspec.devicePlugin.config.default: (unset)\n"
    assert policy_data(change) == {"name": "p", "before": {"name": "", "default": "old"}, "after": {"name": "map", "default": ""}}


def test_a_labels_diff_has_one_line_for_each_change() -> None:
    diff = label_diff([LabelChange("a", "g", None, "x"), LabelChange("b", "g", "x", "x"), LabelChange("c", None, "x", None, True)])
    assert (diff["before"], diff["after"]) == ("a: (no label)\nc: x\n", "a: x\nc: (no label)\n")


def test_a_plans_diff_tells_config_resources_and_restarts() -> None:
    config_map, nodes = plan_diff(plan())
    assert config_map["after_header"] == "configmap/gpu-operator/mps-configs"
    assert nodes["before"] == "gpu-1: mps-four by label; nvidia.com/gpu=8\n"
    assert nodes["after"] == "gpu-1: mps-eight by label; nvidia.com/gpu=16; restarts gpu-feature-discovery, mps-control-daemon, device-plugin\n"


def test_a_plan_that_the_operator_carries_out_says_so() -> None:
    changed = plan(policies=(policy(config_name="other"),))
    assert [diff["after_header"] for diff in plan_diff(changed)] == ["configmap/gpu-operator/mps-configs", "clusterpolicy/cluster-policy", "nodes"]
    assert plan_diff(changed)[-1]["after"].endswith("; the operator replaces the agents\n")


def test_what_cannot_be_predicted_is_not_made_up() -> None:
    unknown = replace(plan().nodes[0], prediction=None, running="stale")
    (_map, nodes) = plan_diff(replace(plan(), nodes=(unknown,)))
    assert "mps-eight by label; not predicted" in nodes["after"]
    assert "; agents stale" in nodes["before"]


def test_nothing_to_do_has_no_diff() -> None:
    settled = make_plan(Declaration((), None, (NodeGroup("t4", "mps-four", ("gpu-1",)),)), snapshot())
    assert plan_diff(settled) == []


def test_a_plans_data_is_plain_and_complete() -> None:
    data = plan_data(plan())
    assert json.loads(json.dumps(data)) == data
    assert data["summary"] == {
        "nodes": 1,
        "nodes_changed": 1,
        "labels_changed": 1,
        "config_map_changed": True,
        "policy_changed": False,
        "operator_rolls": False,
        "gpu_pods": 0,
        "admitted": True,
    }
    (node,) = data["nodes"]
    assert node["config"] == {"before": "mps-four", "after": "mps-eight"}
    assert node["allocatable"] == {"before": {"nvidia.com/gpu": 8}, "after": {"nvidia.com/gpu": 16}}
    assert node["labels"]["before"]["nvidia.com/gpu.replicas"] == "4" and node["labels"]["after"]["nvidia.com/gpu.replicas"] == "8"
    assert (node["thread_percentage"], node["memory_mib"], node["group"], node["running"]) == (12, 1920, "t4", "current")
    assert data["groups"] == {"t4": ["gpu-1"]}
    assert plan_data(make_plan(Declaration((), None, ()), snapshot(policies=())))["policy"] is None


def test_a_refusal_lists_every_error_with_code_place_and_remedy() -> None:
    error = finding("group-overlap", "mps_node_groups.a", "two groups", remedy="Choose one.")
    warning = finding("group-empty", "mps_node_groups.b")
    assert refusal([warning]) is None
    assert refusal([error, warning]) == "Nothing was written, because of 1 error:\n- two groups [group-overlap, mps_node_groups.a]. Choose one."
    text = refusal([error, error])
    assert text is not None and text.startswith("Nothing was written, because of 2 errors:\n")
