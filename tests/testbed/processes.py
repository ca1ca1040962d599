# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, find and stop the processes of one test bed.

Which processes run is read from /proc, never believed from a file: every process carries its bed's directory and
its own name in its environment, so that a bed is found again, whole or in parts, whoever was killed in between.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

BED_VARIABLE = "GPUOPS_MPS_TESTBED"
NAME_VARIABLE = "GPUOPS_MPS_TESTBED_PROCESS"
STOP_SECONDS = 2.0


def start(name: str, command: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None) -> int:
    """Start `command` in a session of its own, its output going to logs/<name>.log; return its process id."""
    logs = directory / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    marks = {BED_VARIABLE: str(directory), NAME_VARIABLE: name}
    with open(logs / f"{name}.log", "ab") as log:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {}), **marks},
            start_new_session=True,
            cwd="/",
        )
    # The kernel closes our end of the pipe before it lays out the new environment: wait until the mark can be read.
    while process.poll() is None and name not in running(directory):
        time.sleep(0.01)
    return process.pid


def running(directory: Path) -> dict[str, int]:
    """Return name -> process id of the bed's own processes (not of what they started themselves)."""
    return {name: pid for pid, name in _marked(directory) if _leads_session(pid)}


def stop(directory: Path) -> None:
    """End every process of the bed and everything they started: SIGTERM first, SIGKILL after a while."""
    deadline = time.monotonic() + STOP_SECONDS
    signalled: set[int] = set()
    while pids := {pid for pid, _name in _marked(directory)}:
        for pid in pids - signalled:
            _signal(pid, signal.SIGTERM)
        signalled |= pids
        if time.monotonic() > deadline:
            for pid in pids:
                _signal(pid, signal.SIGKILL)
        time.sleep(0.1)


def _marked(directory: Path) -> Iterator[tuple[int, str]]:
    """Yield (process id, name) of every living process that carries the bed's mark."""
    mark = f"{BED_VARIABLE}={directory}".encode()
    name_mark = f"{NAME_VARIABLE}=".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            variables = Path("/proc", entry, "environ").read_bytes().split(b"\0")
        except OSError:  # gone meanwhile, or another user's
            continue
        if mark in variables and not _is_zombie(int(entry)):
            names = [v[len(name_mark) :].decode() for v in variables if v.startswith(name_mark)]
            yield int(entry), names[0] if names else ""


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat after the command name: state, parent, group, session, ..."""
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _is_zombie(pid: int) -> bool:
    """Tell whether the process has ended and only waits for its parent to notice."""
    fields = _stat(pid)
    if fields and fields[0] == "Z":
        with contextlib.suppress(OSError):
            os.waitpid(pid, os.WNOHANG)
    return not fields or fields[0] in "ZX"


def _leads_session(pid: int) -> bool:
    fields = _stat(pid)
    return bool(fields) and fields[3] == str(pid)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
