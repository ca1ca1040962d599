# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One GPU node: its pods, its daemons, its resources, and what it writes to its Node object."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any, Protocol

from tests.testbed.agents import cuda, kubelet
from tests.testbed.agents.client_programs import CudaProgram
from tests.testbed.agents.config_file import GPU_RESOURCE, PREFIX
from tests.testbed.agents.config_manager import Version
from tests.testbed.agents.delays import Delays
from tests.testbed.agents.feature_discovery import Labels, labels_survive_failure
from tests.testbed.agents.host import Host, host_from_json
from tests.testbed.agents.kubelet import Refusal, Registration
from tests.testbed.agents.log_files import PodLogs
from tests.testbed.agents.mps_daemon import Daemon
from tests.testbed.agents.objects import Json, gpu_requests, is_cut_off, node_faults, node_gpus, node_labels
from tests.testbed.agents.pod_run import FINISHED, PodRun

CONFIG_LABEL = PREFIX + "device-plugin.config"
FOREIGN = "foreign-device-plugin"
MACHINE_LABELS = {
    "gpu.machine": "Simulated-Server",
    "cuda.driver.major": "580",
    "cuda.driver.minor": "65",
    "cuda.driver.rev": "06",
    "cuda.driver-version.full": "580.65.06",
    "cuda.driver-version.major": "580",
    "cuda.driver-version.minor": "65",
    "cuda.driver-version.revision": "06",
    "cuda.runtime.major": "13",
    "cuda.runtime.minor": "0",
    "cuda.runtime-version.full": "13.0",
    "cuda.runtime-version.major": "13",
    "cuda.runtime-version.minor": "0",
}


class World(Protocol):
    """What a node needs from outside: time, the API, files. Writes are fire and forget."""

    delays: Delays
    plugin_version: Version
    random: Random
    config_maps: dict[tuple[str, str], Mapping[str, str]]

    def now(self) -> str: ...
    def later(self, seconds: float, action: Callable[[], None]) -> None: ...
    def mark(self, run: PodRun) -> None: ...
    def pod_logs(self, pod: Json) -> PodLogs: ...
    def touch(self, node: str) -> None: ...
    def serve(self, run: PodRun) -> None: ...
    def patch_pod_status(self, pod: Json, status: Mapping[str, Any]) -> None: ...
    def delete_pod(self, pod: Json) -> None: ...
    def patch_node_labels(self, node: str, labels: Mapping[str, str | None]) -> None: ...
    def patch_node_status(self, node: str, capacity: Mapping[str, str], allocatable: Mapping[str, str]) -> None: ...
    def record_event(self, pod: Json, kind: str, reason: str, message: str) -> None: ...


class NodeAgent:
    """Everything that runs on the node; all of it in one thread."""

    def __init__(self, world: World, node: Json, saved: Mapping[str, Any] | None) -> None:
        self.world = world
        self.node = node
        self.name = str(node["metadata"]["name"])
        self.gpus = node_gpus(node)
        self.faults = node_faults(node)
        self.host = host_from_json(saved["host"]) if saved else Host()
        self.saved_pods: dict[str, dict[str, Any]] = dict(saved["pods"]) if saved else {}
        self.pods: dict[str, PodRun] = {}
        self.cut_off = is_cut_off(node)
        self._held: dict[str, Json] = {}  # pods that changed while the node was cut off
        self._removal = 0  # the number of the latest scheduled removal of labels: only that one counts
        if saved:
            self._write_resources()
            self._expire_stopped()

    def as_json(self) -> dict[str, Any]:
        pods = {uid: run.as_json() for uid, run in self.pods.items()}
        return {"host": self.host.as_json(self.gpus), "pods": pods, "clients": self._client_counts()}

    @property
    def config_label(self) -> str:
        return node_labels(self.node).get(CONFIG_LABEL, "")

    # Events from the API

    def node_changed(self, node: Json) -> None:
        """The Node object changed: a new label reaches the sidecars, new faults reach everybody."""
        if is_cut_off(node):
            self.cut_off = True
            return
        if self.cut_off:
            self._reconnect()
        before, faults_before = self.config_label, self.faults
        self.node = node
        self.gpus = node_gpus(node)
        self.faults = node_faults(node)
        if self.config_label != before:
            self._tell(lambda run: run.label_changed())
        if self.faults != faults_before:
            self._foreign_plugin(appeared="plugin-foreign" in self.faults - faults_before)
            self._tell(lambda run: run.faults_changed())

    def _reconnect(self) -> None:
        """The node is back: what it could not hear is heard now, what it could not write is written."""
        self.cut_off = False
        held, self._held = self._held, {}
        for pod in held.values():
            self.pod_changed(pod)
        for run in self.pods.values():
            run.publish()

    def pod_changed(self, pod: Json) -> None:
        uid = str(pod["metadata"]["uid"])
        if self.cut_off:
            self._held[uid] = pod
            return
        run = self.pods.get(uid)
        if run is None:
            run = self._take_up(uid, pod)
        if run is not None:
            run.pod = pod
            if pod["metadata"].get("deletionTimestamp"):
                run.terminate()
            elif (pod.get("status") or {}).get("phase") in FINISHED:
                self._forget_allocations(uid)

    def _take_up(self, uid: str, pod: Json) -> PodRun | None:
        saved = self.saved_pods.pop(uid, None)
        finished = (pod.get("status") or {}).get("phase") in FINISHED
        if finished and not pod["metadata"].get("deletionTimestamp"):
            return None
        run = self.pods[uid] = PodRun(self, pod)
        if saved and saved["stage"] != "ending":
            run.resume(saved)
        elif not pod["metadata"].get("deletionTimestamp"):
            run.start()
        return run

    def pod_gone(self, uid: str) -> None:
        """The object is gone: by our own deletion, or by force while its containers ran."""
        self._held.pop(uid, None)
        run = self.pods.get(uid)
        if run is not None:
            run.kill()
            self.release(run)

    def config_map_changed(self, namespace: str, name: str) -> None:
        self._tell(lambda run: run.config_map_changed(name) if run.namespace == namespace else None)

    def _tell(self, message: Callable[[PodRun], None]) -> None:
        self.world.touch(self.name)
        for run in list(self.pods.values()):
            message(run)

    # Admission and the end of pods

    def admit(self, run: PodRun) -> Refusal | None:
        """Allocate the pod's GPUs, or say why kubelet fails it."""
        requests = gpu_requests(run.pod)
        if not requests:
            return None
        answer = kubelet.admit(run.uid, requests, self.host.registrations, self.host.allocations)
        if isinstance(answer, Refusal):
            return answer
        self.host.allocations.extend(answer)
        return None

    def release(self, run: PodRun) -> None:
        """The pod is gone: its GPUs are free again."""
        self.pods.pop(run.uid, None)
        self._forget_allocations(run.uid)
        run.logs.remove()
        self.world.mark(run)

    def _forget_allocations(self, uid: str) -> None:
        self.host.allocations = [item for item in self.host.allocations if item.pod != uid]

    # The MPS daemons

    def start_daemons(self, owner: str, daemons: tuple[Daemon, ...]) -> None:
        self.host.start_daemons(owner, daemons)
        self._tell(lambda run: run.daemons_changed())

    def stop_daemons(self) -> None:
        self.host.stop_daemons()
        self.host.owner = ""
        self._tell(lambda run: run.daemons_changed())

    def kill_daemons(self) -> None:
        self.host.kill_daemons()
        self._tell(lambda run: run.daemons_changed())

    def cuda_host(self, broken: bool) -> cuda.Host:
        """The node as a CUDA program finds it."""
        others: dict[str, list[tuple[str, str]]] = {}
        for client in self._clients():
            for gpu in client.gpus if not client.pipe_directory else ():
                others.setdefault(gpu, []).append((client.pod, client.container))
        return cuda.Host(frozenset(self.host.daemons), frozenset(self.host.exclusive), others, broken)

    def _clients(self) -> list[cuda.Client]:
        """The CUDA processes that hold a context now."""
        programs = (program for run in self.pods.values() for program in run.programs.values())
        return [program.client() for program in programs if isinstance(program, CudaProgram) and program.holds_context()]

    def _client_counts(self) -> dict[str, int]:
        pipes = [client.pipe_directory for client in self._clients()]
        return {pipe: pipes.count(pipe) for pipe in self.host.daemons}

    # Resources

    def register(self, registrations: tuple[Registration, ...]) -> None:
        """A plugin registered: the latest registration of a name counts."""
        self.host.registrations.update({item.resource: item for item in registrations})
        if "plugin-foreign" in self.faults:
            self.host.registrations[GPU_RESOURCE] = self._foreign_registration()
        self._write_resources()

    def stop_endpoints(self, owner: str) -> None:
        """A plugin's sockets are gone: allocatable 0 at once, capacity 0 after the grace period."""
        if any(item.owner == owner and not item.stopped for item in self.host.registrations.values()):
            self.host.registrations = kubelet.stop_owner(self.host.registrations, owner)
            self._write_resources()
            self._expire_stopped()

    def _expire_stopped(self) -> None:
        for name, item in self.host.registrations.items():
            if item.stopped and not item.expired:
                self.world.later(self.world.delays.stale_resource, partial(self._expire, name, item))

    def _expire(self, name: str, stopped: Registration) -> None:
        if self.host.registrations.get(name) == stopped:
            self.host.registrations = kubelet.expire(self.host.registrations, name)
            self._write_resources()

    def _write_resources(self) -> None:
        self.world.touch(self.name)
        if self.host.registrations:
            self.world.patch_node_status(self.name, *kubelet.status(self.host.registrations))

    def _foreign_plugin(self, *, appeared: bool) -> None:
        """A second device plugin on the node registers nvidia.com/gpu without sharing, or goes away again."""
        if appeared:
            self.register(())
        elif "plugin-foreign" not in self.faults:
            self.stop_endpoints(FOREIGN)

    def _foreign_registration(self) -> Registration:
        return Registration(GPU_RESOURCE, tuple(map(str, range(len(self.gpus)))), 1, owner=FOREIGN)

    # Labels, as NFD publishes what discovery found

    def publish_labels(self, labels: Labels) -> None:
        self._removal += 1
        now = {"gfd.timestamp": str(int(time.time())), **(MACHINE_LABELS if self.gpus else {})}
        wanted = {PREFIX + name: value for name, value in {**labels, **now}.items()}
        stale = set(self.host.labels) - set(wanted)
        self.host.labels = sorted(wanted)
        self.world.touch(self.name)
        self.world.patch_node_labels(self.name, {**dict.fromkeys(stale), **wanted})

    def discovery_ended(self, version: Version, seconds: float) -> None:
        """A discovery process ended: its labels go after a while, unless a newer one publishes or they are kept for good."""
        if labels_survive_failure(version):
            return
        self._removal += 1
        removal = self._removal
        self.world.later(seconds, lambda: self._remove_labels() if removal == self._removal else None)

    def _remove_labels(self) -> None:
        if self.host.labels:
            self.world.patch_node_labels(self.name, dict.fromkeys(self.host.labels))
            self.host.labels = []
            self.world.touch(self.name)
