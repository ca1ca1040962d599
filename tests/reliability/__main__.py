# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line: python -m tests.reliability [--operations a,b] [--places p,q] [--faults x,y]: the whole matrix, printed as a table."""

from __future__ import annotations

import argparse
import os
import sys

from tests.reliability.matrix import PLACES, Matrix, pairs, table
from tests.reliability.operations import OPERATIONS
from tests.reliability.quiet import NODES
from tests.testbed.bed import TestBed


def main() -> int:
    """Run the chosen part of the matrix; 0 when every cell is good."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", default=",".join(OPERATIONS), help="comma separated; all by default")
    parser.add_argument("--places", default=",".join(PLACES), help="comma separated; all by default")
    parser.add_argument("--faults", default="", help="comma separated; all by default")
    parser.add_argument("--bed", default="", help="name of a bed that is left running for the next time; by default one is started and stopped")
    options = parser.parse_args()
    wanted = set(filter(None, options.faults.split(",")))
    bed = TestBed.start(options.bed or f"reliability-{os.getpid()}", nodes=str(NODES), instant=True)
    cells = []
    try:
        bed.install_operator_objects()
        bed.wait_until_settled()
        matrix = Matrix(bed)
        for name in options.operations.split(","):
            for place, fault in pairs(OPERATIONS[name]):
                if place.name not in options.places.split(",") or (wanted and fault not in wanted):
                    continue
                cells.append(matrix.run(OPERATIONS[name], place, fault))
                cell = cells[-1]
                print(f"{name:14} {place.name:16} {fault:18} {cell.outcome} ({cell.seconds:.1f} s, {cell.hits} hits) {cell.detail[:1500]}", flush=True)
    finally:
        if not options.bed:
            bed.stop()
    print(table(cells))
    bad = [cell for cell in cells if not cell.good]
    print(f"{len(cells) - len(bad)} passed, {len(bad)} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
