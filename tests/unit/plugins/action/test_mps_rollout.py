# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action that runs a rollout in slices, within this process; what a slice does is tested on the test bed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar

from ansible_collections.gpuops.mps.plugins.action import mps_rollout


class Slices:
    """Stands for the action that runs the module: gives one result after the other and keeps what it was asked."""

    def __init__(self, *results: dict[str, Any]) -> None:
        self.results = list(results)
        self.asked: list[dict[str, Any]] = []

    def get(self, _name: str, *, task: Task, **_places: Any) -> Slices:
        self.asked.append(dict(task.args))
        return self

    def run(self, task_vars: Any) -> dict[str, Any]:
        return self.results.pop(0)


def act(slices: Slices, **arguments: Any) -> dict[str, Any]:
    """The result of the action."""
    task, loader = Task(), DataLoader()
    task.action, task.args = "gpuops.mps.mps_rollout", arguments
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))  # the action makes no use of it, its base class looks at it
    plugin = mps_rollout.ActionModule(task=task, connection=connection, play_context=None, loader=loader, templar=Templar(loader), shared_loader_obj=None)
    plugin._shared_loader_obj = SimpleNamespace(action_loader=slices)
    result = plugin.run(task_vars={})
    assert task.args == arguments
    return result


def a_slice(state: str, changed: bool = False, done: int = 0, *progress: str) -> dict[str, Any]:
    return {"state": state, "changed": changed, "batches_done": done, "progress": list(progress)}


def test_slices_are_run_until_the_rollout_has_ended_and_are_told_as_one() -> None:
    slices = Slices(a_slice("in_progress", True, 1, "first"), a_slice("in_progress", False, 0, "second"), a_slice("verified", False, 1, "third"))
    result = act(slices, configs={})
    assert (result["state"], result["changed"], result["progress"]) == ("verified", True, ["first", "second", "third"])
    assert [asked["slice"]["number"] for asked in slices.asked] == [0, 1, 2]
    assert len({asked["slice"]["holder"] for asked in slices.asked}) == 1


def test_wanted_batches_are_counted_over_all_slices() -> None:
    slices = Slices(a_slice("in_progress", True, 1), a_slice("in_progress", True, 2))
    assert act(slices, configs={}, batches=3)["state"] == "in_progress"
    assert [asked["batches"] for asked in slices.asked] == [3, 2]


def test_a_worker_whose_playbook_was_killed_begins_no_other_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """From ansible-core 2.19 on a worker is in a session of its own, and lives on when ansible-playbook is killed."""
    parents = iter((4711, 1))
    monkeypatch.setattr(mps_rollout.os, "getppid", lambda: next(parents))
    slices = Slices(a_slice("in_progress", True, 1), a_slice("verified", True, 1))
    with pytest.raises(AnsibleActionFail, match="ansible-playbook was killed.*next run continues"):
        act(slices, configs={})
    assert len(slices.asked) == 1
