# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what has moved away from what was declared, or from what this collection last wrote. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, finding
from ansible_collections.gpuops.mps.plugins.module_utils._plan import ConfigMapPlan, NodePlan, Plan, PolicyPlan
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import read_applied
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import CONFIG_LABEL, Node, Snapshot
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot_build import FIELD_MANAGER

_CONFIG_FIELD = "spec.devicePlugin.config"
_LABEL_FIELD = f"metadata.labels[{CONFIG_LABEL}]"


def drift(snapshot: Snapshot, plan: Plan | None) -> tuple[Finding, ...]:
    """What is not as declared in the ClusterPolicy, the ConfigMap and the nodes' labels.

    Without a C(plan), that is without a declaration, the records of earlier rollouts on the nodes stand in for it: they
    show a policy or a label that somebody has changed since. Agents that run older content are a node's verdict, not listed here.
    """
    if plan is None:
        return (*_policy_since_record(snapshot), *_labels_since_record(snapshot))
    return (
        *(_policy_by_plan(snapshot, plan.policy) if plan.policy else ()),
        *_map_by_plan(plan.config_map),
        *(found for node in plan.nodes for found in _node_by_plan(snapshot, node, bool(plan.groups))),
    )


def _policy_by_plan(snapshot: Snapshot, plan: PolicyPlan) -> Iterator[Finding]:
    if not plan.changed:
        return
    now = f"name '{plan.name_before}', default '{plan.default_before}'"
    wanted = f"name '{plan.name_after}', default '{plan.default_after}'"
    owner = snapshot.policy.config_owner if snapshot.policy else None
    subject = f"clusterpolicy/{plan.name}"
    if owner not in (None, FIELD_MANAGER) and _has_record(snapshot):
        message = f"'{owner}' put the ClusterPolicy's config back: it has {now} and should have {wanted}"
        yield finding("policy-put-back", _CONFIG_FIELD, message, subject=subject)
    else:
        writer = f"; '{owner}' wrote it last" if owner else ""
        yield finding("policy-not-as-declared", _CONFIG_FIELD, f"the ClusterPolicy has {now} and should have {wanted}{writer}", subject=subject)


def _map_by_plan(plan: ConfigMapPlan) -> Iterator[Finding]:
    subject = f"configmap/{plan.namespace}/{plan.name}"
    words = {"add": "is missing", "change": "has other content than declared", "remove": "is not declared any more"}
    for change in plan.keys:
        yield finding("map-not-as-declared", f"data[{change.key}]", f"the key '{change.key}' {words[change.action]}", subject=subject)


def _node_by_plan(snapshot: Snapshot, plan: NodePlan, grouped: bool) -> Iterator[Finding]:
    node = snapshot.node(plan.node)
    owner = node.label_owner if node else None
    subject = f"node/{plan.node}"
    if plan.label_changes and owner not in (None, FIELD_MANAGER):
        yield finding("label-changed-by-hand", _LABEL_FIELD, _label_words(plan.label_now, plan.label_wanted, owner), subject=subject)
    # With a default the declaration covers every node; without one a new node is forgotten.
    if grouped and plan.group is None and plan.label_now is None and plan.wanted.config is None:
        message = f"the GPU node {plan.node} is in no group and there is no default, so it shares nothing"
        yield finding("node-without-group", _LABEL_FIELD, message, subject=subject)


def _policy_since_record(snapshot: Snapshot) -> Iterator[Finding]:
    """Nodes were rolled out to a config, and the policy refers to no map any more."""
    policy = snapshot.policy
    records = (read_applied(node.annotations) for node in snapshot.nodes)
    configured = any(record.config for record in records if record)
    if policy is None or policy.config_name or not configured:
        return
    owner = f"'{policy.config_owner}' " if policy.config_owner else "somebody "
    message = f"{owner}took the ConfigMap out of the ClusterPolicy after it was rolled out"
    yield finding("policy-put-back", _CONFIG_FIELD, message, subject=f"clusterpolicy/{policy.name}")


def _labels_since_record(snapshot: Snapshot) -> Iterator[Finding]:
    for node in snapshot.nodes:
        if node.config_label and node.label_owner not in (None, FIELD_MANAGER) and _differs_from_record(node):
            applied = read_applied(node.annotations)
            message = _label_words(node.config_label, applied.config if applied else None, node.label_owner)
            yield finding("label-changed-by-hand", _LABEL_FIELD, message, subject=f"node/{node.name}")


def _differs_from_record(node: Node) -> bool:
    applied = read_applied(node.annotations)
    return applied is not None and applied.config != node.config_label


def _has_record(snapshot: Snapshot) -> bool:
    return any(read_applied(node.annotations) for node in snapshot.nodes)


def _label_words(now: str | None, wanted: str | None, owner: str | None) -> str:
    return f"'{owner}' set the node's config label to {now or 'nothing'}; it should be {wanted or 'absent'}"
