# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rollout's record and the Lease that keeps two runs apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import BACK, FORWARD, ROLLOUT_ANNOTATION
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_record import (
    SCOPE_NODE,
    SCOPE_WHOLE,
    Hold,
    Record,
    hold_of,
    lease_body,
    read_record,
    write_record,
)

TEXT = st.text(min_size=1, max_size=12)
RECORDS = st.builds(
    Record,
    id=TEXT,
    started=TEXT,
    config_map=TEXT,
    policy=TEXT,
    former_config_name=st.text(max_size=5),
    former_config_default=st.text(max_size=5),
    direction=st.sampled_from([FORWARD, BACK]),
    scope=st.sampled_from([SCOPE_NODE, SCOPE_WHOLE]),
    batch=st.lists(TEXT, max_size=3).map(tuple),
    former_hashes=st.dictionaries(TEXT, st.none() | TEXT, max_size=3),
    pause_until=st.text(max_size=5),
    reasons=st.dictionaries(TEXT, TEXT, max_size=2),
    former_update_strategy=st.none() | TEXT,
    ended=st.none() | TEXT,
)


@given(RECORDS)
def test_records_survive(record: Record) -> None:
    """Written on a Lease and read again, a record is the same."""
    lease = lease_body("gpu-operator", "me", 30, 1_790_000_000.0, record)
    assert read_record(lease) == record
    assert lease["metadata"]["annotations"][ROLLOUT_ANNOTATION] == write_record(record)


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "{}", '{"id": 3}'])
def test_nonsense_is_no_record(text: str) -> None:
    """A Lease without a readable record belongs to no rollout."""
    assert read_record({"metadata": {"annotations": {ROLLOUT_ANNOTATION: text}}}) is None
    assert read_record(None) is None


@pytest.mark.parametrize(
    ("hold", "now", "free"),
    [
        (Hold("", 200.0), 100.0, True),
        (Hold("me", 200.0), 100.0, True),
        (Hold("other", 200.0), 100.0, False),
        (Hold("other", 200.0), 200.0, True),
    ],
)
def test_who_may_take_the_lease(hold: Hold, now: float, free: bool) -> None:
    """Nobody's, one's own, or one whose holder does not renew it any more."""
    assert hold.free_for("me", now) is free


def test_a_lease_holds_from_its_renewal_on() -> None:
    """The times go into the Lease and come out of it; a Lease without them is expired."""
    lease = lease_body("gpu-operator", "me", 30, 1_790_000_000.5, None)
    assert hold_of(lease) == Hold("me", 1_790_000_030.5)
    assert hold_of({"spec": {"holderIdentity": "x"}}) == Hold("x", 0.0)
    assert hold_of(None) == Hold("", 0.0)
