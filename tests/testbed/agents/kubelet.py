# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kubelet's accounting of extended resources and its admission of pods.

Rules: Kubernetes v1.36, pkg/kubelet/cm/devicemanager: a stopped endpoint makes its devices unhealthy at once (allocatable 0) and
after the grace period the capacity becomes 0 too, with the key left in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tests.testbed.agents.objects import Request


@dataclass(frozen=True)
class Registration:
    """One resource a plugin registered: its devices, replicas per device, and how its containers are set up."""

    resource: str
    devices: tuple[str, ...]
    replicas: int
    pipe_directory: str = ""
    refuses_more_than_one: bool = False
    owner: str = ""  # uid of the plugin's pod, or the name of whatever else registered it
    stopped: bool = False
    expired: bool = False

    @property
    def capacity(self) -> int:
        return 0 if self.expired else len(self.devices) * self.replicas

    @property
    def allocatable(self) -> int:
        return 0 if self.stopped else self.capacity

    def refusal(self, count: int) -> str:
        """Allocate's error, "" if there is none."""
        if self.refuses_more_than_one and self.replicas > 1 and count > 1:
            return (
                f'rpc error: code = Unknown desc = invalid allocation request for "{self.resource}": invalid request: '
                f"maximum request size for shared resources is 1; found {count}"
            )
        return ""


@dataclass(frozen=True)
class Allocation:
    """Devices given to one container of one pod; pipe_directory is set where the plugin shares by MPS."""

    pod: str
    container: str
    resource: str
    devices: tuple[str, ...]
    pipe_directory: str = ""


@dataclass(frozen=True)
class Refusal:
    """A pod that kubelet fails at admission."""

    reason: str
    message: str


Registrations = Mapping[str, Registration]


def stop_owner(registrations: Registrations, owner: str) -> dict[str, Registration]:
    """The endpoints of ``owner`` are gone."""
    return {name: replace(item, stopped=True) if item.owner == owner else item for name, item in registrations.items()}


def expire(registrations: Registrations, resource: str) -> dict[str, Registration]:
    """The grace period of a stopped resource is over."""
    item = registrations.get(resource)
    if item is None or not item.stopped:
        return dict(registrations)
    return {**registrations, resource: replace(item, expired=True)}


def status(registrations: Registrations) -> tuple[dict[str, str], dict[str, str]]:
    """(capacity, allocatable) for the Node's status; keys never disappear."""
    capacity = {name: str(item.capacity) for name, item in registrations.items()}
    return capacity, {name: str(item.allocatable) for name, item in registrations.items()}


def admit(pod: str, requests: Sequence[Request], registrations: Registrations, allocations: Sequence[Allocation]) -> tuple[Allocation, ...] | Refusal:
    """The pod's allocations, or why kubelet fails it."""
    granted: list[Allocation] = []
    for request in requests:
        registration = registrations.get(request.resource)
        if registration is None:
            return Refusal(f"OutOf{request.resource}", _out_of(request))
        taken = [*allocations, *granted]
        free = registration.allocatable - _used(request.resource, taken)
        if request.count > free:
            return Refusal("UnexpectedAdmissionError", _unavailable(request, max(free, 0)))
        refused = registration.refusal(request.count)
        if refused:
            return Refusal("UnexpectedAdmissionError", f"Allocate failed due to {refused}, which is unexpected")
        devices = _pick(registration, request.count, taken)
        granted.append(Allocation(pod, request.container, request.resource, devices, registration.pipe_directory))
    return tuple(granted)


def _used(resource: str, allocations: Sequence[Allocation]) -> int:
    return sum(len(item.devices) for item in allocations if item.resource == resource)


def _unavailable(request: Request, free: int) -> str:
    return (
        f"Allocate failed due to requested number of devices unavailable for {request.resource}. "
        f"Requested: {request.count}, Available: {free}, which is unexpected"
    )


def _out_of(request: Request) -> str:
    return f"Node didn't have enough resource: {request.resource}, requested: {request.count}, used: 0, capacity: 0"


def _pick(registration: Registration, count: int, allocations: Sequence[Allocation]) -> tuple[str, ...]:
    """The least used devices first, one replica after the other (the plugin's distributed policy)."""
    used = dict.fromkeys(registration.devices, 0)
    for allocation in allocations:
        for device in allocation.devices if allocation.resource == registration.resource else ():
            used[device] = used.get(device, 0) + 1
    picked = []
    for _replica in range(count):
        device = min(registration.devices, key=lambda name: used[name])
        used[device] += 1
        picked.append(device)
    return tuple(picked)
