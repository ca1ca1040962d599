# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action that writes reports, within this process."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar

from ansible_collections.gpuops.mps.plugins.action.mps_report import ARGUMENT_SPEC, ActionModule
from ansible_collections.gpuops.mps.plugins.modules import mps_report
from tests.unit.reports import GOOD, VERIFICATION


def act(*, check: bool = False, diff: bool = False, **arguments: Any) -> dict[str, Any]:
    """The result of the action."""
    task = Task()
    task.action, task.args, task.check_mode, task.diff = "gpuops.mps.mps_report", arguments, check, diff
    loader = DataLoader()
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))  # the action makes no use of it, its base class looks at it
    plugin = ActionModule(task=task, connection=connection, play_context=None, loader=loader, templar=Templar(loader), shared_loader_obj=None)
    return plugin.run(task_vars={})


def test_files_are_written_once(tmp_path: Path) -> None:
    first = act(verification=VERIFICATION, folder=str(tmp_path / "reports"))
    assert first["changed"] and first["state"] == "not right" and first["counts"]["broken"] == 1
    assert sorted(path.name for path in (tmp_path / "reports").iterdir()) == ["gpu-sharing.html", "gpu-sharing.json", "gpu-sharing.md"]
    again = act(verification={**VERIFICATION, "read_at": "2026-12-24T10:00:00Z"}, folder=str(tmp_path / "reports"))
    assert not again["changed"] and again["files"] == first["files"]


def test_check_mode_tells_the_truth_and_writes_nothing(tmp_path: Path) -> None:
    assert act(check=True, verification=VERIFICATION, folder=str(tmp_path))["changed"]
    assert not list(tmp_path.iterdir())
    act(verification=VERIFICATION, folder=str(tmp_path))
    assert not act(check=True, verification=VERIFICATION, folder=str(tmp_path))["changed"]


def test_the_diff_is_that_of_the_files(tmp_path: Path) -> None:
    act(verification=VERIFICATION, folder=str(tmp_path), forms=["markdown"])
    (diff,) = act(diff=True, verification={**VERIFICATION, "nodes": [GOOD]}, folder=str(tmp_path), forms=["markdown"])["diff"]
    assert "gpu-2" in diff["before"] and "gpu-2" not in diff["after"].split("## Findings")[0]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AnsibleActionFail, match="the report cannot be written.*folder you may write to"):
        act(verification=VERIFICATION, folder=str(tmp_path / "file"))


def test_a_name_is_no_path(tmp_path: Path) -> None:
    with pytest.raises(AnsibleActionFail, match="is not the name of a file"):
        act(verification=VERIFICATION, folder=str(tmp_path), name="../elsewhere")


def test_the_documentation_has_the_options_of_the_action() -> None:
    documented = yaml.safe_load(mps_report.DOCUMENTATION)["options"]
    for name, spec in ARGUMENT_SPEC.items():
        assert {key: value for key, value in documented[name].items() if key != "description"} == spec
    assert set(documented) == set(ARGUMENT_SPEC)
