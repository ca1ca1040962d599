# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line: python -m tests.reliability [--operations a,b] [--places p,q] [--faults x,y]: the whole matrix, printed as a table."""

from __future__ import annotations

import argparse
import os
import sys

from tests.reliability import quiet
from tests.reliability.matrix import PLACES, Matrix, pairs, table
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
    options = parser.parse_args()
    wanted = set(filter(None, options.faults.split(",")))
    cells = []
    with Beds(options.bed) as beds:
        for name in options.operations.split(","):
            operation = OPERATIONS[name]
            for place, fault in pairs(operation):
                if place.name not in options.places.split(",") or (wanted and fault not in wanted):
                    continue
                cell = beds.matrix(operation).run(operation, place, fault)
                cells.append(cell)
                print(f"{name:14} {place.name:16} {fault:18} {cell.outcome} ({cell.seconds:.1f} s, {cell.hits} hits) {cell.detail[:1500]}", flush=True)
    print(table(cells))
    bad = [cell for cell in cells if not cell.good]
    print(f"{len(cells) - len(bad)} passed, {len(bad)} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
