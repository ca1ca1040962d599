# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: a snapshot as inventory hosts. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.mps.plugins.module_utils._drift import drift
from ansible_collections.gpuops.mps.plugins.module_utils._sharing import sharing_data
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import Snapshot

Host = dict[str, t.Any]
SHARING_LABEL = "nvidia.com/gpu.sharing-strategy"


def gpu_hosts(snapshot: Snapshot) -> list[Host]:
    """For each GPU node, sorted by name, its C(name), its C(facts) and the C(groups) that it belongs to.

    The facts are those of mps_info, with C(sharing) (mps, time-slicing or none, as GPU Feature Discovery says) and C(drift)
    (what somebody changed since this collection last verified the node).
    """
    drifted: dict[str, list[str]] = {}
    for found in drift(snapshot, None):
        drifted.setdefault(found.subject, []).append(found.message)
    return [_host(node, drifted.get(f"node/{node['name']}", [])) for node in sharing_data(snapshot)["nodes"]]


def _host(node: dict[str, t.Any], messages: list[str]) -> Host:
    sharing = node["labels"].get(SHARING_LABEL, "none")
    product = node["gpus"]["product"]
    groups = [f"product_{product}" if product else "product_unknown", f"config_{node['config'] or 'unset'}", f"sharing_{sharing}"]
    if messages:
        groups.append("drift")
    return {"name": node["name"], "facts": {**node, "sharing": sharing, "drift": messages}, "groups": [group_name(group) for group in groups]}


def group_name(text: str) -> str:
    """A name that Ansible takes as a group without a warning: C(product_Tesla-T4) becomes C(product_tesla_t4)."""
    return re.sub(r"[^a-z0-9_]", "_", text.lower())
