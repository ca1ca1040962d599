# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small cluster in memory for model-checking the rollout: nodes with agents that take their time, fail, and are restarted.

It knows the one rule that the rollout rests on: an agent reads the content that the node's label or the default selects
when its pod starts, and never again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import content_hash
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._plan import ConfigMapPlan, KeyChange, NodePlan, Plan, PolicyPlan, Selection
from ansible_collections.gpuops.mps.plugins.module_utils._prediction import Prediction
from ansible_collections.gpuops.mps.plugins.module_utils._rollout import STOPPED, RolloutState, Rules, rfc3339, step
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_build import Context, Pacing, back_state, canary_is_through, forward_state, going_back
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import (
    APPLIED_ANNOTATION,
    BACK,
    CHANGING,
    ROLLOUT_ANNOTATION,
    Mark,
    read_mark,
    write_annotation,
)
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_node import (
    Action,
    Begin,
    Evict,
    Finish,
    GiveUp,
    MakeRoom,
    ReadLimits,
    Release,
    Restart,
    Seen,
)
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_record import SCOPE_WHOLE, Record, read_record, write_record
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_return import (
    FormerConfigs,
    former_configs,
    former_of,
    plan_way_back,
    way_back,
    with_preserved,
)
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_view import see
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import (
    AGENT_DAEMON_SETS,
    AGENTS,
    CONFIG_LABEL,
    CONTROL_DAEMON,
    ClusterPolicy,
    ConfigMap,
    Node,
    Pod,
    Snapshot,
)

GPUS = 2
NODE_SECONDS = 100.0
BACK_SECONDS = 100.0


def text(replicas: int) -> str:
    """A config's text."""
    return f"version: v1\nsharing:\n  mps:\n    resources:\n      - name: nvidia.com/gpu\n        replicas: {replicas}\n"


@dataclass
class AgentSim:
    """One agent's pod: which content it has read, and whether it is still starting or going."""

    uid: str
    content: str | None
    starting: bool = False
    terminating: bool = False


@dataclass
class NodeSim:
    """One node. C(bad_content) are contents with which its plugin never advertises anything."""

    name: str
    label: str | None
    agents: dict[str, AgentSim]
    bad_contents: frozenset[str]
    annotations: dict[str, str] = field(default_factory=dict)
    unschedulable: bool = False
    cordoned_by_others: bool = False
    gpu_pods: int = 0
    limits: tuple[str, int] | None = None


def policy(default: str) -> ClusterPolicy:
    """The active policy with this default."""
    return ClusterPolicy(
        name="cluster-policy",
        uid="p",
        resource_version="1",
        generation=1,
        created="2026-01-01T00:00:00Z",
        state="ready",
        namespace="gpu-operator",
        config_name="map",
        config_default=default,
        mig_strategy="none",
        device_plugin_enabled=True,
        feature_discovery_enabled=True,
        plugin_version=PluginVersion(0, 17, 4),
        mps_root="/run/nvidia/mps",
        update_strategy="RollingUpdate",
        max_unavailable="1",
        active=True,
    )


class ClusterSim:
    """The cluster, the Lease's record and the clock; everything a killed run leaves behind."""

    def __init__(
        self, nodes: list[NodeSim], data: dict[str, str], wanted_data: dict[str, str], wanted_labels: Mapping[str, str | None], version: PluginVersion
    ) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.data = dict(data)
        self.kept: dict[str, str] = {}
        self.wanted_data = wanted_data
        self.wanted_labels = wanted_labels
        self.version = version
        self.default = ""
        self.record_text: str | None = None
        self.now = 1_790_000_000.0
        self._uids = 0

    # What the rollout reads

    def record(self) -> Record | None:
        """The record, read back from its text as a later run would."""
        return read_record({"metadata": {"annotations": {ROLLOUT_ANNOTATION: self.record_text}}}) if self.record_text else None

    def snapshot(self) -> Snapshot:
        """The cluster as the plan sees it."""
        found_policy = replace(policy(self.default), plugin_version=self.version)
        found_map = ConfigMap("gpu-operator", "map", "m", "1", dict(self.data), {}, {})
        return Snapshot(
            server="",
            server_version="",
            read_at="",
            namespace="gpu-operator",
            policies=(found_policy,),
            policy_schema_has_config=True,
            gpu_clusters=(),
            config_map=found_map,
            daemon_sets=(),
            nodes=tuple(self._node(node) for node in self.nodes.values()),
            agent_pods=tuple(pod for node in self.nodes.values() for pod in self.pods(node)),
            gpu_pods=(),
        )

    def world(self, names: tuple[str, ...]) -> dict[str, Seen]:
        """What the state machine sees of these nodes."""
        found = {}
        for name in names:
            if node := self.nodes.get(name):
                running = tuple(("default", f"pod-{number}") for number in range(node.gpu_pods))
                found[name] = see(self._node(node), self.pods(node), gpu_pods=running, limits=node.limits)
        return found

    def pods(self, node: NodeSim) -> tuple[Pod, ...]:
        """The agents' pods of a node."""
        return tuple(
            Pod(
                namespace="gpu-operator",
                name=f"{agent}-{sim.uid}",
                uid=sim.uid,
                node=node.name,
                phase="Running",
                ready=not sim.starting,
                created=sim.uid,
                started=None,
                terminating=sim.terminating,
                app=AGENT_DAEMON_SETS[agent],
            )
            for agent, sim in node.agents.items()
        )

    def _node(self, node: NodeSim) -> Node:
        labels = {"nvidia.com/mps.capable": "true", "nvidia.com/gpu.replicas": str(self._replicas(node.agents[AGENTS[0]].content))}
        if node.label is not None:
            labels[CONFIG_LABEL] = node.label
        return Node(
            name=node.name,
            uid=node.name,
            resource_version="1",
            labels=labels,
            annotations=dict(node.annotations),
            capacity={},
            allocatable=self.allocatable(node),
            ready=True,
            unschedulable=node.unschedulable,
            created="2026-01-01T00:00:00Z",
        )

    def allocatable(self, node: NodeSim) -> dict[str, int]:
        """What the plugin advertises: nothing while it or the daemon starts, and never with a bad content."""
        plugin, daemon = node.agents[AGENTS[2]], node.agents[CONTROL_DAEMON]
        busy = plugin.starting or plugin.terminating or daemon.starting or daemon.terminating
        if busy or plugin.content in node.bad_contents or plugin.content is None:
            return {}
        return {"nvidia.com/gpu": GPUS * self._replicas(plugin.content)}

    def _replicas(self, content: str | None) -> int:
        by_hash = {content_hash(text(number)): number for number in (2, 4, 8)}
        return by_hash.get(content or "", 1)

    def selected(self, node: NodeSim) -> str | None:
        """The hash of the content that a pod on the node reads when it starts now."""
        found = self.data.get(node.label or self.default)
        return None if found is None else content_hash(found)

    # What the rollout does

    def act(self, action: Action) -> None:
        """Carry one action out, with the guards of the real one."""
        node = self.nodes[action.node]
        if isinstance(action, Begin):
            if node.label == action.label_before:
                node.label = action.mark.label
                self._mark(node, action.mark)
        elif isinstance(action, MakeRoom):
            self._mark(node, action.mark)
            node.unschedulable = node.unschedulable or action.cordon
        elif isinstance(action, Finish):
            node.annotations[APPLIED_ANNOTATION] = write_annotation(replace(action.applied, at=rfc3339(self.now)))
            self._unmark(node, action.uncordon)
        elif isinstance(action, GiveUp):
            self._mark(node, action.mark)
            node.unschedulable = node.unschedulable and not action.uncordon
        elif isinstance(action, Release):
            self._unmark(node, action.uncordon)
        elif isinstance(action, Evict):
            node.gpu_pods = max(0, node.gpu_pods - 1)
        elif isinstance(action, ReadLimits):
            node.limits = (action.pod.uid, 100 // self._replicas(node.agents[CONTROL_DAEMON].content))
        elif isinstance(action, Restart):
            self._restart(node, action)

    def _restart(self, node: NodeSim, action: Restart) -> None:
        sim = node.agents[action.component]
        if sim.uid == action.pod.uid:
            sim.terminating = True

    def _mark(self, node: NodeSim, mark: Mark) -> None:
        node.annotations[ROLLOUT_ANNOTATION] = write_annotation(mark)

    def _unmark(self, node: NodeSim, uncordon: bool) -> None:
        node.annotations.pop(ROLLOUT_ANNOTATION, None)
        node.unschedulable = node.unschedulable and not uncordon

    # What happens by itself

    def tick(self, name: str) -> None:
        """One thing happens on a node: a pod goes and a new one starts, or one that starts becomes ready."""
        node = self.nodes.get(name)
        if node is None:
            return
        for agent in AGENTS:
            sim = node.agents[agent]
            if sim.terminating:
                node.agents[agent] = AgentSim(self.new_uid(), self.selected(node), starting=True)
                return
            if sim.starting:
                sim.starting = False
                return

    def new_uid(self) -> str:
        """A uid; uids sort by age."""
        self._uids += 1
        return f"{self._uids:05d}"

    # The plan

    def plan(self) -> Plan:
        """What is left to do, as the real planner finds it from what nodes run."""
        keys = tuple(
            KeyChange(key, "change" if key in self.data else "add", self.data.get(key), wanted)
            for key, wanted in sorted(self.wanted_data.items())
            if self.data.get(key) != wanted
        )
        config_map = ConfigMapPlan("gpu-operator", "map", True, "1", keys)
        nodes = tuple(self._node_plan(node) for node in self.nodes.values())
        return Plan(config_map, PolicyPlan("cluster-policy", "1", "map", "map", self.default, self.default), nodes, ())

    def _node_plan(self, node: NodeSim) -> NodePlan:
        wanted_label = self.wanted_labels[node.name]
        key = wanted_label or self.default
        wanted = content_hash(self.wanted_data[key])
        now = self.selected(node)
        stale = [agent for agent in AGENTS if node.agents[agent].content != wanted]
        steps = (("label",) if node.label != wanted_label else ()) + tuple(stale)
        replicas = self._replicas(wanted)
        features = {"nvidia.com/mps.capable": "true", "nvidia.com/gpu.replicas": str(replicas)}
        prediction = Prediction(labels=features, resources={"nvidia.com/gpu": GPUS * replicas}, thread_percentage=100 // replicas, daemon=True)
        return NodePlan(
            node=node.name,
            group=None,
            label_now=node.label,
            label_wanted=wanted_label,
            now=Selection(node.label or self.default, "label"),
            wanted=Selection(key, "label" if wanted_label else "default"),
            content_now=now,
            content_wanted=wanted,
            running="stale" if stale else "current",
            steps=steps,
            prediction=prediction,
            allocatable_now=self.allocatable(node),
            labels_now={},
        )


class Run:
    """One run of the rollout, in the order of the real conductor; it can be killed between any two writes."""

    def __init__(self, cluster: ClusterSim, pacing: Pacing) -> None:
        self.cluster = cluster
        self.pacing = pacing
        self.state: RolloutState | None = None
        self._todo = self._conduct()
        self.done = False

    def advance(self, fails: bool = False) -> None:
        """Make the next write, or look again; C(fails) loses the write."""
        try:
            write = next(self._todo)
            if write is not None and not fails:
                write()
        except StopIteration:
            self.done = True

    def _formers(self, record: Record) -> FormerConfigs:
        return former_configs(record, self.cluster.data, self.cluster.kept)

    def _save(self, record: Record):
        while (self.cluster.record_text or "") != write_record(record):
            yield lambda: setattr(self.cluster, "record_text", write_record(record))

    def _write(self, plan: ConfigMapPlan, formers: FormerConfigs):
        def write() -> None:
            for change in plan.keys:
                if change.before is not None:
                    self.cluster.kept[change.key] = change.before
                self.cluster.data[change.key] = change.after or ""
            self.cluster.kept.update({key: formers.texts[key] for key in self.cluster.kept if key in formers.texts})

        while any(self.cluster.data.get(change.key) != change.after for change in plan.keys):
            yield write

    def _conduct(self):
        cluster = self.cluster
        record = cluster.record()
        if record is None or not record.under_way:
            plan = cluster.plan()
            if not plan.changed:
                return
            record = Record(f"r{cluster.new_uid()}", rfc3339(cluster.now), "map", "cluster-policy", "map", cluster.default)
        if record.direction == BACK:
            yield from self._take_back(record)
            return
        plan = cluster.plan()
        hashes = {change.key: None if change.before is None else content_hash(change.before) for change in plan.config_map.keys}
        record = replace(record, former_hashes={**hashes, **record.former_hashes})
        context = self._context(plan, record)
        record = replace(record, former_hashes={**dict.fromkeys(context.way_back.preserved), **record.former_hashes})
        yield from self._save(record)
        yield from self._write(with_preserved(plan.config_map, context.way_back.preserved), context.formers)
        for _round in range(3):
            way = context.way_back
            plan = cluster.plan()
            context = replace(self._context(plan, record), way_back=way)
            state = forward_state(plan, context, resumed_until=cluster.now + NODE_SECONDS, skip_canary=canary_is_through(context.snapshot, record))
            yield from self._drive(state)
            state = self.state
            record = cluster.record()
            if state.outcome == STOPPED:
                record = going_back(record, state, cluster.snapshot(), way, {})
                yield from self._save(record)
                yield from self._take_back(record)
                return
            if not state.runs:
                break
        yield from self._save(replace(record, ended="verified"))

    def _context(self, plan: Plan, record: Record) -> Context:
        formers, snapshot = self._formers(record), self.cluster.snapshot()
        labels = [former_of(node, formers, record).label for node in snapshot.nodes]
        way = plan_way_back(plan, labels, formers, self.cluster.data, self.cluster.version)
        rules = self.pacing.rules if way.scope != SCOPE_WHOLE else replace(self.pacing.rules, max_failures=0)
        return Context(snapshot, record, formers, way, replace(self.pacing, rules=rules), self.cluster.default)

    def _take_back(self, record: Record):
        cluster, formers = self.cluster, self._formers(record)
        if record.scope == SCOPE_WHOLE:
            changes = tuple(KeyChange(key, "change", cluster.data.get(key), formers.texts[key]) for key in record.former_hashes if key in formers.texts)
            yield from self._write(ConfigMapPlan("gpu-operator", "map", True, "1", changes), formers)
        snapshot = cluster.snapshot()
        labels = [former_of(node, formers, record).label for node in snapshot.nodes]
        way = way_back(labels, formers, cluster.data, cluster.default, cluster.version)
        context = Context(snapshot, record, formers, way, self.pacing, cluster.default)
        yield from self._drive(back_state(context, resumed_until=cluster.now + BACK_SECONDS))
        yield from self._save(replace(record, ended=self.state.outcome))

    def _drive(self, state: RolloutState):
        self.state = state
        while self.state.outcome is None:
            record = self.cluster.record()
            if self.state.direction != BACK and not set(self.state.batch) <= set(record.batch):
                yield from self._save(replace(record, batch=self.state.batch))
            self.state, actions = step(self.state, self.cluster.world(self.state.batch), self.cluster.now)
            for action in actions:
                yield lambda action=action: self.cluster.act(action)
            if not actions:
                yield None


def marks(cluster: ClusterSim) -> dict[str, Mark]:
    """The marks on the nodes."""
    found = {name: read_mark(node.annotations) for name, node in cluster.nodes.items()}
    return {name: mark for name, mark in found.items() if mark is not None}


def disturbed(cluster: ClusterSim) -> list[str]:
    """Nodes on which agents are being changed at this moment."""
    return [name for name, mark in marks(cluster).items() if mark.state == CHANGING]


def pacing(batch_size: int, max_failures: int, disruption: str = "allow") -> Pacing:
    """The choices of a model run."""
    return Pacing(batch_size=batch_size, disruption=disruption, rules=Rules(max_failures=max_failures, node_timeout=NODE_SECONDS, room_timeout=NODE_SECONDS))
