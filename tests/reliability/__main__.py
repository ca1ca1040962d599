# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line: python -m tests.reliability [--operations a,b] [--places p,q] [--faults x,y] [--missing]: the matrix, kept as tables.

The tables hold what earlier runs came to as well; `--missing` runs only what they do not have, or have with a bad end.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.reliability import quiet, results
from tests.reliability.matrix import PLACES, Matrix
from tests.reliability.operations import OPERATIONS, Operation
from tests.testbed.bed import TestBed


class Beds:
    """A bed with agents and one without, each started when the first operation needs it."""

    def __init__(self, kept: str) -> None:
        self._kept = kept
        self._started: dict[bool, tuple[TestBed, Matrix]] = {}

    def __enter__(self) -> Beds:
        return self

    def __exit__(self, *_unused: object) -> None:
        for bed, _matrix in self._started.values() if not self._kept else ():
            bed.stop()

    def matrix(self, operation: Operation) -> Matrix:
        """The matrix on the bed that fits the operation."""
        if operation.agents not in self._started:
            self._started[operation.agents] = self._with_agents() if operation.agents else self._quiet()
        return self._started[operation.agents][1]

    def _quiet(self) -> tuple[TestBed, Matrix]:
        bed = quiet.start(f"{self._kept or os.getpid()}-quiet")
        return bed, Matrix(bed, quiet.reset)

    def _with_agents(self) -> tuple[TestBed, Matrix]:
        bed = TestBed.start(f"{self._kept or os.getpid()}-reliability", nodes=str(quiet.NODES), instant=True)
        bed.install_operator_objects()
        bed.wait_until_settled()
        return bed, Matrix(bed)


def main() -> int:
    """Run the chosen part of the matrix; 0 when every cell is good."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", default=",".join(OPERATIONS), help="comma separated; all by default")
    parser.add_argument("--places", default=",".join(PLACES), help="comma separated; all by default")
    parser.add_argument("--faults", default="", help="comma separated; all by default")
    parser.add_argument("--bed", default="", help="name of a bed that is left running for the next time; by default one is started and stopped")
    parser.add_argument("--missing", action="store_true", help="only the cells that have not been run, or ended badly")
    parser.add_argument("--output", type=Path, default=Path("docs/reliability"), help="where the tables are kept")
    options = parser.parse_args()
    chosen = [key for key in results.every_key() if is_chosen(key, options)]
    if options.missing:
        wanting = results.bad(results.load(options.output))
        chosen = [key for key in chosen if key in wanting]
    with Beds(options.bed) as beds:
        for name, place, fault in chosen:
            cell = beds.matrix(OPERATIONS[name]).run(OPERATIONS[name], PLACES[place], fault)
            results.keep(options.output, cell)
            print(f"{name:14} {place:20} {fault:24} {cell.outcome} ({cell.seconds:.1f} s, {cell.hits} hits) {cell.detail[:1500]}", flush=True)
    print((options.output / "results.md").read_text(encoding="utf-8"))
    failed = [key for key in results.bad(results.load(options.output)) if key in chosen]
    print(f"{len(chosen) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def is_chosen(key: results.Key, options: argparse.Namespace) -> bool:
    """Whether the command line names this cell."""
    name, place, fault = key
    wanted = list(filter(None, options.faults.split(",")))
    return name in options.operations.split(",") and place in options.places.split(",") and (not wanted or fault in wanted)


if __name__ == "__main__":
    sys.exit(main())
