# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module that is told to end, or is killed, at one of its writes: before the server has seen it, or before its answer is read."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import typing as t
from pathlib import Path

from tests.reliability.direct import begin, call, end
from tests.reliability.fault_proxy import FAULTS, WRITES, FaultProxy, Rule
from tests.reliability.operations import LEASE, Operation
from tests.testbed.bed import TestBed

BEFORE, AFTER = "before", "after"
SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
# None of the modules writes so often on two nodes; a loop that never ends is a defect of its own.
MOST_WRITES = 60


def killed_at(bed: TestBed, operation: Operation, number: int, when: str, how: signal.Signals) -> tuple[bool, dict[str, t.Any]]:
    """(whether there was such a write, what the module had to say)."""
    with tempfile.TemporaryDirectory() as name, FaultProxy(bed.kubeconfig, bed.layout.certificates, Path(name)) as proxy:
        processes: list[subprocess.Popen[str]] = []

        def kill() -> None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(processes[0].pid, how)

        fault = FAULTS["reset-before" if when == BEFORE else "reset-after"]
        rule = Rule(fault, methods=WRITES, skip=number - 1, before=kill if when == BEFORE else None, after=kill if when == AFTER else None)
        proxy.rules.append(rule)
        processes.append(begin(operation.module, operation.arguments, kubeconfig=proxy.kubeconfig, directory=Path(name)))
        result = end(processes[0])
        return rule.hits > 0, result


def run_again(bed: TestBed, operation: Operation) -> dict[str, t.Any]:
    """The next run, straight to the API server."""
    with tempfile.TemporaryDirectory() as name:
        return call(operation.module, operation.arguments, kubeconfig=bed.kubeconfig, directory=Path(name))


def left_behind(bed: TestBed) -> list[str]:
    """What must not stay: cordoned nodes, a held Lease, clients of a proof."""
    nodes = [f"cordoned {node['metadata']['name']}" for node in bed.api.list("/api/v1/nodes") if node["spec"].get("unschedulable")]
    held = ((bed.api.find(LEASE) or {}).get("spec") or {}).get("holderIdentity")
    objects = bed.api.list("/apis/apps/v1/deployments") + bed.api.list("/api/v1/pods")
    clients = [item["metadata"]["name"] for item in objects if any(key.startswith("gpuops.mps/") for key in item["metadata"].get("labels", {}))]
    return [*nodes, *([f"Lease held by {held}"] if held else []), *clients]
