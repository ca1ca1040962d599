# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The MPS control daemon of a node: which daemons it starts, with which limits, and what it refuses.

Rules: k8s-device-plugin cmd/mps-control-daemon (v0.15 to v0.20 alike).
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.testbed.agents.config_file import Config
from tests.testbed.agents.device_map import Device, DeviceMapError, Resource, resources
from tests.testbed.agents.hardware import Gpu

CAP = 48
CAP_BEFORE_TURING = 16
TURING = (7, 5)
PIPE_ROOT = "/mps"


class DaemonError(ValueError):
    """The pod's main process ends with code 1; the message is its own."""


@dataclass(frozen=True)
class Daemon:
    """One running control daemon: thread percentage for all its GPUs, pinned memory limit in MiB by device index."""

    resource: str
    thread_percentage: int
    memory_mib: tuple[tuple[str, int], ...]
    devices: tuple[str, ...]

    @property
    def pipe_directory(self) -> str:
        return pipe_directory(self.resource)


def pipe_directory(resource: str) -> str:
    return f"{PIPE_ROOT}/{resource}/pipe"


def replica_cap(compute: tuple[int, int] | None) -> int:
    """mps/device.go: 48 from compute capability 7.5 on, else 16."""
    return CAP if compute is not None and compute >= TURING else CAP_BEFORE_TURING


def daemons(gpus: tuple[Gpu, ...], config: Config, mig_strategy: str) -> tuple[Daemon, ...]:
    """One daemon per shared resource; none when the config does not share by MPS. Raises DaemonError."""
    if config.strategy != "mps":
        return ()
    try:
        found = resources(gpus, config, mig_strategy)
    except DeviceMapError as error:
        raise DaemonError(f"error getting daemons: error building device map: error building device map from config.resources: {error}") from None
    shared = tuple(resource for resource in found if resource.replicas > 1)
    for resource in shared:
        _check_cap(resource)
    return tuple(_daemon(resource) for resource in shared)


def _check_cap(resource: Resource) -> None:
    for device in resource.devices:
        cap = replica_cap(device.compute)
        if resource.replicas > cap and not device.is_mig:
            raise DaemonError(
                f"error getting daemons: invalid MPS configuration: invalid device maximum allowed replicas exceeded: {resource.replicas} > {cap}"
            )


def _daemon(resource: Resource) -> Daemon:
    return Daemon(
        resource=resource.name,
        thread_percentage=100 // resource.replicas,
        memory_mib=tuple((device.index, _limit(device, resource.replicas)) for device in resource.devices if device.memory_bytes),
        devices=tuple(device.index for device in resource.devices),
    )


def _limit(device: Device, replicas: int) -> int:
    """MiB per client: three integer divisions in this order."""
    return device.memory_bytes // replicas // 1024 // 1024
