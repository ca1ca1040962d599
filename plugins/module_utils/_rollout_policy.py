# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: keep the operator from replacing pods on all nodes at once while a rollout changes the policy. Pure.

A changed name or default alters the pod template of three DaemonSets, and with the update strategy RollingUpdate their
controller then replaces pods on every node in an order of its own (gpu-operator v25.3.4, handleDevicePluginConfig). In
the same patch the rollout therefore sets spec.daemonsets.updateStrategy to OnDelete, deletes pods node by node, and puts
the field back at every end. Going back to RollingUpdate replaces no pod that is made from the current template.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENT_DAEMON_SETS, ClusterPolicy

ON_DELETE = "OnDelete"
# Tools that put a field back within minutes; Helm and OLM write only when somebody upgrades.
SELF_HEALING = frozenset({"argocd", "flux"})

Object = Mapping[str, t.Any]


def can_hold(policy: ClusterPolicy) -> bool:
    """Whether the rollout may set the update strategy for its time: not where a tool would put it back meanwhile."""
    return not any(owner.kind in SELF_HEALING for owner in policy.owners)


def is_held(policy: ClusterPolicy) -> bool:
    """Whether nothing is replaced by itself, by the user's own choice or by the rollout's."""
    return policy.update_strategy == ON_DELETE


def hold_patch() -> dict[str, t.Any]:
    """The part of the policy's patch that holds the operator back."""
    return {"daemonsets": {"updateStrategy": ON_DELETE}}


def put_back_patch(former: str) -> dict[str, t.Any]:
    """The patch that puts the update strategy back; "" removes the field, which the CRD then fills with its default."""
    return {"spec": {"daemonsets": {"updateStrategy": former or None}}}


def follows(daemon_set: Object, name: str, default: str) -> bool:
    """Whether a DaemonSet's template carries this config name and default and its controller has seen it."""
    metadata, spec, status = daemon_set["metadata"], daemon_set["spec"], daemon_set.get("status") or {}
    if int(status.get("observedGeneration") or 0) < int(metadata.get("generation") or 0):
        return False
    pod_spec = spec["template"]["spec"]
    manager = next((one for one in pod_spec.get("containers") or () if one.get("name") == "config-manager"), None)
    if not name or manager is None:
        return not name and manager is None
    maps = {(volume.get("configMap") or {}).get("name") for volume in pod_spec.get("volumes") or ()}
    defaults = [one.get("value") or "" for one in manager.get("env") or () if one.get("name") == "DEFAULT_CONFIG"]
    return name in maps and defaults in ([default], [] if default == "" else [default])


def not_following(daemon_sets: Iterable[Object], name: str, default: str) -> tuple[str, ...]:
    """The DaemonSets of the agents that the operator has not brought up to the policy yet; those that are missing count."""
    found = {one["metadata"]["name"]: one for one in daemon_sets}
    return tuple(wanted for wanted in AGENT_DAEMON_SETS.values() if wanted not in found or not follows(found[wanted], name, default))


def not_replaced(daemon_sets: Iterable[Object]) -> tuple[str, ...]:
    """The DaemonSets of the agents that are still replacing pods by themselves."""
    behind = []
    for one in daemon_sets:
        status = one.get("status") or {}
        updated, desired = int(status.get("updatedNumberScheduled") or 0), int(status.get("desiredNumberScheduled") or 0)
        if one["metadata"]["name"] in AGENT_DAEMON_SETS.values() and updated < desired:
            behind.append(one["metadata"]["name"])
    return tuple(behind)
