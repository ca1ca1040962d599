# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: read a cluster once, judge every GPU node, and wait by watching until nothing is on its way any more."""

from __future__ import annotations

import queue
import threading
import time
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from ansible_collections.gpuops.mps.plugins.module_utils._alike import told_once
from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError, WatchEvent
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_snapshot import GPU_PRESENT, read_snapshot
from ansible_collections.gpuops.mps.plugins.module_utils._declaration import Declaration, parse_declaration
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_case import SETTLE_SECONDS, LogKey, parse_time
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_limits import DaemonLimits, limits_answers, limits_command, read_limits
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_reads import MAIN_CONTAINERS, limits_wanted, logs_wanted
from ansible_collections.gpuops.mps.plugins.module_utils._drift import drift
from ansible_collections.gpuops.mps.plugins.module_utils._expectation import Expected, expected_by_cluster, expected_by_plan
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, finding
from ansible_collections.gpuops.mps.plugins.module_utils._plan import Plan
from ansible_collections.gpuops.mps.plugins.module_utils._plan_build import make_plan
from ansible_collections.gpuops.mps.plugins.module_utils._selection import NO_CONFIG
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENT_DAEMON_SETS, CONTROL_DAEMON, Node, Pod, Snapshot
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot_build import node_of, pod_of
from ansible_collections.gpuops.mps.plugins.module_utils._verification import WAITING, Verdict, all_findings, summarise, verify_node

# A node whose time has run out changes its verdict without any event.
_LOOK_AGAIN_SECONDS = 5.0
_EXEC_SECONDS = 60.0
_AGENT_SELECTOR = f"app in ({','.join(AGENT_DAEMON_SETS.values())})"

LIMITS_NEVER = "never"
LIMITS_DOUBTFUL = "doubtful"
LIMITS_ALL = "all"


@dataclass(frozen=True)
class Reading:
    """How deep to look: whose limits to read, how many log lines, how many seconds a deviation may take."""

    limits: str = LIMITS_DOUBTFUL
    log_lines: int = 20
    patience: int = SETTLE_SECONDS


def verify_cluster(cluster: Cluster, options: Mapping[str, t.Any], reading: Reading) -> dict[str, t.Any]:
    """The result of C(mps_verify_info): read, wait where asked for, read again what has settled, judge closely.

    C(options) are the module's. Raises ClusterError when the cluster cannot be read.
    """
    place = {name: options[name] for name in ("namespace", "config_map", "policy")}
    snapshot = read_snapshot(cluster, **place, gpu_pods=False)
    declaration, problems = _declaration(options, snapshot)
    if declaration is None and problems:
        return _refused(problems)
    plan, expected = _expectations(snapshot, declaration, options)
    waits = options["wait"] and any(verdict.verdict == WAITING for verdict in judge(snapshot, expected, patience=reading.patience))
    if waits:
        follow(cluster, snapshot, expected, seconds=options["wait_timeout"], patience=reading.patience)
        # Somebody may have put the ClusterPolicy back meanwhile, so everything is read again.
        snapshot = read_snapshot(cluster, **place, gpu_pods=False)
        plan, expected = _expectations(snapshot, declaration, options)
    unread: list[str] = []
    verdicts = judge_closely(cluster, snapshot, expected, reading, unread)
    noted = [finding("not-readable", "", f"not read, and so not looked into: {refusal}") for refusal in unread]
    return _result(snapshot, verdicts, drift(snapshot, plan), options["fail_on"], noted)


def _declaration(options: Mapping[str, t.Any], snapshot: Snapshot) -> tuple[Declaration | None, tuple[Finding, ...]]:
    """What the user declares; without configs the default and the groups may name the keys that the ConfigMap has."""
    declared = [options[name] for name in ("configs", "default", "node_groups")]
    if all(one is None for one in declared):
        return None, ()
    existing = snapshot.config_map.data if snapshot.config_map else {}
    return parse_declaration(*declared, existing=None if options["configs"] is not None else tuple(existing))


def _expectations(snapshot: Snapshot, declaration: Declaration | None, options: Mapping[str, t.Any]) -> tuple[Plan | None, tuple[Expected, ...]]:
    """The plan when something is declared, and what is expected of each node that was asked for."""
    plan: Plan | None = None
    if declaration is None:
        expected = expected_by_cluster(snapshot)
    else:
        plan = make_plan(
            declaration,
            snapshot,
            accept=options["accept"],
            on_left_group=options["on_left_group"],
            update_strategy=options["update_strategy"],
            policy=options["policy"],
        )
        expected = tuple(map(expected_by_plan, plan.nodes))
    chosen = options["nodes"]
    return plan, expected if chosen is None else _chosen(expected, chosen)


def _chosen(expected: Sequence[Expected], names: Sequence[str]) -> tuple[Expected, ...]:
    """Only the named nodes; a name that is no GPU node stays, so that it is judged as missing."""
    known = {one.node: one for one in expected}
    return tuple(known.get(name) or Expected(name, None, NO_CONFIG, None, None) for name in dict.fromkeys(names))


def _refused(problems: Sequence[Finding]) -> dict[str, t.Any]:
    errors = [found for found in problems if found.severity == "error"]
    words = "; ".join(f"{found.path}: {found.message}" for found in errors)
    return {"failed": True, "msg": f"the declaration cannot be used: {words}", "findings": [found.as_dict() for found in problems]}


def _result(snapshot: Snapshot, verdicts: Sequence[Verdict], drifted: Sequence[Finding], fail_on: Sequence[str], noted: Sequence[Finding]) -> dict[str, t.Any]:
    wrong = [verdict for verdict in verdicts if not verdict.verified]
    result: dict[str, t.Any] = {
        "changed": False,
        "verified": not wrong,
        "clean": not wrong and not drifted,
        "summary": summarise(verdicts),
        "nodes": told_once((verdict.node, verdict.as_dict()) for verdict in verdicts),
        "drift": [found.as_dict() for found in drifted],
        "findings": [found.as_dict() for found in all_findings(verdicts, (*drifted, *noted))],
        "namespace": snapshot.namespace,
        "server": snapshot.server,
        "read_at": snapshot.read_at,
    }
    failing = [verdict for verdict in wrong if verdict.verdict in fail_on]
    if failing or (drifted and "drift" in fail_on):
        result.update(failed=True, msg=failure_message(len(verdicts), failing, drifted if "drift" in fail_on else ()))
    return result


def failure_message(nodes: int, failing: Sequence[Verdict], drifted: Sequence[Finding]) -> str:
    """One message that names the first nodes that are not right and what has drifted first."""
    parts = [f"{verdict.node} is {verdict.verdict} at the link {verdict.link}: {verdict.reason}. {verdict.remedy}" for verdict in failing[:3]]
    parts += [f"{found.subject} {found.path}: {found.message}. {found.remedy}" for found in drifted[: 3 - len(parts)]]
    what = [f"{len(failing)} of {nodes} GPU nodes are not right"] if failing else []
    what += [f"{len(drifted)} things have drifted"] if drifted else []
    return f"{' and '.join(what)}. {' '.join(parts)}"


def judge(snapshot: Snapshot, expected: Sequence[Expected], *, patience: int = SETTLE_SECONDS) -> tuple[Verdict, ...]:
    """A verdict for every node that something is expected of, without any further request."""
    return tuple(verify_node(snapshot, one, patience=patience) for one in expected)


def judge_closely(cluster: Cluster, snapshot: Snapshot, expected: Sequence[Expected], reading: Reading, unread: list[str] | None = None) -> tuple[Verdict, ...]:
    """The same, with the logs of broken nodes and the limits of daemons in doubt read as well.

    ``unread`` takes up what the user may not read, in the API server's words.
    """
    verdicts = judge(snapshot, expected, patience=reading.patience)
    logs = _read_logs(cluster, logs_wanted(snapshot, verdicts), reading.log_lines, unread) if reading.log_lines else {}
    limits: dict[str, DaemonLimits] = {}
    if reading.limits != LIMITS_NEVER:
        limits = _read_limits(cluster, limits_wanted(snapshot, verdicts, every=reading.limits == LIMITS_ALL))
    if not logs and not limits:
        return verdicts
    return tuple(verify_node(snapshot, one, logs=logs, limits=limits.get(one.node), patience=reading.patience) for one in expected)


def _read_logs(cluster: Cluster, keys: Sequence[LogKey], lines: int, unread: list[str] | None) -> Mapping[LogKey, str]:
    """The logs that can be read; one that cannot only makes a diagnosis less exact. ``unread`` takes up a refusal."""

    def read(key: LogKey) -> str:
        return cluster.logs(key.namespace, key.pod, container=key.container, previous=key.previous, tail_lines=lines)

    found = cluster.each(read, keys)
    refused = [one.message for one in found if isinstance(one, ClusterError) and one.status == 403]
    if refused and unread is not None:
        unread.append(refused[0])  # one right is missing, however many logs there are
    return {key: text for key, text in zip(keys, found, strict=True) if isinstance(text, str)}


def _read_limits(cluster: Cluster, wanted: Sequence[tuple[Verdict, Pod]]) -> dict[str, DaemonLimits]:
    """The limits that could be asked for. No right to exec is no evidence against a daemon, so it leaves the doubt standing."""

    def read(item: tuple[Verdict, Pod]) -> DaemonLimits:
        return daemon_limits(cluster, item[1], item[0].resource)

    found = cluster.each(read, wanted)
    return {verdict.node: limits for (verdict, _pod), limits in zip(wanted, found, strict=True) if isinstance(limits, DaemonLimits)}


def daemon_limits(cluster: Cluster, pod: Pod, resource: str) -> DaemonLimits:
    """What the daemon in this pod answers about its limits for one resource. Raises ClusterError when nobody can be asked."""

    command = ("sh", "-c", limits_command(resource))
    answer = cluster.execute(pod.namespace, pod.name, container=MAIN_CONTAINERS[CONTROL_DAEMON], command=command, timeout=_EXEC_SECONDS)
    return read_limits(*limits_answers(answer.stdout))


def follow(cluster: Cluster, snapshot: Snapshot, expected: Sequence[Expected], *, seconds: float, patience: int) -> None:
    """Return once no node is waiting any more, or after so many seconds.

    Nodes and agents' pods are listed once and then watched; the number of requests does not depend on the number of nodes.
    """
    deadline = time.monotonic() + seconds
    state = _Followed(cluster, snapshot, deadline)
    while time.monotonic() < deadline:
        verdicts = judge(state.snapshot(), expected, patience=patience)
        if all(verdict.verdict != WAITING for verdict in verdicts):
            return
        state.take(min(_LOOK_AGAIN_SECONDS, max(0.0, deadline - time.monotonic())))


class _Followed:
    """Nodes and agents' pods kept up to date by two watches."""

    def __init__(self, cluster: Cluster, snapshot: Snapshot, deadline: float) -> None:
        self._before = snapshot
        self._started = time.monotonic()
        self._events: queue.Queue[tuple[str, WatchEvent | ClusterError]] = queue.Queue()
        self._objects: dict[str, dict[str, Node | Pod]] = {"nodes": {}, "pods": {}}
        pods = f"/api/v1/namespaces/{snapshot.namespace}/pods"
        for kind, path, selector in (("nodes", "/api/v1/nodes", GPU_PRESENT), ("pods", pods, _AGENT_SELECTOR)):
            listing = cluster.list(path, label_selector=selector)
            self._replace(kind, listing.items)
            arguments = (cluster, kind, path, selector, listing.resource_version, deadline)
            threading.Thread(target=self._watch, args=arguments, daemon=True).start()

    def snapshot(self) -> Snapshot:
        """The snapshot with the nodes and pods of this moment; its time moves on with this machine's clock."""
        read = parse_time(self._before.read_at) or datetime.now(UTC)
        now = read + timedelta(seconds=time.monotonic() - self._started)
        nodes = sorted((node for node in self._objects["nodes"].values() if isinstance(node, Node)), key=lambda node: node.name)
        pods = tuple(pod for pod in self._objects["pods"].values() if isinstance(pod, Pod))
        return replace(self._before, nodes=tuple(nodes), agent_pods=pods, read_at=now.isoformat())

    def take(self, seconds: float) -> None:
        """Wait for a change, then take in everything that has arrived. Raises ClusterError when a watch has failed for good."""
        try:
            self._apply(*self._events.get(timeout=seconds))
            while True:
                self._apply(*self._events.get_nowait())
        except queue.Empty:
            return

    def _watch(self, cluster: Cluster, kind: str, path: str, selector: str, version: str, deadline: float) -> None:
        try:
            for event in cluster.watch(path, resource_version=version, label_selector=selector, deadline=deadline):
                self._events.put((kind, event))
        except ClusterError as error:
            self._events.put((kind, error))

    def _apply(self, kind: str, event: WatchEvent | ClusterError) -> None:
        if isinstance(event, ClusterError):
            raise event
        if event.type == "RELISTED":
            self._replace(kind, event.object["items"])
        elif event.type == "DELETED":
            self._objects[kind].pop(event.object["metadata"]["uid"], None)
        elif event.type in ("ADDED", "MODIFIED"):
            self._objects[kind][event.object["metadata"]["uid"]] = _build(kind, event.object)

    def _replace(self, kind: str, items: Sequence[Mapping[str, t.Any]]) -> None:
        self._objects[kind] = {item["metadata"]["uid"]: _build(kind, item) for item in items}


def _build(kind: str, item: Mapping[str, t.Any]) -> Node | Pod:
    return node_of(item) if kind == "nodes" else pod_of(item)
