# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which failed requests are sent again, and when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._retry import (
    LONGEST_PAUSE_SECONDS,
    TRANSIENT_STATUSES,
    Outcome,
    may_retry,
    pause_before,
    retry_after_seconds,
)


@pytest.mark.parametrize(
    ("outcome", "idempotent", "guarded", "expected"),
    [
        (Outcome(429), False, True, True),  # refused before any work was done
        (Outcome(None, sent=False), False, True, True),  # never reached the server
        (Outcome(None), True, False, True),
        (Outcome(None), False, False, False),  # a creation may have happened
        (Outcome(503), True, True, True),
        (Outcome(503), False, False, False),
        (Outcome(409), True, False, True),
        (Outcome(409), True, True, False),  # somebody else's change is for the caller to judge
        (Outcome(403), True, False, False),
        (Outcome(404), True, False, False),
        (Outcome(422), True, False, False),
        (Outcome(410), True, False, False),
    ],
)
def test_only_what_cannot_do_harm_is_sent_again(outcome: Outcome, idempotent: bool, guarded: bool, expected: bool) -> None:
    assert may_retry(outcome, idempotent=idempotent, guarded=guarded) is expected


@given(status=st.integers(400, 599), guarded=st.booleans())
def test_a_request_that_must_not_be_repeated_is_only_repeated_after_a_refusal(status: int, guarded: bool) -> None:
    assert may_retry(Outcome(status), idempotent=False, guarded=guarded) is (status == 429)


@given(status=st.one_of(st.none(), st.integers(400, 599)), sent=st.booleans())
def test_an_answer_is_ambiguous_only_when_the_server_may_have_done_it(status: int | None, sent: bool) -> None:
    assert Outcome(status, sent).ambiguous == (sent and (status is None or status in TRANSIENT_STATUSES))


@given(attempt=st.integers(1, 30), share=st.floats(0, 1))
def test_pauses_grow_up_to_a_bound_and_never_vanish(attempt: int, share: float) -> None:
    pause = pause_before(attempt, Outcome(503), share)
    assert 0.1 < pause <= LONGEST_PAUSE_SECONDS
    assert pause_before(attempt + 1, Outcome(503), share) >= pause


def test_the_servers_own_wish_wins() -> None:
    assert pause_before(1, Outcome(429, retry_after=17.0), 0.5) == 17.0


@pytest.mark.parametrize(("text", "seconds"), [("3", 3.0), ("0", 0.0), ("-1", 0.0), ("", None), ("Mon, 30 Nov 2026 10:00:00 GMT", None)])
def test_the_header_is_read_in_seconds(text: str, seconds: float | None) -> None:
    assert retry_after_seconds({"Retry-After": text} if text else {}) == seconds
