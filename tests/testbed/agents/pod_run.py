# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One pod on a node: kubelet's loop over its volumes, init containers and containers, and its end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.testbed.agents import client_programs, programs
from tests.testbed.agents.config_manager import NO_CONFIG
from tests.testbed.agents.kubelet import Refusal
from tests.testbed.agents.objects import (
    DAEMON,
    DISCOVERY,
    PLUGIN,
    Json,
    config_source,
    containers,
    environment,
    gpu_requests,
    init_containers,
    operand,
    required_config_maps,
)
from tests.testbed.agents.pod_status import Container, Ended, failed_status, initial, pod_status

if TYPE_CHECKING:
    from tests.testbed.agents.node_agent import NodeAgent

MAIN_PROGRAMS: dict[tuple[str, str], type[programs.Program]] = {
    (DISCOVERY, "gpu-feature-discovery"): programs.FeatureDiscovery,
    (PLUGIN, "nvidia-device-plugin"): programs.DevicePlugin,
    (DAEMON, "mps-control-daemon-ctr"): programs.MpsControlDaemon,
}
FINISHED = frozenset(("Succeeded", "Failed"))
SIGTERM_EXIT = 143
TERMINATION_MESSAGE_LINES = 80


class PodRun:
    """The pod's run on this node from its binding to its removal."""

    def __init__(self, node: NodeAgent, pod: Json) -> None:
        self.node = node
        self.pod = pod
        self.uid = str(pod["metadata"]["uid"])
        self.operand = operand(pod)
        self.logs = node.world.pod_logs(pod)
        self.states: dict[str, Container] = initial(pod)
        self.programs: dict[str, programs.Program] = {}
        self.crashes: dict[str, int] = {}
        self.started: dict[str, float] = {}  # monotonic seconds of the latest start
        self.stage = "mounting"
        self.link: str | None = None  # what the pod's config file points to: a key, /dev/null, or nothing yet
        self.volume: dict[str, str] = {}  # the projected ConfigMap, as the pod's containers see it
        self.refusal: Refusal | None = None
        self.served = False

    # What the processes ask the pod for

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.pod["metadata"]["namespace"])

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.volume)

    @property
    def main_program(self) -> programs.Program | None:
        """The running process that config-manager would signal."""
        return self.programs.get(str(containers(self.pod)[0]["name"]))

    def config_text(self) -> str | None:
        """The main process's config file: "" without one, None if the link leads nowhere."""
        if not environment(containers(self.pod)[0]).get("CONFIG_FILE") or self.link == NO_CONFIG:
            return ""
        return self.volume.get(self.link or "")

    # From the start to the running containers

    def start(self) -> None:
        refusal = self.node.admit(self)
        if refusal:
            self.stage, self.refusal = "refused", refusal
            self.node.world.record_event(self.pod, "Warning", refusal.reason, refusal.message)
            self.publish()
        else:
            if self.node.world.delays.serve_healthy or self.operand in ("", DAEMON):
                self._serve()
            self._mount()

    def _serve(self) -> None:
        """Have KWOK answer for the pod's logs and commands."""
        if not self.served:
            self.served = True
            self._create_logs()
            self.node.world.serve(self)

    def _create_logs(self) -> None:
        every = (*init_containers(self.pod), *containers(self.pod))
        self.logs.create(tuple(str(item["name"]) for item in every))

    def _mount(self) -> None:
        if self.stage != "mounting":
            return
        maps = {name: self.node.world.config_maps.get((self.namespace, name)) for _volume, name in required_config_maps(self.pod)}
        for volume, name in required_config_maps(self.pod):
            if maps[name] is None:
                text = f'MountVolume.SetUp failed for volume "{volume}" : configmap "{name}" not found'
                self.node.world.record_event(self.pod, "Warning", "FailedMount", text)
        if None in maps.values():
            self.publish()
            return
        self.volume = dict(maps.get(config_source(self.pod)) or {})
        self.stage = "initialising"
        self._next_container()

    def _next_container(self) -> None:
        """Start the first init container that has not succeeded, or else the containers."""
        for container in init_containers(self.pod):
            ended = self.states[str(container["name"])].ended
            if ended is None or ended.exit_code != 0:
                self._start_container(container)
                return
        self.stage = "running"
        for container in containers(self.pod):
            self._start_container(container)

    def _start_container(self, container: Json) -> None:
        name = str(container["name"])
        if self.stage == "ending" or name in self.programs:
            return
        if "image-pull" in self.node.faults:
            self._hold_image(container)
            return
        if self.states[name].ended:
            self.logs.rotate(name)
        self.states[name] = self.states[name].running(self.node.world.now())
        self.started[name] = time.monotonic()
        self.programs[name] = self._program(container)
        self._record_start(name, str(container.get("image") or ""))
        self.publish()
        self.programs[name].start()

    def _record_start(self, name: str, image: str) -> None:
        record = self.node.world.record_event
        record(self.pod, "Normal", "Pulled", f'Container image "{image}" already present on machine')
        record(self.pod, "Normal", "Created", f"Created container {name}")
        record(self.pod, "Normal", "Started", f"Started container {name}")

    def _hold_image(self, container: Json) -> None:
        name, image = str(container["name"]), str(container.get("image"))
        self.states[name] = self.states[name].held("ImagePullBackOff", f'Back-off pulling image "{image}"')
        self.node.world.record_event(self.pod, "Warning", "Failed", f'Failed to pull image "{image}": not found')
        self.publish()

    def _program(self, container: Json) -> programs.Program:
        return self._program_type(container)(self, container)

    def _program_type(self, container: Json) -> type[programs.Program]:
        name = str(container["name"])
        if container in init_containers(self.pod):
            special = {"toolkit-validation": programs.ToolkitValidation, "config-manager-init": programs.ConfigManagerInit}
            return special.get(name, programs.Step)
        if name == "config-manager":
            return programs.ConfigManager
        if any(request.container == name for request in gpu_requests(self.pod)):
            return client_programs.client_program(container)
        return MAIN_PROGRAMS.get((self.operand, name), programs.Server)

    # A container ends

    def exited(self, name: str, exit_code: int) -> None:
        """A process ended by itself: go on, start it again, or leave it."""
        del self.programs[name]
        if exit_code != 0:
            self._serve()
        container = self._container(name)
        self.states[name] = self.states[name].finished(exit_code, self.node.world.now(), self._message(container, exit_code))
        self.publish()
        if self.stage == "ending":
            return
        if container in init_containers(self.pod) and exit_code == 0:
            self._next_container()
        elif self._restarts(container, exit_code):
            self._restart(container)

    def _container(self, name: str) -> Json:
        return next(item for item in (*init_containers(self.pod), *containers(self.pod)) if item["name"] == name)

    def _message(self, container: Json, exit_code: int) -> str:
        """kubelet takes the log for the termination message only under this policy."""
        if exit_code == 0 or container.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return ""
        return self.logs.tail(str(container["name"]), TERMINATION_MESSAGE_LINES)

    def _restarts(self, container: Json, exit_code: int) -> bool:
        policy = self.pod["spec"].get("restartPolicy", "Always")
        always = policy == "Always" and container not in init_containers(self.pod)
        return always or (exit_code != 0 and policy != "Never")

    def _restart(self, container: Json) -> None:
        """At once after the first end, then with a back-off that doubles until a run has lasted."""
        name = str(container["name"])
        delays = self.node.world.delays
        lasted = time.monotonic() - self.started.get(name, 0.0) > 2 * delays.crash_backoff_limit
        self.crashes[name] = 1 if lasted else self.crashes.get(name, 0) + 1
        if self.crashes[name] == 1:
            wait = delays.container_start
        else:
            wait = min(delays.crash_backoff * 2 ** (self.crashes[name] - 2), delays.crash_backoff_limit)
            text = f"back-off {wait:g}s restarting failed container={name} pod={self.name}_{self.namespace}({self.uid})"
            self.states[name] = self.states[name].held("CrashLoopBackOff", text)
            self.node.world.record_event(self.pod, "Warning", "BackOff", f"Back-off restarting failed container {name}")
            self.publish()
        self.node.world.later(wait, lambda: self._start_container(container))

    # What happens around the pod

    def config_map_changed(self, name: str) -> None:
        """A ConfigMap came, changed or went: kubelet mounts it, or projects it anew after its delay."""
        delays = self.node.world.delays
        if name not in {config_map for _volume, config_map in required_config_maps(self.pod)}:
            return
        if self.stage == "mounting":
            self.node.world.later(delays.mount_retry, self._mount)
        elif name == config_source(self.pod):
            slow = "kubelet-slow-projection" in self.node.faults
            self.node.world.later(delays.slow_projection if slow else delays.projection, self._project)

    def _project(self) -> None:
        """A ConfigMap that is gone leaves the last projection in place."""
        data = self.node.world.config_maps.get((self.namespace, config_source(self.pod)))
        if data is not None:
            self.volume = dict(data)

    def faults_changed(self) -> None:
        for program in list(self.programs.values()):
            program.faults_changed()
        if "image-pull" not in self.node.faults:
            for container in (*init_containers(self.pod), *containers(self.pod)):
                if self.states[str(container["name"])].reason == "ImagePullBackOff":
                    self._start_container(container)

    def label_changed(self) -> None:
        for program in list(self.programs.values()):
            program.label_changed()

    def daemons_changed(self) -> None:
        for program in list(self.programs.values()):
            program.daemons_changed()

    # The end of the pod

    def terminate(self) -> None:
        """The pod is being deleted: SIGTERM, then the object goes."""
        if self.stage == "ending":
            return
        self.stage = "ending"
        for name in list(self.programs):
            self.node.world.record_event(self.pod, "Normal", "Killing", f"Stopping container {name}")
        self.kill()
        self.node.world.later(self.node.world.delays.termination, self._remove)

    def kill(self) -> None:
        """Stop every process; used directly when the object is gone already."""
        self.stage = "ending"
        for program in list(self.programs.values()):
            program.stop()
            program.alive = False
        self.programs.clear()

    def _remove(self) -> None:
        finished = (self.pod.get("status") or {}).get("phase") in FINISHED
        if not self.operand and not finished:  # a Job's controller waits for the end of its pod to be written down
            self.node.world.patch_pod_status(self.pod, self._final_status())
        self.node.release(self)
        self.node.world.delete_pod(self.pod)

    def _final_status(self) -> dict[str, Any]:
        now = self.node.world.now()
        for name, state in self.states.items():
            if state.phase == "running":
                self.states[name] = state.finished(SIGTERM_EXIT, now)
        status = pod_status(self.pod, self.states, now)
        return status if status["phase"] == "Succeeded" else {**status, "phase": "Failed"}

    # Status and the agents' own restarts

    def publish(self) -> None:
        """Have the pod's status written once the present event is dealt with."""
        self.node.world.mark(self)

    def status(self) -> dict[str, Any]:
        now = self.node.world.now()
        return failed_status(self.refusal, now) if self.refusal else pod_status(self.pod, self.states, now)

    def as_json(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "link": self.link,
            "states": {name: _container_json(state) for name, state in self.states.items()},
            "crashes": self.crashes,
            "served": self.served,
            "memory": {name: program.memory for name, program in self.programs.items()},
            "refusal": [self.refusal.reason, self.refusal.message] if self.refusal else None,
        }

    def resume(self, saved: dict[str, Any]) -> None:
        """Take up a pod where an earlier agents process left it."""
        self.link = saved["link"]
        self.crashes = dict(saved["crashes"])
        self.served = saved["served"]
        if self.served:
            self._create_logs()
        self.states = {name: _container_from_json(item) for name, item in saved["states"].items()}
        self.refusal = Refusal(*saved["refusal"]) if saved["refusal"] else None
        self.stage = saved["stage"]
        if self.refusal or self.stage == "mounting":
            self._mount()
            return
        self._project()
        for container in (*init_containers(self.pod), *containers(self.pod)):
            self._resume_container(container, saved["memory"].get(container["name"]))

    def _resume_container(self, container: Json, memory: dict[str, Any] | None) -> None:
        name = str(container["name"])
        state = self.states[name]
        if state.phase == "running":
            self.programs[name] = self._program(container)
            self.programs[name].memory = memory or {}
            self.programs[name].resume()
        elif state.ended and self._restarts(container, state.ended.exit_code):
            self.node.world.later(self.node.world.delays.crash_backoff, lambda: self._start_container(container))


def _container_json(state: Container) -> dict[str, Any]:
    ends = {key: vars(end) if (end := getattr(state, key)) else None for key in ("ended", "last")}
    return {**vars(state), **ends}


def _container_from_json(item: dict[str, Any]) -> Container:
    ends = {key: Ended(**item[key]) if item[key] else None for key in ("ended", "last")}
    return Container(**{**item, **ends})
