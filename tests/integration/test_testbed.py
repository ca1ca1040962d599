# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The test bed itself: it starts, repairs itself, keeps apart from its neighbours, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.testbed import processes
from tests.testbed.api import Api, ApiError
from tests.testbed.bed import BedError, TestBed, take_down
from tests.testbed.chart import uninstall
from tests.testbed.layout import Layout, LayoutError, state_home
from tests.testbed.node_sets import NodeSetError

REPOSITORY = Path(__file__).resolve().parents[2]
CONTROL_PLANE = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"}
EVERYTHING = CONTROL_PLANE | {"agents", "operator-runner"}


@pytest.fixture(scope="module")
def plain(worker: str) -> Iterator[TestBed]:
    """A bed of this file's own, without agents, so that KWOK plays every pod."""
    try:
        yield TestBed.start(f"plain-{worker}", agents=False)
    finally:
        take_down(Layout.of(f"plain-{worker}"))


def command_line(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m tests.testbed` as `make testbed` does."""
    command = [sys.executable, "-m", "tests.testbed", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_up_and_down_twice_on_the_command_line(worker: str) -> None:
    name = f"twice-{worker}"
    directory = Layout.of(name).directory
    try:
        first = command_line("up", "--name", name)
        assert first.returncode == 0, first.stderr
        assert f"kubeconfig: {directory}/kubeconfig" in first.stdout
        assert f"audit log:  {directory}/audit.log" in first.stdout
        running = processes.running(directory)
        assert set(running) == EVERYTHING
        second = command_line("up", "--name", name)
        assert second.returncode == 0, second.stderr
        assert processes.running(directory) == running, "the second up started something anew"
        assert json.loads((directory / "pids.json").read_text()) == running
    finally:
        down = command_line("down", "--name", name)
    assert down.returncode == 0, down.stderr
    assert not directory.exists()
    assert not processes.running(directory)
    again = command_line("down", "--name", name)
    assert again.returncode == 0, again.stderr
    assert not directory.exists()
    assert command_line("status", "--name", name).returncode == 1


def test_a_warm_start_takes_less_than_thirty_seconds(bed_factory: Callable[..., TestBed]) -> None:
    begun = time.monotonic()
    bed = bed_factory("warm")
    assert time.monotonic() - begun < 30
    assert len(bed.api.list("/api/v1/nodes")) == 8


def test_every_killed_process_is_started_again(bed_factory: Callable[..., TestBed]) -> None:
    bed = bed_factory("killed")
    bed.api.post("/api/v1/namespaces", {"metadata": {"name": "kept"}})
    for name in sorted(EVERYTHING):
        former = bed.processes()
        os.kill(former[name], signal.SIGKILL)
        bed.wait_for(f"end of {name}", lambda name=name: name not in bed.processes(), 5)  # type: ignore[misc]
        TestBed.start(bed.name)
        present = bed.processes()
        assert set(present) == EVERYTHING, f"after the end of {name}"
        assert present[name] != former[name]
        assert {key: pid for key, pid in present.items() if key != name} == {key: pid for key, pid in former.items() if key != name}
    assert bed.api.find("/api/v1/namespaces/kept"), "the cluster lost its data"


def test_down_after_everything_was_killed_leaves_nothing(bed_factory: Callable[..., TestBed]) -> None:
    bed = TestBed.start(bed_factory("dead").name)
    for pid in bed.processes().values():
        os.kill(pid, signal.SIGKILL)
    TestBed.start(bed.name)
    assert bed.api.list("/api/v1/nodes")
    bed.stop()
    assert not bed.directory.exists()
    assert not bed.processes()


def test_two_beds_side_by_side_do_not_see_each_other(plain: TestBed, bed_factory: Callable[..., TestBed]) -> None:
    other = bed_factory("beside", agents=False)
    assert not set(vars(other.layout.ports()).values()) & set(vars(plain.layout.ports()).values())
    other.api.post("/api/v1/namespaces", {"metadata": {"name": "only-here"}})
    assert plain.api.find("/api/v1/namespaces/only-here") is None
    with pytest.raises(ApiError) as refused:
        Api(other.layout.server, other.layout.certificates / "ca.crt", plain.layout.tokens()["admin"]).get("/api/v1/nodes")
    assert refused.value.status == 401
    other.stop()
    assert set(plain.processes()) == CONTROL_PLANE | {"operator-runner"}


def test_a_bed_that_is_there_is_not_made_another(plain: TestBed) -> None:
    with pytest.raises(BedError, match="nodes is lab, not fleet:3"):
        TestBed.start(plain.name, nodes="fleet:3", agents=False)


@pytest.mark.parametrize(
    ("name", "nodes", "error"),
    [("../evil", "lab", LayoutError), ("unknown-set", "no-such-set", NodeSetError), ("empty-fleet", "fleet:0", NodeSetError)],
)
def test_what_cannot_be_is_refused_before_anything_starts(name: str, nodes: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        TestBed.start(name, nodes=nodes)
    assert not (state_home() / name).exists()


def test_a_fleet_of_two_hundred_nodes_is_ready(bed_factory: Callable[..., TestBed]) -> None:
    bed = bed_factory("fleet", nodes="fleet:200", agents=False, operator=False)
    nodes = bed.api.list("/api/v1/nodes")
    assert len(nodes) == 201
    assert sum("nvidia.com/gpu" in {taint["key"] for taint in node["spec"].get("taints", [])} for node in nodes) == 200


def test_a_node_set_of_the_users_own(bed_factory: Callable[..., TestBed], tmp_path: Path) -> None:
    path = tmp_path / "mine.yml"
    path.write_text(
        "nodes:\n"
        "  - name: mine\n"
        "    gpus: [{product: NVIDIA L4, count: 2, memory_mib: 23034, compute: '8.9'}]\n"
        "    labels: {rack: r1}\n"
        "    taints: [{key: rack, value: r1, effect: NoExecute}]\n"
        "    kernel: 5.15.0-tegra\n"
    )
    (node,) = bed_factory("mine", nodes=str(path), agents=False).api.list("/api/v1/nodes")
    assert node["metadata"]["labels"]["rack"] == "r1"
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["rack"]
    assert node["status"]["nodeInfo"]["kernelVersion"] == "5.15.0-tegra"
    assert json.loads(node["metadata"]["annotations"]["testbed.gpuops.example/gpus"])[0]["product"] == "NVIDIA L4"


def test_a_node_goes_and_comes_back_by_annotation(plain: TestBed) -> None:
    path = "/api/v1/nodes/gpu-v100-1"

    def ready() -> str:
        return next(c["status"] for c in plain.api.get(path)["status"]["conditions"] if c["type"] == "Ready")

    plain.api.patch(path, {"metadata": {"annotations": {"testbed.gpuops.example/not-ready": "yes"}}})
    plain.wait_for("node that is not ready", lambda: ready() == "False", 10)
    plain.api.patch(path, {"metadata": {"annotations": {"testbed.gpuops.example/not-ready": None}}})
    plain.wait_for("node that is ready again", lambda: ready() == "True", 10)


def test_deployments_and_jobs_run(plain: TestBed) -> None:
    plain.kubectl("create", "deployment", "web", "--image=web", "--replicas=2")
    plain.kubectl("create", "job", "once", "--image=once")
    plain.kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    plain.kubectl("wait", "--for=condition=complete", "job/once", "--timeout=20s")
    plain.kubectl("delete", "deployment/web", "job/once", "--timeout=20s")


def test_logs_and_exec_are_served(plain: TestBed, tmp_path: Path) -> None:
    log = tmp_path / "pod.log"
    log.write_text("2026-01-01T00:00:00.000000000Z stdout F first line\n2026-01-01T00:00:01.000000000Z stderr F second line\n")
    pod = {"metadata": {"name": "talker"}, "spec": {"containers": [{"name": "main", "image": "talker"}]}}
    plain.api.post("/api/v1/namespaces/default/pods", pod)
    plain.kubectl("wait", "--for=condition=ready", "pod/talker", "--timeout=20s")
    for kind, content in (("Logs", {"logs": [{"logsFile": str(log)}]}), ("Exec", {"execs": [{"local": {}}]})):
        body = {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": kind, "metadata": {"name": "talker"}, "spec": content}
        plain.api.post(f"/apis/kwok.x-k8s.io/v1alpha1/namespaces/default/{kind.lower().rstrip('s')}s", body)
    plain.wait_for("log", lambda: plain.kubectl("logs", "talker") == "first line\nsecond line\n", 10)
    # KWOK does not pass on the end of a client's input: what a command reads has to come from the command line.
    assert plain.kubectl("exec", "talker", "--", "sh", "-c", "echo loud | tr a-z A-Z") == "LOUD\n"
    with pytest.raises(BedError, match="exit status 3"):
        plain.kubectl("exec", "talker", "--", "sh", "-c", "exit 3")
    plain.api.delete("/api/v1/namespaces/default/pods/talker")


def test_the_audit_log_counts_requests_by_user_agent(plain: TestBed) -> None:
    counted, other = plain.client("admin", "counted/1.0"), plain.client("admin", "other/1.0")
    other.get("/api/v1/nodes")
    since = plain.mark()
    counted.get("/api/v1/nodes")
    counted.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "counted"}})
    counted.patch("/api/v1/namespaces/default/configmaps/counted", {"data": {"a": "b"}}, dryRun="All")
    other.delete("/api/v1/namespaces/default/configmaps/counted")
    assert counted.find("/api/v1/namespaces/default/configmaps/counted") is None
    events = [event for event in plain.audit(since) if event.user_agent == "counted/1.0"]
    assert [(e.verb, e.resource, e.code) for e in events] == [
        ("list", "nodes", 200),
        ("create", "configmaps", 201),
        ("patch", "configmaps", 200),
        ("get", "configmaps", 404),
    ]
    assert [e.mutating for e in events] == [False, True, False, False]
    assert {e.user for e in events} == {"admin"}


def test_a_service_account_has_no_rights_of_its_own(plain: TestBed) -> None:
    plain.kubectl("create", "serviceaccount", "nobody")
    token = plain.kubectl("create", "token", "nobody").strip()
    nobody = Api(plain.layout.server, plain.layout.certificates / "ca.crt", token)
    with pytest.raises(ApiError) as refused:
        nobody.get("/api/v1/nodes")
    assert refused.value.status == 403


def test_the_operator_runs_while_its_deployment_exists(plain: TestBed) -> None:
    assert "gpu-operator" not in plain.processes()
    plain.install_operator_objects()
    plain.wait_until_settled()
    assert "gpu-operator" in plain.processes()
    names = {d["metadata"]["name"] for d in plain.api.list("/apis/apps/v1/namespaces/gpu-operator/daemonsets")}
    assert {"nvidia-device-plugin-daemonset", "gpu-feature-discovery", "nvidia-device-plugin-mps-control-daemon"} <= names
    former = plain.processes()["gpu-operator"]
    os.kill(former, signal.SIGKILL)
    plain.wait_for("operator after its end", lambda: plain.processes().get("gpu-operator", former) != former, 20)
    uninstall(plain)
    plain.wait_for("end of the operator", lambda: "gpu-operator" not in plain.processes(), 20)
