# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: make the plan from a declaration and a snapshot. Pure."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ansible_collections.gpuops.mps.plugins.module_utils._config_map import Users, check_owners, data_after, keys_of, plan_config_map, users_of
from ansible_collections.gpuops.mps.plugins.module_utils._declaration import Declaration, SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import content_hash, read_config
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, finding, split_accepted
from ansible_collections.gpuops.mps.plugins.module_utils._nodes import LabelChange, plan_labels
from ansible_collections.gpuops.mps.plugins.module_utils._plan import STEP_LABEL, NodePlan, Plan, PodName, PolicyPlan, Selection
from ansible_collections.gpuops.mps.plugins.module_utils._plan_checks import check_default, check_disruption, check_installation, check_nodes, check_selected
from ansible_collections.gpuops.mps.plugins.module_utils._policy import plan_policy
from ansible_collections.gpuops.mps.plugins.module_utils._prediction import Prediction, predict
from ansible_collections.gpuops.mps.plugins.module_utils._running import Running, newest, running
from ansible_collections.gpuops.mps.plugins.module_utils._selection import select, text_of
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENTS, CONTROL_DAEMON, Node, Snapshot
from ansible_collections.gpuops.mps.plugins.module_utils._workload import node_change, scan_workloads

SEVERITIES = ("error", "warning", "info")
# Without a key the operator's fallback is an empty file: every GPU is exclusive.
NO_SHARING = SharingConfig(name="", strategy=Strategy.NONE)


@dataclass(frozen=True)
class _Texts:
    """The texts that selections refer to: ``now`` in the map the policy refers to, ``wanted`` in the planned map once written."""

    now: t.Mapping[str, str]
    wanted: t.Mapping[str, str]
    meanings: t.Mapping[str, SharingConfig]  # of the wanted texts that can be understood
    meanings_now: t.Mapping[str, SharingConfig]


def make_plan(
    declaration: Declaration,
    snapshot: Snapshot,
    *,
    accept: t.Collection[str] = (),
    on_left_group: str = "keep",
    update_strategy: str = "in_place",
    operator_held: bool = False,
    policy: str | None = None,
    noticed: t.Iterable[Finding] = (),
) -> Plan:
    """Everything that must happen so that the cluster is as declared, and everything that stands against it.

    ``operator_held`` says that the caller keeps the operator from replacing pods by itself (DaemonSets updated OnDelete),
    so that steps for the agents are planned although the policy changes. ``policy`` is the policy's name where the user
    gave one; ``noticed`` are the findings of the declaration's parser, which become the plan's. Never raises for anything
    that a declaration or a cluster can be.
    """
    keys = keys_of(declaration.configs, update_strategy)
    after_map, _unused = plan_config_map(declaration.configs, snapshot, keys=keys, users=Users({}))
    available = set(data_after(snapshot.config_map, after_map))
    labels = plan_labels(declaration.groups, snapshot, keys=keys, available=available, on_left_group=on_left_group)
    default = None if declaration.default is None else keys.get(declaration.default, declaration.default)
    policy_plan, policy_findings = plan_policy(snapshot, name=snapshot.map_name, default=default, wanted_policy=policy)
    default_after = policy_plan.default_after if policy_plan else default or ""
    users = users_of(((one.node, one.after) for one in labels.nodes), default_after)
    config_map, map_findings = plan_config_map(declaration.configs, snapshot, keys=keys, users=users)
    texts = _texts(snapshot, data_after(snapshot.config_map, config_map))
    rolls = (
        policy_plan is not None and policy_plan.changed and not operator_held and snapshot.policy is not None and snapshot.policy.update_strategy != "OnDelete"
    )
    plans = tuple(_node_plan(change, snapshot, policy_plan, texts, rolls) for change in labels.nodes)
    findings = (
        *noticed,
        *policy_findings,
        *map_findings,
        *check_owners(snapshot, config_map),
        *labels.findings,
        *check_installation(snapshot),
        *check_default(snapshot, default_after, available),
        *check_selected(plans, texts.meanings, default_after, snapshot),
        *check_nodes(plans, snapshot, texts.meanings),
        *check_disruption(plans, policy_plan, snapshot),
        *(found for plan in plans if plan.prediction for found in plan.prediction.findings),
        *_unreadable(plans, texts, snapshot),
        *_workload_findings(plans, texts, snapshot),
        *(finding("not-readable", "", f"not read, and so not checked: {refusal}") for refusal in snapshot.unread),
    )
    return Plan(config_map, policy_plan, plans, settle(findings, accept), labels.groups)


def settle(findings: t.Iterable[Finding], accept: t.Collection[str]) -> tuple[Finding, ...]:
    """Findings once each, accepted ones softened, the worst first."""
    standing, accepted = split_accepted(dict.fromkeys(findings), accept)
    return tuple(sorted((*standing, *accepted), key=lambda one: (SEVERITIES.index(one.severity), one.code, one.path, one.subject)))


def _texts(snapshot: Snapshot, wanted: t.Mapping[str, str]) -> _Texts:
    now = snapshot.referred_map.data if snapshot.referred_map else {}
    return _Texts(now, wanted, _meanings(wanted, snapshot), _meanings(now, snapshot))


def _meanings(texts: t.Mapping[str, str], snapshot: Snapshot) -> dict[str, SharingConfig]:
    readings = (read_config(key, text, plugin_version=snapshot.plugin_version) for key, text in texts.items())
    return {reading.key: reading.config for reading in readings if reading.config is not None}


def _node_plan(change: LabelChange, snapshot: Snapshot, policy: PolicyPlan | None, texts: _Texts, rolls: bool) -> NodePlan:
    node = snapshot.known_node(change.node)
    now = select(change.before, snapshot.policy)
    wanted = select(change.after, None, map_name=policy.name_after if policy else "", default=policy.default_after if policy else "")
    text_now, text_wanted = text_of(texts.now, now), text_of(texts.wanted, wanted)
    content_now, content_wanted = _hash(text_now), _hash(text_wanted)
    prediction_now = _predict(now, texts.meanings_now, node, snapshot)
    prediction = _predict(wanted, texts.meanings, node, snapshot)
    runs = running(node, snapshot, now, content_now, prediction_now)
    same = content_now == content_wanted and (now.config is None) == (wanted.config is None)
    agents = () if rolls else _agent_steps(node, snapshot, prediction, runs, same)
    steps = ((STEP_LABEL,) if change.changed else ()) + agents
    mps_now = _strategy(now, texts.meanings_now) is Strategy.MPS
    mps_wanted = _strategy(wanted, texts.meanings) is Strategy.MPS
    breaks = (rolls or bool(agents)) and (mps_now or mps_wanted)
    return NodePlan(
        node=node.name,
        group=change.group,
        label_now=change.before,
        label_wanted=change.after,
        now=now,
        wanted=wanted,
        content_now=content_now,
        content_wanted=content_wanted,
        running=runs.state,
        steps=steps,
        prediction=prediction,
        allocatable_now=node.allocatable,
        labels_now={key: node.labels[key] for key in (prediction.labels if prediction else ()) if key in node.labels},
        gpu_pods=_running_pods(node, snapshot) if breaks else (),
        operator_rolls=rolls,
        left_group=change.left_group,
        resource_version=node.resource_version,
    )


def _agent_steps(node: Node, snapshot: Snapshot, prediction: Prediction | None, runs: Running, same: bool) -> tuple[str, ...]:
    """Agents whose pod must be replaced: all of them for another text, else those that run something old.

    A daemon is replaced only where one runs and one is wanted: the DaemonSet makes and removes it with GFD's label.
    A node without agents gets fresh ones by itself once it can run them.
    """
    concerned = runs.stale if same else AGENTS
    present = [agent for agent in concerned if newest(snapshot, node.name, agent) is not None]
    stays = prediction is not None and prediction.daemon
    return tuple(agent for agent in present if agent != CONTROL_DAEMON or stays)


def _predict(selection: Selection, meanings: t.Mapping[str, SharingConfig], node: Node, snapshot: Snapshot) -> Prediction | None:
    meaning = NO_SHARING if selection.config is None else meanings.get(selection.config)
    if meaning is None:
        return None
    mig_strategy = snapshot.policy.mig_strategy if snapshot.policy else None
    path = f"mps_configs.{meaning.name}" if meaning.name else "nodes"
    return predict(meaning, node.gpus, mig_strategy=mig_strategy or None, plugin_version=snapshot.plugin_version, node=node.name, path=path)


def _strategy(selection: Selection, meanings: t.Mapping[str, SharingConfig]) -> Strategy:
    meaning = meanings.get(selection.config or "")
    return meaning.strategy if meaning else Strategy.NONE


def _running_pods(node: Node, snapshot: Snapshot) -> tuple[PodName, ...]:
    pods = (pod for pod in snapshot.gpu_pods_on(node.name) if pod.phase == "Running" and not pod.terminating)
    return tuple(PodName(pod.namespace, pod.name, f"{pod.owner_kind}/{pod.owner_name}" if pod.owner_name else "") for pod in pods)


def _unreadable(plans: t.Iterable[NodePlan], texts: _Texts, snapshot: Snapshot) -> t.Iterator[Finding]:
    """Errors in texts that this plan does not write but that some node would get."""
    selected = {plan.wanted.config for plan in plans if plan.wanted.config}
    for key in sorted(selected - set(texts.meanings)):
        if key in texts.wanted:
            reading = read_config(key, texts.wanted[key], plugin_version=snapshot.plugin_version)
            subject = f"configmap/{snapshot.namespace}/{snapshot.map_name}"
            yield from (replace(found, subject=found.subject or subject) for found in reading.findings)


def _workload_findings(plans: t.Sequence[NodePlan], texts: _Texts, snapshot: Snapshot) -> tuple[Finding, ...]:
    """Workloads that the change breaks or that could never be placed after it; nothing without a change. The operator's own are not workloads."""
    if not any(plan.changed for plan in plans):
        return ()
    changes = []
    for plan in plans:
        node = snapshot.node(plan.node)
        meaning = NO_SHARING if plan.wanted.config is None else texts.meanings.get(plan.wanted.config)
        if node is not None:
            changes.append(node_change(node.name, node.labels, node.allocatable, plan.prediction, config=meaning, plugin_version=snapshot.plugin_version))
    others = [item for item in snapshot.workloads if item["metadata"].get("namespace") != snapshot.namespace]
    return scan_workloads((*others, *_pod_objects(snapshot)), changes)


def _pod_objects(snapshot: Snapshot) -> t.Iterator[dict[str, t.Any]]:
    """The GPU pods as API objects; with the controllers read, only pods that have none."""
    for pod in snapshot.gpu_pods:
        if not (snapshot.workloads and pod.owner_name):
            yield {"kind": "Pod", "metadata": {"namespace": pod.namespace, "name": pod.name}, "spec": pod.spec}


def _hash(text: str | None) -> str | None:
    return None if text is None else content_hash(text)
