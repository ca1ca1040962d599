# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fault against every operation, with one outcome for each pair."""

from __future__ import annotations

import subprocess
import tempfile
import time
import typing as t
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.integration.ansible_runs import run_module
from tests.reliability.direct import call
from tests.reliability.fault_proxy import FAULTS, WRITES, FaultProxy, Rule
from tests.reliability.operations import Operation
from tests.testbed.bed import TestBed

CONVERGED = "converged"
CLEAR_ERROR = "clear error, re-run converged"
# An operation may take this much longer than one request's retries allow; more is an endless wait. One that waits for
# agents may meet the fault in each of its phases, the way back included.
LONGEST_SECONDS = 240.0
LONGEST_SLOW_SECONDS = 600.0
# A quiet rollout of two nodes sends about a hundred requests; a client that asks again without a pause sends thousands.
MOST_REQUESTS = 1500
ALWAYS = 10**9


@dataclass(frozen=True)
class Place:
    """Where in an operation a fault strikes, and how often."""

    name: str
    methods: tuple[str, ...]
    path: str = ".*"
    times: int = 2
    page_size: int | None = None
    single_use: bool = False


READS = Place("reads", ("GET",))
WRITING = Place("writes", WRITES)
WATCHES = Place("watches", ("GET",), path=r"watch=", times=3)
PAGES = Place("pages", ("GET",), path=r"continue=", times=1, page_size=1)
# Not the first connection: that one is made once, and what fails there is told at once.
CONNECTIONS = Place("connections", ("GET",), times=2, single_use=True)
READS_FOR_EVER = Place("reads for ever", ("GET",), times=ALWAYS)
WRITES_FOR_EVER = Place("writes for ever", WRITES, times=ALWAYS)
WATCHES_FOR_EVER = Place("watches for ever", ("GET",), path=r"watch=", times=ALWAYS)
EVERYTHING = Place("everything", ("GET", *WRITES), times=ALWAYS)
CONNECTIONS_FOR_EVER = Place("connections for ever", ("GET",), times=ALWAYS, single_use=True)

_SHORT = ("429-retry-after", "429", "500", "502", "503", "504", "504-after-acting", "reset-before", "reset-after", "truncated-body", "slow-body")
FAULTS_AT: t.Mapping[Place, tuple[str, ...]] = {
    READS: (*_SHORT, "no-json", "no-answer", "401", "token-rotated"),
    PAGES: ("410-gone", "503"),
    WRITING: (*_SHORT, "no-json", "401", "token-rotated", "409"),
    WATCHES: ("reset-before", "truncated-body", "410-gone", "410-event", "503", "401", "token-rotated", "429-retry-after", "watch-closed", "no-json"),
    CONNECTIONS: ("tls-handshake", "tls-untrusted"),
    EVERYTHING: ("clock-behind", "clock-ahead"),
    READS_FOR_EVER: ("503", "reset-before", "401", "429-retry-after-an-hour", "no-json"),
    WRITES_FOR_EVER: ("503", "reset-after", "401", "409", "429"),
    WATCHES_FOR_EVER: ("watch-closed", "watch-silent", "410-gone"),
    CONNECTIONS_FOR_EVER: ("tls-untrusted",),
}
PLACES = {place.name: place for place in FAULTS_AT}


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
        """Whether the operation met the fault and survived it."""
        return self.outcome in (CONVERGED, CLEAR_ERROR) and self.hits > 0


def pairs(operation: Operation) -> list[tuple[Place, str]]:
    """All the (place, fault) pairs that make sense for an operation."""
    unfit = {
        *(() if operation.writes else (WRITING, WRITES_FOR_EVER)),
        *(() if operation.watches else (WATCHES, WATCHES_FOR_EVER)),
        *(() if operation.pages else (PAGES,)),
    }
    places = [place for place in FAULTS_AT if place not in unfit]
    return [(place, fault) for place in places for fault in FAULTS_AT[place]]


class Matrix:
    """Runs cells on one bed, brought back by ``reset``; a bed that a reader has left as it found it is not prepared again."""

    def __init__(self, bed: TestBed, reset: t.Callable[[TestBed], None] = TestBed.reset) -> None:
        self._bed = bed
        self._reset = reset
        self._ready_for: t.Callable[[TestBed], None] | None = None
        self._usual: dict[str, Counter[tuple[str, str]]] = {}

    def run(self, operation: Operation, place: Place, fault: str) -> Cell:
        """One cell; an operation that happened to have no occasion for such a request (nothing to wait for) gets two more chances."""
        for _chance in range(3):
            cell = self._run_or_fail(operation, place, fault)
            if cell.hits:
                break
        return cell

    def _run_or_fail(self, operation: Operation, place: Place, fault: str) -> Cell:
        """A run that has not ended, or an answer that nobody can judge, is a bad cell and not the end of the matrix."""
        began = time.monotonic()
        try:
            return self._run(operation, place, fault)
        except (subprocess.TimeoutExpired, AssertionError, LookupError, TypeError, ValueError) as error:
            self._ready_for = None
            return Cell(operation.name, place.name, fault, f"unknown: {type(error).__name__}", time.monotonic() - began, 1, str(error))

    def _run(self, operation: Operation, place: Place, fault: str) -> Cell:
        """Prepare, run under the fault, judge; where that ended in an error, run again without the fault and judge that."""
        if operation.writes and operation.name not in self._usual:
            self._prepare(operation)
            self._usual[operation.name] = self._undisturbed(operation)
        self._prepare(operation)
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            with FaultProxy(self._bed.kubeconfig, self._bed.layout.certificates, directory) as proxy:
                proxy.page_size, proxy.single_use = place.page_size, place.single_use
                if operation.meanwhile:
                    proxy.rules.append(Rule(FAULTS["none"], path="watch=", before=lambda: operation.meanwhile(self._bed)))  # type: ignore[misc]
                # A second rotation, or a second minute of silence, would show nothing new.
                times = min(place.times, 1) if FAULTS[fault].rotates_token or FAULTS[fault].body == "hang" else place.times
                rule = Rule(FAULTS[fault], methods=place.methods, path=place.path, times=times)
                proxy.rules.append(rule)
                since, began = self._bed.mark(), time.monotonic()
                result = self._call(operation, directory, proxy.kubeconfig)
                seconds, requests = time.monotonic() - began, len(proxy.requests)
            outcome, detail = self._judge(operation, result)
            if outcome == CONVERGED and operation.writes and (twice := self._effects(since) - self._usual[operation.name]):
                outcome = f"unknown: done more than once: {dict(twice)}"
            if outcome == "error":
                outcome, detail = self._again(operation, directory, detail)
        longest = LONGEST_SLOW_SECONDS if operation.slow else LONGEST_SECONDS
        if seconds > longest:
            outcome = f"unknown: took {seconds:.0f} s"
        if requests > MOST_REQUESTS:
            outcome = f"unknown: sent {requests} requests"
        return Cell(operation.name, place.name, fault, outcome, seconds, rule.hits, detail)

    def _prepare(self, operation: Operation) -> None:
        if operation.writes or operation.meanwhile or self._ready_for is not operation.prepare:
            self._ready_for = None
            self._reset(self._bed)
            operation.prepare(self._bed)
        if not operation.writes and not operation.meanwhile:
            self._ready_for = operation.prepare

    def _call(self, operation: Operation, directory: Path, kubeconfig: Path | None = None) -> dict[str, t.Any]:
        if operation.action:
            return run_module(self._bed, operation.module, operation.arguments, directory=directory, kubeconfig=kubeconfig)
        return call(operation.module, operation.arguments, directory=directory, kubeconfig=kubeconfig or self._bed.kubeconfig)

    def _again(self, operation: Operation, directory: Path, said: str) -> tuple[str, str]:
        """How a run without the fault ends after the one that failed."""
        if operation.meanwhile:
            operation.meanwhile(self._bed)
        second, more = self._judge(operation, self._call(operation, directory))
        return (CLEAR_ERROR, said) if second == CONVERGED else (f"unknown: the re-run: {second}", f"{said} ... {more}")

    def _undisturbed(self, operation: Operation) -> Counter[tuple[str, str]]:
        """What the operation creates, evicts and deletes when nothing is in its way."""
        since = self._bed.mark()
        with tempfile.TemporaryDirectory() as name:
            outcome, detail = self._judge(operation, self._call(operation, Path(name)))
        assert outcome == CONVERGED, f"{operation.name} without a fault: {outcome}: {detail}"
        return self._effects(since)

    def _effects(self, since: int) -> Counter[tuple[str, str]]:
        """Creations and evictions that the API server carried out; patches and deletions by uid may be repeated without an effect."""
        done = [event for event in self._bed.audit(since) if event.mutating and event.code < 300 and event.user_agent.startswith("gpuops.mps")]
        return Counter((event.resource, event.subresource) for event in done if event.verb == "create" and event.subresource != "exec")

    def _judge(self, operation: Operation, result: t.Mapping[str, t.Any]) -> tuple[str, str]:
        """(converged | error | unknown: why, the message)."""
        message = str(result.get("msg", ""))
        if "Traceback" in str(result) or not (result.get("failed") or "changed" in result) or "MODULE FAILURE" in message:
            return "unknown: traceback or no answer", str(result)[-1500:]
        if result.get("failed"):
            said_what_to_do = bool(result.get("code") or result.get("findings") or result.get("state"))
            return ("error", message) if said_what_to_do and message else ("unknown: unclear error", str(result)[-800:])
        if not operation.converged(self._bed, result):
            return "unknown: success claimed, but not converged", str(result)[-800:]
        return CONVERGED, ""
