# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a node's GPUs and a config to resources: what is a device, which resource it belongs to, how often it is replicated.

Rules: k8s-device-plugin internal/rm/device_map.go, as the plugin and the MPS control daemon use it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.testbed.agents.config_file import GPU_RESOURCE, PREFIX, Config
from tests.testbed.agents.hardware import MIB, Gpu

INVALID_MIG = "invalid MIG configuration: "


class DeviceMapError(ValueError):
    """The node's devices cannot be mapped to resources; the message is the device map builder's."""


@dataclass(frozen=True)
class Device:
    """A GPU (index "0") or a MIG device (index "0:1") with its memory in bytes (0: unknown)."""

    index: str
    memory_bytes: int
    compute: tuple[int, int] | None
    is_mig: bool


@dataclass(frozen=True)
class Resource:
    """An extended resource: the name it is registered under, its devices, and replicas per device (1: not shared)."""

    name: str
    devices: tuple[Device, ...]
    replicas: int

    @property
    def capacity(self) -> int:
        return len(self.devices) * self.replicas


def effective_mig_strategy(environment: str | None, config: Config) -> str:
    """MIG_STRATEGY from the operator beats the file; unset everywhere means none."""
    return environment or config.mig_strategy or "none"


def resources(gpus: tuple[Gpu, ...], config: Config, mig_strategy: str) -> tuple[Resource, ...]:
    """The resources of a node. Raises DeviceMapError."""
    if mig_strategy == "single":
        base = {GPU_RESOURCE: _single(gpus)}
    elif mig_strategy == "mixed":
        base = _mixed(gpus)
    else:
        base = {GPU_RESOURCE: _full(gpus)}
    return tuple(_shared(name, devices, config) for name, devices in base.items() if devices)


def _full(gpus: tuple[Gpu, ...]) -> tuple[Device, ...]:
    return tuple(_gpu(index, gpu) for index, gpu in enumerate(gpus))


def _gpu(index: int, gpu: Gpu) -> Device:
    return Device(str(index), gpu.memory_bytes, gpu.compute, False)


def _instances(index: int, gpu: Gpu) -> tuple[tuple[str, Device], ...]:
    return tuple(
        (gpu.profile(instance), Device(f"{index}:{position}", instance.memory_mib * MIB, gpu.compute, True))
        for position, instance in enumerate(gpu.mig_instances)
    )


def _single(gpus: tuple[Gpu, ...]) -> tuple[Device, ...]:
    """Strategy single: every GPU in MIG mode or none, and one profile on the whole node."""
    enabled = [(index, gpu) for index, gpu in enumerate(gpus) if gpu.mig_enabled]
    if not enabled:
        return _full(gpus)
    for index, gpu in enabled:
        if not gpu.mig_instances:
            raise DeviceMapError(
                f"{INVALID_MIG}at least one device with migEnabled=true was not configured correctly: "
                f"error visiting device: device {index} has no MIG devices configured"
            )
    found = tuple(pair for index, gpu in enabled for pair in _instances(index, gpu))
    if len({profile for profile, _device in found}) > 1:
        raise DeviceMapError(
            f"{INVALID_MIG}error visiting devices: error visiting device: error visiting device: error visiting MIG device: "
            "error visiting MIG device: more than one MIG device type present on node"
        )
    if len(enabled) < len(gpus):
        raise DeviceMapError("all devices on the node must be configured with the same migEnabled value")
    return tuple(device for _profile, device in found)


def _mixed(gpus: tuple[Gpu, ...]) -> dict[str, tuple[Device, ...]]:
    base: dict[str, tuple[Device, ...]] = {}
    for index, gpu in enumerate(gpus):
        if not gpu.mig_enabled:
            base[GPU_RESOURCE] = (*base.get(GPU_RESOURCE, ()), _gpu(index, gpu))
        for profile, device in _instances(index, gpu) if gpu.mig_enabled else ():
            name = f"{PREFIX}mig-{profile}"
            base[name] = (*base.get(name, ()), device)
    return base


def _shared(name: str, devices: tuple[Device, ...], config: Config) -> Resource:
    """Replicates a resource: the largest of its entries counts, the new name comes from renameByDefault alone."""
    entries = config.sharing.entries_for(name)
    if not entries:
        return Resource(name, devices, 1)
    renamed = f"{name}.shared" if config.sharing.rename_by_default else name
    return Resource(renamed, devices, max(entry.replicas for entry in entries))
