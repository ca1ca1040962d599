# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: which failed requests may be sent again, and when. Pure."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

# Seconds that one request may spend on being retried before its failure is reported.
RETRY_SECONDS = 60.0
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 8.0
# A server that asks for more patience than this gets it only up to the request's deadline.
TRANSIENT_STATUSES = frozenset({408, 500, 502, 503, 504})


@dataclass(frozen=True)
class Outcome:
    """How one attempt ended without success.

    ``status`` is the HTTP status, None when no answer came. ``sent`` is False only when the request surely never reached
    the server (connection refused, name not resolved). ``retry_after`` is the server's header in seconds.
    """

    status: int | None
    sent: bool = True
    retry_after: float | None = None

    @property
    def ambiguous(self) -> bool:
        """Whether the server may have carried the request out although it failed for the caller."""
        return self.sent and (self.status is None or self.status in TRANSIENT_STATUSES)


def may_retry(outcome: Outcome, *, idempotent: bool, guarded: bool) -> bool:
    """Whether sending the same request again cannot do harm.

    ``idempotent``: doing it twice leaves the same state (reads, merge patches to fixed values, deletions by uid).
    ``guarded``: the request carries a resource version, so that a conflict means somebody else's change and is for the
    caller to judge. A 429 is always refused before any work is done (API priority and fairness), so it may be sent again.
    """
    if outcome.status == 429 or not outcome.sent:
        return True
    if outcome.status == 409:
        return idempotent and not guarded
    return idempotent and outcome.ambiguous


def pause_before(attempt: int, outcome: Outcome, random_share: float) -> float:
    """Seconds to wait before attempt number ``attempt`` (the first retry is 1).

    The server's Retry-After wins; else the pause doubles up to a bound. ``random_share`` between 0 and 1 spreads clients
    so that they do not come back together.
    """
    if outcome.retry_after is not None:
        return outcome.retry_after
    longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
    return longest * (0.5 + 0.5 * random_share)


def retry_after_seconds(headers: t.Mapping[str, str]) -> float | None:
    """The Retry-After header in seconds, None when it is absent or a date (the API server sends seconds)."""
    text = headers.get("Retry-After") or ""
    try:
        return max(0.0, float(text))
    except ValueError:
        return None
