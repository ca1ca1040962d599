# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import Declaration, NodeGroup, SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import write_config
from ansible_collections.gpuops.mps.plugins.module_utils._drift import drift
from ansible_collections.gpuops.mps.plugins.module_utils._plan_build import make_plan
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import CONFIG_LABEL, Snapshot
from tests.unit import clusters
from tests.unit.clusters import config_map, gpu_node, policy, snapshot

NONE, FOUR = SharingConfig("none", Strategy.NONE), SharingConfig("mps-four", Strategy.MPS, 4)
DECLARED = Declaration((NONE, FOUR), "none", (NodeGroup("t4", "mps-four", ("gpu-1",)),))
MPS_LABELS = {**clusters.T4, **clusters.SHARED_BY_FOUR, CONFIG_LABEL: "mps-four"}
RECORD = {"gpuops.mps/applied": json.dumps({"config": "mps-four", "content": "x", "pods": {}, "rollout": "r", "at": "t"})}


def as_declared(**changes: Any) -> Snapshot:
    found = config_map(data={config.name: write_config(config) for config in (NONE, FOUR)})
    return snapshot(**{"config_map": found, "referred_map": found, **changes})


def codes(found: Snapshot, *, declared: bool = True) -> list[str]:
    return [one.code for one in drift(found, make_plan(DECLARED, found) if declared else None)]


def test_a_cluster_as_declared_has_not_drifted() -> None:
    assert codes(as_declared()) == []
    assert codes(as_declared(nodes=(gpu_node(annotations=RECORD),)), declared=False) == []


def test_a_policy_that_somebody_put_back_names_him() -> None:
    put_back = as_declared(policies=(policy(config_name="", config_default="", config_owner="helm"),), nodes=(gpu_node(annotations=RECORD),))
    found = drift(put_back, make_plan(DECLARED, put_back))
    assert found[0].code == "policy-put-back" and "'helm'" in found[0].message and found[0].subject == "clusterpolicy/cluster-policy"


def test_a_policy_before_any_rollout_is_only_not_as_declared() -> None:
    assert codes(as_declared(policies=(policy(config_default="mps-four", config_owner="helm"),))) == ["policy-not-as-declared"]


def test_an_edited_key_has_drifted() -> None:
    edited = config_map(data={"none": write_config(NONE), "mps-four": clusters.MPS_EIGHT})
    assert codes(as_declared(config_map=edited, referred_map=edited)) == ["map-not-as-declared"]


def test_a_label_changed_by_hand_names_who_did_it() -> None:
    changed = as_declared(nodes=(gpu_node(labels={**MPS_LABELS, CONFIG_LABEL: "none"}, label_owner="kubectl-label"),))
    found = drift(changed, make_plan(DECLARED, changed))
    assert [one.code for one in found] == ["label-changed-by-hand"] and "kubectl-label" in found[0].message


def test_a_new_node_in_no_group_is_forgotten_where_there_is_no_default() -> None:
    nodes = (gpu_node(), gpu_node("gpu-2", labels=clusters.T4, allocatable={"nvidia.com/gpu": 2}))
    assert codes(as_declared(nodes=nodes)) == []
    found = as_declared(nodes=nodes, policies=(policy(config_default=""),))
    without_default = Declaration(DECLARED.configs, None, DECLARED.groups)
    assert [one.code for one in drift(found, make_plan(without_default, found))] == ["node-without-group"]


def test_records_stand_in_for_a_declaration() -> None:
    cleared = as_declared(policies=(policy(config_name="", config_owner="argocd"),), nodes=(gpu_node(annotations=RECORD),))
    assert codes(cleared, declared=False) == ["policy-put-back"]
    relabelled = gpu_node(labels={**MPS_LABELS, CONFIG_LABEL: "none"}, label_owner="kubectl-label", annotations=RECORD)
    assert codes(as_declared(nodes=(relabelled,)), declared=False) == ["label-changed-by-hand"]


def test_a_label_that_was_never_rolled_out_is_nobodys_drift() -> None:
    assert codes(as_declared(nodes=(gpu_node(label_owner="kubectl-label"),)), declared=False) == []
