# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: how many replicas fit a need, and what an autoscaler must know of nodes that are shared so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpuops.mps.plugins.module_utils._gpu import GPU, GPU_SHARED
from ansible_collections.gpuops.mps.plugins.module_utils._limits import (
    is_before_volta,
    memory_limit_mib,
    replica_cap,
    smallest_start_mib,
    thread_loss,
    thread_percentage,
)

CONFIG_LABEL = "nvidia.com/device-plugin.config"
# The device plugin's parser takes no fewer (k8s-device-plugin v0.20.0, api/config/v1/replicas.go).
FEWEST_REPLICAS = 2
_AUTOSCALER_TAG = "k8s.io/cluster-autoscaler/node-template"


class AdviceError(ValueError):
    """A need that no number of replicas meets; the message says why and what would."""


@dataclass(frozen=True)
class GpuModel:
    """The GPUs of one kind of node: ``memory_mib`` is the whole memory of one GPU in MiB, None where it reports none."""

    memory_mib: int | None
    compute: tuple[int, int]
    count: int = 1
    product: str | None = None


@dataclass(frozen=True)
class Advice:
    """What a number of replicas means on such a node.

    ``cap`` is the most the MPS daemon takes per GPU. ``memory_mib`` (MiB) and ``thread_percentage`` are each client's share;
    ``memory_unused_mib`` and ``threads_unused`` (percent) are what cutting the shares to whole numbers leaves on each GPU.
    ``better_replicas`` is the nearest number that meets the need too and leaves less of the threads, None if there is none.
    ``clients`` is the number for the whole node. ``labels`` and ``capacity`` are what a node template must promise;
    ``autoscaler_tags`` say the same to the Cluster Autoscaler. ``warnings`` are sentences for people.
    """

    replicas: int
    cap: int
    memory_mib: int | None
    memory_unused_mib: int | None
    thread_percentage: int
    threads_unused: int
    better_replicas: int | None
    clients: int
    labels: dict[str, str]
    capacity: dict[str, int]
    autoscaler_tags: dict[str, str]
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain data for a template."""
        return {**vars(self), "warnings": list(self.warnings)}


def advise_memory(gpu: GpuModel, memory_per_client_mib: int, *, config: str, rename_by_default: bool = False) -> Advice:
    """The most replicas that leave each client at least ``memory_per_client_mib`` MiB.

    Raises AdviceError when fewer than two clients fit, or the GPU does not say how much memory it has.
    """
    if memory_per_client_mib < 1:
        raise AdviceError(f"a client needs at least 1 MiB, not {memory_per_client_mib}")
    if gpu.memory_mib is None:
        raise AdviceError("the GPU reports no memory size, so the MPS daemon limits no client's memory: ask by the number of clients")
    fitting = min(gpu.memory_mib // memory_per_client_mib, _cap(gpu))
    if fitting < FEWEST_REPLICAS:
        raise AdviceError(
            f"only {fitting} clients of {memory_per_client_mib} MiB fit into {gpu.memory_mib} MiB, and sharing begins with {FEWEST_REPLICAS}: "
            "give each client a whole GPU, or look for a larger one"
        )
    return _advice(gpu, fitting, reversed(range(FEWEST_REPLICAS, fitting)), config, rename_by_default)


def advise_clients(gpu: GpuModel, clients: int, *, config: str, rename_by_default: bool = False) -> Advice:
    """The fewest replicas with which ``clients`` clients run at once on one node.

    Raises AdviceError when the node has no room for so many.
    """
    if clients < 1:
        raise AdviceError(f"the number of clients is at least 1, not {clients}")
    cap = _cap(gpu)
    replicas = max(-(-clients // gpu.count), FEWEST_REPLICAS)
    if replicas > cap:
        raise AdviceError(
            f"{clients} clients on {gpu.count} GPUs need {replicas} replicas, and the MPS daemon takes {cap} on compute capability "
            f"{gpu.compute[0]}.{gpu.compute[1]}: at most {cap * gpu.count} clients run on such a node"
        )
    return _advice(gpu, replicas, range(replicas + 1, cap + 1), config, rename_by_default)


def advise_declared(gpu: GpuModel, replicas: int, *, config: str, rename_by_default: bool = False) -> Advice:
    """What a declared number of replicas means, with the nearest number in either direction that leaves less of the threads.

    Raises AdviceError for GPUs that are not shared by MPS.
    """
    others = sorted(range(FEWEST_REPLICAS, _cap(gpu) + 1), key=lambda other: (abs(other - replicas), other))
    return _advice(gpu, replicas, others, config, rename_by_default)


def _cap(gpu: GpuModel) -> int:
    if is_before_volta(gpu.compute):
        raise AdviceError(f"MPS clients fail on compute capability {gpu.compute[0]}.{gpu.compute[1]}: GPUs before Volta (7.0) are not shared by MPS")
    return replica_cap(gpu.compute)


def _advice(gpu: GpuModel, replicas: int, others: Iterable[int], config: str, rename_by_default: bool) -> Advice:
    """``others`` are the numbers that meet the need too, the nearest first."""
    resource = GPU_SHARED if rename_by_default else GPU
    memory, unused = _memory(gpu, replicas)
    clients = replicas * gpu.count
    return Advice(
        replicas=replicas,
        cap=_cap(gpu),
        memory_mib=memory,
        memory_unused_mib=unused,
        thread_percentage=thread_percentage(replicas),
        threads_unused=thread_loss(replicas),
        better_replicas=next((other for other in others if thread_loss(other) < thread_loss(replicas)), None),
        clients=clients,
        labels={CONFIG_LABEL: config},
        capacity={resource: clients},
        autoscaler_tags={
            f"{_AUTOSCALER_TAG}/label/{CONFIG_LABEL}": config,
            f"{_AUTOSCALER_TAG}/resources/{resource}": str(clients),
        },
        warnings=_warnings(gpu, memory),
    )


def _memory(gpu: GpuModel, replicas: int) -> tuple[int | None, int | None]:
    """MiB of each client, and MiB of the GPU that no client gets."""
    if gpu.memory_mib is None:
        return None, None
    share = memory_limit_mib(gpu.memory_mib, replicas)
    return share, gpu.memory_mib - share * replicas


def _warnings(gpu: GpuModel, memory: int | None) -> tuple[str, ...]:
    if memory is None:
        return ("The GPU reports no memory size, so the MPS daemon limits no client's memory.",)
    least = smallest_start_mib(gpu.product)
    if memory >= least:
        return ()
    return (f"Each client gets {memory} MiB; below {least} MiB clients are reported not to start on such a GPU.",)
