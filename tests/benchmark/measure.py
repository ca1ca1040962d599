# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one command and count what it cost: time, CPU, memory, requests by verb and bytes received."""

from __future__ import annotations

import collections
import json
import os
import re
import subprocess
import sys
import typing as t
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.bed import TestBed

LAUNCHER = Path(__file__).with_name("launch.py")
SIZE_METRIC = re.compile(r"^apiserver_response_sizes_sum\{[^}]*\} (\S+)$", re.MULTILINE)


class CommandFailed(Exception):
    """A contestant did not do its work; the message ends with what it printed."""


@dataclass(frozen=True)
class Sample:
    """One run: seconds of wall and client CPU time, peak resident MiB, requests by verb, MiB received.

    ``scale`` is 1 for a run over all nodes; a contestant too slow for that ran on a sample and its figures are multiplied by it,
    except ``start_wall`` and ``start_cpu``: what the program takes before it looks at the first node.
    """

    wall: float
    cpu: float
    rss: float
    requests: t.Mapping[str, int]
    received: float
    scale: float = 1.0
    start_wall: float = 0.0
    start_cpu: float = 0.0

    @property
    def whole_wall(self) -> float:
        """Seconds for all nodes."""
        return self.start_wall + max(self.wall - self.start_wall, 0.0) * self.scale

    @property
    def whole_cpu(self) -> float:
        """CPU seconds for all nodes."""
        return self.start_cpu + max(self.cpu - self.start_cpu, 0.0) * self.scale

    @property
    def mutating(self) -> int:
        """Requests that could have changed the cluster."""
        return sum(self.requests.get(verb, 0) for verb in ("create", "update", "patch", "delete", "deletecollection"))


def measure(bed: TestBed, command: t.Sequence[str], environment: t.Mapping[str, str], *, users: t.Collection[str] = ("admin",)) -> Sample:
    """Run ``command`` against the bed and count. Raises CommandFailed when it does not end with 0."""
    mark, received = bed.mark(), _bytes_sent(bed)
    launched = subprocess.run(
        [sys.executable, str(LAUNCHER), *command],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    text, _newline, figures = launched.stdout.rstrip("\n").rpartition("\n")
    cost = json.loads(figures)
    if cost["code"] != 0:
        raise CommandFailed(f"{' '.join(command[:6])} … ended with {cost['code']}:\n{text[-3000:]}")
    received = _bytes_sent(bed) - received
    # The bed's own components keep talking; only the contestant's user counts.
    requests = collections.Counter(event.verb + (" dry-run" if event.dry_run else "") for event in bed.audit(mark) if event.user in users)
    return Sample(cost["wall"], cost["cpu"], cost["rss"], dict(requests), received / 2**20)


def _bytes_sent(bed: TestBed) -> float:
    """Bytes that the API server has sent in answers so far, to everybody: an upper bound for one client."""
    return sum(float(value) for value in SIZE_METRIC.findall(str(bed.api.request("GET", "/metrics"))))


def versions(programs: t.Mapping[str, t.Sequence[str]]) -> dict[str, str]:
    """The first line that each program prints of its version."""
    found = {}
    for name, command in programs.items():
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        found[name] = (answer.stdout or answer.stderr).strip().splitlines()[0]
    return found


def machine() -> dict[str, str]:
    """What the numbers were taken on."""
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text(encoding="ascii"))
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return {
        "processor": model.group(1) if model else os.uname().machine,
        "cores": str(os.cpu_count()),
        "memory": f"{int(memory.group(1)) // 2**20} GiB" if memory else "unknown",
        "load before": f"{os.getloadavg()[0]:.1f}",
    }
