# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kubelet's part of the agents: accounting, admission, CUDA's view of the node, and pod statuses."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.testbed.agents import cuda, kubelet
from tests.testbed.agents.kubelet import Allocation, Refusal, Registration
from tests.testbed.agents.objects import Request, gpu_requests, image_version, is_played
from tests.testbed.agents.pod_status import failed_status, initial, pod_status

GPU = "nvidia.com/gpu"
NOW = "2026-11-30T21:00:00Z"
LATER = "2026-11-30T21:01:00Z"


def shared(**changes: object) -> Registration:
    fields = {"resource": GPU, "devices": ("0", "1"), "replicas": 4, "owner": "plugin", "refuses_more_than_one": True}
    return Registration(**{**fields, **changes})


def test_a_stopped_endpoint_is_zero_at_once_and_its_capacity_later() -> None:
    running = {GPU: shared()}
    assert kubelet.status(running) == ({GPU: "8"}, {GPU: "8"})
    stopped = kubelet.stop_owner(running, "plugin")
    assert kubelet.status(stopped) == ({GPU: "8"}, {GPU: "0"})
    assert kubelet.status(kubelet.expire(stopped, GPU)) == ({GPU: "0"}, {GPU: "0"})


def test_only_the_owners_endpoints_stop_and_only_stopped_ones_expire() -> None:
    running = {GPU: shared()}
    assert kubelet.stop_owner(running, "another") == running
    assert kubelet.expire(running, GPU) == running
    assert kubelet.expire(running, "nvidia.com/gpu.shared") == running


def request(count: int = 1, resource: str = GPU) -> list[Request]:
    return [Request("main", resource, count)]


def test_replicas_go_to_the_least_used_gpu() -> None:
    taken: list[Allocation] = []
    for pod in ("a", "b", "c"):
        taken.extend(kubelet.admit(pod, request(), {GPU: shared()}, taken))
    assert [item.devices for item in taken] == [("0",), ("1",), ("0",)]


@pytest.mark.parametrize(
    ("registration", "count", "reason", "message"),
    [
        (shared(), 2, "UnexpectedAdmissionError", "maximum request size for shared resources is 1; found 2"),
        (shared(stopped=True), 1, "UnexpectedAdmissionError", "Requested: 1, Available: 0, which is unexpected"),
        (shared(replicas=1), 3, "UnexpectedAdmissionError", "Requested: 3, Available: 2"),
        (None, 1, "OutOfnvidia.com/gpu", "Node didn't have enough resource: nvidia.com/gpu"),
    ],
)
def test_refused_admissions(registration: Registration | None, count: int, reason: str, message: str) -> None:
    answer = kubelet.admit("pod", request(count), {GPU: registration} if registration else {}, [])
    assert isinstance(answer, Refusal)
    assert answer.reason == reason
    assert message in answer.message


@pytest.mark.parametrize("changes", [{"refuses_more_than_one": False}, {"replicas": 1}])
def test_several_devices_where_the_plugin_allows_them(changes: Mapping[str, object]) -> None:
    (allocation,) = kubelet.admit("pod", request(2), {GPU: shared(**changes)}, [])
    assert allocation.devices == ("0", "1")


def test_what_others_hold_is_not_free() -> None:
    taken = [Allocation("other", "main", GPU, ("0", "1"))]
    assert isinstance(kubelet.admit("pod", request(), {GPU: shared(replicas=1)}, taken), Refusal)


PIPE = "/mps/nvidia.com/gpu/pipe"
MINE, OTHER = ("pod", "main"), ("other", "main")


@pytest.mark.parametrize(
    ("client", "host", "error"),
    [
        ({"pipe_directory": PIPE}, {"pipes": {PIPE}, "exclusive": {"0"}}, ""),
        ({"pipe_directory": PIPE}, {"exclusive": {"0"}}, cuda.NO_DAEMON),
        ({"pipe_directory": PIPE}, {"pipes": {"/mps/nvidia.com/gpu.shared/pipe"}}, cuda.NO_DAEMON),
        ({"pipe_directory": PIPE, "own_shm": True}, {"pipes": {PIPE}}, cuda.NO_DAEMON),
        ({}, {"exclusive": {"0"}, "others": {"0": [MINE]}}, ""),
        ({}, {"exclusive": {"0"}, "others": {"0": [MINE, OTHER]}}, cuda.BUSY),
        ({}, {"exclusive": {"1"}, "others": {"0": [OTHER]}}, ""),
        ({}, {"others": {"0": [OTHER]}}, ""),
        ({}, {"broken": True}, cuda.NO_DEVICE),
    ],
)
def test_what_a_cuda_program_meets(client: Mapping[str, object], host: Mapping[str, object], error: str) -> None:
    program = cuda.Client("pod", "main", ("0",), **client)
    node = cuda.Host(frozenset(host.get("pipes", ())), frozenset(host.get("exclusive", ())), host.get("others", {}), bool(host.get("broken")))
    assert cuda.cuda_error(program, node) == error


def test_the_samples_log_is_the_documents() -> None:
    assert cuda.vector_add_lines("")[-2:] == ("Test PASSED", "Done")
    assert cuda.vector_add_lines(cuda.BUSY)[-1] == f"Failed to allocate device vector A (error code {cuda.BUSY})!"


SAMPLE = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda11.7.1-ubuntu20.04"


@pytest.mark.parametrize(
    ("container", "vector_add", "loop", "uses_cuda"),
    [
        ({"image": SAMPLE}, True, False, True),
        ({"image": SAMPLE, "command": ["/bin/bash", "-c", "--"], "args": ["while true; do /cuda-samples/vectorAdd; done"]}, True, True, True),
        ({"image": SAMPLE, "command": ["sleep", "infinity"]}, False, False, False),
        ({"image": "registry.k8s.io/pause:3.10"}, False, False, False),
        ({"image": "example.org/inference:1", "command": ["/serve"]}, False, False, True),
    ],
)
def test_kinds_of_programs(container: Mapping[str, object], vector_add: bool, loop: bool, uses_cuda: bool) -> None:
    assert (cuda.is_vector_add(container), cuda.is_loop(container), cuda.uses_cuda(container)) == (vector_add, loop, uses_cuda)


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("nvcr.io/nvidia/k8s-device-plugin:v0.17.4", (0, 17, 4)),
        ("nvcr.io/nvidia/k8s-device-plugin:v0.20.0-ubi9", (0, 20, 0)),
        ("registry:5000/k8s-device-plugin@sha256:0123", (9, 9, 9)),
    ],
)
def test_versions_come_from_the_image(image: str, version: tuple[int, int, int]) -> None:
    assert image_version({"image": image}, (9, 9, 9)) == version


def pod(*, restart_policy: str = "Always", init: bool = True, **container: object) -> dict[str, object]:
    spec = {"restartPolicy": restart_policy, "containers": [{"name": "main", "image": "i", **container}]}
    return {"metadata": {"name": "p", "labels": {}}, "spec": {**spec, **({"initContainers": [{"name": "init", "image": "i"}]} if init else {})}}


def test_a_pod_is_played_for_its_limits_or_its_label() -> None:
    asking = pod(resources={"limits": {"cpu": "1", GPU: "2"}})
    assert gpu_requests(asking) == (Request("main", GPU, 2),)
    assert is_played(asking)
    assert not is_played(pod())
    assert is_played({"metadata": {"labels": {"app": "gpu-feature-discovery"}}, "spec": {"containers": []}})


def ready_words(status: Mapping[str, object]) -> dict[str, str]:
    return {item["type"]: item["status"] for item in status["conditions"]}


def test_a_pods_way_to_ready() -> None:
    subject = pod()
    states = initial(subject)
    status = pod_status(subject, states, NOW)
    assert status["phase"] == "Pending"
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    states["init"] = states["init"].running(NOW).finished(0, NOW)
    states["main"] = states["main"].running(NOW)
    status = pod_status(subject, states, NOW)
    assert status["phase"] == "Running"
    assert ready_words(status) == {"Initialized": "True", "Ready": "True", "ContainersReady": "True"}


def test_a_crash_loop_shows_the_end_before_and_counts_restarts() -> None:
    subject = pod(init=False)
    crashed = initial(subject)["main"].running(NOW).finished(1, NOW).running(LATER).finished(1, LATER)
    status = pod_status(subject, {"main": crashed.held("CrashLoopBackOff", "back-off 10s")}, LATER)
    (shown,) = status["containerStatuses"]
    assert shown["restartCount"] == 1
    assert shown["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert (shown["lastState"]["terminated"]["exitCode"], shown["lastState"]["terminated"]["finishedAt"]) == (1, LATER)
    assert ready_words(status)["Ready"] == "False"
    assert status["phase"] == "Running"


@pytest.mark.parametrize(("code", "policy", "phase"), [(0, "Never", "Succeeded"), (1, "Never", "Failed"), (1, "OnFailure", "Running")])
def test_the_phase_of_a_pod_whose_container_ended(code: int, policy: str, phase: str) -> None:
    subject = pod(restart_policy=policy, init=False)
    states = {"main": initial(subject)["main"].running(NOW).finished(code, NOW)}
    assert pod_status(subject, states, NOW)["phase"] == phase


def test_others_conditions_and_unchanged_times_are_kept() -> None:
    subject = pod(init=False)
    scheduled = {"type": "PodScheduled", "status": "True"}
    before = {"type": "Ready", "status": "True", "lastTransitionTime": NOW}
    subject["status"] = {"conditions": [scheduled, before]}
    status = pod_status(subject, {"main": initial(subject)["main"].running(NOW)}, LATER)
    conditions = {item["type"]: item for item in status["conditions"]}
    assert conditions["PodScheduled"] == scheduled
    assert conditions["Ready"]["lastTransitionTime"] == NOW
    assert conditions["ContainersReady"]["lastTransitionTime"] == LATER


def test_a_refused_pod_is_failed() -> None:
    status = failed_status(Refusal("UnexpectedAdmissionError", "Allocate failed"), NOW)
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert "Allocate failed" in status["message"]
