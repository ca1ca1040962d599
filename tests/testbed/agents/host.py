# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of one node that outlives its pods: daemons, compute modes, registered resources, allocations, published labels.

It is written to a file after every change. The agents read it back after a restart, and the commands that `kubectl exec` runs
(bin/) answer from it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tests.testbed.agents.hardware import Gpu
from tests.testbed.agents.kubelet import Allocation, Registration
from tests.testbed.agents.mps_daemon import Daemon


@dataclass
class Host:
    """Everything here is what a reboot of the agents must not lose."""

    daemons: dict[str, Daemon] = field(default_factory=dict)  # by pipe directory; only those that answer
    owner: str = ""  # uid of the pod whose daemons these are
    exclusive: set[str] = field(default_factory=set)  # indices of the GPUs in EXCLUSIVE_PROCESS
    registrations: dict[str, Registration] = field(default_factory=dict)
    allocations: list[Allocation] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)  # keys that discovery published

    def start_daemons(self, owner: str, daemons: tuple[Daemon, ...]) -> None:
        self.owner = owner
        self.daemons = {daemon.pipe_directory: daemon for daemon in daemons}
        self.exclusive |= {index for daemon in daemons for index in daemon.devices}

    def stop_daemons(self) -> None:
        """An orderly stop sets the GPUs back to DEFAULT."""
        self.exclusive -= {index for daemon in self.daemons.values() for index in daemon.devices}
        self.daemons = {}

    def kill_daemons(self) -> None:
        """A killed daemon leaves EXCLUSIVE_PROCESS behind, and a pipe that nobody answers."""
        self.daemons = {}

    def as_json(self, gpus: tuple[Gpu, ...]) -> dict[str, Any]:
        return {
            "daemons": {pipe: asdict(daemon) for pipe, daemon in self.daemons.items()},
            "owner": self.owner,
            "exclusive": sorted(self.exclusive),
            "registrations": {name: asdict(item) for name, item in self.registrations.items()},
            "allocations": [asdict(item) for item in self.allocations],
            "labels": self.labels,
            "gpus": [_gpu_facts(index, gpu) for index, gpu in enumerate(gpus)],
        }


def host_from_json(data: dict[str, Any]) -> Host:
    """The state as it was written."""
    return Host(
        daemons={pipe: _daemon(item) for pipe, item in data["daemons"].items()},
        owner=data["owner"],
        exclusive=set(data["exclusive"]),
        registrations={name: Registration(**{**item, "devices": tuple(item["devices"])}) for name, item in data["registrations"].items()},
        allocations=[Allocation(**{**item, "devices": tuple(item["devices"])}) for item in data["allocations"]],
        labels=list(data["labels"]),
    )


def _daemon(item: dict[str, Any]) -> Daemon:
    memory = tuple((index, limit) for index, limit in item["memory_mib"])
    return Daemon(item["resource"], item["thread_percentage"], memory, tuple(item["devices"]))


def _gpu_facts(index: int, gpu: Gpu) -> dict[str, Any]:
    return {
        "index": str(index),
        "name": gpu.product,
        "uuid": f"GPU-{index:08d}-0000-4000-8000-{abs(hash_text(gpu.product)):012d}",
        "memory_mib": gpu.memory_mib,
        "compute": ".".join(map(str, gpu.compute or ())),
        "mig_enabled": gpu.mig_enabled,
    }


def hash_text(text: str) -> int:
    """A stable number below 10**12 (Python's own hash changes with every process)."""
    return int.from_bytes(text.encode(), "big") % 10**12
