# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One module in a process of its own, without Ansible around it: it starts sooner, and can be killed where it stands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

from tests.integration.ansible_runs import COLLECTIONS

RUN_SECONDS = 900
MODULES = "ansible_collections.gpuops.mps.plugins.modules"


def begin(
    module: str, arguments: t.Mapping[str, t.Any], *, kubeconfig: Path, directory: Path, check: bool = False, diff: bool = False
) -> subprocess.Popen[str]:
    """Start a module; its arguments are in a file, as Ansible hands them over."""
    path = directory / "arguments.json"
    given = {"kubeconfig": str(kubeconfig), **arguments, "_ansible_check_mode": check, "_ansible_diff": diff}
    path.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": given}), encoding="utf-8")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "K8S_AUTH_", "KUBE"))}
    return subprocess.Popen(
        [sys.executable, "-m", f"{MODULES}.{module}", str(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**kept, "PYTHONPATH": str(COLLECTIONS)},
    )


def end(process: subprocess.Popen[str]) -> dict[str, t.Any]:
    """Wait for a module's end and return its result, with its complaints as ``stderr``; what was killed has its ``signal``."""
    output, complaints = process.communicate(timeout=RUN_SECONDS)
    lines = [line for line in output.splitlines() if line.startswith("{")]
    result = json.loads(lines[-1]) if lines else {}
    ended = {"signal": -process.returncode} if process.returncode < 0 else {}
    return {**result, **ended, "stderr": complaints}


def call(module: str, arguments: t.Mapping[str, t.Any], *, kubeconfig: Path, directory: Path, check: bool = False, diff: bool = False) -> dict[str, t.Any]:
    """Run a module to its end."""
    return end(begin(module, arguments, kubeconfig=kubeconfig, directory=directory, check=check, diff=diff))
