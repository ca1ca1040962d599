# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The device plugin: what it refuses at start, what it registers, and which allocations it answers.

Rules: k8s-device-plugin cmd/nvidia-device-plugin and internal/plugin.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tests.testbed.agents.config_file import Config
from tests.testbed.agents.config_manager import Version
from tests.testbed.agents.device_map import DeviceMapError, Resource, resources
from tests.testbed.agents.hardware import Gpu
from tests.testbed.agents.mps_daemon import pipe_directory

FIRST_VERSION_HONOURING_FALSE = (0, 20, 0)
MIG_STRATEGIES = ("none", "single", "mixed")


class PluginError(ValueError):
    """The plugin's process ends with code 1; the message is its own."""


@dataclass(frozen=True)
class Plugin:
    """A plugin process that started: its resources, whether it uses MPS, and whether more than one replica is refused."""

    resources: tuple[Resource, ...]
    uses_mps: bool
    refuses_more_than_one: bool

    def unanswered(self, pipes: Collection[str]) -> tuple[str, ...]:
        """Resources whose control daemon does not answer, given the pipe directories of the running ones."""
        if not self.uses_mps:
            return ()
        return tuple(item.name for item in self.resources if pipe_directory(item.name) not in pipes)

    def registered(self) -> dict[str, int]:
        return {resource.name: resource.capacity for resource in self.resources}

    def container_environment(self, resource: str) -> dict[str, str]:
        """What Allocate adds to a container (beside the GPU itself): the pipe directory, and /dev/shm mounted from the node."""
        return {"CUDA_MPS_PIPE_DIRECTORY": pipe_directory(resource)} if self.uses_mps else {}

    def refusal(self, resource: str, requested: int) -> str | None:
        """Allocate's error for a container that asks for ``requested`` devices, or None."""
        shared = any(item.name == resource and item.replicas > 1 for item in self.resources)
        if shared and requested > 1 and self.refuses_more_than_one:
            return f'invalid allocation request for "{resource}": invalid request: maximum request size for shared resources is 1; found {requested}'
        return None


def start(gpus: tuple[Gpu, ...], config: Config, mig_strategy: str, version: Version) -> Plugin:
    """The plugin that runs on the node with this config. Raises PluginError."""
    uses_mps = config.strategy == "mps"
    if mig_strategy not in MIG_STRATEGIES:
        raise PluginError(f"error starting plugins: unable to validate flags: unknown MIG strategy: {mig_strategy}")
    if uses_mps and mig_strategy == "mixed":
        raise PluginError("error starting plugins: unable to validate flags: using --mig-strategy=mixed is not supported with MPS")
    try:
        found = resources(gpus, config, mig_strategy)
    except DeviceMapError as error:
        raise PluginError(
            "error starting plugins: error getting plugins: unable to create plugins: failed to construct resource managers: "
            f"error building device map: error building device map from config.resources: {error}"
        ) from None
    if uses_mps and any(device.is_mig for resource in found for device in resource.devices):
        raise PluginError(
            "error starting plugins: error getting plugins: unable to create plugins: failed to create plugin: "
            "sharing using MPS is not supported for MIG devices"
        )
    return Plugin(found, uses_mps, _refuses_more_than_one(config, version))


def _refuses_more_than_one(config: Config, version: Version) -> bool:
    """Under MPS refused unless an explicit false is honoured (v0.20.0 on); under time-slicing only on request."""
    wish = config.sharing.fail_requests_greater_than_one
    if config.strategy == "mps":
        return not (wish is False and version >= FIRST_VERSION_HONOURING_FALSE)
    return bool(wish)
