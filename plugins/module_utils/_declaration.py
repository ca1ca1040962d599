# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what the user wants, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Strategy(str, Enum):
    """How a config shares a GPU, in the words of the label ``nvidia.com/gpu.sharing-strategy``."""

    NONE = "none"
    MPS = "mps"
    TIME_SLICING = "time-slicing"


@dataclass(frozen=True)
class SharingConfig:
    """One named config: a key of the ConfigMap.

    ``replicas`` is the number of clients per physical GPU, None without sharing. ``mig_strategy`` is the file's
    ``flags.migStrategy``, None when the file leaves it to the ClusterPolicy. ``fail_requests_greater_than_one`` is None
    when the file does not say.
    """

    name: str
    strategy: Strategy
    replicas: int | None = None
    rename_by_default: bool = False
    mig_strategy: str | None = None
    fail_requests_greater_than_one: bool | None = None


@dataclass(frozen=True)
class Match:
    """Facts that a node of a group must have, all of them; None is not asked for.

    ``product`` is the product without the ``-SHARED`` that sharing itself adds. Memory is in MiB of the whole GPU, both
    bounds included. ``labels`` are sorted pairs.
    """

    product: str | None = None
    memory_at_least: int | None = None
    memory_at_most: int | None = None
    architecture: str | None = None
    count: int | None = None
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class NodeGroup:
    """Which nodes get a label, and which: nodes by name, by label selector, or by their GPUs.

    A node belongs when its name is listed, or when it fits every selector and the match that the group has.
    """

    name: str
    config: str
    nodes: tuple[str, ...] = ()
    selectors: tuple[str, ...] = ()
    match: Match | None = None


@dataclass(frozen=True)
class Declaration:
    """Everything the user wants: the configs, the default for nodes without a label, and the groups."""

    configs: tuple[SharingConfig, ...]
    default: str | None = None
    groups: tuple[NodeGroup, ...] = ()

    def config(self, name: str) -> SharingConfig | None:
        """The config of that name, or None."""
        return next((config for config in self.configs if config.name == name), None)
