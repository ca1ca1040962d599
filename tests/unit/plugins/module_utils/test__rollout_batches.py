# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes are changed together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._rollout_batches import batch_count, canary_nodes, make_batches, order_nodes

NODES = ("a", "b", "c", "d", "e")


@pytest.mark.parametrize(
    ("size", "total", "count"),
    [(1, 10, 1), ("3", 10, 3), (30, 10, 30), ("10%", 10, 1), ("10%", 11, 2), ("1%", 5, 1), ("100%", 7, 7), ("50%", 0, 1), (" 2 ", 9, 2)],
)
def test_sizes(size: int | str, total: int, count: int) -> None:
    """A number as it is; a percentage rounded up, at least one."""
    assert batch_count(size, total) == count


@pytest.mark.parametrize("size", [0, -1, "0", "0%", "101%", "ten", "", "1.5", "٣"])
def test_sizes_that_mean_nothing(size: int | str) -> None:
    """Everything else is refused, foreign digits included."""
    with pytest.raises(ValueError, match="neither a positive number"):
        batch_count(size, 10)


@pytest.mark.parametrize(
    ("canary", "nodes"),
    [((), ()), (("2",), ("a", "b")), (("40%",), ("a", "b")), (("c", "a"), ("a", "c")), (("nobody",), ()), (("9",), NODES)],
)
def test_canaries(canary: tuple[str, ...], nodes: tuple[str, ...]) -> None:
    """By count, by percentage, by name; names that have nothing to do are left out."""
    assert canary_nodes(canary, NODES) == nodes


def test_a_node_may_be_named_like_a_number() -> None:
    """A node of that name is meant before a number is."""
    assert canary_nodes(("2",), ("1", "2", "3")) == ("2",)


def test_order_by_group() -> None:
    """Named groups first, then the others, then nodes without a group."""
    groups = {"a": None, "b": "late", "c": "first", "d": "other", "e": "first"}
    assert order_nodes(NODES, groups, ["first", "late"]) == ("c", "e", "b", "d", "a")


def test_half_done_nodes_come_before_the_canary() -> None:
    """They are disturbed already; nothing else is touched before they are through."""
    assert make_batches(NODES, canary=("1",), batch_size=2, first=("d", "b", "e")) == (("b", "d"), ("e",), ("a",), ("c",))


@given(
    nodes=st.lists(st.text("abcdef", min_size=1, max_size=3), unique=True, max_size=30),
    size=st.one_of(st.integers(1, 9), st.integers(1, 100).map("{}%".format)),
    canary=st.integers(0, 5),
    first=st.integers(0, 30),
)
def test_batches_hold_every_node_once(nodes: list[str], size: int | str, canary: int, first: int) -> None:
    """Every node in exactly one batch, and no batch but the canary larger than wanted."""
    batches = make_batches(nodes, canary=(str(canary),) if canary else (), batch_size=size, first=nodes[:first])
    assert sorted(node for batch in batches for node in batch) == sorted(nodes)
    assert all(batch for batch in batches)
    assert all(len(batch) <= max(batch_count(size, len(nodes)), canary) for batch in batches)
