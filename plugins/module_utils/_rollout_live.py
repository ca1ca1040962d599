# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the GPU nodes, the operator's pods and its DaemonSets as they change, by one watch each.

However many nodes a batch has, nothing is asked per node: three streams bring every change.
"""

from __future__ import annotations

import queue
import threading
import time
import typing as t
from dataclasses import replace

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError, WatchEvent
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_snapshot import GPU_PRESENT
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENT_DAEMON_SETS, Node, Pod
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot_build import daemon_set_of, node_of, pod_of

NODES = "/api/v1/nodes"
AGENT_APPS = "app in ({})".format(",".join(AGENT_DAEMON_SETS.values()))

WATCH_SECONDS = 20.0

Object = dict[str, t.Any]


class Live:
    """Nodes by name and agents' pods by node, kept up to date until C(deadline) (a time of C(time.monotonic)).

    Own writes are entered at once with C(wrote_node) and C(deleted_pod), so that no action is repeated because its
    event is still on the way; an event that is older than what is known is dropped.
    """

    def __init__(self, cluster: Cluster, namespace: str, deadline: float) -> None:
        self.nodes: dict[str, Node] = {}
        self.templates: dict[str, str] = {}  # agent -> generation of its pod template
        self._pods: dict[tuple[str, str], Pod] = {}
        self._index: dict[str, tuple[Pod, ...]] | None = None  # the pods by node, None after a change
        self._closed = threading.Event()
        self._events: queue.Queue[tuple[str, WatchEvent | ClusterError]] = queue.Queue()
        pods, sets = f"/api/v1/namespaces/{namespace}/pods", f"/apis/apps/v1/namespaces/{namespace}/daemonsets"
        for kind, path, selector in (("node", NODES, GPU_PRESENT), ("pod", pods, AGENT_APPS), ("set", sets, None)):
            listing = cluster.list(path, label_selector=selector)
            self._replace_all(kind, listing.items)
            arguments = (cluster, kind, path, selector, listing.resource_version, deadline)
            threading.Thread(target=self._follow, args=arguments, daemon=True).start()

    def pods_of(self, node: str) -> tuple[Pod, ...]:
        """The agents' pods on one node."""
        return self._pods_by_node().get(node, ())

    def _pods_by_node(self) -> dict[str, tuple[Pod, ...]]:
        if self._index is None:
            index: dict[str, list[Pod]] = {}
            for pod in self._pods.values():
                index.setdefault(pod.node or "", []).append(pod)
            self._index = {node: tuple(pods) for node, pods in index.items()}
        return self._index

    def take_in(self, seconds: float) -> None:
        """Wait at most this long for a change, then take in everything that has come. Raises what ended a watch."""
        wait_until = time.monotonic() + seconds
        while True:
            try:
                kind, event = self._events.get(timeout=max(0.0, wait_until - time.monotonic()))
            except queue.Empty:
                return
            if isinstance(event, ClusterError):
                raise event
            self._apply(kind, event)
            wait_until = 0.0  # something has come: take what is there, do not wait for more

    def wrote_node(self, metadata: Object, unschedulable: bool | None) -> None:
        """Enter the answer to an own write on a node; None leaves its schedulability as it was."""
        node = self.nodes.get(metadata["name"])
        if node is None or _older(metadata["resourceVersion"], node.resource_version):
            return
        self.nodes[node.name] = replace(
            node,
            labels=metadata.get("labels") or {},
            annotations=metadata.get("annotations") or {},
            resource_version=metadata["resourceVersion"],
            unschedulable=node.unschedulable if unschedulable is None else unschedulable,
        )

    def deleted_pod(self, namespace: str, name: str, uid: str) -> None:
        """Enter an own deletion: the pod is on its way out."""
        pod = self._pods.get((namespace, name))
        if pod is not None and pod.uid == uid:
            self._pods[namespace, name] = replace(pod, terminating=True)
            self._index = None

    def close(self) -> None:
        """Let the watching threads end; they notice at the next event, or after a few seconds."""
        self._closed.set()

    def _follow(self, cluster: Cluster, kind: str, path: str, selector: str | None, version: str, deadline: float) -> None:
        """The body of one watching thread: watches of a few seconds each, so that it can be told to end."""
        try:
            while not self._closed.is_set() and time.monotonic() < deadline:
                if not version:
                    listing = cluster.list(path, label_selector=selector)
                    version = listing.resource_version
                    self._events.put((kind, WatchEvent("RELISTED", {"items": list(listing.items)})))
                part = min(deadline, time.monotonic() + WATCH_SECONDS)
                for event in cluster.watch(path, resource_version=version, label_selector=selector, deadline=part):
                    if self._closed.is_set():
                        return
                    version = "" if event.type == "RELISTED" else event.object["metadata"].get("resourceVersion", version)
                    self._events.put((kind, event))
        except ClusterError as error:
            self._events.put((kind, error))

    def _apply(self, kind: str, event: WatchEvent) -> None:
        if event.type == "RELISTED":
            self._replace_all(kind, event.object["items"])
        elif event.type in ("ADDED", "MODIFIED", "DELETED"):
            self._enter(kind, event.object, gone=event.type == "DELETED")

    def _replace_all(self, kind: str, items: t.Iterable[Object]) -> None:
        if kind == "node":
            self.nodes.clear()
        elif kind == "pod":
            self._pods.clear()
        else:
            self.templates.clear()
        for item in items:
            self._enter(kind, item, gone=False)

    def _enter(self, kind: str, item: Object, *, gone: bool) -> None:
        metadata = item["metadata"]
        if kind == "pod":
            key = (metadata["namespace"], metadata["name"])
            self._index = None
            if gone:
                self._pods.pop(key, None)
            else:
                self._pods[key] = pod_of(item)
        elif kind == "set":
            one = daemon_set_of(item)
            self.templates[one.component] = "" if gone else one.template_generation
        elif gone:
            self.nodes.pop(metadata["name"], None)
        else:
            known = self.nodes.get(metadata["name"])
            if known is None or not _older(metadata.get("resourceVersion", ""), known.resource_version):
                self.nodes[metadata["name"]] = node_of(item)


def _older(version: str, than: str) -> bool:
    """Whether one resourceVersion is older than another of the same kind; unknown forms count as not older."""
    return version.isdigit() and than.isdigit() and int(version) < int(than)
