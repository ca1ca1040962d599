# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: carry out the state machine's actions on nodes and pods, each guarded by what was seen before.

The operator's DaemonSets are never touched: a changed template or annotation there would be the operator's to undo.
"""

from __future__ import annotations

import contextlib
import time
import typing as t
from collections.abc import Callable
from dataclasses import replace

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_limits import limits_answers, limits_command, read_limits
from ansible_collections.gpuops.mps.plugins.module_utils._rollout import rfc3339
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_live import NODES, Live
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import APPLIED_ANNOTATION, EMPTYING, ROLLOUT_ANNOTATION, read_mark, write_annotation
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_node import (
    LINK_ALLOCATABLE,
    LINK_DAEMON,
    LINK_DISCOVERY,
    LINK_FEATURES,
    LINK_LIMITS,
    LINK_PLUGIN,
    NO_ANSWER,
    UNREADABLE,
    Action,
    Begin,
    Evict,
    Finish,
    GiveUp,
    MakeRoom,
    ReadLimits,
    Release,
    Restart,
)
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import CONFIG_LABEL, CONTROL_DAEMON, DEVICE_PLUGIN, FEATURE_DISCOVERY, Snapshot
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot_build import uses_gpus

DAEMON_CONTAINER = "mps-control-daemon-ctr"
EXEC_SECONDS = 10.0
# A daemon with the wrong limits, a blocked eviction, the list of a node's GPU pods: not asked again sooner.
AGAIN_SECONDS = 2.0

LOG_LINES = 3
LOG_CHARACTERS = 500
MAIN_CONTAINERS: t.Mapping[str, str] = {
    FEATURE_DISCOVERY: "gpu-feature-discovery",
    CONTROL_DAEMON: DAEMON_CONTAINER,
    DEVICE_PLUGIN: "nvidia-device-plugin",
}
# Whose log says why a link does not hold.
LINK_AGENTS: t.Mapping[str, str] = {
    LINK_DISCOVERY: FEATURE_DISCOVERY,
    LINK_FEATURES: FEATURE_DISCOVERY,
    LINK_DAEMON: CONTROL_DAEMON,
    LINK_LIMITS: CONTROL_DAEMON,
    LINK_PLUGIN: DEVICE_PLUGIN,
    LINK_ALLOCATABLE: DEVICE_PLUGIN,
}

Object = dict[str, t.Any]


def last_lines(cluster: Cluster, snapshot: Snapshot, node: str, link: str) -> str:
    """What the agent behind a broken link has logged last, for a sentence; "" where there is nothing to read."""
    agent = LINK_AGENTS.get(link)
    pods = snapshot.pods_of(node, agent) if agent else ()
    if not agent or not pods:
        return ""
    try:
        text = cluster.logs(pods[-1].namespace, pods[-1].name, container=MAIN_CONTAINERS[agent], tail_lines=LOG_LINES)
    except ClusterError:
        return ""
    # Whoever writes the log must not write to the user's terminal.
    plain = "".join(character if character.isprintable() else " " for character in text.strip().replace("\n", " | "))
    return f"; {pods[-1].name} says: {plain[-LOG_CHARACTERS:]}" if plain else ""


class Hands:
    """Carries out actions on one cluster. C(limits) and C(gpu_pods) are what was found out on the way, by node."""

    def __init__(self, cluster: Cluster, live: Live, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._live = live
        self._clock = clock
        self._asked: dict[tuple[str, str], float] = {}
        self.limits: dict[str, tuple[str, int]] = {}
        self.gpu_pods: dict[str, tuple[tuple[str, str], ...]] = {}

    def carry_out(self, action: Action) -> None:
        """Carry out one action. Raises ClusterError; the state machine then decides again from what is there."""
        annotations: Object
        if isinstance(action, Begin):
            labels = {CONFIG_LABEL: action.mark.label}
            self._patch(action.node, {"labels": labels, "annotations": {ROLLOUT_ANNOTATION: write_annotation(action.mark)}}, label=action.label_before)
        elif isinstance(action, MakeRoom):
            annotations = {ROLLOUT_ANNOTATION: write_annotation(action.mark)}
            self._patch(action.node, {"annotations": annotations}, unschedulable=True if action.cordon else None)
        elif isinstance(action, Finish):
            applied = replace(action.applied, at=rfc3339(self._clock()))
            annotations = {APPLIED_ANNOTATION: write_annotation(applied), ROLLOUT_ANNOTATION: None}
            self._patch(action.node, {"annotations": annotations}, unschedulable=False if action.uncordon else None)
        elif isinstance(action, GiveUp):
            annotations = {ROLLOUT_ANNOTATION: write_annotation(action.mark)}
            self._patch(action.node, {"annotations": annotations}, unschedulable=False if action.uncordon else None)
        elif isinstance(action, Release):
            self._patch(action.node, {"annotations": {ROLLOUT_ANNOTATION: None}}, unschedulable=False if action.uncordon else None)
        else:
            self._on_pods(action)

    def _on_pods(self, action: Restart | Evict | ReadLimits) -> None:
        if isinstance(action, Restart):
            pod = action.pod
            self._cluster.delete(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}", uid=pod.uid)
            self._live.deleted_pod(pod.namespace, pod.name, pod.uid)
        elif self._due("evict" if isinstance(action, Evict) else "limits", action.node):
            if isinstance(action, Evict):
                for namespace, name in action.pods:
                    self._cluster.evict(namespace, name)
            else:
                self.limits[action.node] = (action.pod.uid, self._percentage(action))

    def let_go(self) -> None:
        """Give back the nodes that are being emptied and whose agents nobody has touched, as far as the user's rights reach."""
        for node in self._live.nodes.values():
            mark = read_mark(node.annotations)
            if mark is not None and mark.state == EMPTYING:
                with contextlib.suppress(ClusterError):
                    self.carry_out(Release(node.name, uncordon=mark.cordoned))

    def look_for_gpu_pods(self, nodes: t.Iterable[str]) -> None:
        """List the GPU pods of nodes that wait to be emptied. Those of a DaemonSet come back at once, so nobody waits for them."""
        for node in nodes:
            if self._due("pods", node):
                listing = self._cluster.list("/api/v1/pods", field_selector=f"spec.nodeName={node}")
                found = ((one["metadata"]["namespace"], one["metadata"]["name"]) for one in listing.items if uses_gpus(one) and not _of_a_daemon_set(one))
                self.gpu_pods[node] = tuple(sorted(found))

    def _due(self, what: str, node: str) -> bool:
        """Whether this question about a node may be asked again by now."""
        if time.monotonic() - self._asked.get((what, node), float("-inf")) < AGAIN_SECONDS:
            return False
        self._asked[what, node] = time.monotonic()
        return True

    def _percentage(self, action: ReadLimits) -> int:
        """The daemon's thread percentage, NO_ANSWER without a daemon, UNREADABLE where nothing can be executed."""
        command = ("sh", "-c", limits_command(action.resource))
        try:
            answer = self._cluster.execute(action.pod.namespace, action.pod.name, container=DAEMON_CONTAINER, command=command, timeout=EXEC_SECONDS)
        except ClusterError:
            return UNREADABLE
        limits = read_limits(*limits_answers(answer.stdout))
        if limits.thread_percentage is not None:
            return int(limits.thread_percentage)
        return UNREADABLE if limits.alive else NO_ANSWER

    def _patch(self, name: str, metadata: Object, *, unschedulable: bool | None = None, label: str | None = None) -> None:
        """One guarded patch of a node: our label, our annotations, and schedulability where the rollout decides it.

        The guard is the label (when one is written) and our own annotation: everything else on a node may change at any time.
        """
        node = self._live.nodes[name]
        body: Object = {"metadata": metadata}
        if unschedulable is not None:
            body["spec"] = {"unschedulable": unschedulable or None}
        mark = node.annotations.get(ROLLOUT_ANNOTATION)

        def unchanged(fresh: Object) -> bool:
            fresh_labels, fresh_annotations = fresh["metadata"].get("labels") or {}, fresh["metadata"].get("annotations") or {}
            same_label = "labels" not in metadata or (fresh_labels.get(CONFIG_LABEL) or None) == label
            return same_label and fresh_annotations.get(ROLLOUT_ANNOTATION) == mark

        def done(fresh: Object) -> bool:
            wanted = {**metadata.get("annotations", {}), **metadata.get("labels", {})}
            found = {**(fresh["metadata"].get("annotations") or {}), **(fresh["metadata"].get("labels") or {})}
            return all(found.get(key) == value for key, value in wanted.items())

        seen = {"resourceVersion": node.resource_version, "uid": node.uid}
        stored = self._cluster.patch_seen(f"{NODES}/{name}", body, seen=seen, unchanged=unchanged, done=done, metadata_only=True)
        self._live.wrote_node(stored["metadata"], unschedulable)


def _of_a_daemon_set(pod: Object) -> bool:
    return any(owner.get("kind") == "DaemonSet" for owner in pod["metadata"].get("ownerReferences") or ())
