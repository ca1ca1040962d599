# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fixed part of the fault matrix, and kills at every write of the modules that write one thing.

The whole matrix is `make test-reliability`.
"""

from __future__ import annotations

from collections.abc import Callable
from signal import Signals

import pytest

from tests.reliability import quiet
from tests.reliability.kills import AFTER, BEFORE, MOST_WRITES, SIGNALS, killed_at, left_behind, run_again
from tests.reliability.matrix import (
    CLEAR_ERROR,
    CONNECTIONS,
    CONNECTIONS_FOR_EVER,
    CONVERGED,
    PAGES,
    READS,
    WRITES_FOR_EVER,
    WRITING,
    Matrix,
    Place,
)
from tests.reliability.operations import OPERATIONS
from tests.testbed.bed import TestBed

# A creation that may have happened is not sent again; changes to fixed values are.
SOME_CELLS = [
    ("config", WRITING, "reset-after", CLEAR_ERROR),
    ("config", WRITING, "no-json", CLEAR_ERROR),
    ("config", READS, "token-rotated", CONVERGED),
    ("config", PAGES, "410-gone", CONVERGED),
    ("config", CONNECTIONS_FOR_EVER, "tls-untrusted", CLEAR_ERROR),
    ("policy", WRITING, "504-after-acting", CONVERGED),
    ("policy", READS, "no-json", CONVERGED),
    ("nodes", WRITING, "409", CONVERGED),
    ("nodes", WRITING, "reset-after", CONVERGED),
    ("nodes", WRITES_FOR_EVER, "401", CLEAR_ERROR),
    ("nodes", CONNECTIONS, "tls-handshake", CONVERGED),
    ("policy-absent", WRITES_FOR_EVER, "409", CLEAR_ERROR),
]
WRITERS = ("config", "policy", "nodes", "config-absent", "policy-absent", "nodes-absent")


@pytest.fixture(scope="module")
def bed(two_nodes: TestBed) -> TestBed:
    """The bed on which nothing moves by itself."""
    return two_nodes


@pytest.fixture(scope="module")
def matrix(bed: TestBed) -> Matrix:
    """The matrix on that bed."""
    return Matrix(bed, quiet.reset)


@pytest.mark.parametrize(("operation", "place", "fault", "outcome"), SOME_CELLS, ids=lambda value: value.name if isinstance(value, Place) else str(value))
def test_an_operation_survives_a_fault(matrix: Matrix, operation: str, place: Place, fault: str, outcome: str) -> None:
    cell = matrix.run(OPERATIONS[operation], place, fault)
    assert cell.hits, "the fault was not met"
    assert cell.outcome == outcome, cell.detail


SOME_KILLS = {("config", "SIGINT"), ("nodes", "SIGKILL"), ("policy-absent", "SIGTERM")}
KILLS = [
    pytest.param(operation, how, id=f"{operation}-{how.name}", marks=() if (operation, how.name) in SOME_KILLS else pytest.mark.reliability)
    for operation in WRITERS
    for how in SIGNALS
]


@pytest.mark.parametrize(("operation", "how"), KILLS)
def test_a_run_killed_at_any_write_is_finished_by_the_next(bed: TestBed, operation: str, how: Signals) -> None:
    for when in (BEFORE, AFTER):
        number = finish_after_kills(bed, operation, when, how)
        assert number >= 1


def finish_after_kills(bed: TestBed, operation: str, when: str, how: Signals, reset: Callable[[TestBed], None] = quiet.reset) -> int:
    """Kill at the first write, at the second and so on, each time run again and look; returns how many writes there were."""
    wanted = OPERATIONS[operation]
    for number in range(1, MOST_WRITES):
        reset(bed)
        wanted.prepare(bed)
        met, result = killed_at(bed, wanted, number, when, how)
        if not met:
            return number - 1
        assert result.get("signal") or result.get("failed") or wanted.converged(bed, result), result
        if how.name != "SIGKILL":
            assert not left_behind(bed), f"left behind after {how.name} {when} write {number}"
        again = run_again(bed, wanted)
        assert not again.get("failed"), f"the run after the one killed {when} write {number}: {again['msg']}"
        assert wanted.converged(bed, again), f"not converged after a kill {when} write {number}"
        assert not left_behind(bed)
    raise AssertionError(f"more than {MOST_WRITES} writes")
