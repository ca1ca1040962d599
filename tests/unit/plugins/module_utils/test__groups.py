# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups: their members, the same whether sharing is on or off, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import Match, NodeGroup
from ansible_collections.gpuops.mps.plugins.module_utils._groups import listed, membership
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import Node
from tests.unit.clusters import SHARED_BY_FOUR, T4, gpu_node

PLAIN = gpu_node("gpu-1", labels={**T4, "pool": "a"}, allocatable={"nvidia.com/gpu": 2})
SHARED = gpu_node("gpu-1", labels={**T4, **SHARED_BY_FOUR, "pool": "a"})
OTHER = gpu_node(
    "gpu-2", labels={**T4, "nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.memory": "23034", "nvidia.com/gpu.family": "ada-lovelace", "pool": "b"}
)

GROUPS: tuple[dict[str, Any], ...] = (
    {"selectors": ("nvidia.com/gpu.product=Tesla-T4",)},
    {"selectors": ("nvidia.com/gpu.product=Tesla-T4-SHARED",)},
    {"selectors": ("nvidia.com/gpu.product in (Tesla-T4, Tesla-V100)",)},
    {"selectors": ("nvidia.com/gpu.product!=NVIDIA-L4",)},
    {"selectors": ("nvidia.com/gpu.product notin (NVIDIA-L4-SHARED)", "pool")},
    {"match": Match(product="Tesla-T4")},
    {"match": Match(product="Tesla-T4-SHARED")},
    {"match": Match(memory_at_least=15000, memory_at_most=16000)},
    {"match": Match(architecture="turing", count=2)},
    {"match": Match(labels=(("nvidia.com/gpu.product", "Tesla-T4"),))},
    {"match": Match(labels=(("pool", "a"),))},
    {"selectors": ("pool=a",), "match": Match(product="Tesla-T4")},
    {"nodes": ("gpu-1",)},
)


def members(cluster: tuple[Node, ...], **fields: Any) -> tuple[str, ...]:
    return membership([NodeGroup("group", "config", **{"nodes": (), "selectors": (), "match": None, **fields})], cluster).nodes_of["group"]


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_a_group_has_the_same_members_before_and_after_sharing(group: dict[str, Any]) -> None:
    assert members((PLAIN, OTHER), **group) == ("gpu-1",)
    assert members((SHARED, OTHER), **group) == ("gpu-1",)


@pytest.mark.parametrize(
    "group",
    [
        {"match": Match(product="Tesla-T4", architecture="ampere")},
        {"match": Match(memory_at_least=20000), "selectors": ("pool=a",)},
        {"match": Match(memory_at_most=15359)},
        {"match": Match(count=1)},
        {"nodes": ()},
    ],
    ids=str,
)
def test_every_condition_must_hold(group: dict[str, Any]) -> None:
    assert members((PLAIN,), **group) == ()


def test_a_fact_that_is_not_known_does_not_match() -> None:
    unknown = gpu_node("gpu-3", labels={"nvidia.com/gpu.present": "true"}, allocatable={})
    assert members((unknown,), match=Match(memory_at_least=1)) == ()
    assert members((unknown,), match=Match(count=1)) == ()


def codes(*groups: NodeGroup, nodes: tuple[Node, ...] = (PLAIN, OTHER)) -> dict[str, str]:
    return {found.code: found.message for found in membership(groups, nodes).findings}


def test_two_groups_must_not_give_one_node_two_configs() -> None:
    first = NodeGroup("t4", "mps-four", (), (), Match(product="Tesla-T4"))
    second = NodeGroup("lab", "none", ("gpu-1",), (), None)
    found = codes(first, second)
    assert found["group-overlap"] == "the groups 't4' (config 'mps-four') and 'lab' (config 'none') both contain 'gpu-1'"
    assert "gpu-1" not in membership((first, second), (PLAIN,)).group_of


def test_two_groups_with_one_config_may_share_nodes() -> None:
    first = NodeGroup("t4", "mps-four", (), (), Match(product="Tesla-T4"))
    second = NodeGroup("lab", "mps-four", ("gpu-1",), (), None)
    assert codes(first, second) == {}


def test_a_group_without_nodes_and_a_stranger_are_named() -> None:
    found = codes(NodeGroup("a100", "none", (), (), Match(product="A100")), NodeGroup("lab", "none", ("gpu-1", "gpu-70"), (), None))
    assert found["group-empty"] == "no GPU node belongs to the group 'a100'"
    assert found["node-unknown"] == "the group 'lab' lists 'gpu-70', which is not a GPU node"


@pytest.mark.parametrize(
    "group",
    [
        NodeGroup("moving", "none", (), ("nvidia.com/gpu.replicas=1",), None),
        NodeGroup("moving", "none", (), ("pool=a,!nvidia.com/device-plugin.config",), None),
        NodeGroup("moving", "none", (), (), Match(labels=(("nvidia.com/mps.capable", "false"),))),
    ],
    ids=str,
)
def test_a_group_that_its_own_config_would_change_is_refused(group: NodeGroup) -> None:
    assert "which changes when the group's config is applied" in codes(group)["group-unstable"]


@given(st.integers(1, 40))
def test_long_lists_of_names_are_cut_and_counted(count: int) -> None:
    text = listed([f"gpu-{number}" for number in range(count)])
    assert text.count("'gpu-") == min(count, 5)
    assert (f"and {count - 5} more" in text) == (count > 5)
