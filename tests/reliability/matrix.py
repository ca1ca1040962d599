# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fault against every operation, with one outcome for each pair."""

from __future__ import annotations

import tempfile
import time
import typing as t
from dataclasses import dataclass
from pathlib import Path

from tests.integration.ansible_runs import run_module
from tests.reliability.fault_proxy import FAULTS, WRITES, FaultProxy, Rule
from tests.reliability.operations import Operation
from tests.testbed.bed import TestBed

CONVERGED = "converged"
CLEAR_ERROR = "clear error, re-run converged"
# An operation that meets a short fault may take this much longer than its retries allow; more is an endless wait.
LONGEST_SECONDS = 240.0


@dataclass(frozen=True)
class Place:
    """Where in an operation a fault strikes, and how often."""

    name: str
    methods: tuple[str, ...]
    path: str = ".*"
    times: int = 2
    page_size: int | None = None


READS = Place("reads", ("GET",))
WRITING = Place("writes", WRITES)
WATCHES = Place("watches", ("GET",), path=r"watch=", times=3)
PAGES = Place("pages", ("GET",), path=r"continue=", times=1, page_size=1)

READ_FAULTS = tuple(name for name in FAULTS if name != "409" and name != "410-gone")
WRITE_FAULTS = tuple(name for name in FAULTS if name not in ("410-gone",))
WATCH_FAULTS = ("reset-before", "truncated-body", "410-gone", "503", "401", "429-retry-after")


@dataclass(frozen=True)
class Cell:
    """One pair of the matrix and how it ended."""

    operation: str
    place: str
    fault: str
    outcome: str
    seconds: float
    hits: int
    detail: str = ""

    @property
    def good(self) -> bool:
        """Whether the operation survived the fault."""
        return self.outcome in (CONVERGED, CLEAR_ERROR)


def pairs(operation: Operation) -> list[tuple[Place, str]]:
    """All the (place, fault) pairs that make sense for an operation."""
    found = [(READS, fault) for fault in READ_FAULTS] + [(PAGES, "410-gone")]
    if operation.writes:
        found += [(WRITING, fault) for fault in WRITE_FAULTS]
    if operation.watches:
        found += [(WATCHES, fault) for fault in WATCH_FAULTS]
    return found


def run_cell(bed: TestBed, operation: Operation, place: Place, fault: str) -> Cell:
    """Prepare, run under the fault, judge; where that ended in an error, run again without the fault and judge that."""
    bed.reset()
    operation.prepare(bed)
    with tempfile.TemporaryDirectory() as directory:
        with FaultProxy(bed.kubeconfig, Path(directory)) as proxy:
            proxy.page_size = place.page_size
            rule = Rule(FAULTS[fault], methods=place.methods, path=place.path, times=place.times)
            proxy.rules.append(rule)
            began = time.monotonic()
            result = run_module(bed, operation.module, operation.arguments, directory=Path(directory), kubeconfig=proxy.kubeconfig)
            seconds = time.monotonic() - began
        outcome, detail = _judge(bed, operation, result)
        if outcome == "error":
            again = run_module(bed, operation.module, operation.arguments, directory=Path(directory))
            second, more = _judge(bed, operation, again)
            outcome, detail = (CLEAR_ERROR, detail) if second == CONVERGED else (f"unknown: the re-run: {second}", more)
        if seconds > LONGEST_SECONDS:
            outcome = f"unknown: took {seconds:.0f} s"
    return Cell(operation.name, place.name, fault, outcome, seconds, rule.hits, detail)


def _judge(bed: TestBed, operation: Operation, result: t.Mapping[str, t.Any]) -> tuple[str, str]:
    """(converged | error | unknown: why, the message)."""
    message = str(result.get("msg", ""))
    if "Traceback" in str(result) or "MODULE FAILURE" in message:
        return "unknown: traceback", str(result)[-1500:]
    if result.get("failed"):
        said_what_to_do = bool(result.get("code") or result.get("findings") or result.get("state"))
        return ("error", message) if said_what_to_do and message else ("unknown: unclear error", str(result)[-800:])
    if not operation.converged(bed):
        return "unknown: success claimed, but not converged", str(result)[-800:]
    return CONVERGED, ""


def table(cells: t.Sequence[Cell]) -> str:
    """Fault x operation -> outcome, as Markdown."""
    columns = sorted({cell.operation for cell in cells})
    rows = sorted({(cell.place, cell.fault) for cell in cells})
    by_key = {(cell.place, cell.fault, cell.operation): cell for cell in cells}
    lines = ["| where | fault | " + " | ".join(columns) + " |", "|" + " --- |" * (len(columns) + 2)]
    for place, fault in rows:
        found = [by_key.get((place, fault, column)) for column in columns]
        lines.append(f"| {place} | {fault} | " + " | ".join(_text(cell) for cell in found) + " |")
    return "\n".join(lines)


def _text(cell: Cell | None) -> str:
    if cell is None:
        return "does not apply"
    untouched = "" if cell.hits else " (no such request)"
    return f"{cell.outcome}{untouched}, {cell.seconds:.0f} s"
