# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: conduct a rollout from the plan to its end, or continue one that another run has left.

Order of the writes: the record on the Lease (where everything came from), the map without removals, the policy, the nodes
in batches, the policy's update strategy back, removals from the map, the record's end. Each of them is skipped when the
cluster shows that it is done, so that a run that was killed anywhere is continued by simply running again.
"""

from __future__ import annotations

import secrets
import time
import typing as t
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_snapshot import read_snapshot
from ansible_collections.gpuops.mps.plugins.module_utils._config_map import former_texts, only_removals
from ansible_collections.gpuops.mps.plugins.module_utils._declaration import Declaration
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import content_hash
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, finding
from ansible_collections.gpuops.mps.plugins.module_utils._plan import ConfigMapPlan, KeyChange, Plan, PolicyPlan
from ansible_collections.gpuops.mps.plugins.module_utils._plan_build import make_plan
from ansible_collections.gpuops.mps.plugins.module_utils._rollout import STOPPED, VERIFIED, RolloutState, rfc3339, seconds_of, step
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_act import Hands, last_lines
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_build import Context, Pacing, back_state, canary_is_through, forward_state, going_back
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_lease import RolloutLease, lease_path, server_clock
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_live import Live
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import BACK, FAILED
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_policy import can_hold, is_held
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_record import SCOPE_NODE, SCOPE_WHOLE, Record, read_record
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_result import batch_line, disagreements_found, interference_found, progress_lines
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_return import (
    FormerConfigs,
    WayBack,
    former_configs,
    former_of,
    plan_way_back,
    way_back,
    with_preserved,
)
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_shared import put_strategy_back, restoration, wait_for_operator, write_map, write_policy
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_view import see
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import ConfigMap, Snapshot
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot_build import config_map_of

IN_PROGRESS = "in_progress"
NOT_FOLLOWING = "operator-not-following"
# New nodes that joined meanwhile are rolled out as well, but a cluster that grows all the time must not keep a run for ever.
ROUNDS = 3
SHOW_SECONDS = 5.0
SAME_LINES = 20  # a failed write is repeated every second: one line for it is enough
WATCH_LIMIT_SECONDS = 24 * 3600.0


@dataclass(frozen=True)
class Wish:
    """Everything the user wants of a rollout. Times are seconds; 0 batches or slice means no limit."""

    declaration: Declaration
    pacing: Pacing
    accept: tuple[str, ...] = ()
    on_left_group: str = "keep"
    update_strategy: str = "in_place"
    namespace: str | None = None
    config_map: str | None = None
    policy: str | None = None
    takeover: bool = False
    batches: int = 0
    slice_seconds: int = 0
    holder: str = ""
    continued: bool = False
    lease_seconds: int = 30
    projection_seconds: int = 90


@dataclass
class Report:
    """What one run has seen and done, for the result."""

    changed: bool = False
    batches_done: int = 0
    progress: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


class Conductor:
    """One run of a rollout on one cluster."""

    def __init__(self, cluster: Cluster, wish: Wish) -> None:
        self.cluster = cluster
        self.wish = wish
        self.report = Report()
        self.clock: Callable[[], float] = time.time
        self._until = time.monotonic() + wish.slice_seconds if wish.slice_seconds else float("inf")
        self._lease: RolloutLease | None = None

    # Reading

    def read(self) -> Snapshot:
        """The cluster as it is."""
        wish = self.wish
        snapshot = read_snapshot(self.cluster, namespace=wish.namespace, config_map=wish.config_map, policy=wish.policy)
        self.clock = server_clock(self.cluster)
        return snapshot

    def read_record(self, namespace: str) -> Record | None:
        """The record of the last rollout, or of the one that is under way."""
        return read_record(self.cluster.get(lease_path(namespace)))

    def plan(self, snapshot: Snapshot) -> Plan:
        """The plan, made for a rollout that holds the operator back where it can."""
        wish = self.wish
        held = snapshot.policy is not None and (can_hold(snapshot.policy) or is_held(snapshot.policy))
        return make_plan(
            wish.declaration,
            snapshot,
            accept=wish.accept,
            on_left_group=wish.on_left_group,
            update_strategy=wish.update_strategy,
            operator_held=held,
            policy=wish.policy,
        )

    def context(self, snapshot: Snapshot, plan: Plan, record: Record) -> Context:
        """What the way forward needs: where everything came from, and how it could go back."""
        formers = self._formers(snapshot, record)
        data = snapshot.config_map.data if snapshot.config_map else {}
        labels = [former_of(node, formers, record).label for node in snapshot.nodes]
        way = plan_way_back(plan, labels, formers, data, snapshot.plugin_version)
        return Context(snapshot, record, formers, way, self._pacing(way), plan.policy.default_after if plan.policy else "")

    def _pacing(self, way: WayBack) -> Pacing:
        """Where nodes can only go back together, the first broken one has to stop the rollout."""
        pacing = self.wish.pacing
        if way.scope == SCOPE_NODE:
            return pacing
        return replace(pacing, rules=replace(pacing.rules, max_failures=0))

    def _formers(self, snapshot: Snapshot, record: Record) -> FormerConfigs:
        """What labels and default meant before the rollout, although map and policy may be written already."""
        if not record.former_config_name:
            return FormerConfigs("", record.former_config_default, {})
        if record.former_config_name == record.config_map:
            data = snapshot.config_map.data if snapshot.config_map else {}
            return former_configs(record, data, former_texts(snapshot.config_map))
        other = self.cluster.get(f"/api/v1/namespaces/{snapshot.namespace}/configmaps/{record.former_config_name}")
        return FormerConfigs(record.former_config_name, record.former_config_default, (other or {}).get("data") or {})

    def new_record(self, snapshot: Snapshot, plan: Plan, earlier: Record | None) -> Record:
        """The record for this plan: that of the rollout under way, or a new one, with every key that is about to change."""
        hashes = {change.key: None if change.before is None else content_hash(change.before) for change in plan.config_map.keys}
        if earlier is not None and earlier.under_way:
            return replace(earlier, former_hashes={**hashes, **earlier.former_hashes})
        policy, now = snapshot.policy, self.clock()
        return Record(
            id=f"{rfc3339(now).replace('-', '').replace(':', '')}-{secrets.token_hex(3)}",
            started=rfc3339(now),
            config_map=plan.config_map.name,
            policy=policy.name if policy else "",
            former_config_name=policy.config_name if policy else "",
            former_config_default=policy.config_default if policy else "",
            former_hashes=hashes,
        )

    # Forward

    def roll_out(self, snapshot: Snapshot, plan: Plan, earlier: Record | None) -> tuple[str, Snapshot, Record]:
        """Carry the plan out. Returns the outcome, the snapshot at the end and the record."""
        lease = self._take_lease(snapshot)
        if lease.record != earlier:  # somebody was at work while the Lease was waited for
            earlier, snapshot = lease.record, self.read()
            plan = self._still_admitted(self.plan(snapshot))
        if earlier is not None and earlier.under_way and earlier.direction == BACK:
            return self.take_back(snapshot, earlier)
        record = self.new_record(snapshot, plan, earlier)
        context = self.context(snapshot, plan, record)
        record = replace(record, former_hashes={**dict.fromkeys(context.way_back.preserved), **record.former_hashes})
        try:
            record = self._write_shared(lease, snapshot, plan, replace(context, record=record))
        except ClusterError as error:
            if error.code != NOT_FOLLOWING:
                raise
            return self._stop_before_nodes(lease, error)
        state: RolloutState | None = None
        for _round in range(ROUNDS):
            snapshot = self.read()
            plan = self.plan(snapshot) if state else self._with_steps_left(plan, snapshot)
            context = replace(self.context(snapshot, plan, record), way_back=context.way_back)
            state = self._forward(lease, plan, context)
            if state.outcome == STOPPED:
                return self._stop(lease, state, context)
            if state.outcome is None:
                return self._pause(lease, state)
            if not state.runs:
                break
        return self._finish(lease, _record_of(lease), VERIFIED)

    def _take_lease(self, snapshot: Snapshot) -> RolloutLease:
        wish = self.wish
        holder = wish.holder or f"run-{secrets.token_hex(6)}"
        self._lease = RolloutLease(self.cluster, snapshot.namespace, holder, wish.lease_seconds, self.clock)
        self._lease.acquire(takeover=wish.takeover)
        return self._lease

    def _write_shared(self, lease: RolloutLease, snapshot: Snapshot, plan: Plan, context: Context) -> Record:
        """Record, map and policy, in this order; then wait until the operator follows."""
        record, policy = context.record, snapshot.policy
        policy_changes = plan.policy is not None and plan.policy.changed
        hold = policy is not None and policy_changes and can_hold(policy) and not is_held(policy)
        if hold and policy is not None and record.former_update_strategy is None:
            record = replace(record, former_update_strategy=policy.update_strategy)
        if record != lease.record:
            lease.save(record)
            self.report.changed = True
        self.report.changed |= write_map(self.cluster, with_preserved(plan.config_map, context.way_back.preserved), snapshot.config_map, context.formers)
        if plan.policy is not None and write_policy(self.cluster, plan.policy, hold=hold):
            self.report.changed = True
        if plan.policy is not None and (plan.policy.name_after, plan.policy.default_after) != (record.former_config_name, record.former_config_default):
            replaced = not hold and not (policy is not None and is_held(policy))
            self._wait_for_operator(lease, snapshot, plan.policy.name_after, plan.policy.default_after, replaced=replaced)
        self._wait_for_projection(lease, plan, record)
        return record

    def _wait_for_operator(self, lease: RolloutLease, snapshot: Snapshot, name: str, default: str, *, replaced: bool) -> None:
        seconds = self.wish.pacing.rules.node_timeout * (max(1, len(snapshot.nodes)) if replaced else 1)
        wait_for_operator(self.cluster, snapshot.namespace, name, default, seconds=seconds, replaced=replaced, alive=lambda _what: lease.renew())

    def _wait_for_projection(self, lease: RolloutLease, plan: Plan, record: Record) -> None:
        """With versioned keys the running agents follow the label at once: kubelet must have had time to bring them the key.

        kubelet looks at mounted ConfigMaps once in its sync period, a minute by default (kubernetes, kubelet configuration).
        Before the first rollout no pod mounts the map, so that there is nothing to wait for.
        """
        if self.wish.update_strategy != "versioned" or not record.former_config_name or not any(node.label_changes for node in plan.nodes):
            return
        found = self.cluster.get(f"/api/v1/namespaces/{plan.config_map.namespace}/configmaps/{plan.config_map.name}")
        changed = config_map_of(found).changed if found else None
        # Where nobody has noted when the map changed, it may have been right now.
        until = (seconds_of(changed) if changed else self.clock()) + self.wish.projection_seconds
        while self.clock() < until:
            lease.renew()
            time.sleep(min(1.0, max(0.0, until - self.clock())))

    def _with_steps_left(self, plan: Plan, snapshot: Snapshot) -> Plan:
        """The plan after map and policy are written. Where the operator has replaced pods by itself, what is left is planned anew."""
        return self.plan(snapshot) if any(node.operator_rolls for node in plan.nodes) else plan

    def _forward(self, lease: RolloutLease, plan: Plan, context: Context) -> RolloutState:
        resumed_until = 0.0 if self.wish.continued else self.clock() + context.pacing.rules.node_timeout
        state = forward_state(plan, context, resumed_until=resumed_until, skip_canary=canary_is_through(context.snapshot, context.record))
        return self._drive(lease, state, context.snapshot.namespace)

    def _still_admitted(self, plan: Plan) -> Plan:
        """A plan that had to be made anew while another run ended; raises ClusterError when something stands against it now."""
        if plan.admitted or self._lease is None:
            return plan
        self._lease.release()
        first = next(found for found in plan.findings if found.severity == "error")
        raise ClusterError(f"another rollout has ended meanwhile, and now {first.message}", code=first.code, remedy=first.remedy, subject=first.subject)

    def _pause(self, lease: RolloutLease, state: RolloutState) -> tuple[str, Snapshot, Record]:
        """End this run in the middle: the slice is over, or the wanted number of batches is through."""
        record = _record_of(lease)
        if state.pause_until > self.clock():
            record = replace(record, pause_until=rfc3339(state.pause_until + 1))
            lease.save(record)
        if self._batches_are_through():
            lease.release()
        return IN_PROGRESS, self.read(), record

    def _stop(self, lease: RolloutLease, state: RolloutState, context: Context) -> tuple[str, Snapshot, Record]:
        """One node too many has failed: decide how far to go back, write that down, go back."""
        snapshot = self.read()
        said = {name: last_lines(self.cluster, snapshot, name, run.broken_link) for name, run in state.runs.items() if run.broken}
        record = going_back(_record_of(lease), state, snapshot, context.way_back, said)
        lease.save(record)
        self.report.progress += [f"{name} failed at {reason}" for name, reason in record.reasons.items()]
        return self.take_back(snapshot, record)

    def _stop_before_nodes(self, lease: RolloutLease, error: ClusterError) -> tuple[str, Snapshot, Record]:
        """The operator does not follow the policy, so no node can be changed: map and policy go back."""
        self.report.findings.append(_not_following(error))
        record = replace(_record_of(lease), direction=BACK, scope=SCOPE_WHOLE, batch=(), reasons={"operator": error.message})
        lease.save(record)
        return self.take_back(self.read(), record)

    # Back

    def take_back(self, snapshot: Snapshot, record: Record) -> tuple[str, Snapshot, Record]:
        """Go back from wherever the rollout is. Returns the outcome, the snapshot at the end and the record."""
        lease = self._lease or self._take_lease(snapshot)
        if record != lease.record:
            lease.save(record)
        self.report.changed = True
        formers = self._formers(snapshot, record)
        if record.scope == SCOPE_WHOLE:
            try:
                record = self._restore_shared(lease, snapshot, record, formers)
            except ClusterError as error:
                if error.code != NOT_FOLLOWING:
                    raise
                self.report.findings.append(_not_following(error))
                return self._finish(lease, _record_of(lease), FAILED, tidy=False)
            snapshot = self.read()
        default = snapshot.policy.config_default if snapshot.policy else ""
        data = snapshot.config_map.data if snapshot.config_map else {}
        labels = [former_of(node, formers, record).label for node in snapshot.nodes]
        way = way_back(labels, formers, data, default, snapshot.plugin_version)
        context = Context(snapshot, record, formers, way, self.wish.pacing, default)
        resumed_until = 0.0 if self.wish.continued else self.clock() + context.pacing.rules.node_timeout
        state = self._drive(lease, back_state(context, resumed_until=resumed_until), snapshot.namespace)
        if state.outcome is None:
            return IN_PROGRESS, self.read(), record
        return self._finish(lease, record, state.outcome)

    def _restore_shared(self, lease: RolloutLease, snapshot: Snapshot, record: Record, formers: FormerConfigs) -> Record:
        """Map and policy as they were, the operator held back once more where the policy changes."""
        found, policy = snapshot.config_map, snapshot.policy
        changes = restoration(found, record.former_hashes, formers)
        if found is not None and changes:
            write_map(self.cluster, ConfigMapPlan(found.namespace, found.name, True, found.resource_version, changes), found, formers)
        former = (record.former_config_name, record.former_config_default)
        if policy is None or policy.name != record.policy:
            return record
        if (policy.config_name, policy.config_default) != former:
            hold = can_hold(policy) and not is_held(policy)
            if hold and record.former_update_strategy is None:
                record = replace(record, former_update_strategy=policy.update_strategy)
                lease.save(record)
            plan = PolicyPlan(policy.name, policy.resource_version, policy.config_name, former[0], policy.config_default, former[1])
            write_policy(self.cluster, plan, hold=hold)
        replaced = record.former_update_strategy is None and not is_held(policy)
        self._wait_for_operator(lease, snapshot, former[0], former[1], replaced=replaced)
        return record

    # End

    def _finish(self, lease: RolloutLease, record: Record, outcome: str, *, tidy: bool = True) -> tuple[str, Snapshot, Record]:
        """Put the update strategy back, remove what nothing refers to any more unless the operator lags behind, and close the record."""
        snapshot = self.read()
        if record.former_update_strategy is not None and snapshot.policy is not None:
            self.report.changed |= put_strategy_back(self.cluster, snapshot.policy, record.former_update_strategy)
        if outcome == VERIFIED:
            snapshot = self._remove_unused(snapshot)
        elif tidy:
            self._remove_added(snapshot, record)
        snapshot = self.read()
        record = replace(record, ended=outcome, former_update_strategy=None, pause_until="")
        self.report.findings += disagreements_found(snapshot, record, self._formers(snapshot, record))
        lease.save(record)
        lease.release()
        return outcome, snapshot, record

    def _remove_unused(self, snapshot: Snapshot) -> Snapshot:
        """Keys that are not declared and that nothing refers to; anything else that differs now was somebody else's doing."""
        plan = self.plan(snapshot)
        removals = only_removals(plan.config_map)
        # A node that was taken back by itself is under the name that keeps its former content.
        free = tuple(change for change in removals.keys if change.key not in _referred(snapshot))
        self.report.changed |= write_map(self.cluster, replace(removals, keys=free), snapshot.config_map, FormerConfigs("", "", {}))
        self.report.findings += interference_found(plan, snapshot)
        return snapshot

    def _remove_added(self, snapshot: Snapshot, record: Record) -> None:
        """After the way back: keys that the rollout had added and that no label or default refers to."""
        found = snapshot.config_map
        added = [key for key, wanted in record.former_hashes.items() if wanted is None and key not in _referred(snapshot)]
        if found is not None and (removals := _removals(found, added)):
            write_map(self.cluster, removals, found, FormerConfigs("", "", {}))

    # The loop

    def _drive(self, lease: RolloutLease, state: RolloutState, namespace: str) -> RolloutState:
        """Step through the state until it ends, the slice is over, or the wanted number of batches is through."""
        live = Live(self.cluster, namespace, min(self._until, time.monotonic() + WATCH_LIMIT_SECONDS))
        try:
            return self._step_through(lease, state, live)
        finally:
            live.close()

    def _step_through(self, lease: RolloutLease, state: RolloutState, live: Live) -> RolloutState:
        hands = Hands(self.cluster, live, self.clock)
        shown = time.monotonic()
        while state.outcome is None:
            before = state.current
            self._note_batch(lease, state)
            state, actions = step(state, self._world(state, live, hands), self.clock())
            self._act(hands, state, actions)
            if state.current != before:
                self.report.batches_done += 1
                self.report.progress.append(batch_line(state, before))
            if time.monotonic() >= self._until or (self._batches_are_through() and state.batch):
                self.report.progress += progress_lines(state, self.clock())
                break
            lease.renew()
            shown = self._show(state, shown)
            if state.outcome is None and state.current == before:
                live.take_in(0.05 if actions else 1.0)
        return state

    def _note_batch(self, lease: RolloutLease, state: RolloutState) -> None:
        """Write down which nodes are changed together before the first of them is: they fail together as well."""
        record = _record_of(lease)
        if state.direction != BACK and not set(state.batch) <= set(record.batch):
            lease.save(replace(record, batch=state.batch))

    def _batches_are_through(self) -> bool:
        return 0 < self.wish.batches <= self.report.batches_done

    def _world(self, state: RolloutState, live: Live, hands: Hands) -> dict[str, t.Any]:
        names = [name for name in state.batch if name in live.nodes]
        making_room = [name for name in names if state.runs[name].work.disruption != "allow" and not state.runs[name].began]
        hands.look_for_gpu_pods(name for name in making_room if state.runs[name].work.breaks and not state.runs[name].ended)
        return {
            name: see(live.nodes[name], live.pods_of(name), gpu_pods=hands.gpu_pods.get(name), limits=hands.limits.get(name), templates=live.templates)
            for name in names
        }

    def _act(self, hands: Hands, state: RolloutState, actions: t.Sequence[t.Any]) -> None:
        """Carry the actions out, several at a time. What fails is decided again from what is there, until the node's deadline."""
        if not actions:
            return
        self.report.changed = True
        for action, result in zip(actions, self.cluster.each(hands.carry_out, actions), strict=True):
            if not isinstance(result, ClusterError):
                continue
            if result.status in (401, 403):
                hands.let_go()  # a run that may not go on must not keep nodes from their users
                raise result
            line = f"{action.node}: {result.message}"
            if line not in self.report.progress[-SAME_LINES:]:
                self.report.progress.append(line)

    def _show(self, state: RolloutState, shown: float) -> float:
        """Note every few seconds at which links nodes wait; returns when that was done last."""
        if time.monotonic() - shown < SHOW_SECONDS:
            return shown
        self.report.progress += progress_lines(state, self.clock())
        return time.monotonic()


def _not_following(error: ClusterError) -> Finding:
    return finding(error.code, "policy", error.message, subject=error.subject)


def _record_of(lease: RolloutLease) -> Record:
    if lease.record is None:
        raise AssertionError("a rollout writes its record before anything else")
    return lease.record


def _referred(snapshot: Snapshot) -> frozenset[str | None]:
    """The keys that labels and the default name at this moment."""
    return frozenset({*(node.config_label for node in snapshot.nodes), snapshot.policy.config_default if snapshot.policy else None})


def _removals(found: ConfigMap, keys: t.Iterable[str]) -> ConfigMapPlan | None:
    changes = tuple(KeyChange(key, "remove", found.data[key], None) for key in sorted(keys) if key in found.data)
    return ConfigMapPlan(found.namespace, found.name, True, found.resource_version, changes) if changes else None
