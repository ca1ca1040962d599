# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node templates of a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig
from ansible_collections.gpuops.mps.plugins.module_utils._gpu import Gpus
from ansible_collections.gpuops.mps.plugins.module_utils._plan import ConfigMapPlan, NodePlan, Plan, Selection
from ansible_collections.gpuops.mps.plugins.module_utils._plan_advice import node_templates
from tests.unit.samples import A100, MIXED, NO_SHARING, SLICES, T4, judge, mps


def node(name: str, config: SharingConfig, gpus: Gpus, **changes: Any) -> NodePlan:
    wanted = Selection(config.name, "label")
    plan = NodePlan(
        node=name,
        group=None,
        label_now=None,
        label_wanted=config.name,
        now=Selection(None, "none"),
        wanted=wanted,
        content_now=None,
        content_wanted="0123456789",
        running="current",
        steps=(),
        prediction=judge(config, gpus),
        allocatable_now={},
        labels_now={},
    )
    return replace(plan, **changes)


def templates(*nodes: NodePlan) -> list[dict[str, Any]]:
    return node_templates(Plan(ConfigMapPlan("gpu-operator", "mps-configs", True, "1"), None, nodes, ()))


def test_nodes_of_one_kind_and_config_are_one_template() -> None:
    five = replace(mps(5), name="five")
    found = templates(node("a", five, T4), node("b", mps(6, rename_by_default=True), A100), node("c", five, T4))
    assert [(one["config"], one["product"], one["gpus"], one["nodes"]) for one in found] == [
        ("five", "Tesla-T4", 2, 2),
        ("shared", "NVIDIA-A100-SXM4-40GB", 4, 1),
    ]
    assert found[0]["advice"]["capacity"] == {"nvidia.com/gpu": 10}
    assert found[1]["advice"]["capacity"] == {"nvidia.com/gpu.shared": 24}
    assert found[1]["advice"]["labels"] == {"nvidia.com/device-plugin.config": "shared"}
    assert (found[0]["advice"]["better_replicas"], found[1]["advice"]["better_replicas"]) == (None, 5)


def test_the_number_of_gpus_and_the_memory_tell_kinds_apart() -> None:
    larger = replace(T4, memory_mib=16384)
    found = templates(node("a", mps(4), T4), node("b", mps(4), replace(T4, count=4, total=4)), node("c", mps(4), larger))
    assert [(one["gpus"], one["advice"]["memory_mib"]) for one in found] == [(2, 3840), (2, 4096), (4, 3840)]


def test_nodes_without_a_template() -> None:
    unknown = replace(T4, compute=None)
    assert templates(node("a", NO_SHARING, T4), node("b", SLICES, T4), node("c", mps(49), T4), node("d", mps(4), MIXED)) == []
    assert templates(node("e", mps(4), unknown), node("f", mps(4), replace(T4, compute=(6, 1))), node("g", mps(4), replace(T4, count=0))) == []
    assert templates(node("h", mps(4), T4, prediction=None), node("i", mps(4), T4, wanted=Selection(None, "none"))) == []
