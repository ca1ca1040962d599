# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kill a rollout of six nodes at each of its writes and run it again: the same end, and nothing left behind.

The whole loop, and the one over kills of ansible-playbook, carry the mark `reliability`; a few kills run always.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.ansible_runs import COLLECTIONS, REPOSITORY, SCRIPTS
from tests.integration.rollouts import MAP, allocatable, gpu_nodes, group, labels, nothing_left_behind, own_writes, roll, set_fault
from tests.reliability.kills import SIGNALS
from tests.testbed.bed import TestBed

SIX = """\
nodes:
  - {name: gpu-a, gpus: [{product: Tesla T4, count: 2, memory_mib: 15360, compute: "7.5"}]}
  - {name: gpu-b, gpus: [{product: NVIDIA L4, count: 3, memory_mib: 23034, compute: "8.9"}]}
  - {name: gpu-c, gpus: [{product: Tesla V100-SXM2-16GB, count: 1, memory_mib: 16384, compute: "7.0"}]}
  - {name: gpu-d, gpus: [{product: Tesla T4, count: 4, memory_mib: 15360, compute: "7.5"}]}
  - {name: gpu-e, gpus: [{product: Tesla T4, count: 2, memory_mib: 15360, compute: "7.5"}]}
  - {name: gpu-f, gpus: [{product: Tesla T4, count: 1, memory_mib: 15360, compute: "7.5"}]}
  - {name: cpu-1, gpus: []}
"""
NODES = ("gpu-a", "gpu-b", "gpu-c", "gpu-d", "gpu-e", "gpu-f")
COUNTS = dict(zip(NODES, (2, 3, 1, 4, 2, 1), strict=True))
# The label and the text change, the default too: record, map, policy, nodes, update strategy, removal, end.
CONFIGS: dict[str, Any] = {"none": {}, "two": {"replicas": 2}}
FIRST: dict[str, Any] = {"configs": CONFIGS, "default": "none", "node_groups": [group("two", *NODES)], "batch_size": "3"}
WRITES_AT_MOST = 80
WRITES_AT_ONCE = 10


def second(replicas: int) -> dict[str, Any]:
    """The change that is killed: another text under the label, and another default."""
    return {
        **FIRST,
        "configs": {"none": {}, "two": {"replicas": replicas}, "rest": {}},
        "default": "rest" if replicas == 3 else "none",
        "batch_size": "3",
        "disruption": "drain",
    }


@pytest.fixture(scope="module")
def bed(worker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBed]:
    """Six GPU nodes with fast agents, two clients for each GPU, and marks of other people on every object."""
    path = tmp_path_factory.mktemp("nodes") / "six.yml"
    path.write_text(SIX)
    started = TestBed.start(f"kill-{worker}", nodes=str(path), instant=True)
    try:
        started.install_operator_objects()
        started.wait_until_settled()
        assert roll(started, **{**FIRST, "batch_size": "6"})["state"] == "verified"
        for name in NODES:
            started.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"other": "one"}, "annotations": {"other/note": "left alone"}}})
        started.api.patch(MAP, {"data": {"foreign": "version: v1\n# somebody's\n"}, "metadata": {"labels": {"other": "one"}}})
        yield started
    finally:
        started.stop()


def others(bed: TestBed) -> dict[str, Any]:
    """What belongs to other people and has to stay byte by byte."""
    found = bed.api.get(MAP)
    nodes = {name: (node["metadata"]["labels"].get("other"), node["metadata"]["annotations"].get("other/note")) for name, node in gpu_nodes(bed).items()}
    return {"map": (found["data"]["foreign"], found["metadata"]["labels"]), "nodes": nodes}


def killed(bed: TestBed, options: dict[str, Any], write: int, when: str, how: signal.Signals = signal.SIGKILL) -> bool:
    """Run a rollout in its own process that dies at a write; False when it ended before."""
    short = {"wait_timeout": 120, "drain_timeout": 60, "lease_duration": 2}
    request = {**options, **short, "write": write, "when": when, "how": how, "kubeconfig": str(bed.kubeconfig)}
    command = [sys.executable, "-m", "tests.integration.killed_rollout", json.dumps(request)]
    answer = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=180)
    assert answer.returncode in (0, -how), answer.stderr
    return answer.returncode != 0


def assert_run_again_ends_well(bed: TestBed, options: dict[str, Any], replicas: int, before: dict[str, Any], what: object) -> None:
    """The next run continues, and then it is as if nothing had happened."""
    result = roll(bed, **{**options, "lease_duration": 2})
    assert result["state"] == "verified", (what, result.get("msg"), result["progress"])
    assert allocatable(bed) == {name: {"nvidia.com/gpu": count * replicas} for name, count in COUNTS.items()}, what
    assert set(labels(bed).values()) == {"two"} and set(bed.api.get(MAP)["data"]) == {"foreign", *options["configs"]}, what
    nothing_left_behind(bed)
    assert others(bed) == before, what
    mark = bed.mark()
    assert roll(bed, **options)["changed"] is False and own_writes(bed, mark) == [], what


@pytest.mark.parametrize(("write", "when"), [(3, "after"), (8, "before"), (20, "after")])
def test_a_killed_rollout_is_continued(bed: TestBed, write: int, when: str) -> None:
    """A few kills, always tried: after the policy, in a batch, late."""
    before = others(bed)
    replicas = 3 if "replicas: 2" in bed.api.get(MAP)["data"]["two"] else 2
    assert killed(bed, second(replicas), write, when)
    assert_run_again_ends_well(bed, second(replicas), replicas, before, (write, when))


def test_what_a_killed_playbook_leaves_running_is_waited_for(bed: TestBed, tmp_path: Path) -> None:
    """Only ansible-playbook itself is killed, early: its worker and its module live on for the rest of their slice."""
    before, replicas = others(bed), 3 if "replicas: 2" in bed.api.get(MAP)["data"]["two"] else 2
    assert playbook_killed(bed, second(replicas), 4, tmp_path, all_of_it=False)
    assert_run_again_ends_well(bed, second(replicas), replicas, before, "worker left")


def test_a_killed_way_back_is_ended_first(bed: TestBed) -> None:
    """A run that dies while it takes nodes back: the next one ends that, and says so."""
    before, replicas = others(bed), 3 if "replicas: 2" in bed.api.get(MAP)["data"]["two"] else 2
    options = {**second(replicas), "canary": ["gpu-a"], "wait_timeout": 15}
    set_fault(bed, "gpu-a", "plugin-stuck")
    assert killed_on_the_way_back(bed, options)
    set_fault(bed, "gpu-a", None)
    result = roll(bed, lease_duration=2, **options)
    assert result["state"] == "returned" and "rollout-earlier-taken-back" in {found["code"] for found in result["findings"]}, result
    nothing_left_behind(bed)
    agreement_of_six(bed)
    assert_run_again_ends_well(bed, second(replicas), replicas, before, "way back")


def killed_on_the_way_back(bed: TestBed, options: dict[str, Any]) -> bool:
    """Kill a run as soon as its record says that it goes back."""
    request = {**options, "write": 10_000, "when": "before", "how": signal.SIGKILL, "kubeconfig": str(bed.kubeconfig), "drain_timeout": 20, "lease_duration": 2}
    process = subprocess.Popen([sys.executable, "-m", "tests.integration.killed_rollout", json.dumps(request)], cwd=REPOSITORY)
    lease = "/apis/coordination.k8s.io/v1/namespaces/gpu-operator/leases/gpuops-mps-rollout"
    for _look in range(1200):
        record = json.loads(bed.api.get(lease)["metadata"]["annotations"]["gpuops.mps/rollout"])
        if record["ended"] is None and record["direction"] == "back":
            process.kill()
            break
        time.sleep(0.1)
    return process.wait(60) == -signal.SIGKILL


def agreement_of_six(bed: TestBed) -> None:
    """Every node offers what the text under its label says."""
    data = bed.api.get(MAP)["data"]
    for name, label in labels(bed).items():
        replicas = int(data[label or ""].split("replicas:")[1].split()[0])
        assert allocatable(bed)[name] == {"nvidia.com/gpu": COUNTS[name] * replicas}, (name, label)


@pytest.mark.reliability
@pytest.mark.parametrize("first", range(1, WRITES_AT_MOST, WRITES_AT_ONCE))
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("how", SIGNALS, ids=lambda one: one.name)
def test_kill_at_every_write(bed: TestBed, how: signal.Signals, when: str, first: int) -> None:
    """Every write, before it is sent and before its answer is read, in parts that can be run alone (`-k SIGKILL-before-11`)."""
    before = others(bed)
    for write in range(first, first + WRITES_AT_ONCE):
        replicas = 3 if "replicas: 2" in bed.api.get(MAP)["data"]["two"] else 2
        died = killed(bed, second(replicas), write, when, how)
        assert_run_again_ends_well(bed, second(replicas), replicas, before, (write, when, how.name))
        if not died:
            return
    assert write < WRITES_AT_MOST, "the rollout has more writes than the loop"


@pytest.mark.reliability
def test_kill_ansible_playbook_at_every_step(bed: TestBed, tmp_path: Path) -> None:
    """The same with ansible-playbook and all its children, as soon as the audit log shows the write."""
    before = others(bed)
    for write in range(1, WRITES_AT_MOST):
        replicas = 3 if "replicas: 2" in bed.api.get(MAP)["data"]["two"] else 2
        died = playbook_killed(bed, second(replicas), write, tmp_path)
        assert_run_again_ends_well(bed, second(replicas), replicas, before, write)
        if not died:
            return
    raise AssertionError("the rollout has more writes than the loop")


def playbook_killed(bed: TestBed, options: dict[str, Any], write: int, directory: Path, *, all_of_it: bool = True) -> bool:
    """Start ansible-playbook with the rollout and kill it and all its children once so many writes are done; False when it ended before."""
    task = {"gpuops.mps.mps_rollout": {**options, "kubeconfig": str(bed.kubeconfig), "lease_duration": 2}}
    (directory / "play.json").write_text(json.dumps([{"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [task]}]))
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS)}
    mark = bed.mark()
    process = subprocess.Popen([str(SCRIPTS / "ansible-playbook"), str(directory / "play.json")], env=environment, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        if len(own_writes(bed, mark)) >= write:
            for pid in family(process.pid) if all_of_it else [process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
            return True
        time.sleep(0.05)
    return False


def family(pid: int) -> list[int]:
    """A process and all its descendants; those of a worker of Ansible are in sessions of their own."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found
