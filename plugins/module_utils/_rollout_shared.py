# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: a rollout's writes to what all nodes share: the ConfigMap and the ClusterPolicy."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable, Mapping

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_snapshot import POLICIES
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_writes import apply_config_map, apply_policy
from ansible_collections.gpuops.mps.plugins.module_utils._config_map import former_texts
from ansible_collections.gpuops.mps.plugins.module_utils._findings import CATALOGUE
from ansible_collections.gpuops.mps.plugins.module_utils._plan import ConfigMapPlan, KeyChange, PolicyPlan
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_policy import ON_DELETE, hold_patch, not_following, not_replaced, put_back_patch
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_return import FormerConfigs
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import ClusterPolicy, ConfigMap

POLL_SECONDS = 0.5

Object = dict[str, t.Any]


def write_map(cluster: Cluster, plan: ConfigMapPlan, found: ConfigMap | None, formers: FormerConfigs) -> bool:
    """Carry out the map's changes, guarded by the texts that the plan was made from; True when something was written.

    The texts from before the rollout stay on the map although a resuming run changes a key a second time.
    """
    if not plan.changed:
        return False
    kept = former_texts(found)
    originals = {key: formers.texts[key] for key in kept if key in formers.texts}
    apply_config_map(cluster, plan, found, former=originals)
    return True


def restoration(found: ConfigMap | None, hashes: Mapping[str, str | None], formers: FormerConfigs) -> tuple[KeyChange, ...]:
    """The changes that give every key of the rollout its former text again. Added keys stay until no node needs them."""
    data = found.data if found else {}
    return tuple(
        KeyChange(key, "change" if key in data else "add", data.get(key), formers.texts[key])
        for key in sorted(hashes)
        if key in formers.texts and data.get(key) != formers.texts[key]
    )


def write_policy(cluster: Cluster, plan: PolicyPlan, *, hold: bool) -> bool:
    """Write the policy's two fields and look at what was stored; with C(hold) the same patch holds the operator back.

    True when something was written. Raises ClusterError when the fields were changed meanwhile or are not kept.
    """
    return apply_policy(cluster, plan, beside=hold_patch() if hold else None) is not None


def put_strategy_back(cluster: Cluster, policy: ClusterPolicy, former: str) -> bool:
    """Put the update strategy back unless somebody has changed it meanwhile; True when written."""
    if policy.update_strategy != ON_DELETE or former == ON_DELETE:
        return False
    cluster.patch_seen(
        f"{POLICIES}/{policy.name}",
        put_back_patch(former),
        seen={"resourceVersion": policy.resource_version, "uid": policy.uid},
        unchanged=lambda fresh: _strategy(fresh) == ON_DELETE,
        done=lambda fresh: _strategy(fresh) != ON_DELETE,
    )
    return True


def _strategy(policy: Object) -> str:
    return ((policy.get("spec") or {}).get("daemonsets") or {}).get("updateStrategy") or ""


def wait_for_operator(cluster: Cluster, namespace: str, name: str, default: str, *, seconds: float, replaced: bool, alive: Callable[[str], None]) -> None:
    """Wait until the operator has brought the agents' DaemonSets up to the policy and, with C(replaced), has replaced their pods.

    C(alive) is called while waiting, with words for the user. Raises ClusterError after C(seconds).
    """
    deadline = time.monotonic() + seconds
    while True:
        items = cluster.list(f"/apis/apps/v1/namespaces/{namespace}/daemonsets").items
        behind = not_following(items, name, default)
        if not behind and replaced:
            behind = not_replaced(items)
        if not behind:
            return
        what = f"waiting for the operator to bring {', '.join(behind)} up to the policy"
        if time.monotonic() >= deadline:
            raise ClusterError(
                f"the operator has not brought {', '.join(behind)} up to the ClusterPolicy within {seconds:.0f} seconds",
                code="operator-not-following",
                remedy=CATALOGUE["operator-not-following"].remedy,
                subject=f"daemonset/{namespace}/{behind[0]}",
            )
        alive(what)
        time.sleep(POLL_SECONDS)
