# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: which config a node gets, by the config-manager's own rule. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.mps.plugins.module_utils._plan import Selection
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import ClusterPolicy

NO_CONFIG = Selection(None, "none")


def select(label: str | None, policy: ClusterPolicy | None, *, map_name: str | None = None, default: str | None = None) -> Selection:
    """The config of a node with this label, and where it comes from.

    The label wins, then the policy's default, then nothing: the operator passes FALLBACK_STRATEGIES=empty, so a node with
    neither shares nothing (k8s-device-plugin, cmd/config-manager; gpu-operator v25.3.4, object_controls.go). A policy
    without a map has no config-manager at all. ``map_name`` and ``default`` stand for what the policy will say.
    """
    name = map_name if map_name is not None else (policy.config_name if policy else "")
    fallback = default if default is not None else (policy.config_default if policy else "")
    if not name:
        return NO_CONFIG
    if label:
        return Selection(label, "label")
    return Selection(fallback, "default") if fallback else NO_CONFIG


def text_of(data: t.Mapping[str, str], selection: Selection) -> str | None:
    """The text that the selected key holds; None without a config or where the map has no such key."""
    return None if selection.config is None else data.get(selection.config)
