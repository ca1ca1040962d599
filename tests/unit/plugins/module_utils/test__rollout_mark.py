# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout writes on nodes and on its Lease survives the way there and back, and nonsense is nobody's state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import (
    APPLIED_ANNOTATION,
    BACK,
    CHANGING,
    FORWARD,
    ROLLOUT_ANNOTATION,
    Applied,
    Former,
    Mark,
    read_applied,
    read_mark,
    write_annotation,
)

TEXT = st.text(max_size=12)
OPTIONAL = st.none() | TEXT
FORMERS = st.builds(
    Former,
    label=OPTIONAL,
    config=OPTIONAL,
    source=TEXT,
    content=OPTIONAL,
    daemon=st.booleans(),
    features=st.dictionaries(TEXT, TEXT, max_size=3),
    allocatable=st.dictionaries(TEXT, st.integers(0, 500), max_size=3),
)
MARKS = st.builds(
    Mark,
    rollout=TEXT,
    direction=st.sampled_from([FORWARD, BACK]),
    state=TEXT,
    label=OPTIONAL,
    config=OPTIONAL,
    content=OPTIONAL,
    former=FORMERS,
    replaced=st.dictionaries(TEXT, TEXT, max_size=3),
    deadline=TEXT,
    cordoned=st.booleans(),
    touched=st.booleans(),
    reason=TEXT,
)
APPLIED = st.builds(
    Applied,
    config=OPTIONAL,
    content=OPTIONAL,
    pods=st.dictionaries(TEXT, OPTIONAL, max_size=3),
    rollout=TEXT,
    at=TEXT,
    former=st.none() | FORMERS,
    returned=st.booleans(),
    reason=TEXT,
    label=OPTIONAL,
)


@given(MARKS)
def test_marks_survive(mark: Mark) -> None:
    """Written and read again, a mark is the same."""
    assert read_mark({ROLLOUT_ANNOTATION: write_annotation(mark)}) == mark


@given(APPLIED)
def test_records_of_verified_nodes_survive(applied: Applied) -> None:
    """Written and read again, the record is the same."""
    assert read_applied({APPLIED_ANNOTATION: write_annotation(applied)}) == applied


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", "null", "{}", '{"former": 3}', '{"former": [], "rollout": "x"}', "[" * 100_000])
def test_nonsense_is_no_mark(text: str) -> None:
    """Anybody may write annotations."""
    assert read_mark({ROLLOUT_ANNOTATION: text}) is None


@given(st.recursive(st.none() | st.booleans() | st.integers() | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)))
def test_any_json_is_read_without_an_error(value: object) -> None:
    """Fields of another kind than expected never raise."""
    import json

    fields = ("rollout", "direction", "state", "label", "replaced", "deadline", "cordoned", "pods", "former", "features", "allocatable")
    text = json.dumps(dict.fromkeys(fields, value) | {"former": dict.fromkeys(fields, value)})
    mark = read_mark({ROLLOUT_ANNOTATION: text})
    assert mark is not None and mark.state == str(value)
    assert read_applied({APPLIED_ANNOTATION: text}) is not None
    assert mark.state != CHANGING or value == CHANGING
