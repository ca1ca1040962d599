# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the cells of the matrix came to, kept from run to run: the matrix takes hours, so it may be taken in parts, also at the same time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import typing as t
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from tests.reliability.matrix import CLEAR_ERROR, CONVERGED, FAULTS_AT, Cell, Place, pairs
from tests.reliability.operations import OPERATIONS

Key = tuple[str, str, str]  # operation, place, fault
SHORT = {CONVERGED: "converged", CLEAR_ERROR: "error, then converged"}
NOT_RUN = "not run"


def every_key() -> list[Key]:
    """All the cells that there are, in the order of the table."""
    return [(name, place.name, fault) for name, operation in OPERATIONS.items() for place, fault in pairs(operation)]


def load(directory: Path) -> dict[Key, Cell]:
    """The cells of earlier runs; those that exist no longer are left out."""
    with _locked(directory):
        return _stored(directory)


def keep(directory: Path, cell: Cell) -> None:
    """Put a cell in the place of its former one, and write the tables anew. Runs at the same time wait for each other.

    Without its detail, which names ports and temporary files of the machine.
    """
    with _locked(directory):
        cells = {**_stored(directory), (cell.operation, cell.place, cell.fault): cell}
        write(directory, {key: cells[key] for key in every_key() if key in cells})


@contextlib.contextmanager
def _locked(directory: Path) -> t.Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "results.json").open("a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _stored(directory: Path) -> dict[Key, Cell]:
    found = [Cell(**one) for one in json.loads((directory / "results.json").read_text(encoding="utf-8") or "[]")]
    cells = {(cell.operation, cell.place, cell.fault): cell for cell in found}
    return {key: cells[key] for key in every_key() if key in cells}


def write(directory: Path, cells: t.Mapping[Key, Cell]) -> None:
    """The cells as JSON, a line each, and as tables."""
    lines = [json.dumps({key: value for key, value in asdict(cell).items() if key != "detail"}) for cell in cells.values()]
    (directory / "results.json").write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    (directory / "results.md").write_text(markdown(cells), encoding="utf-8")


def bad(cells: t.Mapping[Key, Cell]) -> list[Key]:
    """The cells that have not been run, or did not end well."""
    return [key for key in every_key() if key not in cells or not cells[key].good]


def markdown(cells: t.Mapping[Key, Cell]) -> str:
    """A table for each place, fault x operation -> outcome and seconds."""
    count = Counter(SHORT[cell.outcome] if cell.good else "unknown" for cell in cells.values())
    counted = ", ".join(f"{number} {outcome}" for outcome, number in sorted(count.items()))
    lines = ["# Every fault in every operation", "", f"{len(cells)} of {len(every_key())} cells were run: {counted or 'none'}.", ""]
    lines += ["Written by `python -m tests.reliability`; [what the words mean](../reliability.md).", ""]
    for place, faults in FAULTS_AT.items():
        columns = [name for name, operation in OPERATIONS.items() if (place, faults[0]) in pairs(operation)]
        lines += [f"## {place.name}", "", f"| fault | {' | '.join(columns)} |", "|" + " --- |" * (len(columns) + 1)]
        lines += [_row(cells, place, fault, columns) for fault in faults]
        lines.append("")
    return "\n".join(lines)


def _row(cells: t.Mapping[Key, Cell], place: Place, fault: str, columns: t.Sequence[str]) -> str:
    texts = [_text(cells.get((column, place.name, fault))) for column in columns]
    return f"| {fault} | " + " | ".join(texts) + " |"


def _text(cell: Cell | None) -> str:
    if cell is None:
        return NOT_RUN
    untouched = "" if cell.hits else "unknown: no such request, "
    return f"{untouched}{SHORT.get(cell.outcome, cell.outcome)}, {cell.seconds:.0f} s"
