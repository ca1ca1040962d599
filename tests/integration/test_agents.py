# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agents on a running bed, with the real operator, controllers and scheduler: what real nodes would show."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.testbed.bed import BedError, TestBed

NAMESPACE = "gpu-operator"
CONFIG_LABEL = "nvidia.com/device-plugin.config"
FAULT = "testbed.gpuops.example/fault"
CUT_OFF = "testbed.gpuops.example/not-ready"
APPS = {
    "discovery": "gpu-feature-discovery",
    "plugin": "nvidia-device-plugin-daemonset",
    "daemon": "nvidia-device-plugin-mps-control-daemon",
}
VECTOR_ADD = {
    "image": "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda11.7.1-ubuntu20.04",
    "command": ["/bin/bash", "-c", "--"],
    "args": ["while true; do /cuda-samples/vectorAdd; done"],
}
COUNTS = {"gpu-t4-1": 2, "gpu-v100-1": 1, "gpu-a100-1": 4, "gpu-h100-1": 8}  # the nodes these tests change, and their GPUs
THREADS = "echo get_default_active_thread_percentage | nvidia-cuda-mps-control"
MEMORY = "echo get_default_device_pinned_mem_limit | nvidia-cuda-mps-control"


def sharing(replicas: int, *, rename: bool = False) -> str:
    spec = {"renameByDefault": rename, "resources": [{"name": "nvidia.com/gpu", "replicas": replicas}]}
    return json.dumps({"version": "v1", "sharing": {"mps": spec}})


CONFIGS = {
    "none": "version: v1\n",
    "two": sharing(2),
    "four": sharing(4),
    "four-renamed": sharing(4, rename=True),
    "one": sharing(1),
    "seventeen": sharing(17),
    "slices": json.dumps({"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}}}),
}


class Lab:
    """The bed, in the words of these tests."""

    def __init__(self, bed: TestBed) -> None:
        self.bed = bed

    def node(self, name: str) -> Mapping[str, object]:
        return self.bed.api.get(f"/api/v1/nodes/{name}")

    def labels(self, node: str) -> dict[str, str]:
        labels = self.node(node)["metadata"]["labels"]
        return {key.removeprefix("nvidia.com/"): value for key, value in labels.items()}

    def resources(self, node: str, kind: str = "allocatable") -> dict[str, int]:
        return {key: int(value) for key, value in self.node(node)["status"][kind].items() if key.startswith("nvidia.com/")}

    def pod(self, app: str, node: str) -> Mapping[str, object] | None:
        found = self.bed.api.list(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=f"app={APPS[app]}", fieldSelector=f"spec.nodeName={node}")
        alive = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return alive[0] if alive else None

    def containers(self, app: str, node: str) -> dict[str, Mapping[str, object]]:
        status = (self.pod(app, node) or {}).get("status") or {}
        every = (status.get("initContainerStatuses") or []) + (status.get("containerStatuses") or [])
        return {item["name"]: item for item in every}

    def logs(self, app: str, node: str, container: str, *options: str) -> str:
        name = self.pod(app, node)["metadata"]["name"]
        return self.bed.kubectl("logs", "-n", NAMESPACE, name, "-c", container, *options)

    def says(self, app: str, node: str, container: str, text: str) -> bool:
        """Whether the container's log, or that of its run before, holds the text."""
        return any(text in self.logs(app, node, container, *options) for options in ((), ("--previous",)))

    def label(self, node: str, config: str | None) -> None:
        self.bed.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {CONFIG_LABEL: config}}})

    def fault(self, node: str, fault: str | None) -> None:
        self.annotate(node, FAULT, fault)

    def annotate(self, node: str, key: str, value: str | None) -> None:
        self.bed.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {key: value}}})

    def delete(self, app: str, node: str) -> str:
        """Delete the pod without waiting; its uid."""
        pod = self.pod(app, node)
        self.bed.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}")
        return pod["metadata"]["uid"]

    def restart(self, app: str, node: str) -> None:
        uid = self.delete(app, node)
        self.wait(f"a new {app} pod on {node}", lambda: self.ready(app, node) and self.pod(app, node)["metadata"]["uid"] != uid)

    def ready(self, app: str, node: str) -> bool:
        conditions = ((self.pod(app, node) or {}).get("status") or {}).get("conditions") or []
        return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)

    def configs(self, texts: Mapping[str, str]) -> None:
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/mps-configs"
        self.bed.api.patch(path, {"data": dict(texts)})

    def wait(self, what: str, condition: Callable[[], object], seconds: float = 90.0) -> None:
        self.bed.wait_for(what, condition, seconds)

    def wait_for_resources(self, node: str, wanted: Mapping[str, int]) -> None:
        try:
            self.wait(f"{wanted} on {node}", lambda: self.resources(node) == wanted)
        except BedError as error:
            raise AssertionError(f"{error}; it has {self.resources(node)}") from None

    def crash_loops(self, app: str, node: str, container: str) -> bool:
        state = self.containers(app, node).get(container) or {}
        waiting = (state.get("state") or {}).get("waiting") or {}
        return waiting.get("reason") == "CrashLoopBackOff" and state["restartCount"] >= 1

    def create_client(self, name: str, node: str, container: Mapping[str, object], limits: Mapping[str, int], **spec: object) -> None:
        resources = {"limits": {key: str(value) for key, value in limits.items()}}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": node},
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                "containers": [{"name": "cuda", "resources": resources, **container}],
                **spec,
            },
        }
        self.bed.api.post("/api/v1/namespaces/default/pods", body)

    def client(self, name: str) -> Mapping[str, object]:
        return self.bed.api.get(f"/api/v1/namespaces/default/pods/{name}")

    def client_logs(self, name: str) -> str:
        return self.bed.kubectl("logs", name)

    def run_in(self, name: str, command: str) -> str:
        return self.bed.kubectl("exec", name, "--", "bash", "-c", command).strip()

    def settle(self) -> None:
        """Every node back to the default config `none`, clients gone."""
        for pod in self.bed.api.list("/api/v1/namespaces/default/pods"):
            self.bed.api.delete(f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}")
        for node in COUNTS:
            self.fault(node, None)
            self.label(node, None)
        self.configs(CONFIGS)
        for node in COUNTS:
            self.wait(f"{node} settled", lambda node=node: self._is_settled(node))

    def _is_settled(self, node: str) -> bool:
        ready = self.ready("plugin", node) and self.ready("discovery", node) and self.pod("daemon", node) is None
        plain = self.labels(node).get("gpu.sharing-strategy") == "none"
        return ready and plain and self.resources(node).get("nvidia.com/gpu") == COUNTS[node]


@pytest.fixture(scope="module")
def running_lab(worker: str) -> Iterator[Lab]:
    bed = TestBed.start(f"agents-{worker}")
    try:
        bed.api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        bed.api.post(f"/api/v1/namespaces/{NAMESPACE}/configmaps", {"metadata": {"name": "mps-configs"}, "data": CONFIGS})
        bed.install_operator_objects({"devicePlugin": {"config": {"name": "mps-configs", "default": "none"}}})
        lab = Lab(bed)
        lab.wait_for_resources("gpu-t4-1", {"nvidia.com/gpu": 2})
        yield lab
    finally:
        bed.stop()


@pytest.fixture
def lab(running_lab: Lab) -> Iterator[Lab]:
    yield running_lab
    running_lab.settle()


def test_mps_reaches_a_labelled_node_through_its_label_alone(lab: Lab) -> None:
    lab.label("gpu-t4-1", "four")
    lab.wait_for_resources("gpu-t4-1", {"nvidia.com/gpu": 8})
    wanted = {"gpu.product": "Tesla-T4-SHARED", "gpu.replicas": "4", "gpu.sharing-strategy": "mps", "mps.capable": "true"}
    assert lab.labels("gpu-t4-1") == lab.labels("gpu-t4-1") | wanted
    assert lab.ready("daemon", "gpu-t4-1")
    managers = {item["manager"] for item in lab.node("gpu-t4-1")["metadata"]["managedFields"]}
    assert {"nfd-master", "kubelet"} <= managers
    assert lab.resources("gpu-t4-2") == {"nvidia.com/gpu": 4}


def test_replicas_of_one_crash_loop_with_the_parsers_reason(lab: Lab) -> None:
    lab.label("gpu-t4-1", "one")
    for app, container in (("plugin", "nvidia-device-plugin"), ("discovery", "gpu-feature-discovery")):
        lab.wait(f"crash loop of {app}", lambda app=app, container=container: lab.crash_loops(app, "gpu-t4-1", container))
        assert lab.says(app, "gpu-t4-1", container, "number of replicas must be >= 2")
        lab.wait("a pod that is not ready", lambda app=app: not lab.ready(app, "gpu-t4-1"))
    assert lab.resources("gpu-t4-1") == {"nvidia.com/gpu": 0}
    lab.wait("the labels gone", lambda: "gpu.product" not in lab.labels("gpu-t4-1"))


def test_a_label_naming_no_key_crash_loops_the_sidecar_and_then_a_new_pods_init_container(lab: Lab) -> None:
    lab.label("gpu-t4-1", "nope")
    lab.wait("crash loop of the sidecar", lambda: lab.crash_loops("plugin", "gpu-t4-1", "config-manager"))
    assert lab.says("plugin", "gpu-t4-1", "config-manager", "specified config nope does not exist")
    assert lab.resources("gpu-t4-1") == {"nvidia.com/gpu": 2}, "the plugin itself goes on with the old config"
    lab.delete("plugin", "gpu-t4-1")
    lab.wait("crash loop of the init container", lambda: lab.crash_loops("plugin", "gpu-t4-1", "config-manager-init"))


def test_seventeen_replicas_on_a_v100_are_refused_by_the_daemon_alone(lab: Lab) -> None:
    lab.label("gpu-v100-1", "seventeen")
    lab.wait("crash loop of the daemon", lambda: lab.crash_loops("daemon", "gpu-v100-1", "mps-control-daemon-ctr"))
    assert lab.says("daemon", "gpu-v100-1", "mps-control-daemon-ctr", "invalid device maximum allowed replicas exceeded: 17 > 16")
    assert lab.labels("gpu-v100-1") == lab.labels("gpu-v100-1") | {"gpu.replicas": "17", "mps.capable": "true"}
    assert lab.resources("gpu-v100-1") == {"nvidia.com/gpu": 0}
    assert lab.ready("plugin", "gpu-v100-1"), "the plugin runs and retries"
    assert "Retrying in 30s" in lab.logs("plugin", "gpu-v100-1", "nvidia-device-plugin")


def test_an_edited_config_is_not_applied_before_a_restart(lab: Lab) -> None:
    lab.label("gpu-t4-1", "two")
    lab.wait_for_resources("gpu-t4-1", {"nvidia.com/gpu": 4})
    lab.configs({"two": sharing(3)})
    with pytest.raises(BedError):
        lab.wait("an unexpected change", lambda: lab.resources("gpu-t4-1") != {"nvidia.com/gpu": 4}, 4)
    lab.restart("plugin", "gpu-t4-1")
    lab.wait_for_resources("gpu-t4-1", {"nvidia.com/gpu": 6})
    assert lab.labels("gpu-t4-1")["gpu.replicas"] == "2", "GPU Feature Discovery was forgotten"


def test_a_relabel_from_mps_to_mps_keeps_the_daemons_old_limits(lab: Lab) -> None:
    lab.label("gpu-t4-1", "two")
    lab.wait_for_resources("gpu-t4-1", {"nvidia.com/gpu": 4})
    lab.label("gpu-t4-1", "four")
    lab.wait_for_resources("gpu-t4-1", {"nvidia.com/gpu": 8})
    lab.create_client("client", "gpu-t4-1", VECTOR_ADD, {"nvidia.com/gpu": 1})
    lab.wait("a passed run", lambda: "Test PASSED" in lab.client_logs("client"))
    assert lab.run_in("client", THREADS) == "50.0"
    # It cannot find the process it should signal.
    lab.wait("the sidecar's death", lambda: lab.containers("daemon", "gpu-t4-1")["config-manager"]["restartCount"] >= 1)
    lab.restart("daemon", "gpu-t4-1")
    lab.wait("the new limits", lambda: lab.run_in("client", THREADS) == "25.0")
    assert lab.run_in("client", MEMORY) == "3G"


def test_the_daemons_sidecar_panics_on_0_17(lab: Lab) -> None:
    lab.label("gpu-t4-1", "two")
    lab.wait("the daemon", lambda: lab.ready("daemon", "gpu-t4-1"))
    lab.label("gpu-t4-1", "four")
    lab.wait("the panic", lambda: lab.containers("daemon", "gpu-t4-1")["config-manager"]["lastState"])
    assert lab.containers("daemon", "gpu-t4-1")["config-manager"]["lastState"]["terminated"]["exitCode"] == 2
    lab.wait("the pod ready again", lambda: lab.ready("daemon", "gpu-t4-1"))


def test_a_renamed_resource_leaves_the_old_name_at_zero(lab: Lab) -> None:
    lab.label("gpu-h100-1", "four-renamed")
    lab.wait_for_resources("gpu-h100-1", {"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 32})
    lab.wait("capacity 0", lambda: lab.resources("gpu-h100-1", "capacity") == {"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 32})
    assert lab.labels("gpu-h100-1")["gpu.product"] == "NVIDIA-H100-80GB-HBM3"


def test_clients_share_and_what_does_not_fit_stays_pending(lab: Lab) -> None:
    lab.label("gpu-v100-1", "two")
    lab.wait_for_resources("gpu-v100-1", {"nvidia.com/gpu": 2})
    names = ("first", "second", "third")
    for name in names:
        lab.create_client(name, "gpu-v100-1", VECTOR_ADD, {"nvidia.com/gpu": 1})

    def phases() -> dict[str, str]:
        return {name: lab.client(name)["status"]["phase"] for name in names}

    lab.wait("two running and one pending", lambda: sorted(phases().values()) == ["Pending", "Running", "Running"])
    running = next(name for name, phase in phases().items() if phase == "Running")
    lab.wait("a passed run", lambda: "Test PASSED" in lab.client_logs(running))
    assert lab.run_in(running, "nvidia-smi --query-gpu=compute_mode --format=csv,noheader") == "Exclusive_Process"


def test_more_than_one_replica_is_refused_at_admission(lab: Lab) -> None:
    lab.label("gpu-t4-1", "two")
    lab.wait_for_resources("gpu-t4-1", {"nvidia.com/gpu": 4})
    lab.create_client("greedy", "gpu-t4-1", VECTOR_ADD, {"nvidia.com/gpu": 2})
    lab.wait("the refusal", lambda: lab.client("greedy")["status"].get("reason") == "UnexpectedAdmissionError")
    assert "maximum request size for shared resources is 1; found 2" in lab.client("greedy")["status"]["message"]


def test_a_killed_daemon_leaves_exclusive_gpus_and_failing_clients(lab: Lab) -> None:
    lab.label("gpu-t4-1", "two")
    lab.wait_for_resources("gpu-t4-1", {"nvidia.com/gpu": 4})
    lab.create_client("loop", "gpu-t4-1", VECTOR_ADD, {"nvidia.com/gpu": 1})
    lab.create_client("server", "gpu-t4-1", {"image": "example.org/inference:1", "command": ["/serve"]}, {"nvidia.com/gpu": 1})
    lab.wait("a passed run", lambda: "Test PASSED" in lab.client_logs("loop"))
    lab.wait("the server", lambda: lab.client("server")["status"]["phase"] == "Running")
    lab.fault("gpu-t4-1", "daemon-killed")
    lab.wait("a failed run", lambda: lab.client_logs("loop").rstrip().endswith("the MPS server)!"))
    lab.wait("a restart", lambda: lab.client("server")["status"]["containerStatuses"][0]["restartCount"] >= 1)
    assert lab.ready("daemon", "gpu-t4-1"), "the pod does not notice"
    assert lab.resources("gpu-t4-1") == {"nvidia.com/gpu": 4}
    assert lab.run_in("loop", "nvidia-smi --query-gpu=compute_mode --format=csv,noheader") == "Exclusive_Process"
    with pytest.raises(BedError):
        lab.run_in("loop", THREADS)


def test_own_shared_memory_hides_mps(lab: Lab) -> None:
    lab.label("gpu-t4-1", "two")
    lab.wait_for_resources("gpu-t4-1", {"nvidia.com/gpu": 4})
    container = {**VECTOR_ADD, "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}
    volume = {"name": "shm", "emptyDir": {"medium": "Memory"}}
    lab.create_client("shm", "gpu-t4-1", container, {"nvidia.com/gpu": 1}, volumes=[volume])
    lab.wait("a failed run", lambda: "MPS client failed to connect" in lab.client_logs("shm"))


def test_a_missing_config_map_keeps_new_pods_from_starting(lab: Lab) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    lab.bed.api.delete(f"{path}/mps-configs")
    try:
        lab.delete("plugin", "gpu-t4-1")
        events = f"/api/v1/namespaces/{NAMESPACE}/events"
        lab.wait("FailedMount", lambda: any(item["reason"] == "FailedMount" for item in lab.bed.api.list(events)))
        initializing = {"waiting": {"reason": "PodInitializing"}}
        lab.wait("a pod that does not start", lambda: lab.containers("plugin", "gpu-t4-1").get("nvidia-device-plugin", {}).get("state") == initializing)
    finally:
        lab.bed.api.post(path, {"metadata": {"name": "mps-configs"}, "data": CONFIGS})
    lab.wait("the pod", lambda: lab.ready("plugin", "gpu-t4-1"))


@pytest.mark.parametrize(
    ("fault", "app"), [("toolkit-validation-stuck", "discovery"), ("image-pull", "discovery"), ("gfd-crash", "discovery"), ("plugin-crash", "plugin")]
)
def test_faults_show_and_heal(lab: Lab, fault: str, app: str) -> None:
    lab.fault("gpu-a100-1", fault)
    lab.delete(app, "gpu-a100-1")
    lab.wait("trouble", lambda: lab.pod(app, "gpu-a100-1") and not lab.ready(app, "gpu-a100-1"))
    lab.fault("gpu-a100-1", None)
    lab.wait("health", lambda: lab.ready(app, "gpu-a100-1"))
    lab.wait_for_resources("gpu-a100-1", {"nvidia.com/gpu": 4})


def test_time_sliced_clients_run_side_by_side_until_a_dead_daemon_left_the_gpu_exclusive(lab: Lab) -> None:
    lab.label("gpu-v100-1", "two")
    lab.wait_for_resources("gpu-v100-1", {"nvidia.com/gpu": 2})
    lab.fault("gpu-v100-1", "daemon-killed")
    lab.label("gpu-v100-1", "slices")
    lab.wait("the daemon's pod gone", lambda: lab.pod("daemon", "gpu-v100-1") is None)
    lab.wait_for_resources("gpu-v100-1", {"nvidia.com/gpu": 2})
    lab.create_client("first", "gpu-v100-1", VECTOR_ADD, {"nvidia.com/gpu": 1})
    lab.wait("a passed run", lambda: "Test PASSED" in lab.client_logs("first"))
    lab.create_client("second", "gpu-v100-1", VECTOR_ADD, {"nvidia.com/gpu": 1})
    lab.wait("a busy device", lambda: "all CUDA-capable devices are busy or unavailable" in lab.client_logs("second"))
    mode = lab.bed.kubectl("exec", "first", "--", "nvidia-smi", "--query-gpu=compute_mode", "--format=csv,noheader")
    assert mode.strip() == "Exclusive_Process"


def test_a_node_that_is_cut_off_keeps_its_pods_and_catches_up(lab: Lab) -> None:
    lab.annotate("gpu-a100-1", CUT_OFF, "yes")
    uid = lab.delete("plugin", "gpu-a100-1")
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"

    def is_there() -> bool:
        return any(pod["metadata"]["uid"] == uid for pod in lab.bed.api.list(pods))

    with pytest.raises(BedError):
        lab.wait("the pod gone", lambda: not is_there(), 3)
    lab.annotate("gpu-a100-1", CUT_OFF, None)
    lab.wait("the pod gone", lambda: not is_there())
    lab.wait("a new one", lambda: lab.ready("plugin", "gpu-a100-1"))


def test_a_pod_of_a_former_pods_name_has_logs_of_its_own(lab: Lab) -> None:
    once = {"image": VECTOR_ADD["image"]}
    for _time in range(3):
        lab.create_client("again", "gpu-a100-1", once, {"nvidia.com/gpu": 1}, restartPolicy="Never")
        lab.wait("the end", lambda: lab.client("again")["status"]["phase"] == "Succeeded")
        assert lab.client_logs("again").count("Test PASSED") == 1
        lab.bed.api.delete("/api/v1/namespaces/default/pods/again")
        lab.wait("the pod gone", lambda: lab.bed.api.find("/api/v1/namespaces/default/pods/again") is None)


def test_a_wrong_annotation_on_one_node_does_not_stop_the_others(lab: Lab) -> None:
    lab.bed.api.post("/api/v1/nodes", {"metadata": {"name": "odd", "annotations": {"testbed.gpuops.example/gpus": "no JSON"}}, "spec": {}})
    try:
        lab.label("gpu-t4-1", "two")
        lab.wait_for_resources("gpu-t4-1", {"nvidia.com/gpu": 4})
    finally:
        lab.bed.api.delete("/api/v1/nodes/odd")


def test_the_agents_survive_being_killed(lab: Lab) -> None:
    lab.label("gpu-t4-1", "four")
    lab.wait_for_resources("gpu-t4-1", {"nvidia.com/gpu": 8})
    lab.create_client("client", "gpu-t4-1", VECTOR_ADD, {"nvidia.com/gpu": 1})
    lab.wait("a passed run", lambda: "Test PASSED" in lab.client_logs("client"))
    uids = [lab.pod(app, "gpu-t4-1")["metadata"]["uid"] for app in APPS]
    os.kill(lab.bed.processes()["agents"], signal.SIGKILL)
    lab.label("gpu-t4-1", "two")
    TestBed.start(lab.bed.name)
    lab.wait_for_resources("gpu-t4-1", {"nvidia.com/gpu": 4})
    assert [lab.pod(app, "gpu-t4-1")["metadata"]["uid"] for app in APPS] == uids
    assert lab.run_in("client", THREADS) == "25.0", "the daemon was not restarted"
    assert lab.client("client")["status"]["containerStatuses"][0]["restartCount"] == 0


def test_what_happened_while_the_api_server_was_away_is_caught_up_with(lab: Lab) -> None:
    lab.create_client("client", "gpu-a100-1", {"image": "example.org/inference:1", "command": ["/serve"]}, {"nvidia.com/gpu": 1})
    lab.wait("the client", lambda: lab.client("client")["status"]["phase"] == "Running")
    os.kill(lab.bed.processes()["kube-apiserver"], signal.SIGKILL)
    TestBed.start(lab.bed.name)
    lab.label("gpu-t4-1", "two")
    lab.wait_for_resources("gpu-t4-1", {"nvidia.com/gpu": 4})
    lab.bed.api.delete("/api/v1/namespaces/default/pods/client")
    lab.wait("the client gone", lambda: lab.bed.api.find("/api/v1/namespaces/default/pods/client") is None)


def test_0_20_ignores_the_label_at_the_start_and_breaks_the_daemon(lab: Lab) -> None:
    """Last, because it replaces every agent's pod."""
    policy = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
    lab.bed.api.patch(policy, {"spec": {"devicePlugin": {"version": "v0.20.0"}, "gfd": {"version": "v0.20.0"}}})

    def version(app: str, node: str) -> str:
        pod = lab.pod(app, node)
        return pod["spec"]["containers"][0]["image"].rpartition(":")[2] if pod else ""

    for node in ("gpu-t4-1", "gpu-v100-1"):
        lab.wait("the new pods", lambda node=node: version("plugin", node) == version("discovery", node) == "v0.20.0")
        lab.wait("them ready", lambda node=node: lab.ready("plugin", node) and lab.ready("discovery", node), 60)
    lab.label("gpu-t4-1", "four")
    lab.wait("labels of the label's config", lambda: lab.labels("gpu-t4-1")["gpu.replicas"] == "4")
    lab.wait("the sidecar's end", lambda: lab.crash_loops("daemon", "gpu-t4-1", "config-manager"))
    assert lab.says("daemon", "gpu-t4-1", "config-manager", "error finding pid: no process found")
    assert lab.resources("gpu-t4-1") == {"nvidia.com/gpu": 0}, "the daemon started with the default, which shares nothing"
    assert lab.says("daemon", "gpu-t4-1", "mps-control-daemon-ctr", "No devices are configured for MPS sharing")
