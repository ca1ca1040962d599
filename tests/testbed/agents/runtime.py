# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agents' process: one thread that plays all nodes from API events and timers, the API and files around it."""

from __future__ import annotations

import heapq
import itertools
import json
import logging
import os
import queue
import shutil
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from tests.testbed.agents.cluster_io import APPLY_PATCH, MERGE_PATCH, Api, Event, Informer, Write, Writers
from tests.testbed.agents.config_manager import Version
from tests.testbed.agents.delays import Delays
from tests.testbed.agents.log_files import PodLogs
from tests.testbed.agents.node_agent import NodeAgent
from tests.testbed.agents.objects import GPU_ANNOTATION, Json, containers, init_containers, is_played
from tests.testbed.agents.pod_run import PodRun

LOG = logging.getLogger("agents")
PATHS = {"ConfigMap": "/api/v1/configmaps", "Node": "/api/v1/nodes", "Pod": "/api/v1/pods"}
COMMANDS = Path(__file__).parent / "bin"
LONGEST_WAIT = 5.0
BATCH = 500


class Runtime:
    """Implements node_agent.World."""

    def __init__(self, api: Api, state: Path, delays: Delays, plugin_version: Version, writer_threads: int) -> None:
        self.delays = delays
        self.plugin_version = plugin_version
        self.random = Random()
        self.config_maps: dict[tuple[str, str], Mapping[str, str]] = {}
        self._state = state
        self._writers = Writers(api, writer_threads)
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._informers = [Informer(api, kind, path, self._events) for kind, path in PATHS.items()]
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._timer_numbers = itertools.count()
        self._nodes: dict[str, NodeAgent] = {}
        self._early: dict[str, dict[str, Json]] = {}  # pods whose node has not been seen yet
        self._marked: dict[str, PodRun] = {}
        self._touched: set[str] = set()
        self._next_flush = 0.0
        for name in ("nodes", "logs"):
            (state / name).mkdir(parents=True, exist_ok=True)

    # The loop

    def run(self) -> None:
        """Play for ever."""
        for informer in self._informers:  # in the order of PATHS: ConfigMaps and nodes are known before their pods start
            informer.start()
            informer.listed.wait()
        while not self._events.empty():
            self._handle(*self._events.get_nowait())
        self._remove_stale_logs()
        while True:
            self._flush_if_due()
            self._wait_and_handle()
            self._run_due_timers()

    def _wait_and_handle(self) -> None:
        due = [self._timers[0][0]] if self._timers else []
        if self._marked or self._touched:
            due.append(self._next_flush)
        wait = min(LONGEST_WAIT, max(0.0, min(due) - time.monotonic())) if due else LONGEST_WAIT
        try:
            self._handle(*self._events.get(timeout=wait) if wait else self._events.get_nowait())
            for _more in range(BATCH):
                self._handle(*self._events.get_nowait())
        except queue.Empty:
            pass

    def _run_due_timers(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            self._guarded(heapq.heappop(self._timers)[2])

    def _handle(self, kind: str, change: str, item: Json) -> None:
        handler = {"ConfigMap": self._config_map, "Node": self._node, "Pod": self._pod}[kind]
        self._guarded(lambda: handler(change == "DELETED", item))

    def _guarded(self, action: Callable[[], None]) -> None:
        """One node's trouble (a wrong annotation, a pod nobody thought of) must not stop the others."""
        try:
            action()
        except Exception:
            LOG.exception("an event was not dealt with")

    def _config_map(self, gone: bool, item: Json) -> None:
        key = (item["metadata"]["namespace"], item["metadata"]["name"])
        before = self.config_maps.get(key)
        if gone:
            self.config_maps.pop(key, None)
        else:
            self.config_maps[key] = {**(item.get("data") or {}), **(item.get("binaryData") or {})}
        if self.config_maps.get(key) != before:
            for node in self._nodes.values():
                node.config_map_changed(*key)

    def _node(self, gone: bool, item: Json) -> None:
        name = item["metadata"]["name"]
        if gone:
            self._nodes.pop(name, None)
            self._node_file(name).unlink(missing_ok=True)
        elif name in self._nodes:
            self._nodes[name].node_changed(item)
        elif GPU_ANNOTATION in (item["metadata"].get("annotations") or {}):
            self._nodes[name] = NodeAgent(self, item, self._saved(name))
            self.touch(name)
            for pod in self._early.pop(name, {}).values():
                self._nodes[name].pod_changed(pod)

    def _pod(self, gone: bool, item: Json) -> None:
        uid = item["metadata"]["uid"]
        if gone:
            for node in self._nodes.values():
                node.pod_gone(uid)
            return
        name = item["spec"].get("nodeName")
        if not name or not is_played(item):
            return
        if name in self._nodes:
            self._nodes[name].pod_changed(item)
        else:
            self._early.setdefault(name, {})[uid] = item

    # World: time, files

    def now(self) -> str:
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._timer_numbers), action))

    def mark(self, run: PodRun) -> None:
        self._marked[run.uid] = run
        self.touch(run.node.name)

    def touch(self, node: str) -> None:
        self._touched.add(node)

    def pod_logs(self, pod: Json) -> PodLogs:
        metadata = pod["metadata"]
        return PodLogs(self._state / "logs" / f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}")

    def _flush_if_due(self) -> None:
        if (self._marked or self._touched) and time.monotonic() >= self._next_flush:
            self._flush()
            self._next_flush = time.monotonic() + self.delays.batch

    def _flush(self) -> None:
        """Write what the events changed: the nodes' state files, then pod statuses once each: what the API shows, a command finds."""
        touched, self._touched = self._touched, set()
        for name in touched & set(self._nodes):
            self._save(name)
        marked, self._marked = self._marked, {}
        for run in marked.values():
            if run.uid in run.node.pods and run.stage != "ending" and not run.node.cut_off:
                self.patch_pod_status(run.pod, run.status())

    def _save(self, name: str) -> None:
        path = self._node_file(name)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(self._nodes[name].as_json()), encoding="utf-8")
        partial.replace(path)

    def _node_file(self, name: str) -> Path:
        return self._state / "nodes" / f"{name}.json"

    def _saved(self, name: str) -> Mapping[str, Any] | None:
        path = self._node_file(name)
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def _remove_stale_logs(self) -> None:
        """Log directories of pods that no longer exist, left by an agents process that was killed."""
        uids = {uid for node in self._nodes.values() for uid in node.pods}
        for directory in (self._state / "logs").iterdir():
            if directory.name.rpartition("_")[2] not in uids:
                shutil.rmtree(directory, ignore_errors=True)

    # World: the API

    def serve(self, run: PodRun) -> None:
        """Tell KWOK where the pod's logs are and how to run commands in it (their environment is the allocation's)."""
        names = [str(item["name"]) for item in (*init_containers(run.pod), *containers(run.pod))]
        logs = [{"containers": [name], "logsFile": str(run.logs.current(name)), "previousLogsFile": str(run.logs.previous(name))} for name in names]
        targets = [{"containers": [str(item["name"])], "local": {"envs": self._command_environment(run, item)}} for item in containers(run.pod)]
        self._apply_for(run.pod["metadata"], "logs", "Logs", {"logs": logs})
        self._apply_for(run.pod["metadata"], "execs", "Exec", {"execs": targets})

    def _command_environment(self, run: PodRun, container: Json) -> list[dict[str, str]]:
        mine = [item for item in run.node.host.allocations if (item.pod, item.container) == (run.uid, container["name"])]
        pipes = [item.pipe_directory for item in mine if item.pipe_directory]
        values = {
            "PATH": f"{COMMANDS}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "TESTBED_NODE_FILE": str(self._node_file(run.node.name)),
            "TESTBED_GPUS": ",".join(dict.fromkeys(device for item in mine for device in item.devices)) if mine else "all",
            "CUDA_MPS_PIPE_DIRECTORY": pipes[0] if pipes else "",
        }
        return [{"name": name, "value": value} for name, value in values.items() if value]

    def _apply_for(self, metadata: Json, plural: str, kind: str, spec: Mapping[str, Any]) -> None:
        """Have a KWOK object of the pod's name that disappears with the pod; that of an earlier pod of this name is taken over."""
        owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        body = {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": kind,
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "ownerReferences": [owner]},
            "spec": spec,
        }
        path = f"/apis/kwok.x-k8s.io/v1alpha1/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"
        self._writers.put(Write(kind, "PATCH", f"{path}?fieldManager=testbed-agents&force=true", body, APPLY_PATCH), metadata["uid"])

    def patch_pod_status(self, pod: Json, status: Mapping[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        body = {"metadata": {"uid": uid}, "status": status}
        path = f"{_pod_path(pod)}/status?fieldManager=kubelet"
        self._writers.put(Write(f"status {uid}", "PATCH", path, body, MERGE_PATCH, replaceable=True), uid)

    def delete_pod(self, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        self._writers.put(Write("delete", "DELETE", _pod_path(pod), body, "application/json"), uid)

    def patch_node_labels(self, node: str, labels: Mapping[str, str | None]) -> None:
        body = {"metadata": {"labels": labels}}
        self._writers.put(Write("labels", "PATCH", f"/api/v1/nodes/{node}?fieldManager=nfd-master", body), node)

    def patch_node_status(self, node: str, capacity: Mapping[str, str], allocatable: Mapping[str, str]) -> None:
        body = {"status": {"capacity": capacity, "allocatable": allocatable}}
        path = f"/api/v1/nodes/{node}/status?fieldManager=kubelet"
        self._writers.put(Write(f"status {node}", "PATCH", path, body, MERGE_PATCH, replaceable=True), node)

    def record_event(self, pod: Json, kind: str, reason: str, message: str) -> None:
        if not self.delays.events:
            return
        metadata, now = pod["metadata"], self.now()
        involved = {"apiVersion": "v1", "kind": "Pod", **{key: metadata[key] for key in ("name", "namespace", "uid")}}
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{metadata['name']}.", "namespace": metadata["namespace"]},
            "involvedObject": involved,
            "type": kind,
            "reason": reason,
            "message": message,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "source": {"component": "kubelet", "host": pod["spec"].get("nodeName", "")},
        }
        path = f"/api/v1/namespaces/{metadata['namespace']}/events"
        self._writers.put(Write("event", "POST", path, body, "application/json"), metadata["uid"] + " events")


def _pod_path(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
