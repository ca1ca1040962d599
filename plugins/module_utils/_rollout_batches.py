# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: which nodes are changed together, and after which others."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

_PERCENT = re.compile(r"([1-9][0-9]?|100)%")


def batch_count(size: int | str, total: int) -> int:
    """How many nodes a batch has: a number, or a percentage of C(total) rounded up, always at least one.

    C(size) is a positive number (C(3), C("3")) or a percentage from C("1%") to C("100%"). Raises ValueError otherwise.
    """
    text = str(size).strip()
    percent = _PERCENT.fullmatch(text)
    if percent:
        return max(1, math.ceil(total * int(percent.group(1)) / 100))
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise ValueError(f"'{size}' is neither a positive number of nodes nor a percentage from 1% to 100%")


def canary_nodes(canary: Sequence[str], nodes: Sequence[str]) -> tuple[str, ...]:
    """The nodes of the first batch. C(canary) is empty (no canary), one number or percentage, or names of nodes.

    Names of nodes that have nothing to do are left out: they cannot show anything. Raises ValueError for a single
    entry that looks like a number or percentage and is none.
    """
    if not canary:
        return ()
    if len(canary) == 1 and canary[0] not in nodes and re.fullmatch(r"[0-9]+%?", str(canary[0]).strip()):
        return tuple(nodes[: batch_count(canary[0], len(nodes))])
    return tuple(node for node in nodes if node in canary)


def order_nodes(nodes: Iterable[str], groups: Mapping[str, str | None], order: Sequence[str]) -> tuple[str, ...]:
    """The nodes by the wanted order of their groups; then the other groups, then nodes without one; names sort within a group."""
    places = {group: place for place, group in enumerate(order)}

    def place(node: str) -> tuple[int, str, str]:
        group = groups.get(node)
        if group is None:
            return (len(places) + 1, "", node)
        return (places.get(group, len(places)), group, node)

    return tuple(sorted(nodes, key=place))


def make_batches(nodes: Sequence[str], *, canary: Sequence[str] = (), batch_size: int | str, first: Sequence[str] = ()) -> tuple[tuple[str, ...], ...]:
    """The batches, in order: nodes that an earlier run left half done, the canary, then the rest.

    C(first) are the half-done nodes: they are disturbed already, so they come in batches of their own before anything
    else is touched. No batch after the canary is larger than C(batch_size), a number or a percentage of all C(nodes).
    """
    size = batch_count(batch_size, len(nodes))
    half_done = [node for node in nodes if node in set(first)]
    untouched = [node for node in nodes if node not in set(first)]
    canaries = canary_nodes(canary, untouched)
    rest = [node for node in untouched if node not in set(canaries)]
    batches = [*_chunks(half_done, size), canaries, *_chunks(rest, size)]
    return tuple(tuple(batch) for batch in batches if batch)


def _chunks(nodes: Sequence[str], size: int) -> list[Sequence[str]]:
    return [nodes[start : start + size] for start in range(0, len(nodes), size)]
