# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what a rollout did, or would do, as plain data and as lines for people. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterable, Mapping

from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import content_hash
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, finding
from ansible_collections.gpuops.mps.plugins.module_utils._plan import NodePlan, Plan
from ansible_collections.gpuops.mps.plugins.module_utils._plan_report import plan_diff
from ansible_collections.gpuops.mps.plugins.module_utils._rollout import RolloutState
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import BACK, FAILED, Applied, read_applied, read_mark
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_record import SCOPE_NODE, Record
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_return import FormerConfigs
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_view import gpu_resources
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENTS, Node, Snapshot

# Seconds that one batch usually takes: GFD restarts and labels, the daemon starts, the plugin asks it and kubelet reports;
# the plugin's own retry after 30 seconds is the worst of them (k8s-device-plugin, cmd/nvidia-device-plugin/main.go).
USUAL_BATCH_SECONDS = 60
NAMES_SHOWN = 3


def batches_data(state: RolloutState, plan: Plan, pause: float) -> list[dict[str, t.Any]]:
    """The batches: nodes with prediction, the pods that break there, and the usual duration in seconds."""
    plans = {one.node: one for one in plan.nodes}
    return [
        {
            "batch": number,
            "nodes": [_batch_node(plans[name], state) for name in names if name in plans],
            "gpu_pods": [f"{pod.namespace}/{pod.name}" for name in names if name in plans for pod in plans[name].gpu_pods],
            "estimated_seconds": int(USUAL_BATCH_SECONDS + (pause if number < len(state.batches) else 0)),
        }
        for number, names in enumerate(state.batches, start=1)
    ]


def _batch_node(one: NodePlan, state: RolloutState) -> dict[str, t.Any]:
    target = state.runs[one.node].work.target
    return {
        "name": one.node,
        "group": one.group,
        "config": {"before": one.now.config, "after": one.wanted.config},
        "labels": {
            key: {"before": one.labels_now.get(key), "after": value} for key, value in target.prediction.labels.items() if one.labels_now.get(key) != value
        },
        "allocatable": {"before": gpu_resources(one.allocatable_now), "after": dict(target.prediction.resources)},
        "restarts": list(target.restart),
    }


def rollout_diff(plan: Plan, batches: Iterable[Mapping[str, t.Any]]) -> list[dict[str, str]]:
    """The diff: map and policy as in every plan, then for each batch its nodes, labels and allocatable, before and after."""
    diffs = [one for one in plan_diff(plan) if one["before_header"] != "nodes"]
    for batch in batches:
        header = f"batch {batch['batch']}, about {batch['estimated_seconds']} s"
        pods = "".join(f"breaks: {pod}\n" for pod in batch["gpu_pods"])
        diffs.append(
            {
                "before_header": header,
                "after_header": header,
                "before": "".join(_node_block(node, "before") for node in batch["nodes"]),
                "after": "".join(_node_block(node, "after") for node in batch["nodes"]) + pods,
            }
        )
    return diffs


def _node_block(node: Mapping[str, t.Any], when: str) -> str:
    resources = ", ".join(f"{name}={count}" for name, count in sorted(node["allocatable"][when].items())) or "none"
    lines = [f"{node['name']}: config {node['config'][when] or '(none)'}", f"  allocatable: {resources}"]
    lines += [f"  {key}: {'(absent)' if values[when] is None else values[when]}" for key, values in sorted(node["labels"].items())]
    return "\n".join(lines) + "\n"


def nodes_data(plan: Plan, snapshot: Snapshot, record: Record | None) -> list[dict[str, t.Any]]:
    """Every GPU node of the plan: what it got, and how it ended in this rollout."""
    return [_node_data(one, snapshot.node(one.node), record) for one in plan.nodes]


def nodes_planned(plan: Plan, snapshot: Snapshot, record: Record | None, to_come: Collection[str], verdict: str, reason: str) -> list[dict[str, t.Any]]:
    """The same where nothing has been written: the nodes C(to_come) get this verdict and what is predicted, the others are as they are.

    Numbers from before an earlier rollout would not be those from before this one. A node that an earlier run has left half
    done, or that is not ready, keeps the word for that.
    """
    found = []
    for one, data in zip(plan.nodes, nodes_data(plan, snapshot, record), strict=True):
        now = gpu_resources(one.allocatable_now)
        data = {**data, "allocatable_before": now, "allocatable_after": now}
        if one.node in to_come:
            predicted = dict(one.prediction.resources) if one.prediction else {}
            data = {**data, "config": one.wanted.config, "allocatable_after": predicted}
            if data["verdict"] not in ("changing", "returning", FAILED):
                data = {**data, "verdict": verdict, "reason": reason}
        found.append(data)
    return found


def _node_data(one: NodePlan, node: Node | None, record: Record | None) -> dict[str, t.Any]:
    verdict, reason = _verdict(one, node, record)
    mark, applied = (read_mark(node.annotations), read_applied(node.annotations)) if node else (None, None)
    ours = applied if applied and record and applied.rollout == record.id else None
    former = ours.former if ours else mark.former if mark else None
    prediction = one.prediction
    under_mps = prediction is not None and prediction.daemon
    return {
        "name": one.node,
        "group": one.group,
        "config": ours.config if ours else one.wanted.config,
        "source": one.wanted.source,
        "replicas": _number((prediction.labels if prediction else {}).get("nvidia.com/gpu.replicas")),
        "allocatable_before": gpu_resources(former.allocatable if former else one.allocatable_now),
        "allocatable_after": gpu_resources(node.allocatable) if node else {},
        "thread_percentage": prediction.thread_percentage if prediction and under_mps else None,
        "memory_mib": prediction.memory_mib if prediction and under_mps else None,
        "verdict": verdict,
        "reason": reason,
    }


def _verdict(one: NodePlan, node: Node | None, record: Record | None) -> tuple[str, str]:
    """The word for how a node ended, and why."""
    if node is None:
        return "gone", "the node is not a GPU node of this cluster any more"
    mark, applied = read_mark(node.annotations), read_applied(node.annotations)
    if mark is not None:
        return (FAILED if mark.state == FAILED else "returning" if mark.direction == BACK else "changing"), mark.reason
    if record is not None and applied is not None and applied.rollout == record.id:
        return _own_verdict(node.name, applied, record)
    if not node.ready and one.changed:
        return "skipped", "the node is not ready"
    return ("waiting", "its batch has not come") if one.changed else ("unchanged", "")


def _own_verdict(name: str, applied: Applied, record: Record) -> tuple[str, str]:
    """How a node ended that carries this rollout's own record."""
    if not applied.returned:
        return "verified", ""
    reason = applied.reason or record.reasons.get(name, "")
    if not reason and record.scope == SCOPE_NODE and name not in record.batch:
        return "waiting", f"its batch has not come; it keeps what it ran, now under '{applied.config}'"
    return "returned", reason


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def disagreements_found(snapshot: Snapshot, record: Record, formers: FormerConfigs) -> tuple[Finding, ...]:
    """Nodes whose agents run another content than their label or default selects in the map, as far as that is known."""
    found = []
    for node in snapshot.nodes:
        selected, source = _selected(snapshot, node)
        data = snapshot.config_map.data if snapshot.config_map else {}
        wanted = content_hash(data[selected]) if selected is not None and selected in data else None
        runs = _runs(node, snapshot, record, formers)
        if runs is not None and runs != (wanted or ""):
            message = f"{node.name}: {source} selects '{selected}' with the content {wanted or 'none'}, but the agents run {runs or 'no config'}"
            found.append(finding("rollout-disagreement", "nodes", message, subject=f"node/{node.name}"))
    return tuple(found)


def interference_found(plan: Plan, snapshot: Snapshot) -> tuple[Finding, ...]:
    """What the plan of a rollout that has ended still changes; C(snapshot) is the cluster that it was made from.

    Keys that it removes wait for their last node, and nodes that were skipped or taken back are as the rollout left them.
    """
    keys = [change.key for change in plan.config_map.keys if change.action != "remove"]
    nodes = [node.node for node in plan.nodes if node.label_changes and not _skipped(snapshot, node.node)]
    what = [f"the map's keys {', '.join(keys)}"] * bool(keys) + [f"the labels of {', '.join(nodes)}"] * bool(nodes)
    what += ["the policy's config"] * bool(plan.policy is not None and plan.policy.changed)
    return (finding("rollout-interfered", "nodes", f"somebody else has changed {' and '.join(what)} during the rollout"),) if what else ()


def _skipped(snapshot: Snapshot, name: str) -> bool:
    """Whether a node was left out because it is not ready, or was taken back."""
    node = snapshot.node(name)
    applied = read_applied(node.annotations) if node else None
    return node is None or not node.ready or (applied is not None and applied.returned)


def _selected(snapshot: Snapshot, node: Node) -> tuple[str | None, str]:
    policy = snapshot.policy
    if policy is None or not policy.config_name:
        return None, "nothing"
    if node.config_label:
        return node.config_label, "the label"
    return (policy.config_default, "the default") if policy.config_default else (None, "nothing")


def _runs(node: Node, snapshot: Snapshot, record: Record, formers: FormerConfigs) -> str | None:
    """The hash of what a node's agents run, "" for no config, None where it cannot be told."""
    applied = read_applied(node.annotations)
    if read_mark(node.annotations) is not None:
        return None  # half done: reported as failed by its own mark
    pods = {component: {pod.uid for pod in snapshot.pods_of(node.name, component)} for component in AGENTS}
    if applied is not None and applied.rollout == record.id:
        same = all(uid is None or uid in pods.get(component, set()) for component, uid in applied.pods.items())
        return (applied.content or "") if same else None
    if node.created > record.started:
        return None
    oldest = min((pod.created for component in AGENTS for pod in snapshot.pods_of(node.name, component)), default="")
    changed = snapshot.config_map.changed if snapshot.config_map else None
    if changed is not None and oldest >= changed:
        return None  # restarted since by somebody else: it has read the map as it is
    return formers.content(formers.selection(node.config_label)[0]) or ""


def progress_lines(state: RolloutState, now: float) -> list[str]:
    """Which nodes of the batch wait, at which link, how long and what for: one line for each link."""
    waiting: dict[str, list[str]] = {}
    for name in state.batch:
        run = state.runs[name]
        if run.link and not run.ended:
            waiting.setdefault(run.link, []).append(name)
    way = "way back, batch" if state.direction == BACK else "batch"
    return [f"{way} {state.current + 1} of {len(state.batches)}: {_waiting_line(state, link, names, now)}" for link, names in waiting.items()]


def _waiting_line(state: RolloutState, link: str, names: list[str], now: float) -> str:
    longest = min(names, key=lambda name: state.runs[name].since)
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    shown = ", ".join(names[:NAMES_SHOWN])
    seconds = max(0, int(now - state.runs[longest].since))
    return f"{shown}{more} at {link} for {seconds} s: {state.runs[longest].reason}"


def batch_line(state: RolloutState, number: int) -> str:
    """One line for a batch that has ended."""
    words: dict[str, int] = {}
    for name in state.batches[number]:
        words[state.runs[name].phase] = words.get(state.runs[name].phase, 0) + 1
    counted = ", ".join(f"{count} {word}" for word, count in sorted(words.items()))
    way = "way back, batch" if state.direction == BACK else "batch"
    return f"{way} {number + 1} of {len(state.batches)} ended: {counted}"
