# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: carry out what was planned for the ConfigMap, the ClusterPolicy and the nodes' label."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._config_map import config_map_patch
from ansible_collections.gpuops.mps.plugins.module_utils._nodes import LabelChange, label_operations
from ansible_collections.gpuops.mps.plugins.module_utils._plan import ConfigMapPlan, PolicyPlan
from ansible_collections.gpuops.mps.plugins.module_utils._policy import FIELD, policy_patch, pruned
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import CONFIG_LABEL, ConfigMap, Node

Object = dict[str, t.Any]


def apply_config_map(cluster: Cluster, plan: ConfigMapPlan, found: ConfigMap | None, *, former: t.Mapping[str, str] | None = None) -> Object | None:
    """Create the map or change its planned keys; returns the stored object, None when there is nothing to do.

    ``found`` is the map as the plan saw it. ``former`` are former texts that are kept on the map in place of those that
    the plan replaces: a rollout that goes on keeps what there was before it began. Raises ClusterError ``changed-meanwhile`` when one of the planned keys has
    another text by now, or the map was created or replaced meanwhile.
    """
    if not plan.changed:
        return None
    collection = f"/api/v1/namespaces/{plan.namespace}/configmaps"
    patch = config_map_patch(plan, found, former=former)
    if found is None:
        annotations = {key: value for key, value in patch["metadata"]["annotations"].items() if value is not None}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": plan.name, "annotations": annotations}, "data": patch["data"]}
        return cluster.create(collection, body)
    return cluster.patch_seen(
        f"{collection}/{plan.name}",
        patch,
        seen={"resourceVersion": found.resource_version, "uid": found.uid},
        unchanged=lambda fresh: _texts(fresh, plan) == {change.key: change.before for change in plan.keys},
        done=lambda fresh: _texts(fresh, plan) == {change.key: change.after for change in plan.keys},
    )


def delete_config_map(cluster: Cluster, found: ConfigMap) -> bool:
    """Delete the map as it was seen; a change meanwhile is a ClusterError."""
    return cluster.delete(f"/api/v1/namespaces/{found.namespace}/configmaps/{found.name}", uid=found.uid, resource_version=found.resource_version)


def apply_policy(cluster: Cluster, plan: PolicyPlan, *, beside: Object | None = None) -> Object | None:
    """Write the two fields and look at what was stored; returns the stored policy, None when there is nothing to do.

    ``beside`` are fields of the spec that a rollout has to change in the same patch.

    Raises ClusterError ``policy-pruned`` when the API server answered with success but did not keep the fields.
    """
    if not plan.changed:
        return None
    before = {"name": plan.name_before, "default": plan.default_before}
    stored = cluster.patch_seen(
        f"/apis/nvidia.com/v1/clusterpolicies/{plan.name}",
        {"spec": {**policy_patch(plan)["spec"], **(beside or {})}},
        seen={"resourceVersion": plan.resource_version},
        unchanged=lambda fresh: _policy_fields(fresh) == before,
        done=lambda fresh: not pruned(plan, fresh),
    )
    if pruned(plan, stored):
        raise ClusterError(
            f"the ClusterPolicy '{plan.name}' did not keep {FIELD}: it holds {_policy_fields(stored)} after a write that the API server called a success",
            code="policy-pruned",
            remedy="Update the operator's CRDs (operator.upgradeCRD in the chart), or find the webhook or controller that puts the field back.",
            subject=f"clusterpolicy/{plan.name}",
        )
    return stored


def apply_label(cluster: Cluster, change: LabelChange, node: Node) -> None:
    """Write or remove one node's config label; ``node`` is the node as the plan saw it.

    A label that somebody else changed meanwhile is left alone (ClusterError ``changed-meanwhile``); anything else on the
    node may change as it likes. One request, unless the label is not as it was seen.
    """
    path = f"/api/v1/nodes/{change.node}"
    try:
        cluster.json_patch(path, label_operations(change, node.uid), idempotent=True, metadata_only=True)
    except ClusterError as error:
        if error.status != 422:
            raise
        fresh = cluster.get(path, metadata_only=True)
        same = fresh is not None and fresh["metadata"].get("uid", "") == node.uid
        if fresh is not None and same and _label(fresh) == change.after:
            return
        raise ClusterError(
            f"the label of the node '{change.node}' was changed by somebody else between reading and writing, so it was left alone",
            code="changed-meanwhile",
            remedy="Run again: the next run plans from what is there now.",
            status=409,
            subject=f"node/{change.node}",
            reason="Conflict",
        ) from error


def _texts(item: Object, plan: ConfigMapPlan) -> dict[str, str | None]:
    data = item.get("data") or {}
    return {change.key: data.get(change.key) for change in plan.keys}


def _policy_fields(item: Object) -> dict[str, str]:
    config = ((item.get("spec") or {}).get("devicePlugin") or {}).get("config") or {}
    return {"name": config.get("name") or "", "default": config.get("default") or ""}


def _label(item: Object) -> str | None:
    return (item["metadata"].get("labels") or {}).get(CONFIG_LABEL)
