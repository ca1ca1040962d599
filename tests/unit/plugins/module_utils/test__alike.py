# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows that are alike are told once, and nothing is lost by that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._alike import told_once

SMALL = st.dictionaries(st.sampled_from(["a", "b"]), st.one_of(st.none(), st.booleans(), st.integers(0, 1), st.lists(st.sampled_from(["", "0"]), max_size=1)))


def test_entries_come_in_the_order_of_their_first_node_with_the_names_first() -> None:
    found = told_once([("n1", {"a": 1, "b": {"x": [2]}}), ("n2", {"a": 2}), ("n3", {"b": {"x": [2]}, "a": 1})])
    assert found == [{"names": ["n1", "n3"], "a": 1, "b": {"x": [2]}}, {"names": ["n2"], "a": 2}]
    assert list(found[0]) == ["names", "a", "b"]


@given(st.lists(SMALL))
def test_every_row_can_be_told_from_the_entries(rows: list[dict[str, object]]) -> None:
    """Values that Python takes for equal (1 and true) are kept apart."""
    entries = told_once((str(number), row) for number, row in enumerate(rows))
    told = {name: {key: value for key, value in entry.items() if key != "names"} for entry in entries for name in entry["names"]}
    assert repr([sorted(told[str(number)].items()) for number in range(len(rows))]) == repr([sorted(row.items()) for row in rows])
    assert len(entries) == len({repr(sorted(row.items())) for row in rows})
