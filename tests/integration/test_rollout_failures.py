# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rollouts that fail, are taken back, meet other people, or must not disturb what runs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils import _rollout_lease
from tests.integration.disturbance import AGENT_APPS, watching
from tests.integration.observation import is_ready
from tests.integration.rollouts import (
    GPUS,
    LABEL,
    LEASE,
    MAP,
    MARK,
    PODS,
    POLICY,
    agents,
    agreement,
    allocatable,
    gpu_nodes,
    group,
    labels,
    nothing_left_behind,
    own_writes,
    roll,
    set_fault,
    wait_until,
    write_node_set,
)
from tests.testbed.bed import TestBed
from tests.testbed.node_sets import node_objects
from tests.testbed.operator_runner import OPERATOR

GPU = "nvidia.com/gpu"
NOT_READY = "testbed.gpuops.example/not-ready"
PLUGIN = "nvidia-device-plugin-daemonset"
CONFIGS: dict[str, Any] = {"none": {}, "two": {"replicas": 2}, "four": {"replicas": 4}}
EVERYWHERE = [group("two", "gpu-a", "gpu-b", "gpu-c", "gpu-d")]
EDITED = {**CONFIGS, "two": {"replicas": 3}}


@pytest.fixture(scope="module")
def shared_bed(worker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBed]:
    """Four GPU nodes with fast agents of plugin 0.17.4."""
    bed = TestBed.start(f"failures-{worker}", nodes=write_node_set(tmp_path_factory.mktemp("nodes")), instant=True)
    try:
        bed.install_operator_objects()
        bed.wait_until_settled()
        yield bed
    finally:
        bed.stop()


@pytest.fixture
def bed(shared_bed: TestBed) -> Iterator[TestBed]:
    """The same, with two clients for each GPU rolled out on every node; brought back to its first state afterwards."""
    result = roll(shared_bed, configs=CONFIGS, default="none", node_groups=EVERYWHERE, batch_size="4")
    assert result["state"] == "verified", result
    yield shared_bed
    shared_bed.reset()


def codes(result: dict[str, Any]) -> set[str]:
    """The codes of a result's findings."""
    return {found["code"] for found in result["findings"]}


def verdicts(result: dict[str, Any]) -> dict[str, str]:
    """Node -> verdict."""
    return {node["name"]: node["verdict"] for node in result["nodes"]}


def mend_on_the_way_back(bed: TestBed, node: str) -> None:
    """Take a node's fault away as soon as the node, or the whole rollout, is on its way back."""

    def going_back() -> bool:
        record = json.loads(bed.api.get(LEASE)["metadata"].get("annotations", {}).get(MARK, "{}"))
        mark = json.loads(gpu_nodes(bed)[node]["metadata"].get("annotations", {}).get(MARK, "{}"))
        under_way = record.get("ended") is None
        return under_way and "back" in (record.get("direction"), mark.get("direction"))

    def mend() -> None:
        wait_until(going_back, 120)
        set_fault(bed, node, None)

    threading.Thread(target=mend, daemon=True).start()


def test_a_failed_canary_takes_everything_back(bed: TestBed) -> None:
    """Nothing is verified yet, so the map goes back too, and the other nodes are never touched."""
    set_fault(bed, "gpu-a", "plugin-stuck")
    before = labels(bed)
    mend_on_the_way_back(bed, "gpu-a")
    result = roll(bed, configs=EDITED, default="none", node_groups=EVERYWHERE, canary=["gpu-a"], batch_size="2", wait_timeout=25)
    assert result["state"] == "returned" and result["failed"], result
    assert verdicts(result) == {"gpu-a": "returned", "gpu-b": "waiting", "gpu-c": "waiting", "gpu-d": "waiting"}
    assert "gpu-a: allocatable" in result["msg"]
    assert "rollout-node-failed" in codes(result)
    assert labels(bed) == before and "replicas: 2" in bed.api.get(MAP)["data"]["two"]
    agreement(bed)
    nothing_left_behind(bed)


def test_a_failed_batch_goes_back_and_leaves_the_verified_ones(bed: TestBed) -> None:
    """The failed batch and those whose turn never came keep the former content under a name of its own."""
    set_fault(bed, "gpu-c", "daemon-crash")
    mend_on_the_way_back(bed, "gpu-c")
    with watching(bed) as watcher:
        result = roll(bed, configs=EDITED, default="none", node_groups=EVERYWHERE, batch_size="1", wait_timeout=25)
    assert result["state"] == "returned", (result["msg"], result["progress"])
    assert "gpu-c: mps-control-daemon" in result["msg"]
    assert allocatable(bed) == {"gpu-a": {GPU: 6}, "gpu-b": {GPU: 9}, "gpu-c": {GPU: 2}, "gpu-d": {GPU: 8}}
    assert verdicts(result) == {"gpu-a": "verified", "gpu-b": "verified", "gpu-c": "returned", "gpu-d": "waiting"}
    kept = labels(bed)["gpu-c"]
    assert kept is not None and kept.startswith("two-") and labels(bed)["gpu-d"] == kept
    assert len(watcher.most) <= 1
    agreement(bed)
    nothing_left_behind(bed)
    again = roll(bed, configs=EDITED, default="none", node_groups=EVERYWHERE, batch_size="2")
    assert again["state"] == "verified", again
    assert set(labels(bed).values()) == {"two"} and kept not in bed.api.get(MAP)["data"]
    agreement(bed)


def test_few_enough_failures_do_not_stop_it(bed: TestBed) -> None:
    """One node goes back by itself, the others go on."""
    set_fault(bed, "gpu-b", "plugin-stuck")
    mend_on_the_way_back(bed, "gpu-b")
    result = roll(bed, configs=EDITED, default="none", node_groups=EVERYWHERE, batch_size="2", max_failures=1, wait_timeout=25)
    assert result["state"] == "verified", result
    assert verdicts(result) == {"gpu-a": "verified", "gpu-b": "returned", "gpu-c": "verified", "gpu-d": "verified"}
    assert allocatable(bed)["gpu-b"] == {GPU: 6}
    agreement(bed)
    nothing_left_behind(bed)


def test_a_node_that_stays_broken_is_named(bed: TestBed) -> None:
    """Neither forward nor back: the rollout ends as failed, in time, and the reason stands on the node."""
    set_fault(bed, "gpu-a", "plugin-stuck")
    result = roll(bed, configs=EDITED, default="none", node_groups=EVERYWHERE, canary=["gpu-a"], wait_timeout=6)
    assert result["state"] == "failed" and "rollout-node-lost" in codes(result), result
    mark = json.loads(gpu_nodes(bed)["gpu-a"]["metadata"]["annotations"][MARK])
    assert mark["state"] == "failed" and "allocatable" in mark["reason"]
    set_fault(bed, "gpu-a", None)
    assert roll(bed, configs=EDITED, default="none", node_groups=EVERYWHERE, batch_size="4")["state"] == "verified"
    agreement(bed)
    nothing_left_behind(bed)


def test_a_node_that_is_lost_meanwhile_is_named_and_done_later(bed: TestBed) -> None:
    """Its kubelet dies in the middle: the rollout ends in time, the node's mark says why, and the next run does it."""

    def lose() -> None:
        wait_until(lambda: MARK in gpu_nodes(bed)["gpu-a"]["metadata"].get("annotations", {}), 60)
        bed.api.patch("/api/v1/nodes/gpu-a", {"metadata": {"annotations": {NOT_READY: "yes"}}})

    losing = threading.Thread(target=lose)
    losing.start()
    try:
        result = roll(bed, configs=EDITED, default="none", node_groups=EVERYWHERE, canary=["gpu-a"], disruption="drain", wait_timeout=8)
        losing.join()
        assert result["state"] == "failed" and "gpu-a" in result["msg"], result
        assert json.loads(gpu_nodes(bed)["gpu-a"]["metadata"]["annotations"][MARK])["state"] == "failed"
        assert not gpu_nodes(bed)["gpu-a"]["spec"].get("unschedulable")
    finally:
        bed.api.patch("/api/v1/nodes/gpu-a", {"metadata": {"annotations": {NOT_READY: None}}})
    bed.wait_for("node that is ready again", lambda: is_ready(gpu_nodes(bed)["gpu-a"]))
    assert roll(bed, configs=EDITED, default="none", node_groups=EVERYWHERE, batch_size="4")["state"] == "verified"
    agreement(bed)
    nothing_left_behind(bed)


def test_a_default_that_fails_goes_back_with_the_policy(bed: TestBed) -> None:
    """A cluster-wide change keeps to its batches, and policy and update strategy are put back when the first one fails."""
    roll(bed, configs=CONFIGS, default="two", node_groups=[], on_left_group="remove", batch_size="4")
    assert set(labels(bed).values()) == {None}
    pods = {name: uid for name, uid in agents(bed, PLUGIN).items() if name != "gpu-a"}
    set_fault(bed, "gpu-a", "plugin-stuck")
    mend_on_the_way_back(bed, "gpu-a")
    with watching(bed) as watcher:
        result = roll(bed, configs=CONFIGS, default="four", canary=["gpu-a"], wait_timeout=25)
    assert result["state"] == "returned", (result["msg"], result["progress"])
    assert bed.api.get(POLICY)["spec"]["devicePlugin"]["config"] == {"name": "mps-configs", "default": "two"}
    assert len(watcher.most) <= 1
    assert pods == {name: uid for name, uid in agents(bed, PLUGIN).items() if name != "gpu-a"}, "nodes whose turn never came were restarted"
    agreement(bed)
    nothing_left_behind(bed)


def test_an_operator_that_does_not_follow_ends_the_rollout_before_any_node(bed: TestBed) -> None:
    """Its Deployment is scaled to 0: after the deadline map, policy and update strategy are as before, and the operator is named."""
    deployment = "/apis/apps/v1/namespaces/gpu-operator/deployments/gpu-operator"
    data, before = bed.api.get(MAP)["data"], {name: agents(bed, name) for name in AGENT_APPS}
    bed.api.patch(deployment, {"spec": {"replicas": 0}})
    try:
        bed.wait_for("end of the operator", lambda: OPERATOR not in bed.processes())
        result = roll(bed, configs=EDITED, default="four", node_groups=EVERYWHERE, batch_size="4", wait_timeout=4)
        assert result["state"] == "returned" and result["failed"] and "operator-not-following" in codes(result), result
        assert "the operator has not brought" in result["msg"]
        assert bed.api.get(MAP)["data"] == data and bed.api.get(POLICY)["spec"]["devicePlugin"]["config"]["default"] == "none"
        assert before == {name: agents(bed, name) for name in AGENT_APPS}
        agreement(bed)
        nothing_left_behind(bed)
    finally:
        bed.api.patch(deployment, {"spec": {"replicas": 1}})


def test_the_last_rollout_is_taken_back_as_a_whole(bed: TestBed) -> None:
    """Labels, map and policy as they were; a second time there is nothing left to take back."""
    changed = {"none": {}, "two": {"replicas": 3}, "six": {"replicas": 6}}
    groups = [group("six", "gpu-a", "gpu-b"), group("two", "gpu-c", "gpu-d", name="rest")]
    assert roll(bed, configs=changed, default="six", node_groups=groups, batch_size="2")["state"] == "verified"
    assert roll(bed, check=True, rollback=True)["changed"]
    result = roll(bed, rollback=True, batch_size="2")
    assert result["state"] == "returned" and not result.get("failed"), result
    assert set(labels(bed).values()) == {"two"} and bed.api.get(POLICY)["spec"]["devicePlugin"]["config"]["default"] == "none"
    assert set(bed.api.get(MAP)["data"]) == {"none", "two", "four"}
    agreement(bed)
    nothing_left_behind(bed)
    mark = bed.mark()
    assert not roll(bed, rollback=True)["changed"] and own_writes(bed, mark) == []


def test_versioned_configs_never_change_their_meaning(bed: TestBed) -> None:
    """An edit is a new key and a label flip; the old version goes when nothing refers to it."""
    options = {"default": "none", "node_groups": EVERYWHERE, "batch_size": "2", "update_strategy": "versioned", "projection_timeout": 1}
    assert roll(bed, configs=CONFIGS, **options)["state"] == "verified"
    first = labels(bed)["gpu-a"]
    assert roll(bed, configs=EDITED, **options)["state"] == "verified"
    second = labels(bed)["gpu-a"]
    assert first != second and second is not None and second.startswith("two-")
    assert second in bed.api.get(MAP)["data"] and first not in bed.api.get(MAP)["data"]
    agreement(bed)


def make_gpu_pod(bed: TestBed, name: str, node: str, labels: dict[str, str] | None = None) -> None:
    """A running pod that holds a GPU of a node."""
    container = {"name": "work", "image": "work", "resources": {"limits": {GPU: "1"}}}
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists"}
    spec = {"nodeName": node, "containers": [container], "tolerations": [toleration], "terminationGracePeriodSeconds": 1}
    bed.api.post("/api/v1/namespaces/default/pods", {"metadata": {"name": name, "labels": labels or {}}, "spec": spec})
    wait_until(lambda: bed.api.get(f"/api/v1/namespaces/default/pods/{name}")["status"].get("phase") == "Running")


def test_running_gpu_pods_are_refused_by_default(bed: TestBed) -> None:
    """The pods are listed, and nothing is written."""
    make_gpu_pod(bed, "training", "gpu-a")
    mark = bed.mark()
    result = roll(bed, configs=EDITED, default="none", node_groups=EVERYWHERE)
    assert result["state"] == "refused" and "default/training" in result["msg"], result
    assert own_writes(bed, mark) == []
    assert roll(bed, configs=EDITED, default="none", node_groups=EVERYWHERE, disruption="allow", batch_size="4")["state"] == "verified"


def test_running_gpu_pods_are_not_rolled_back_over(bed: TestBed) -> None:
    """A rollback restarts daemons as well: refused with the pods' names, unless the user allows it."""
    make_gpu_pod(bed, "training", "gpu-a")
    mark = bed.mark()
    result = roll(bed, rollback=True)
    assert result["state"] == "refused" and "default/training on gpu-a" in result["msg"], result
    assert own_writes(bed, mark) == []
    assert roll(bed, rollback=True, disruption="allow", batch_size="4")["state"] == "returned"
    agreement(bed)
    nothing_left_behind(bed)


def test_draining_respects_budgets_and_foreign_cordons(bed: TestBed) -> None:
    """A pod goes when its budget allows it; the own cordon is undone, somebody else's stays."""
    make_gpu_pod(bed, "guarded", "gpu-a", {"app": "guarded"})
    bed.api.patch("/api/v1/nodes/gpu-b", {"spec": {"unschedulable": True}})
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    bed.api.post(budgets, {"metadata": {"name": "guard"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}})
    wait_until(lambda: bed.api.get(f"{budgets}/guard").get("status", {}).get("expectedPods"))
    held_back = threading.Event()

    def relent() -> None:
        wait_until(lambda: gpu_nodes(bed)["gpu-a"]["spec"].get("unschedulable"), 120)
        time.sleep(3)
        if bed.api.find("/api/v1/namespaces/default/pods/guarded"):
            held_back.set()
        bed.api.delete(f"{budgets}/guard")

    other = threading.Thread(target=relent)
    other.start()
    result = roll(bed, configs=EDITED, default="none", node_groups=EVERYWHERE, disruption="drain", batch_size="4")
    other.join()
    assert result["state"] == "verified", (result["msg"], result["progress"])
    assert held_back.is_set(), "the budget was not respected"
    assert bed.api.find("/api/v1/namespaces/default/pods/guarded") is None
    assert [name for name, node in gpu_nodes(bed).items() if node["spec"].get("unschedulable")] == ["gpu-b"]


def test_waiting_for_gpu_pods_ends_in_time(bed: TestBed) -> None:
    """A pod that does not end: the node was never touched, and the rollout is over at its deadline."""
    make_gpu_pod(bed, "endless", "gpu-a")
    result = roll(bed, configs=EDITED, default="none", node_groups=EVERYWHERE, disruption="wait", canary=["gpu-a"], drain_timeout=5)
    assert result["state"] == "returned" and "default/endless" in result["msg"], result
    assert allocatable(bed)["gpu-a"] == {GPU: 4}
    agreement(bed)
    nothing_left_behind(bed)


def test_another_run_is_kept_out(bed: TestBed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Lease that is renewed stops a second run; one that is not is taken over after its time."""
    monkeypatch.setattr(_rollout_lease, "ORPHAN_SECONDS", 1.0)
    lease = {"holderIdentity": "somebody", "leaseDurationSeconds": 3}
    stop = threading.Event()

    def renew() -> None:
        while not stop.wait(0.5):
            bed.api.patch(LEASE, {"spec": {**lease, "renewTime": time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())}})

    renewer = threading.Thread(target=renew)
    renewer.start()
    time.sleep(1)
    with pytest.raises(Exception, match="somebody holds the Lease"):
        roll(bed, configs=EDITED, default="none", node_groups=EVERYWHERE, batch_size="4")
    stop.set()
    renewer.join()
    assert roll(bed, configs=EDITED, default="none", node_groups=EVERYWHERE, batch_size="4")["state"] == "verified"
    nothing_left_behind(bed)


def test_a_label_that_somebody_changes_meanwhile_is_left_alone(bed: TestBed) -> None:
    """The node is named; nobody fights over the label."""

    def interfere() -> None:
        wait_until(lambda: MARK in gpu_nodes(bed)["gpu-a"]["metadata"].get("annotations", {}))
        bed.api.patch("/api/v1/nodes/gpu-a", {"metadata": {"labels": {LABEL: "none"}}})

    set_fault(bed, "gpu-a", "gfd-stuck")
    other = threading.Thread(target=interfere)
    other.start()
    result = roll(bed, configs=CONFIGS, default="none", node_groups=[group("four", "gpu-a")], on_left_group="keep", wait_timeout=8)
    other.join()
    assert result["state"] == "failed" and "by somebody else" in result["msg"], result
    assert labels(bed)["gpu-a"] == "none"


def test_stopping_after_some_batches_and_going_on(bed: TestBed) -> None:
    """With a number of batches the run ends in the middle, and the next one goes on from there."""
    options = {"configs": EDITED, "default": "none", "node_groups": EVERYWHERE, "batch_size": "1", "canary": ["gpu-b"], "batches": 1}
    first = roll(bed, **options)
    assert first["state"] == "in_progress" and verdicts(first)["gpu-b"] == "verified", first
    states = [roll(bed, **options)["state"] for _batch in range(3)]
    assert states == ["in_progress", "in_progress", "verified"]
    agreement(bed)
    nothing_left_behind(bed)


def test_a_policy_that_argo_cd_keeps_is_not_held(bed: TestBed) -> None:
    """The plan says beforehand that batches cannot hold; the operator's own replacing is waited for and not doubled."""
    bed.api.patch(POLICY, {"metadata": {"annotations": {"argocd.argoproj.io/tracking-id": "gpu:nvidia.com/ClusterPolicy:/cluster-policy"}}})
    try:
        planned = roll(bed, check=True, configs=CONFIGS, default="four", node_groups=[], on_left_group="remove", batch_size="4")
        assert "rollout-not-paced" in codes(planned)
        mark = bed.mark()
        result = roll(bed, configs=CONFIGS, default="four", node_groups=[], on_left_group="remove", batch_size="4")
        assert result["state"] == "verified", (result["msg"], result["progress"])
        assert [event for event in own_writes(bed, mark) if event.resource == "clusterpolicies"][1:] == [], "one write, none to the strategy"
        assert allocatable(bed) == {"gpu-a": {GPU: 8}, "gpu-b": {GPU: 12}, "gpu-c": {GPU: 4}, "gpu-d": {GPU: 16}}
        nothing_left_behind(bed)
    finally:
        bed.api.patch(POLICY, {"metadata": {"annotations": {"argocd.argoproj.io/tracking-id": None}}})


def test_a_node_that_joins_meanwhile_is_rolled_out_too(bed: TestBed) -> None:
    """It belongs to a group by its GPUs; it gets its label before the rollout ends."""
    description = {"name": "gpu-new", "gpus": [{"product": "Tesla T4", "count": 2, "memory_mib": 15360, "compute": "7.5"}], "labels": {}}

    def join() -> None:
        wait_until(lambda: any(MARK in node["metadata"].get("annotations", {}) for node in gpu_nodes(bed).values()), 60)
        bed.api.post("/api/v1/nodes", node_objects([description], bed.layout.ports().kwok)[0])

    other = threading.Thread(target=join)
    other.start()
    try:
        match = {"name": "t4", "config": "four", "match": {"product": "Tesla-T4"}}
        result = roll(bed, configs=CONFIGS, default="none", node_groups=[match], batch_size="1", pause=5)
        other.join()
        assert result["state"] == "verified", (result["msg"], result["progress"])
        assert labels(bed) == {"gpu-a": "four", "gpu-b": "two", "gpu-c": "two", "gpu-d": "four", "gpu-new": "four"}
        assert allocatable(bed)["gpu-new"] == {GPU: 8}
    finally:
        bed.api.delete("/api/v1/nodes/gpu-new")
        # The collector of a lost node's pods takes a minute, and a watcher would count the node as disturbed until then.
        for pod in bed.api.list(PODS, fieldSelector="spec.nodeName=gpu-new"):
            bed.api.delete(f"{PODS}/{pod['metadata']['name']}", gracePeriodSeconds="0")
        bed.wait_for("the end of its pods", lambda: not bed.api.list(PODS, fieldSelector="spec.nodeName=gpu-new"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("default", "at_once"),
    [pytest.param("none", None, id="labels only", marks=pytest.mark.reliability), pytest.param("four", 1, id="default changed")],
)
def test_an_operator_that_is_upgraded_meanwhile(bed: TestBed, default: str, at_once: int | None) -> None:
    """New pod templates in the middle of a rollout: every agent ends on the new version with the declared config.

    With a changed default the rollout holds the operator back, and batches hold for the upgrade too; else the DaemonSets replace
    pods by themselves as always, which the rollout waits for.
    """
    groups = [group("two", "gpu-a", "gpu-b", "gpu-c", "gpu-d")]
    upgrading = threading.Thread(target=upgrade, args=(bed, "v0.18.1"))
    upgrading.start()
    try:
        with watching(bed) as watcher:
            result = roll(bed, configs={**EDITED, "four": {"replicas": 4}}, default=default, node_groups=groups, batch_size="1")
        upgrading.join()
        assert result["state"] == "verified", (result["msg"], result["progress"])
        assert at_once is None or len(watcher.most) <= at_once, watcher.most
        bed.wait_until_settled()
        assert set(plugin_images(bed).values()) == {"v0.18.1"}
        agreement(bed)
        nothing_left_behind(bed)
    finally:
        bed.api.patch(POLICY, {"spec": {"devicePlugin": {"version": "v0.17.4"}, "gfd": {"version": "v0.17.4"}}})
        bed.wait_until_settled()


def upgrade(bed: TestBed, version: str) -> None:
    """Give the policy other versions of its agents, as an upgraded operator does, once the first node of a rollout is through."""
    wait_until(lambda: any(node == {GPU: GPUS[name] * 3} for name, node in allocatable(bed).items()), 120)
    bed.api.patch(POLICY, {"spec": {"devicePlugin": {"version": version}, "gfd": {"version": version}}})


def plugin_images(bed: TestBed) -> dict[str, str]:
    """Node -> version of the device plugin's pod there."""
    found = bed.api.list(PODS, labelSelector=f"app={PLUGIN}")
    return {pod["spec"]["nodeName"]: pod["spec"]["containers"][0]["image"].rpartition(":")[2] for pod in found}


def test_the_task_shows_progress_while_it_waits(bed: TestBed, run_ansible: Callable[..., Any]) -> None:
    """Through Ansible: a plan of batches with --check --diff, then lines that say which batch, and a second run that changes nothing."""
    make_gpu_pod(bed, "training", "gpu-a")
    options = {"configs": EDITED, "default": "none", "node_groups": EVERYWHERE, "batch_size": "2", "wait_timeout": 120, "disruption": "allow"}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [{"name": "Roll out", "gpuops.mps.mps_rollout": options}]}
    mark, planned = bed.mark(), run_ansible([play], bed, check=True, diff=True)
    assert own_writes(bed, mark) == [] and planned.result("Roll out")["state"] == "planned"
    for line in ("+++ after: batch 1, about 60 s", "breaks: default/training", "nvidia.com/gpu=6", "nvidia.com/gpu.replicas: 3"):
        assert line in planned.output, line
    first = run_ansible([play], bed)
    assert first.result("Roll out")["state"] == "verified", first.failure()
    assert "Roll out: batch 1 of 2 ended: 2 verified" in first.output
    assert first.result("Roll out")["changed"] and first.result("Roll out")["progress"]
    assert run_ansible([play], bed).changed == 0
    agreement(bed)
