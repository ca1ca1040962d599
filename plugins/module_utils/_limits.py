# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: how many clients a GPU takes under MPS, what each gets, and what depends on the device plugin's version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import overload

# k8s-device-plugin v0.15 to v0.20.0, mps/device.go: 48 clients from compute capability 7.5, else 16. The upstream
# function speaks of Volta, but its threshold leaves Volta (7.0, 7.2) at 16.
REPLICAS_FROM_TURING = 48
REPLICAS_BEFORE_TURING = 16
_TURING = (7, 5)
_VOLTA = (7, 0)

# Smallest share of memory, in MiB, that is reported to let a client start (k8s-device-plugin, report 1118): a T4 works up to
# 21 replicas, an A30 up to 30, an A16 up to 5. The cause is not confirmed, so falling below it is only worth a warning.
_START_MIB_BY_PRODUCT: Mapping[str | None, int] = {"Tesla-T4": 731, "NVIDIA-A30": 819, "NVIDIA-A16": 3071}
# For every other product: above the largest share that failed on a T4 or an A30 (792 MiB, A30 at 31 replicas).
_START_MIB = 800

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?![\d.])")


@dataclass(frozen=True, order=True)
class PluginVersion:
    """A version of NVIDIA's device plugin image, which also holds GFD, the config-manager and the MPS control daemon."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> PluginVersion | None:
        """The version in an image tag such as ``v0.17.4-ubi9`` or ``0.20.0``; None for a digest or any other text."""
        found = _VERSION.match(text)
        return cls(*(int(part) for part in found.groups())) if found else None

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


@overload
def replica_cap(compute: tuple[int, int]) -> int: ...


@overload
def replica_cap(compute: tuple[int, int] | None) -> int | None: ...


def replica_cap(compute: tuple[int, int] | None) -> int | None:
    """The most replicas the MPS control daemon accepts per GPU; None when the compute capability is not known.

    Only the daemon checks this, at its start: the parser, GFD and the plugin accept any number
    (k8s-device-plugin v0.20.0, mps/device.go and mps/manager.go).
    """
    if compute is None:
        return None
    return REPLICAS_FROM_TURING if compute >= _TURING else REPLICAS_BEFORE_TURING


def is_before_volta(compute: tuple[int, int]) -> bool:
    """Whether clients are known to fail on such a GPU although the daemon starts (k8s-device-plugin, reports 647 and 685)."""
    return compute < _VOLTA


def thread_percentage(replicas: int) -> int:
    """The share of threads each client gets, in whole percent (k8s-device-plugin v0.20.0, mps/daemon.go: integer division)."""
    return 100 // replicas


def thread_loss(replicas: int) -> int:
    """Percent of the GPU's threads that no client gets even when all ``replicas`` run, because the share is cut to whole percent."""
    return 100 - replicas * thread_percentage(replicas)


def memory_limit_mib(memory_mib: int, replicas: int) -> int:
    """The pinned memory limit of each client process in whole MiB, for a GPU of ``memory_mib`` MiB.

    The daemon divides bytes (k8s-device-plugin v0.20.0, mps/daemon.go); dividing whole MiB gives the same number.
    """
    return memory_mib // replicas


def smallest_start_mib(product: str | None) -> int:
    """Memory per client in MiB below which clients of this product (without ``-SHARED``) are reported not to start."""
    return _START_MIB_BY_PRODUCT.get(product, _START_MIB)


def honours_fail_requests(version: PluginVersion) -> bool:
    """Whether ``failRequestsGreaterThanOne: false`` has an effect under MPS (k8s-device-plugin v0.20.0, api/config/v1/config.go).

    Older versions force it to true.
    """
    return version >= PluginVersion(0, 20, 0)


def label_must_equal_default(version: PluginVersion) -> bool:
    """Whether MPS pods break on a node whose label differs from the policy's default (k8s-device-plugin v0.18.2, report 1645).

    From that version the config-manager's first pass ignores the node's label.
    """
    return version >= PluginVersion(0, 18, 2)


def stale_labels_after_failure(version: PluginVersion) -> bool:
    """Whether GFD's labels stay as they were after GFD failed, instead of vanishing (k8s-device-plugin v0.19.0: NodeFeature objects)."""
    return version >= PluginVersion(0, 19, 0)
