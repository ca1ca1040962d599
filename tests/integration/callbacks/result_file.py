# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to the collection's tests: write every task's whole result as JSON into $RESULT_FILE.

The json callback prints to standard output, where warnings and a playbook's own output would mix with it.
"""

from __future__ import annotations

DOCUMENTATION = r"""
name: result_file
type: aggregate
short_description: Write all results as JSON into a file
description:
  - Writes one JSON document with plays, tasks, results and statistics into the file named by the environment variable E(RESULT_FILE).
"""

import json
import os
from typing import Any

from ansible.parsing.ajson import AnsibleJSONEncoder
from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    """Collect results and write them at the end."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "result_file"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.plays: list[dict[str, Any]] = []

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Open a play."""
        self.plays.append({"play": play.get_name(), "tasks": []})

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """Open a task."""
        self.plays[-1]["tasks"].append({"task": {"name": task.get_name().strip()}, "hosts": {}})

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        """Open a handler as any other task."""
        self.v2_playbook_on_task_start(task, False)

    v2_playbook_on_cleanup_task_start = v2_playbook_on_handler_task_start

    def _keep(self, result: Any, **more: Any) -> None:
        content = {**result._result, **more}
        self.plays[-1]["tasks"][-1]["hosts"][result._host.name] = content

    def v2_runner_on_ok(self, result: Any) -> None:
        """Keep a good result."""
        self._keep(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Keep a failure."""
        self._keep(result, failed=True)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Keep an unreachable host."""
        self._keep(result, unreachable=True)

    def v2_runner_on_skipped(self, result: Any) -> None:
        """Keep a skipped task."""
        self._keep(result, skipped=True)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Write the document."""
        summary = {host: stats.summarize(host) for host in stats.processed}
        with open(os.environ["RESULT_FILE"], "w", encoding="utf-8") as document:
            json.dump({"plays": self.plays, "stats": summary}, document, cls=AnsibleJSONEncoder)
