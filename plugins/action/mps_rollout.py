# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the module mps_rollout in slices of a few seconds, so that progress shows while a rollout waits.

All state of a rollout lies on the cluster's objects, so a slice is nothing but the module run again. The kubeconfig is
looked up on the controller by the action of kubernetes.core.k8s_info, as for every other module of this collection.
"""

from __future__ import annotations

import os
import secrets
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

SLICE_SECONDS = 15
IN_PROGRESS = "in_progress"

display = Display()


class ActionModule(ActionBase):
    """The action of gpuops.mps.mps_rollout."""

    _requires_connection = True

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run slices until the rollout has ended, and return the last one's result with everything that was shown."""
        result = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        holder, parent = f"task-{secrets.token_hex(8)}", os.getppid()
        wanted = int(arguments.get("batches") or 0)
        changed, done, number, progress = False, 0, 0, []
        while True:
            part = {"seconds": SLICE_SECONDS, "holder": holder, "number": number}
            self._task.args = {**arguments, "slice": part, "batches": max(0, wanted - done)}
            try:
                found = self._one_slice(task_vars)
            finally:
                self._task.args = arguments
            changed = changed or bool(found.get("changed"))
            done += found.get("batches_done") or 0
            for line in found.get("progress") or ():
                progress.append(line)
                display.display(f"{self._task.get_name()}: {line}")
            if found.get("failed") or found.get("state") != IN_PROGRESS or 0 < wanted <= done:
                break
            # A worker is in a session of its own (ansible-core 2.19 and later) and outlives an ansible-playbook that is killed.
            if os.getppid() != parent:
                raise AnsibleActionFail("ansible-playbook was killed; the rollout stands where it is, and the next run continues it")
            number += 1
        result.update(found)
        result.update(changed=changed, progress=progress)
        return result

    def _one_slice(self, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        action = self._shared_loader_obj.action_loader.get(
            "kubernetes.core.k8s_info",
            task=self._task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        return action.run(task_vars=task_vars)
