# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import stat
from pathlib import Path

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._report import make_report
from ansible_collections.gpuops.mps.plugins.module_utils._report_files import FORMS, plan_files, write_file
from tests.unit.reports import GOOD, PROOF, ROLLOUT, VERIFICATION

REPORT = make_report(VERIFICATION, ROLLOUT, PROOF)
LATER = make_report({**VERIFICATION, "read_at": "2026-12-01T11:22:33.123456+00:00"}, ROLLOUT, PROOF)
OTHER = make_report({**VERIFICATION, "nodes": [GOOD]}, ROLLOUT, PROOF)


def write_all(folder: Path) -> None:
    for file in plan_files(REPORT, folder, "sharing", FORMS):
        write_file(file.path, file.after)


def test_each_form_is_a_file(tmp_path: Path) -> None:
    files = plan_files(REPORT, tmp_path / "new", "sharing", FORMS)
    assert [file.path.name for file in files] == ["sharing.json", "sharing.md", "sharing.html", "sharing.xml"]
    assert all(file.changed and file.before is None for file in files)
    assert [file.path.name for file in plan_files(REPORT, tmp_path, "sharing", ["junit"])] == ["sharing.xml"]


def test_the_same_state_is_the_same_report(tmp_path: Path) -> None:
    write_all(tmp_path)
    for report in (REPORT, LATER):
        assert not any(file.changed for file in plan_files(report, tmp_path, "sharing", FORMS))
    assert all(file.changed for file in plan_files(OTHER, tmp_path, "sharing", FORMS))


def test_a_file_is_replaced_in_one_step_and_keeps_its_mode(tmp_path: Path) -> None:
    write_all(tmp_path)
    path = tmp_path / "sharing.html"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    path.chmod(0o600)
    write_file(path, "new")
    assert path.read_text() == "new" and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(file.name for file in tmp_path.iterdir()) == ["sharing.html", "sharing.json", "sharing.md", "sharing.xml"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write_all(tmp_path)
    before = (tmp_path / "sharing.md").read_text()
    with pytest.raises(UnicodeEncodeError):
        write_file(tmp_path / "sharing.md", "\ud800")
    assert (tmp_path / "sharing.md").read_text() == before and len(list(tmp_path.iterdir())) == 4


def test_a_file_that_is_no_text_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "sharing.md").write_bytes(b"\xff\xfe")
    assert plan_files(REPORT, tmp_path, "sharing", ["markdown"])[0].changed
