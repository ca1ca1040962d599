# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Physical GPUs as the driver library (NVML) reports them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MIB = 1024 * 1024
GIB = 1024 * MIB

INSTANCE_ATTRIBUTES = (
    "multiprocessors",
    "slices.gi",
    "slices.ci",
    "engines.copy",
    "engines.decoder",
    "engines.encoder",
    "engines.jpeg",
    "engines.ofa",
)


@dataclass(frozen=True)
class MigInstance:
    """One MIG device: its memory in MiB and its attributes in the order of INSTANCE_ATTRIBUTES."""

    memory_mib: int
    attributes: tuple[int, ...]

    @property
    def slices(self) -> int:
        return self.attributes[INSTANCE_ATTRIBUTES.index("slices.gi")]


@dataclass(frozen=True)
class Gpu:
    """One physical GPU; memory in bytes, 0 where NVML reports none; compute is (major, minor) or None."""

    product: str
    memory_bytes: int
    compute: tuple[int, int] | None
    mig_capable: bool = False
    mig_enabled: bool = False
    mig_instances: tuple[MigInstance, ...] = ()
    pci_class: str = "0x030200"

    @property
    def memory_mib(self) -> int:
        return self.memory_bytes // MIB

    def profile(self, instance: MigInstance) -> str:
        """The profile's name as go-nvlib computes it: from the share of the GPU's memory in eighths, not from a table."""
        share = math.ceil(instance.memory_mib * MIB / self.memory_bytes * 8) / 8
        gigabytes = math.floor(share * math.ceil(self.memory_bytes / GIB) + 0.5)
        return f"{instance.slices}g.{gigabytes}gb"


def gpu_from_facts(facts: Mapping[str, Any]) -> Gpu:
    """A GPU from a node set file or an executed vector: product, memory_mib or memory_bytes, compute "7.5", mig_*."""
    memory = facts.get("memory_bytes") or int(facts.get("memory_mib") or 0) * MIB
    compute = str(facts.get("compute") or "")
    major, _dot, minor = compute.partition(".")
    return Gpu(
        product=str(facts["product"]),
        memory_bytes=int(memory),
        compute=(int(major), int(minor or 0)) if major else None,
        mig_capable=bool(facts.get("mig_capable")),
        mig_enabled=bool(facts.get("mig_enabled")),
        mig_instances=tuple(_instance(item) for item in facts.get("mig_instances") or ()),
        pci_class=str(facts.get("pci_class") or "0x030200"),
    )


def gpus_from_annotation(entries: Sequence[Mapping[str, Any]]) -> tuple[Gpu, ...]:
    """The node's GPUs in index order; an entry with ``count`` stands for so many equal GPUs."""
    return tuple(gpu_from_facts(entry) for entry in entries for _copy in range(int(entry.get("count", 1))))


def _instance(facts: Mapping[str, Any]) -> MigInstance:
    return MigInstance(int(facts["memory_mb"]), tuple(int(facts.get(name, 0)) for name in INSTANCE_ATTRIBUTES))
