# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run Ansible against a test bed, as a user would: in a process of its own, answering with what it printed.

Nothing here is the cluster's administrator: whatever runs has the rights of docs/rbac that are meant for it, and no others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.rights import REPOSITORY, signed_in
from tests.testbed.bed import TestBed

COLLECTIONS = REPOSITORY / ".cache" / "collections"
SCRIPTS = Path(sys.executable).parent
RUN_SECONDS = 900
# What an account other than the operator's is meant for: reading, and everything that has to do with Helm.
ACCOUNT_OF = {
    **dict.fromkeys(("gpuops.mps.plan", "gpuops.mps.drift"), "reader"),
    **dict.fromkeys(("gpuops.mps.mps_info", "gpuops.mps.mps_plan_info", "gpuops.mps.mps_operator_info"), "reader"),
    **dict.fromkeys(("gpuops.mps.site", "gpuops.mps.remove"), "installer"),
}


@dataclass(frozen=True)
class AnsibleRun:
    """What one ansible-playbook process did: exit status, both outputs, and the results as the json callback saw them."""

    status: int
    output: str
    complaints: str
    document: Mapping[str, Any]

    @property
    def statistics(self) -> dict[str, int]:
        """The sums over all hosts: ok, changed, failures, unreachable, skipped, rescued, ignored."""
        sums: dict[str, int] = {}
        for host in self.document.get("stats", {}).values():
            for key, value in host.items():
                sums[key] = sums.get(key, 0) + value
        return sums

    @property
    def changed(self) -> int:
        """How many tasks report a change."""
        return self.statistics.get("changed", 0)

    def results(self) -> list[tuple[str, dict[str, Any]]]:
        """Return (task name, result) of every task on every host, in order."""
        return [(task["task"]["name"], result) for play in self.document.get("plays", []) for task in play["tasks"] for result in task["hosts"].values()]

    def result(self, task: str) -> dict[str, Any]:
        """Return the result of the last task whose name contains `task`. Raises LookupError."""
        found = [result for name, result in self.results() if task in name]
        if not found:
            raise LookupError(f"no task named like {task!r} ran: {[name for name, _result in self.results()]}\n{self.output}{self.complaints}")
        return found[-1]

    def failure(self) -> str:
        """Return the message of the task that failed, or what Ansible said if it did not get so far."""
        failed = [str(result.get("msg", result)) for _name, result in self.results() if result.get("failed")]
        return failed[-1] if failed else self.complaints + ("" if self.document else self.output)


def environment(kubeconfig: Path | None, **more: str) -> dict[str, str]:
    """Return the environment Ansible runs in: this checkout's collections, and the given cluster only."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "K8S_AUTH_", "KUBE"))}
    own = {
        "PATH": f"{SCRIPTS}{os.pathsep}{os.environ.get('PATH', '')}",
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_CONFIG": str(Path(__file__).with_name("ansible.cfg")),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
    }
    cluster = {"K8S_AUTH_KUBECONFIG": str(kubeconfig), "KUBECONFIG": str(kubeconfig)} if kubeconfig else {}
    return {**kept, **own, **cluster, **more}


def run_playbook(
    playbook: str | list[dict[str, Any]],
    bed: TestBed | None = None,
    *,
    variables: Mapping[str, Any] | None = None,
    check: bool = False,
    diff: bool = False,
    arguments: tuple[str, ...] = (),
    directory: Path,
    kubeconfig: Path | None = None,
    account: str = "",
    environ: Mapping[str, str] | None = None,
) -> AnsibleRun:
    """Run a playbook: a name (`gpuops.mps.site`), a path, or plays as data written into `directory`.

    It signs in as the account that is meant for it, or as the one named, or with the kubeconfig given.
    """
    account = account or (ACCOUNT_OF.get(playbook, "operator") if isinstance(playbook, str) else "operator")
    if not isinstance(playbook, str):
        path = directory / "playbook.json"  # JSON is YAML
        path.write_text(json.dumps(playbook))
        playbook = str(path)
    command = [str(SCRIPTS / "ansible-playbook"), playbook, *arguments]
    command += ["--extra-vars", json.dumps(variables)] if variables else []
    command += ["--check"] if check else []
    command += ["--diff"] if diff else []
    document = directory / "result.json"
    document.unlink(missing_ok=True)
    env = environment(kubeconfig or (signed_in(bed, account) if bed else None), **(environ or {}))
    env |= {"ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).parent / "callbacks"), "ANSIBLE_CALLBACKS_ENABLED": "result_file"}
    env |= {"RESULT_FILE": str(document)}
    answer = subprocess.run(command, capture_output=True, text=True, env=env, timeout=RUN_SECONDS, cwd=directory, check=False)
    content = json.loads(document.read_text()) if document.exists() else {}
    return AnsibleRun(answer.returncode, answer.stdout, answer.stderr, content)


def run_module(
    bed: TestBed | None,
    module: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    check: bool = False,
    diff: bool = False,
    directory: Path,
    kubeconfig: Path | None = None,
    account: str = "",
    environ: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run one module on localhost and return its result; a failed module's result has `failed: true`."""
    name = module if "." in module else f"gpuops.mps.{module}"
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "tasks": [{"name": "call", name: dict(arguments or {}), "ignore_errors": True}],
    }
    account = account or ACCOUNT_OF.get(name, "operator")
    run = run_playbook([play], bed, check=check, diff=diff, directory=directory, kubeconfig=kubeconfig, account=account, environ=environ)
    return run.result("call")
