# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A watcher on the API server that sees every change of nodes and of agents' pods: how many nodes were disturbed at once.

A node is disturbed while it is marked as being changed, while a pod of an agent ends there, and until a new one is ready.
The events of both watches are put in the order of their resource versions, which etcd counts for all objects together, so
that nothing depends on how fast this process is.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.testbed.bed import TestBed

MARK = "gpuops.mps/rollout"
AGENT_APPS = ("gpu-feature-discovery", "nvidia-device-plugin-mps-control-daemon", "nvidia-device-plugin-daemonset")
STREAMS = (
    ("/api/v1/nodes", "nvidia.com/gpu.present=true"),
    ("/api/v1/namespaces/gpu-operator/pods", f"app in ({','.join(AGENT_APPS)})"),
)


@dataclass(frozen=True)
class Sight:
    """One object at one moment: C(version) orders all of them, C(node) is the node it belongs to."""

    version: int
    uid: str
    node: str
    marked: bool = False
    ending: bool = False
    ready: bool = True
    gone: bool = False


def sight_of(kind: str, item: Mapping[str, Any]) -> Sight:
    """What an event says about a node, or about a pod of an agent."""
    metadata, gone = item["metadata"], kind == "DELETED"
    version, uid = int(metadata["resourceVersion"]), metadata["uid"]
    if "containers" not in item.get("spec", {}):  # a node
        mark = json.loads((metadata.get("annotations") or {}).get(MARK) or "{}")
        return Sight(version, uid, metadata["name"], marked=mark.get("state") == "changing", gone=gone)
    conditions = item["status"].get("conditions") or ()
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return Sight(version, uid, item["spec"].get("nodeName", ""), ending="deletionTimestamp" in metadata, ready=ready, gone=gone)


def most_at_once(before: list[Sight], events: list[Sight]) -> frozenset[str]:
    """The largest set of nodes that were disturbed at the same moment. C(before) are the objects at the start: they count as ready."""
    objects = {one.uid: one for one in before}
    known = {one.uid for one in before if not one.ending}
    most: frozenset[str] = frozenset()
    for event in sorted(events, key=lambda one: one.version):
        objects[event.uid] = event
        if event.gone:
            del objects[event.uid]
        elif event.ready:
            known.add(event.uid)
        now = frozenset(one.node for one in objects.values() if one.node and (one.marked or one.ending or one.uid not in known))
        most = max(most, now, key=len)
    return most


class Watcher:
    """Two watches from one moment on. C(most) is known once the watcher has stopped."""

    def __init__(self, bed: TestBed) -> None:
        self._bed = bed
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._before: list[Sight] = []
        self._events: list[Sight] = []
        self.most: frozenset[str] = frozenset()

    def start(self) -> None:
        """List both kinds of objects, and watch them from there."""
        for path, selector in STREAMS:
            listing = self._bed.api.get(path, labelSelector=selector)
            self._before += [sight_of("ADDED", item) for item in listing["items"]]
            answer = self._open(path, selector, listing["metadata"]["resourceVersion"])
            self._threads.append(threading.Thread(target=self._follow, args=(answer,), daemon=True))
            self._threads[-1].start()

    def _open(self, path: str, selector: str, version: str) -> http.client.HTTPResponse:
        layout = self._bed.layout
        server = urllib.parse.urlsplit(layout.server)
        context = ssl.create_default_context(cafile=str(layout.certificates / "ca.crt"))
        connection = http.client.HTTPSConnection(server.hostname or "", server.port, context=context)
        query = urllib.parse.urlencode({"watch": "1", "labelSelector": selector, "resourceVersion": version, "timeoutSeconds": "3600"})
        connection.request("GET", f"{path}?{query}", headers={"Authorization": f"Bearer {self._bed.api.token}", "User-Agent": "testbed-watcher"})
        self._sockets.append(connection.sock)
        return connection.getresponse()

    def _follow(self, answer: http.client.HTTPResponse) -> None:
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):  # the socket is shut when enough was seen
            for line in answer:
                event = json.loads(line)
                if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                    self._events.append(sight_of(event["type"], event["object"]))

    def stop(self) -> None:
        """End the watches and find the moment at which the most nodes were disturbed."""
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        assert self._events, "the watcher has seen nothing"
        self.most = most_at_once(self._before, self._events)


@contextlib.contextmanager
def watching(bed: TestBed) -> Iterator[Watcher]:
    """A watcher for the time of a block."""
    watcher = Watcher(bed)
    watcher.start()
    try:
        yield watcher
    finally:
        watcher.stop()
