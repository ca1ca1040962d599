# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One simulated node in virtual time: pods bound to it, labels set on it, and what it would write to the API."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.testbed.agents.delays import Delays
from tests.testbed.agents.log_files import PodLogs
from tests.testbed.agents.node_agent import CONFIG_LABEL, NodeAgent
from tests.testbed.agents.objects import DAEMON, DISCOVERY, FAULT_ANNOTATION, GPU_ANNOTATION, NOT_READY_ANNOTATION, PLUGIN
from tests.testbed.agents.pod_run import PodRun

T4 = {"product": "Tesla T4", "count": 2, "memory_mib": 15360, "compute": "7.5"}
MAINS = {DISCOVERY: "gpu-feature-discovery", PLUGIN: "nvidia-device-plugin", DAEMON: "mps-control-daemon-ctr"}
PIPE = "/mps/nvidia.com/gpu/pipe"
SERVE = {"name": "serve", "image": "example.org/inference:1", "command": ["/serve"]}


def sharing(replicas: int, **block: object) -> str:
    return json.dumps({"sharing": {"mps": {"resources": [{"name": "gpu", "replicas": replicas}], **block}}})


CONFIGS = {"none": "version: v1", "two": sharing(2), "four": sharing(4), "renamed": sharing(4, renameByDefault=True), "bad": sharing(1)}


class VirtualWorld:
    """Time that passes when it is told to, and an API that only remembers what was written."""

    def __init__(self, directory: Path) -> None:
        self.delays = Delays()
        self.plugin_version = (0, 17, 4)
        self.random = Random(1)
        self.config_maps: dict[tuple[str, str], Mapping[str, str]] = {("operator", "configs"): CONFIGS}
        self.labels: dict[str, str | None] = {}
        self.capacity: dict[str, str] = {}
        self.allocatable: dict[str, str] = {}
        self.deleted: list[str] = []
        self.events: list[str] = []
        self.statuses: dict[str, Mapping[str, Any]] = {}
        self._directory = directory
        self._seconds = 0.0
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def pass_time(self, seconds: float) -> None:
        end = self._seconds + seconds
        while self._timers and self._timers[0][0] <= end:
            self._seconds, _number, action = heapq.heappop(self._timers)
            action()
        self._seconds = end

    def forget_timers(self) -> None:
        self._timers.clear()

    def now(self) -> str:
        return f"2026-11-30T21:{int(self._seconds) // 60:02d}:{int(self._seconds) % 60:02d}Z"

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._timers, (self._seconds + seconds, self._count, action))

    def mark(self, run: PodRun) -> None:
        self.statuses[run.name] = run.status()

    def touch(self, node: str) -> None:
        pass

    def pod_logs(self, pod: Mapping[str, Any]) -> PodLogs:
        return PodLogs(self._directory / pod["metadata"]["uid"])

    def serve(self, run: PodRun) -> None:
        pass

    def patch_pod_status(self, pod: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        self.statuses[pod["metadata"]["name"]] = status

    def delete_pod(self, pod: Mapping[str, Any]) -> None:
        self.deleted.append(pod["metadata"]["name"])

    def patch_node_labels(self, node: str, labels: Mapping[str, str | None]) -> None:
        self.labels.update(labels)

    def patch_node_status(self, node: str, capacity: Mapping[str, str], allocatable: Mapping[str, str]) -> None:
        self.capacity.update(capacity)
        self.allocatable.update(allocatable)

    def record_event(self, pod: Mapping[str, Any], kind: str, reason: str, message: str) -> None:
        self.events.append(f"{reason}: {message}")


class Node:
    """The agent under test with the pods the controllers would give it."""

    def __init__(self, world: VirtualWorld) -> None:
        self.world = world
        self.object: dict[str, Any] = {"metadata": {"name": "gpu-1", "labels": {}, "annotations": {GPU_ANNOTATION: json.dumps([T4])}}}
        self.agent = NodeAgent(world, self.object, None)
        self._count = 0

    def change(self, *, label: str | None = None, **annotations: str | None) -> None:
        metadata = self.object["metadata"]
        changed = {key: value for key, value in {**metadata["annotations"], **annotations}.items() if value is not None}
        labels = {CONFIG_LABEL: label} if label else metadata["labels"]
        self.object = {"metadata": {**metadata, "labels": labels, "annotations": changed}}
        self.agent.node_changed(self.object)

    def operand(self, app: str, version: str = "v0.17.4") -> dict[str, Any]:
        """Bind a new pod of the operand to the node."""
        image = f"nvcr.io/nvidia/k8s-device-plugin:{version}"
        manager = [{"name": "DEFAULT_CONFIG", "value": "none"}, {"name": "FALLBACK_STRATEGIES", "value": "empty"}]
        manager += [{"name": "CONFIG_FILE_SRCDIR", "value": "/available-configs"}, {"name": "SEND_SIGNAL", "value": "true"}]
        mounts = [{"name": "configs", "mountPath": "/available-configs"}]
        sidecar = {"image": image, "env": manager, "volumeMounts": mounts}
        main = {"name": MAINS[app], "image": image, "env": [{"name": "CONFIG_FILE", "value": "/config/config.yaml"}]}
        spec = {
            "hostPID": app == DAEMON,
            "initContainers": [{"name": "toolkit-validation", "image": image}, {**sidecar, "name": "config-manager-init"}],
            "containers": [main, {**sidecar, "name": "config-manager"}],
            "volumes": [{"name": "configs", "configMap": {"name": "configs"}}],
        }
        return self._bind(app, "operator", {"app": app}, spec)

    def client(self, count: int = 1) -> dict[str, Any]:
        container = {**SERVE, "resources": {"limits": {"nvidia.com/gpu": str(count)}}}
        return self._bind("client", "default", {}, {"containers": [container]})

    def _bind(self, kind: str, namespace: str, labels: Mapping[str, str], spec: Mapping[str, Any]) -> dict[str, Any]:
        self._count += 1
        name = f"{kind}-{self._count}"
        pod = {"metadata": {"name": name, "namespace": namespace, "uid": name, "labels": labels}, "spec": {"nodeName": "gpu-1", **spec}}
        self.agent.pod_changed(pod)
        return pod

    def delete(self, pod: Mapping[str, Any]) -> None:
        self.agent.pod_changed({**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "now"}})

    def state(self, pod: Mapping[str, Any], container: str) -> Mapping[str, Any]:
        status = self.world.statuses[pod["metadata"]["name"]]
        every = [*status.get("initContainerStatuses", ()), *status["containerStatuses"]]
        return next(item for item in every if item["name"] == container)

    def restart_agents(self) -> None:
        """The agents' process is killed and started again; pods and node are listed anew."""
        pods = [run.pod for run in self.agent.pods.values()]
        saved = json.loads(json.dumps(self.agent.as_json()))
        self.world.forget_timers()
        self.agent = NodeAgent(self.world, self.object, saved)
        for pod in pods:
            self.agent.pod_changed(pod)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[VirtualWorld]:
    yield VirtualWorld(tmp_path)


@pytest.fixture
def node(world: VirtualWorld) -> Node:
    return Node(world)


def all_operands(node: Node, config: str, version: str = "v0.17.4") -> dict[str, dict[str, Any]]:
    """The node with the config and everything settled."""
    node.change(label=config)
    pods = {app: node.operand(app, version) for app in (DISCOVERY, PLUGIN, DAEMON)}
    node.world.pass_time(5)
    return pods


def daemon(node: Node) -> tuple[int, dict[str, int]]:
    found = node.agent.host.daemons[PIPE]
    return found.thread_percentage, dict(found.memory_mib)


def test_a_config_becomes_labels_resources_and_limits(node: Node, world: VirtualWorld) -> None:
    all_operands(node, "four")
    assert world.labels["nvidia.com/gpu.product"] == "Tesla-T4-SHARED"
    assert world.allocatable == world.capacity == {"nvidia.com/gpu": "8"}
    assert daemon(node) == (25, {"0": 3840, "1": 3840})
    assert node.agent.host.exclusive == {"0", "1"}


def test_the_plugin_waits_for_the_daemon(node: Node, world: VirtualWorld) -> None:
    node.change(label="four")
    node.operand(PLUGIN)
    world.pass_time(10)
    assert world.allocatable == {}
    node.operand(DAEMON)
    world.pass_time(5)
    assert world.allocatable == {"nvidia.com/gpu": "8"}


def test_a_relabel_moves_the_plugin_but_not_the_daemon(node: Node, world: VirtualWorld) -> None:
    pods = all_operands(node, "two")
    node.change(label="four")
    world.pass_time(5)
    assert world.allocatable == {"nvidia.com/gpu": "8"}
    assert daemon(node)[0] == 50
    assert node.state(pods[DAEMON], "config-manager")["lastState"]["terminated"]["exitCode"] == 2
    node.delete(pods[DAEMON])
    world.pass_time(1)
    assert world.deleted == [pods[DAEMON]["metadata"]["name"]]
    assert node.agent.host.exclusive == set()
    node.operand(DAEMON)
    world.pass_time(5)
    assert daemon(node)[0] == 25


def test_an_edited_file_is_read_by_a_restarted_pod_only(node: Node, world: VirtualWorld) -> None:
    pods = all_operands(node, "two")
    world.config_maps[("operator", "configs")] = {**CONFIGS, "two": sharing(3)}
    node.agent.config_map_changed("operator", "configs")
    world.pass_time(30)
    assert world.allocatable == {"nvidia.com/gpu": "4"}
    node.delete(pods[PLUGIN])
    node.operand(PLUGIN)
    world.pass_time(5)
    assert world.allocatable == {"nvidia.com/gpu": "6"}


def test_a_waiting_plugin_reads_its_file_again_at_each_retry(node: Node, world: VirtualWorld) -> None:
    node.change(label="two")
    node.operand(PLUGIN)
    world.pass_time(3)
    world.config_maps[("operator", "configs")] = {**CONFIGS, "two": "version: v1"}
    node.agent.config_map_changed("operator", "configs")
    world.pass_time(5)
    assert world.allocatable == {"nvidia.com/gpu": "2"}


def test_a_renamed_resource_leaves_the_old_one_at_zero(node: Node, world: VirtualWorld) -> None:
    pods = all_operands(node, "none")
    node.change(label="renamed")
    node.delete(pods[DAEMON])
    node.operand(DAEMON)
    world.pass_time(5)
    assert world.allocatable == {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "8"}
    assert world.capacity == {"nvidia.com/gpu": "2", "nvidia.com/gpu.shared": "8"}
    world.pass_time(10)
    assert world.capacity == {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "8"}


@pytest.mark.parametrize(("version", "product"), [("v0.17.4", None), ("v0.20.0", "Tesla-T4-SHARED")])
def test_labels_after_a_failed_discovery_by_version(node: Node, world: VirtualWorld, version: str, product: str | None) -> None:
    pods = all_operands(node, "two", version)
    node.change(label="bad")
    world.pass_time(5)
    assert world.labels["nvidia.com/gpu.product"] == product
    state = node.state(pods[DISCOVERY], "gpu-feature-discovery")
    assert state["restartCount"] >= 1
    assert world.allocatable == {"nvidia.com/gpu": "0"}, "a bad config removes working GPUs"


def test_labels_outlive_a_restart_of_discovery_but_not_its_absence(node: Node, world: VirtualWorld) -> None:
    pods = all_operands(node, "two")
    node.delete(pods[DISCOVERY])
    world.pass_time(10)
    second = node.operand(DISCOVERY)
    world.pass_time(40)
    assert world.labels["nvidia.com/gpu.product"] == "Tesla-T4-SHARED"
    node.delete(second)
    world.pass_time(40)
    assert world.labels["nvidia.com/gpu.product"] is None


def test_0_20_starts_the_daemon_with_the_default(node: Node, world: VirtualWorld) -> None:
    pods = all_operands(node, "four", "v0.20.0")
    assert world.labels["nvidia.com/gpu.replicas"] == "4"
    assert node.agent.host.daemons == {}
    assert world.allocatable.get("nvidia.com/gpu") in (None, "0")
    assert node.state(pods[DAEMON], "config-manager")["lastState"]["terminated"]["exitCode"] == 1


def test_clients_die_with_their_daemon_and_come_back(node: Node, world: VirtualWorld) -> None:
    pods = all_operands(node, "two")
    client = node.client()
    world.pass_time(1)
    assert node.state(client, "serve")["ready"]
    node.delete(pods[DAEMON])
    world.pass_time(1)
    assert node.state(client, "serve")["restartCount"] >= 1 or not node.state(client, "serve")["ready"]
    node.operand(DAEMON)
    world.pass_time(20)
    assert node.state(client, "serve")["ready"]


def test_a_killed_daemon_leaves_the_gpus_exclusive(node: Node, world: VirtualWorld) -> None:
    pods = all_operands(node, "two")
    node.change(**{FAULT_ANNOTATION: "daemon-killed"})
    assert node.agent.host.daemons == {}
    assert node.agent.host.exclusive == {"0", "1"}
    assert node.state(pods[DAEMON], "mps-control-daemon-ctr")["ready"]
    assert world.allocatable == {"nvidia.com/gpu": "4"}


def test_more_than_one_replica_is_failed_at_admission(node: Node, world: VirtualWorld) -> None:
    all_operands(node, "two")
    greedy = node.client(2)
    status = world.statuses[greedy["metadata"]["name"]]
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert node.agent.host.allocations == []


def test_a_missing_config_map_is_waited_for(node: Node, world: VirtualWorld) -> None:
    del world.config_maps[("operator", "configs")]
    pod = node.operand(PLUGIN)
    world.pass_time(5)
    assert any(event.startswith('FailedMount: MountVolume.SetUp failed for volume "configs"') for event in world.events)
    assert node.state(pod, MAINS[PLUGIN])["state"] == {"waiting": {"reason": "PodInitializing"}}
    world.config_maps[("operator", "configs")] = CONFIGS
    node.agent.config_map_changed("operator", "configs")
    world.pass_time(5)
    assert world.allocatable == {"nvidia.com/gpu": "2"}


def test_a_foreign_plugin_takes_the_name_and_leaves_it_empty(node: Node, world: VirtualWorld) -> None:
    pods = all_operands(node, "two")
    node.change(**{FAULT_ANNOTATION: "plugin-foreign"})
    assert world.allocatable == {"nvidia.com/gpu": "2"}
    node.change(**{FAULT_ANNOTATION: None})
    assert world.allocatable == {"nvidia.com/gpu": "0"}
    node.delete(pods[PLUGIN])
    node.operand(PLUGIN)
    world.pass_time(5)
    assert world.allocatable == {"nvidia.com/gpu": "4"}


def test_a_cut_off_node_hears_nothing_until_it_is_back(node: Node, world: VirtualWorld) -> None:
    pods = all_operands(node, "two")
    node.change(**{NOT_READY_ANNOTATION: "yes"})
    node.delete(pods[PLUGIN])
    node.change(label="four")
    world.pass_time(30)
    assert world.deleted == []
    assert world.allocatable == {"nvidia.com/gpu": "4"}
    node.change(**{NOT_READY_ANNOTATION: None})
    world.pass_time(5)
    assert world.deleted == [pods[PLUGIN]["metadata"]["name"]]
    assert world.labels["nvidia.com/gpu.replicas"] == "4"


@pytest.mark.parametrize("moment", [0.05, 0.3, 0.6, 1.0, 5.0])
def test_restarted_agents_go_on_wherever_they_were(node: Node, world: VirtualWorld, moment: float) -> None:
    node.change(label="two")
    for app in (DISCOVERY, PLUGIN, DAEMON):
        node.operand(app)
    world.pass_time(moment)
    node.restart_agents()
    world.pass_time(10)
    assert world.allocatable == {"nvidia.com/gpu": "4"}
    assert world.labels["nvidia.com/gpu.replicas"] == "2"
    assert daemon(node)[0] == 50
    assert all(item["restartCount"] == 0 for status in world.statuses.values() for item in status["containerStatuses"])
