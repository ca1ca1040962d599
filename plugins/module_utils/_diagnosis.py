# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the chain from the ClusterPolicy to the resource, and its first broken link on one node."""

from __future__ import annotations

from collections.abc import Callable

from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_agents import check_toolkit
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_case import Break, Case
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_cluster import check_key, check_map, check_policy, check_selection
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_node import (
    check_daemon,
    check_discovery,
    check_labels,
    check_limits,
    check_node,
    check_plugin,
    check_prediction,
    check_resource,
    check_scheduled,
)

# One check per link, in the order of the chain; the last one is for what only the prediction knows.
CHAIN: tuple[Callable[[Case], Break | None], ...] = (
    check_policy,
    check_map,
    check_key,
    check_selection,
    check_node,
    check_toolkit,
    check_discovery,
    check_labels,
    check_scheduled,
    check_daemon,
    check_limits,
    check_plugin,
    check_resource,
    check_prediction,
)


def diagnose(case: Case) -> Break | None:
    """The first broken link of the node's chain, or None when every link holds."""
    return next((broken for broken in (check(case) for check in CHAIN) if broken is not None), None)
