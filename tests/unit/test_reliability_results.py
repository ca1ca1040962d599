# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fault matrix is kept from run to run, and shows what was not run or did not end well."""

from __future__ import annotations

from pathlib import Path

from tests.reliability import results
from tests.reliability.matrix import CLEAR_ERROR, CONVERGED, Cell

KEY = ("config", "writes", "503")


def cell(outcome: str, hits: int = 2, fault: str = "503") -> Cell:
    return Cell("config", "writes", fault, outcome, seconds=3.4, hits=hits, detail="/some/file of this machine")


def test_a_later_run_of_a_cell_takes_the_place_of_the_former_one(tmp_path: Path) -> None:
    results.keep(tmp_path, cell("unknown: took 900 s"))
    results.keep(tmp_path, cell(CLEAR_ERROR, fault="409"))
    assert KEY in results.bad(results.load(tmp_path))
    results.keep(tmp_path, cell(CONVERGED))
    found = results.load(tmp_path)
    assert {key: one.outcome for key, one in found.items()} == {KEY: CONVERGED, ("config", "writes", "409"): CLEAR_ERROR}
    assert set(results.bad(found)) == set(results.every_key()) - set(found)


def test_a_cell_that_exists_no_longer_is_left_out(tmp_path: Path) -> None:
    results.keep(tmp_path, cell(CONVERGED))
    stored = tmp_path / "results.json"
    stored.write_text(stored.read_text(encoding="utf-8").replace('"503"', '"a fault of old"'), encoding="utf-8")
    assert results.load(tmp_path) == {}


def test_the_tables_name_what_was_not_run_and_what_the_fault_never_met(tmp_path: Path) -> None:
    results.keep(tmp_path, cell(CONVERGED))
    results.keep(tmp_path, cell(CONVERGED, hits=0, fault="409"))
    text = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert f"2 of {len(results.every_key())} cells were run: 1 converged, 1 unknown." in text
    assert "| 503 | converged, 3 s | not run |" in text and "| 409 | unknown: no such request, converged, 3 s | not run |" in text
    assert "some/file" not in text + (tmp_path / "results.json").read_text(encoding="utf-8")


def test_no_cell_is_good_that_has_not_met_its_fault() -> None:
    assert results.bad({KEY: cell(CONVERGED, hits=0)}) == results.every_key()
    assert len(results.bad({KEY: cell(CLEAR_ERROR)})) == len(results.every_key()) - 1
