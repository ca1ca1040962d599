# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the report of a verification on the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.gpuops.mps.plugins.module_utils._report import FINDINGS_URL, make_report
from ansible_collections.gpuops.mps.plugins.module_utils._report_files import FORMS, ReportFile, plan_files, write_file

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "verification": {"type": "dict", "required": True},
    "rollout": {"type": "dict"},
    "proof": {"type": "dict"},
    "folder": {"type": "path", "required": True},
    "name": {"type": "str", "default": "gpu-sharing"},
    "title": {"type": "str", "default": "GPU sharing"},
    "forms": {"type": "list", "elements": "str", "choices": list(FORMS), "default": ["json", "markdown", "html"]},
    "findings_url": {"type": "str", "default": FINDINGS_URL},
}


class ActionModule(ActionBase):
    """Needs no connection: the files are for the people who run Ansible."""

    _requires_connection = False
    TRANSFERS_FILES = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Write the files that change; in check mode only say which."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
        if Path(options["name"]).name != options["name"]:
            raise AnsibleActionFail(f"name '{options['name']}' is not the name of a file; the folder goes into 'folder'")
        report = make_report(options["verification"], options["rollout"], options["proof"], title=options["title"], findings_url=options["findings_url"])
        try:
            files = plan_files(report, Path(options["folder"]), options["name"], options["forms"])
            for file in files if not self._task.check_mode else ():
                if file.changed:
                    write_file(file.path, file.after)
        except OSError as error:
            where = f"Check that '{options['folder']}' is a folder you may write to"
            raise AnsibleActionFail(f"the report cannot be written: {error.strerror}: {error.filename}. {where}") from error
        result.update(changed=any(file.changed for file in files), files=[str(file.path) for file in files], state=report.state, counts=dict(report.counts))
        if self._task.diff:
            result["diff"] = [_diff(file) for file in files if file.changed]
        return result


def _diff(file: ReportFile) -> dict[str, str]:
    return {"before_header": str(file.path), "after_header": str(file.path), "before": file.before or "", "after": file.after}
