# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: a plan as a module's result: plain data, and a diff that people read. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.mps.plugins.module_utils._alike import told_once
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding
from ansible_collections.gpuops.mps.plugins.module_utils._nodes import LabelChange
from ansible_collections.gpuops.mps.plugins.module_utils._plan import ConfigMapPlan, NodePlan, Plan, PolicyPlan
from ansible_collections.gpuops.mps.plugins.module_utils._plan_advice import node_templates

Diff = dict[str, str]


def config_map_diff(plan: ConfigMapPlan) -> Diff:
    """The planned keys with their texts, before and after; keys that stay are left out."""
    name = f"configmap/{plan.namespace}/{plan.name}"
    return {
        "before_header": name if plan.exists else f"{name} (absent)",
        "after_header": name,
        "before": "".join(_block(change.key, change.before) for change in plan.keys if change.before is not None),
        "after": "".join(_block(change.key, change.after) for change in plan.keys if change.after is not None),
    }


def policy_diff(plan: PolicyPlan) -> Diff:
    """The two fields, before and after."""
    name = f"clusterpolicy/{plan.name}"
    return {
        "before_header": name,
        "after_header": name,
        "before": _fields(plan.name_before, plan.default_before),
        "after": _fields(plan.name_after, plan.default_after),
    }


def label_diff(changes: t.Iterable[LabelChange]) -> Diff:
    """One line for each node whose label changes."""
    changed = [change for change in changes if change.changed]
    return {
        "before_header": "config labels",
        "after_header": "config labels",
        "before": "".join(f"{change.node}: {change.before or '(no label)'}\n" for change in changed),
        "after": "".join(f"{change.node}: {change.after or '(no label)'}\n" for change in changed),
    }


def plan_diff(plan: Plan) -> list[Diff]:
    """Everything that the plan changes, in the order it is written; parts without a change are left out."""
    found = []
    if plan.config_map.changed:
        found.append(config_map_diff(plan.config_map))
    if plan.policy is not None and plan.policy.changed:
        found.append(policy_diff(plan.policy))
    nodes = [node for node in plan.nodes if node.changed]
    if nodes:
        found.append(
            {
                "before_header": "nodes",
                "after_header": "nodes",
                "before": "".join(_node_line(node, wanted=False) for node in nodes),
                "after": "".join(_node_line(node, wanted=True) for node in nodes),
            }
        )
    return found


def plan_data(plan: Plan) -> dict[str, t.Any]:
    """The plan as plain data with snake_case keys: a summary first, then map, policy, nodes, groups and node templates."""
    changed = [node for node in plan.nodes if node.changed]
    return {
        "summary": {
            "nodes": len(plan.nodes),
            "nodes_changed": len(changed),
            "labels_changed": sum(node.label_changes for node in plan.nodes),
            "config_map_changed": plan.config_map.changed,
            "policy_changed": plan.policy is not None and plan.policy.changed,
            "operator_rolls": any(node.operator_rolls for node in plan.nodes),
            "gpu_pods": sum(len(node.gpu_pods) for node in plan.nodes),
            "admitted": plan.admitted,
        },
        "config_map": config_map_data(plan.config_map),
        "policy": policy_data(plan.policy) if plan.policy else None,
        "nodes": told_once((node.node, node_data(node)) for node in plan.nodes),
        "groups": {name: list(nodes) for name, nodes in plan.groups.items()},
        "node_templates": node_templates(plan),
    }


def config_map_data(plan: ConfigMapPlan) -> dict[str, t.Any]:
    """The planned keys by what happens to them."""
    by_action = {action: [change.key for change in plan.keys if change.action == action] for action in ("add", "change", "remove")}
    return {"namespace": plan.namespace, "name": plan.name, "exists": plan.exists, **by_action}


def policy_data(plan: PolicyPlan) -> dict[str, t.Any]:
    """The two fields now and as planned; empty text means unset."""
    return {
        "name": plan.name,
        "before": {"name": plan.name_before, "default": plan.default_before},
        "after": {"name": plan.name_after, "default": plan.default_after},
    }


def node_data(node: NodePlan) -> dict[str, t.Any]:
    """What a node has, what it gets, what is done there and which pods break; without the node's name."""
    prediction = node.prediction
    return {
        "group": node.group,
        "label": {"before": node.label_now, "after": node.label_wanted},
        "config": {"before": node.now.config, "after": node.wanted.config},
        "source": {"before": node.now.source, "after": node.wanted.source},
        "running": node.running,
        "steps": list(node.steps),
        "operator_rolls": node.operator_rolls,
        "allocatable": {"before": dict(node.allocatable_now), "after": dict(prediction.resources) if prediction else None},
        "labels": {"before": dict(node.labels_now), "after": dict(prediction.labels) if prediction else None},
        "thread_percentage": prediction.thread_percentage if prediction else None,
        "memory_mib": prediction.memory_mib if prediction else None,
        "gpu_pods": [{"namespace": pod.namespace, "name": pod.name, "owner": pod.owner} for pod in node.gpu_pods],
        "left_group": node.left_group,
        "changed": node.changed,
    }


def findings_data(findings: t.Iterable[Finding]) -> list[dict[str, str]]:
    """Findings as plain data."""
    return [found.as_dict() for found in findings]


def refusal(findings: t.Iterable[Finding]) -> str | None:
    """One text for every error among the findings, each with its code, place and remedy; None when there is none."""
    errors = [found for found in findings if found.severity == "error"]
    if not errors:
        return None
    reasons = "\n".join(f"- {found.message} [{found.code}, {found.path}]. {found.remedy}" for found in errors)
    return f"Nothing was written, because of {len(errors)} error{'s' if len(errors) > 1 else ''}:\n{reasons}"


def _block(key: str, text: str | None) -> str:
    return f"{key}: |\n" + "".join(f"  {line}\n" for line in (text or "").splitlines())


def _fields(name: str, default: str) -> str:
    return f"spec.devicePlugin.config.name: {name or '(unset)'}\nspec.devicePlugin.config.default: {default or '(unset)'}\n"


def _node_line(node: NodePlan, *, wanted: bool) -> str:
    selection = node.wanted if wanted else node.now
    resources = (node.prediction.resources if node.prediction else {}) if wanted else node.allocatable_now
    shown = ", ".join(f"{name}={count}" for name, count in sorted(resources.items()) if count and name.startswith("nvidia.com/gpu"))
    if wanted and not shown:
        shown = "not predicted" if node.prediction is None or not node.prediction.exact else "no GPUs"
    steps = f"; restarts {', '.join(step for step in node.steps if step != 'label')}" if wanted and set(node.steps) - {"label"} else ""
    rolls = "; the operator replaces the agents" if wanted and node.operator_rolls else ""
    stale = "" if wanted or node.running in ("current", "none") else f"; agents {node.running}"
    return f"{node.node}: {selection.config or '(no config)'} by {selection.source}; {shown or 'no GPUs'}{stale}{steps}{rolls}\n"
