# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: from a plan, or from what a rollout has left on the objects, to the state that is stepped through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._plan import STEP_LABEL, NodePlan, Plan
from ansible_collections.gpuops.mps.plugins.module_utils._prediction import Prediction
from ansible_collections.gpuops.mps.plugins.module_utils._rollout import NodeRun, RolloutState, Rules, seconds_of
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_batches import batch_count, make_batches, order_nodes
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import BACK, FORWARD, Former, read_applied, read_mark
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_node import Target, Work
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_record import SCOPE_NODE, SCOPE_WHOLE, Record
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_return import (
    FormerConfigs,
    WayBack,
    former_of,
    former_target,
    relabelled_target,
    return_label,
)
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_view import gpu_resources, is_outdated
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENTS, Node, Snapshot


@dataclass(frozen=True)
class Pacing:
    """The user's choices: which nodes together, and what may be disturbed."""

    canary: tuple[str, ...] = ()
    batch_size: int | str = 1
    order: tuple[str, ...] = ()
    disruption: str = "refuse"
    rules: Rules = field(default_factory=Rules)


@dataclass(frozen=True)
class Context:
    """Everything that both directions need. C(default) is the policy's default while the rollout runs."""

    snapshot: Snapshot
    record: Record
    formers: FormerConfigs
    way_back: WayBack
    pacing: Pacing
    default: str

    @property
    def version(self) -> PluginVersion | None:
        """The device plugin's version."""
        return self.snapshot.plugin_version


def outdated_agents(snapshot: Snapshot, node: str) -> tuple[str, ...]:
    """The agents whose pod on the node was made from an older template of its DaemonSet (label pod-template-generation)."""
    current = {one.component: one.template_generation for one in snapshot.daemon_sets}
    return tuple(agent for agent in AGENTS if any(is_outdated(pod, current.get(agent, "")) for pod in snapshot.pods_of(node, agent)))


def nodes_to_change(plan: Plan, context: Context) -> tuple[NodePlan, ...]:
    """The nodes of the plan that a rollout works on: something changes, or an earlier run has left them half done.

    A node that is not ready is left out: nothing could be restarted or seen there.
    """
    ready = ((one, context.snapshot.node(one.node)) for one in plan.nodes)
    return tuple(one for one, node in ready if node is not None and node.ready and _needs_work(one, node, context))


def _needs_work(one: NodePlan, node: Node, context: Context) -> bool:
    if _taken_back(node.name, context) and not _half_done(node.name, context):
        return False  # this rollout has tried it; it is not tried twice
    return one.changed or read_mark(node.annotations) is not None or bool(_restarts(one, node, context))


def forward_state(plan: Plan, context: Context, *, resumed_until: float = 0.0, skip_canary: bool = False) -> RolloutState:
    """The way forward: every node that needs it, in batches."""
    nodes = nodes_to_change(plan, context)
    runs = {one.node: _forward_run(one, context) for one in nodes}
    names = order_nodes(runs, {one.node: one.group for one in nodes}, context.pacing.order)
    half_done = [name for name in names if _half_done(name, context) or name in context.record.batch]
    canary = () if skip_canary else context.pacing.canary
    size = batch_count(context.pacing.batch_size, len(plan.nodes))
    batches = make_batches(names, canary=canary, batch_size=size, first=half_done)
    pause_until = seconds_of(context.record.pause_until)
    earlier = sum(_taken_back(node.name, context) for node in context.snapshot.nodes)
    return RolloutState(batches, runs, context.pacing.rules, FORWARD, pause_until=pause_until, resumed_until=resumed_until, broken_before=earlier)


def _half_done(name: str, context: Context) -> bool:
    mark = read_mark(_annotations(context, name))
    return mark is not None and mark.rollout == context.record.id


def _taken_back(name: str, context: Context) -> bool:
    """Whether this rollout has taken the node back already."""
    applied = read_applied(_annotations(context, name))
    return applied is not None and applied.returned and applied.rollout == context.record.id


def going_back(record: Record, state: RolloutState, snapshot: Snapshot, way: WayBack, said: Mapping[str, str]) -> Record:
    """The record of a rollout that one node too many has failed in: which way back, for which batch, and why.

    C(said) is what the agents of broken nodes have logged last. Nodes go back alone only where other batches are verified
    already; with nothing to keep, map and policy go back too.
    """
    batch = tuple(dict.fromkeys((*record.batch, *state.batch)))
    kept = any(_verified_in(record, node) for node in snapshot.nodes if node.name not in batch)
    return replace(
        record,
        direction=BACK,
        scope=SCOPE_NODE if kept and way.scope == SCOPE_NODE else SCOPE_WHOLE,
        batch=batch,
        reasons={name: f"{run.broken_link}: {run.broken}{said.get(name, '')}" for name, run in state.runs.items() if run.broken},
        pause_until="",
    )


def _verified_in(record: Record, node: Node) -> bool:
    applied = read_applied(node.annotations)
    return applied is not None and applied.rollout == record.id and not applied.returned


def canary_is_through(snapshot: Snapshot, record: Record) -> bool:
    """Whether a node was verified in this rollout already, so that a resuming run needs no canary again."""
    return any(_verified_in(record, node) for node in snapshot.nodes)


def _forward_run(one: NodePlan, context: Context) -> NodeRun:
    node = context.snapshot.known_node(one.node)
    former = former_of(node, context.formers, context.record)
    target = Target(
        label=one.label_wanted,
        config=one.wanted.config,
        source=one.wanted.source,
        content=one.content_wanted,
        prediction=one.prediction or Prediction(exact=False),
        restart=_restarts(one, node, context),
    )
    known = frozenset({node.config_label, target.label, former.label, *_marked_labels(node)})
    work = Work(one.node, context.record.id, FORWARD, target, former, known, _breaks(former, target), context.pacing.disruption)
    way_back, mark = _alone(work, context), read_mark(node.annotations)
    if way_back and mark and mark.direction == BACK and mark.rollout == context.record.id:
        return NodeRun(replace(way_back, reason=mark.reason), broken=mark.reason or "it did not get there in an earlier run")
    return NodeRun(work, way_back)


def _restarts(one: NodePlan, node: Node, context: Context) -> tuple[str, ...]:
    """The agents to restart: those of the plan, those with an old template, and all where another change is half done."""
    mark, applied = read_mark(node.annotations), read_applied(node.annotations)
    done = applied is not None and applied.rollout == context.record.id
    if (mark is not None and mark.touched) or (not done and _content_differs(one, node, context)):
        return AGENTS
    wanted = {step for step in one.steps if step != STEP_LABEL} | set(outdated_agents(context.snapshot, node.name))
    return tuple(agent for agent in AGENTS if agent in wanted)


def _content_differs(one: NodePlan, node: Node, context: Context) -> bool:
    """Whether the node's agents run another text than the wanted one, by what the rollout knows of the time before it."""
    former = former_of(node, context.formers, context.record)
    return former.content != one.content_wanted or (former.config is None) != (one.wanted.config is None)


def _marked_labels(node: Node) -> tuple[str | None, ...]:
    mark = read_mark(node.annotations)
    return (mark.label, mark.former.label) if mark else ()


def _breaks(former: Former, target: Target) -> bool:
    """Whether running GPU processes do not survive the change: the daemon comes, goes or restarts, or the resource is renamed."""
    if former.daemon or target.prediction.daemon:
        return bool(target.restart) or former.daemon != target.prediction.daemon
    return bool(former.allocatable) and set(former.allocatable) != set(target.prediction.resources)


def _alone(work: Work, context: Context) -> Work | None:
    """The way back of one node without the others, None where only all can go back."""
    if context.way_back.scope != SCOPE_NODE:
        return None
    return _back_work(work.node, work.former, context, SCOPE_NODE)


def _back_work(name: str, former: Former, context: Context, scope: str) -> Work:
    """The way back of one node. What runs there is not asked for leave: the node is broken or runs a config that goes away."""
    node = context.snapshot.node(name)
    target = former_target(former, context.formers, context.version)
    if scope == SCOPE_NODE:
        target = relabelled_target(target, return_label(former, context.way_back), context.default)
    known = frozenset({former.label, target.label, *(_own_labels(node) if node else ())})
    return Work(name, context.record.id, BACK, target, former, known, breaks=False, disruption="allow")


def _own_labels(node: Node) -> tuple[str | None, ...]:
    """The labels that rollouts have written on a node; another one is somebody else's and is not overwritten."""
    applied = read_applied(node.annotations)
    return (*_marked_labels(node), *((applied.label,) if applied else ()))


def back_state(context: Context, *, resumed_until: float = 0.0) -> RolloutState:
    """The way back, from what the rollout has left on the nodes: the failed batch first, then the others in batches."""
    whole = context.record.scope == SCOPE_WHOLE
    runs: dict[str, NodeRun] = {}
    for node in context.snapshot.nodes:
        work = _whole_return(node, context) if whole else _node_return(node, context)
        # A node that was lost in the middle is tried as well: it gets its label back, and a mark that says why it is not done.
        if work is not None and (node.ready or read_mark(node.annotations) is not None):
            runs[node.name] = NodeRun(work)
    first = [name for name in runs if name in context.record.batch or read_mark(_annotations(context, name)) is not None]
    names = [*first, *(name for name in runs if name not in first)]
    size = batch_count(context.pacing.batch_size, max(1, len(context.snapshot.nodes)))
    batches = make_batches(names, batch_size=size, first=first)
    return RolloutState(batches, runs, context.pacing.rules, BACK, resumed_until=resumed_until)


def _whole_return(node: Node, context: Context) -> Work | None:
    """Every node that the rollout has touched goes back, the verified ones too; map and policy are back already.

    Pods on the other nodes were made from the template that is in force again, so their DaemonSet leaves them alone
    (kubernetes, daemon controller: a pod is up to date by its revision's hash).
    """
    if not _left_on(node, context.record):
        return None
    return _back_work(node.name, former_of(node, context.formers, context.record), context, SCOPE_WHOLE)


def _left_on(node: Node, record: Record) -> bool:
    """Whether a rollout has left something on a node that can be taken back."""
    mark, applied = read_mark(node.annotations), read_applied(node.annotations)
    return mark is not None or (applied is not None and applied.rollout == record.id and applied.former is not None)


def pods_in_the_way_back(snapshot: Snapshot, record: Record) -> tuple[str, ...]:
    """The running GPU pods that do not survive a return of the whole rollout, as C(namespace/name on node)."""
    found = []
    for node in snapshot.nodes:
        former = former_of(node, FormerConfigs("", "", {}), record)
        under_mps = former.daemon or node.labels.get("nvidia.com/mps.capable") == "true"
        if _left_on(node, record) and (under_mps or set(former.allocatable) != set(gpu_resources(node.allocatable))):
            pods = (pod for pod in snapshot.gpu_pods_on(node.name) if pod.phase == "Running" and not pod.terminating)
            found += [f"{pod.namespace}/{pod.name} on {node.name}" for pod in pods]
    return tuple(found)


def _node_return(node: Node, context: Context) -> Work | None:
    """The failed batch goes back; nodes whose turn never came keep what they run under a label that still means it."""
    mark, applied = read_mark(node.annotations), read_applied(node.annotations)
    done = applied is not None and applied.rollout == context.record.id
    former = former_of(node, context.formers, context.record)
    work = _back_work(node.name, former, context, SCOPE_NODE)
    if mark is not None or (done and node.name in context.record.batch):
        return work
    outdated = outdated_agents(context.snapshot, node.name)
    joined_later = node.created > context.record.started
    if done or joined_later or (work.target.label == node.config_label and not outdated):
        return None
    return replace(work, target=replace(work.target, restart=outdated))


def _annotations(context: Context, name: str) -> Mapping[str, str]:
    node = context.snapshot.node(name)
    return node.annotations if node else {}
