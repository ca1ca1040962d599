# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""config-manager: which key of the ConfigMap a pod's config file points to, by version.

Rules: k8s-device-plugin cmd/config-manager/main.go. Since v0.18.2 the first look happens before the node informer has synced, so
the label is not seen by the init container and only seen by the sidecar on its second look (upstream issue 1645).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

NO_CONFIG = "/dev/null"
FIRST_VERSION_BLIND_AT_START = (0, 18, 2)
FIRST_VERSION_WITHOUT_PANIC = (0, 20, 0)

Version = tuple[int, int, int]


class SelectionError(ValueError):
    """No config can be selected; the message is config-manager's."""


@dataclass(frozen=True)
class Settings:
    """config-manager's environment: DEFAULT_CONFIG and FALLBACK_STRATEGIES."""

    default: str = ""
    fallbacks: tuple[str, ...] = ("empty",)


def select(label: str, settings: Settings, keys: Collection[str]) -> str:
    """The key (or /dev/null) that the symbolic link gets. Raises SelectionError."""
    if not keys:
        raise SelectionError("no configuration files available")
    if label:
        if label not in keys:
            raise SelectionError(f"specified config {label} does not exist")
        return label
    if settings.default:
        if settings.default not in keys:
            raise SelectionError("specified config  does not exist")  # upstream prints the label, which is empty
        return settings.default
    return _fall_back(settings.fallbacks, keys)


def _fall_back(strategies: tuple[str, ...], keys: Collection[str]) -> str:
    for strategy in strategies:
        if strategy not in ("named", "single", "empty"):
            raise SelectionError(f"unknown fallback strategy: {strategy}")
        if strategy == "named" and "default" in keys:
            return "default"
        if strategy == "single" and len(keys) == 1:
            return next(iter(keys))
        if strategy == "empty":
            return NO_CONFIG
    raise SelectionError("no config was set, no default was provided, and all fallbacks failed")


def blind_at_start(version: Version) -> bool:
    """Whether the first look of this version does not see the node's label."""
    return version >= FIRST_VERSION_BLIND_AT_START


def init_container_label(label: str, version: Version) -> str:
    """The label as the one-shot init container sees it."""
    return "" if blind_at_start(version) else label


def sidecar_labels(label: str, version: Version) -> tuple[str, ...]:
    """The labels that the sidecar applies one after the other when it starts."""
    return ("", label) if blind_at_start(version) and label else (label,)


@dataclass(frozen=True)
class SignalFailure:
    """How config-manager ends when it cannot find the process to signal."""

    exit_code: int
    message: str


def missing_process(version: Version, host_pid: bool) -> SignalFailure:
    """The MPS daemon is never found by its path; before v0.20.0 a kernel thread's empty command line panics (issue 1726)."""
    if host_pid and (0, 17, 0) <= version < FIRST_VERSION_WITHOUT_PANIC:
        return SignalFailure(2, "panic: runtime error: index out of range [0] with length 0")
    return SignalFailure(1, "error finding pid: no process found")
