# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads alone and against a change of the nodes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding
from ansible_collections.gpuops.mps.plugins.module_utils._gpu import gpus_from_labels
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._prediction import Prediction, predict
from ansible_collections.gpuops.mps.plugins.module_utils._workload import (
    NodeChange,
    lint_manifest,
    node_change,
    requests_above_one_fail,
    scan_workloads,
)
from tests.unit.samples import NEW, NO_SHARING, OLD, SLICES, mps

PLAIN = {
    "pool": "inference",
    "nvidia.com/gpu.product": "Tesla-T4",
    "nvidia.com/gpu.count": "2",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.sharing-strategy": "none",
    "nvidia.com/gpu.compute.major": "7",
    "nvidia.com/gpu.compute.minor": "5",
    "nvidia.com/gpu.memory": "15360",
    "nvidia.com/mps.capable": "false",
}
TWO = {"nvidia.com/gpu": 2, "cpu": 8}


def pod(amount: object = 1, resource: str = "nvidia.com/gpu", *, container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    content = {"name": "main", "resources": {"limits": {resource: amount}}, **(container or {})}
    return {"kind": "Pod", "metadata": {"namespace": "team", "name": "client"}, "spec": {"containers": [content], **spec}}


def changed(config: SharingConfig, name: str = "gpu-01", labels: dict[str, str] | None = None, version: PluginVersion | None = NEW) -> NodeChange:
    labels = labels or PLAIN
    prediction = predict(config, gpus_from_labels(labels, allocatable=TWO), mig_strategy=None, plugin_version=version)
    return node_change(name, labels, TWO, prediction, config=config, plugin_version=version)


def told(findings: tuple[Finding, ...]) -> list[tuple[str, str]]:
    return [(found.code, found.path) for found in findings]


# --- one manifest ---------------------------------------------------------------------------------------------------------------------------


def test_a_manifest_that_is_right_has_no_findings() -> None:
    assert lint_manifest(pod()) == ()
    assert lint_manifest(pod(resource="nvidia.com/gpu.shared")) == ()
    assert lint_manifest(pod(resource="nvidia.com/mig-1g.5gb", amount=2)) == ()
    assert lint_manifest(pod(resource="cpu", amount="500m", container={"volumeMounts": [{"mountPath": "/dev/shm"}]}, hostIPC=True)) == ()
    assert lint_manifest({"kind": "Service"}) == ()


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/gpu.shared"])
def test_a_request_above_one(resource: str) -> None:
    (found,) = lint_manifest(pod(2, resource), path="manifests[3]")
    assert (found.code, found.severity, found.subject) == ("workload-requests-several", "error", "pod/team/client")
    assert found.path == f"manifests[3].spec.containers[0].resources.limits[{resource}]"
    assert f"asks for 2 of {resource}" in found.message
    assert lint_manifest(pod(2, resource), requests_above_one_fail=False) == ()
    assert lint_manifest(pod("many", resource)) == ()  # the API refuses it


@pytest.mark.parametrize("resource", ["nvidia.com.gpu", "nvidia.com/gpus", "nvidia.com/GPU", "nvidia.com/mps-gpu", "nvidia/gpu", "gpu", "gpu.shared", "GPUS"])
def test_a_resource_name_that_no_plugin_advertises(resource: str) -> None:
    (found,) = lint_manifest(pod(2, resource))
    assert (found.code, found.severity, found.path) == ("workload-unknown-resource", "error", f"spec.containers[0].resources.limits[{resource}]")
    assert f"advertises {resource};" in found.message


@pytest.mark.parametrize("mount", ["/dev/shm", "/dev/shm/"])
@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com.gpu"])
def test_its_own_shared_memory(mount: str, resource: str) -> None:
    manifest = pod(resource=resource, container={"volumeMounts": [{"mountPath": "/data"}, {"mountPath": mount}]})
    assert ("workload-own-shm", "spec.containers[0].volumeMounts[1]") in told(lint_manifest(manifest))
    other = pod(container={"volumeMounts": [{"mountPath": "/dev/shm/cache"}, {}]})
    assert lint_manifest(other) == ()


def test_host_ipc_is_not_needed() -> None:
    (found,) = lint_manifest(pod(hostIPC=True))
    assert (found.code, found.severity, found.path) == ("workload-host-ipc", "info", "spec.hostIPC")
    assert lint_manifest(pod(hostIPC=False)) == ()


@pytest.mark.parametrize(
    ("container", "path"),
    [
        ({"securityContext": {"privileged": True}}, "spec.containers[0].securityContext.privileged"),
        ({"env": [{"name": "A"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}, "spec.containers[0].env[1]"),
    ],
)
def test_a_container_that_sees_every_gpu(container: dict[str, Any], path: str) -> None:
    (found,) = lint_manifest(pod(container=container))
    assert (found.code, found.severity, found.path) == ("workload-sees-all-gpus", "warning", path)


def test_who_does_not_see_every_gpu() -> None:
    assert lint_manifest(pod(container={"securityContext": {"privileged": False}, "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]})) == ()
    assert lint_manifest(pod(resource="cpu", container={"securityContext": {"privileged": True}})) == ()
    assert lint_manifest(pod(container={"env": [{"name": "CAPABILITIES", "value": "all"}]})) == ()
    without_limit = pod(resource="cpu", container={"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]})
    assert told(lint_manifest(without_limit)) == [("workload-sees-all-gpus", "spec.containers[0].env[0]")]


def test_templates_lists_and_init_containers_are_looked_into() -> None:
    spec = pod(2)["spec"]
    deployment = {"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": {"spec": {"initContainers": spec["containers"]}}}}
    found = lint_manifest({"kind": "List", "items": [deployment, pod(3)]})
    assert [(one.subject, one.path) for one in found] == [
        ("deployment/web", "spec.template.spec.initContainers[0].resources.limits[nvidia.com/gpu]"),
        ("pod/team/client", "spec.containers[0].resources.limits[nvidia.com/gpu]"),
    ]


LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["all", "Pod", "nvidia.com/gpu", "1"])
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3))
KEYS = ["kind", "metadata", "name", "ownerReferences", "controller", "spec", "template", "containers", "env", "resources", "limits", "nvidia.com/gpu"]
KEYS += ["volumeMounts", "mountPath", "affinity", "nodeSelector", "hard", "limits", "max", "items", "nodeAffinity", "hostIPC", "securityContext"]
DOCUMENTS = st.dictionaries(st.sampled_from(KEYS), st.recursive(JSON, lambda inner: st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)), max_size=5)
KINDS = st.sampled_from(["Pod", "Deployment", "ResourceQuota", "LimitRange", "List", "PodList", "CronJob"])


@given(DOCUMENTS, KINDS)
@settings(max_examples=2_000)
def test_any_manifest_is_judged_without_raising(document: dict[str, Any], kind: str) -> None:
    lint_manifest({**document, "kind": kind})
    assert all(found.severity != "error" for found in scan_workloads([{**document, "kind": kind}], [changed(mps(4))]))


# --- requests above one ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "version", "fails"),
    [
        (mps(4), OLD, True),
        (mps(4), NEW, True),
        (mps(4), None, True),
        (mps(4, fail_requests_greater_than_one=False), OLD, True),
        (mps(4, fail_requests_greater_than_one=False), None, True),
        (mps(4, fail_requests_greater_than_one=False), NEW, False),
        (mps(4, fail_requests_greater_than_one=True), NEW, True),
        (SLICES, NEW, False),
        (SharingConfig("s", Strategy.TIME_SLICING, 4, fail_requests_greater_than_one=True), OLD, True),
        (SharingConfig("s", Strategy.TIME_SLICING, 4, fail_requests_greater_than_one=False), OLD, False),
        (NO_SHARING, NEW, False),
        (SharingConfig("n", Strategy.NONE, fail_requests_greater_than_one=True), NEW, False),
    ],
)
def test_when_a_request_above_one_fails(config: SharingConfig, version: PluginVersion | None, fails: bool) -> None:
    assert requests_above_one_fail(config, version) is fails


# --- the change of a node -------------------------------------------------------------------------------------------------------------------


def test_a_change_replaces_the_predicted_labels_and_gpu_resources_only() -> None:
    change = changed(mps(4, rename_by_default=True))
    assert change.labels_after["nvidia.com/gpu.replicas"] == "4" and change.labels_after["pool"] == "inference"
    assert change.allocatable_after == {"nvidia.com/gpu.shared": 8, "cpu": 8}
    assert (change.labels_now, change.allocatable_now, change.requests_above_one_fail) == (PLAIN, TWO, True)


def test_labels_that_go_are_taken_away() -> None:
    change = changed(mps(4), labels={**PLAIN, "nvidia.com/mig.strategy": "single"})
    assert "nvidia.com/mig.strategy" not in change.labels_after


def test_a_node_of_several_products_is_taken_as_the_one_that_is_known() -> None:
    labels = {**PLAIN, "nvidia.com/gpu.count": "1"}
    assert changed(mps(4), labels=labels).labels_after["nvidia.com/gpu.product"] == "Tesla-T4-SHARED"


@pytest.mark.parametrize("prediction", [None, Prediction(exact=False)])
def test_without_a_prediction_the_node_stays(prediction: Prediction | None) -> None:
    change = node_change("gpu-01", PLAIN, TWO, prediction, config=None, plugin_version=NEW)
    assert (change.labels_after, change.allocatable_after, change.requests_above_one_fail) == (PLAIN, TWO, False)


# --- workloads against a change -------------------------------------------------------------------------------------------------------------


def test_a_workload_that_fits_before_and_after_has_no_findings() -> None:
    assert scan_workloads([pod(nodeSelector={"pool": "inference"})], [changed(mps(4))]) == ()
    assert scan_workloads([pod(resource="cpu", amount=100)], [changed(mps(4))]) == ()
    assert scan_workloads([pod(nodeSelector={"pool": "elsewhere"})], [changed(mps(4))]) == ()  # fits nowhere before either


def test_a_selector_on_a_value_that_changes() -> None:
    (found,) = scan_workloads([pod(nodeSelector={"nvidia.com/gpu.product": "Tesla-T4", "pool": "inference"})], [changed(mps(4))])
    assert (found.code, found.severity, found.subject, found.path) == ("workload-selector-stops-fitting", "warning", "pod/team/client", "spec")
    assert "nvidia.com/gpu.product is Tesla-T4 now and Tesla-T4-SHARED then" in found.message
    assert "pool" not in found.message


def test_every_changed_label_is_named_also_for_a_pod_without_gpus() -> None:
    selector = {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.replicas": "1"}
    (found,) = scan_workloads([pod(1, "cpu", nodeSelector=selector)], [changed(mps(4))])
    assert found.code == "workload-selector-stops-fitting"
    assert "gpu.product is Tesla-T4 now and Tesla-T4-SHARED then; nvidia.com/gpu.replicas is 1 now and 4 then" in found.message


def test_a_selector_on_a_label_that_goes() -> None:
    labels = {**PLAIN, "nvidia.com/mig.strategy": "single"}
    (found,) = scan_workloads([pod(nodeSelector={"nvidia.com/mig.strategy": "single"})], [changed(mps(4), labels=labels)])
    assert "nvidia.com/mig.strategy is single now and absent then" in found.message


def test_a_resource_that_vanishes() -> None:
    (found,) = scan_workloads([pod()], [changed(mps(4, rename_by_default=True))])
    assert (found.code, found.severity) == ("workload-resource-vanishes", "warning")
    assert "asks for nvidia.com/gpu, which" in found.message and "will advertise nvidia.com/gpu.shared" in found.message


def test_a_request_that_becomes_too_large() -> None:
    labels, eight = {**PLAIN, "nvidia.com/gpu.replicas": "4"}, {"nvidia.com/gpu": 8}
    prediction = predict(NO_SHARING, gpus_from_labels(labels, allocatable=eight), mig_strategy=None, plugin_version=NEW)
    change = node_change("gpu-01", labels, eight, prediction, config=NO_SHARING, plugin_version=NEW)
    assert scan_workloads([pod(2)], [change]) == ()
    (found,) = scan_workloads([pod(3)], [change])
    assert found.code == "workload-resource-vanishes" and "enough of; they will advertise nvidia.com/gpu" in found.message


def test_a_node_that_will_advertise_nothing() -> None:
    (found,) = scan_workloads([pod()], [changed(mps(49))])
    assert "they will advertise no GPU" in found.message


def test_fewer_nodes() -> None:
    other = {**PLAIN, "pool": "training"}
    changes = [changed(mps(4)), changed(NO_SHARING, "gpu-02", other)]
    (found,) = scan_workloads([pod(nodeSelector={"nvidia.com/gpu.product": "Tesla-T4"})], changes)
    assert (found.code, found.severity) == ("workload-fewer-nodes", "info")
    assert "fits 2 GPU nodes now and 1 after" in found.message


def test_requests_above_one_matter_on_the_nodes_that_the_workload_fits() -> None:
    changes = [changed(mps(4)), changed(NO_SHARING, "gpu-02", {**PLAIN, "pool": "training"})]
    assert told(scan_workloads([pod(2, nodeSelector={"pool": "training"})], changes)) == []
    (found,) = scan_workloads([pod(2)], changes)
    assert (found.code, found.severity) == ("workload-requests-several", "warning")


def test_what_a_controller_makes_is_reported_once() -> None:
    def owned(kind: str, name: str, owner_kind: str, owner: str, document: dict[str, Any]) -> dict[str, Any]:
        reference = {"kind": owner_kind, "name": owner, "controller": True}
        return {**document, "kind": kind, "metadata": {"namespace": "team", "name": name, "ownerReferences": [reference]}}

    template = {"spec": {"template": {"spec": pod(2)["spec"]}}}
    deployment = {"kind": "Deployment", "metadata": {"namespace": "team", "name": "web"}, **template}
    replica_set = owned("ReplicaSet", "web-1", "Deployment", "web", template)
    its_pod = owned("Pod", "web-1-x", "ReplicaSet", "web-1", pod(2))
    foreign = owned("Pod", "ray-x", "RayCluster", "ray", pod(2))
    elsewhere = {**its_pod, "metadata": {**its_pod["metadata"], "namespace": "other"}}
    found = scan_workloads([deployment, replica_set, its_pod, foreign, elsewhere], [changed(mps(4))])
    assert [one.subject for one in found] == ["deployment/team/web", "pod/team/ray-x", "pod/other/web-1-x"]


def test_what_has_ended_is_left_out() -> None:
    job = {"kind": "Job", "metadata": {"namespace": "team", "name": "train"}, "spec": {"template": {"spec": pod(2)["spec"]}}}

    def ended(kind: str, status: str = "True") -> dict[str, Any]:
        return {**job, "status": {"conditions": [{"type": kind, "status": status}]}}

    over = [{**pod(2), "status": {"phase": phase}} for phase in ("Succeeded", "Failed")] + [ended("Complete"), ended("Failed")]
    assert scan_workloads(over, [changed(mps(4))]) == ()
    going_on = [{**pod(2), "status": {"phase": "Running"}}, job, ended("Suspended"), ended("Complete", "False")]
    assert len(scan_workloads(going_on, [changed(mps(4))])) == 4
    deployment = {**ended("Failed"), "kind": "Deployment"}
    assert len(scan_workloads([deployment], [changed(mps(4))])) == 1


def quota(hard: str) -> dict[str, Any]:
    return {"kind": "ResourceQuota", "metadata": {"namespace": "team", "name": "gpus"}, "spec": {"hard": {hard: "4"}}}


@pytest.mark.parametrize(
    ("hard", "config", "said"),
    [
        ("requests.nvidia.com/gpu", mps(4), "one is a whole GPU now and 1/4 of a GPU after"),
        ("requests.nvidia.com/gpu", mps(4, rename_by_default=True), "limits nothing after the change"),
        ("requests.nvidia.com/gpu.shared", mps(4, rename_by_default=True), "begins to limit: one is 1/4 of a GPU after"),
        ("requests.nvidia.com/gpu", NO_SHARING, None),
        ("requests.nvidia.com/gpu.shared", mps(4), None),
        ("requests.cpu", mps(4), None),
        ("nvidia.com/gpu", mps(4), None),  # Kubernetes does not count an extended resource without the prefix
    ],
)
def test_quotas(hard: str, config: SharingConfig, said: str | None) -> None:
    found = scan_workloads([quota(hard)], [changed(config)])
    assert told(found) == ([("quota-meaning-changes", f"spec.hard[{hard}]")] if said else [])
    for one in found:
        assert said is not None and said in one.message and "the quota of 4 nvidia.com/gpu" in one.message
        assert one.subject == "resourcequota/team/gpus"


@pytest.mark.parametrize("field", ["default", "defaultRequest", "max", "min"])
def test_limit_ranges(field: str) -> None:
    limit_range = {
        "kind": "LimitRange",
        "metadata": {"namespace": "team", "name": "limits"},
        "spec": {"limits": [{"type": "Pod"}, {"type": "Container", field: {"nvidia.com/gpu": 2, "cpu": 1}}]},
    }
    (found,) = scan_workloads([limit_range], [changed(mps(4))])
    assert (found.code, found.path) == ("limit-range-meaning-changes", f"spec.limits[1].{field}[nvidia.com/gpu]")
    assert f"{field} of 2 nvidia.com/gpu changes its meaning" in found.message
    assert scan_workloads([limit_range], [changed(NO_SHARING)]) == ()


def test_nodes_with_different_shares_are_all_named() -> None:
    changes = [changed(mps(4)), changed(mps(2), "gpu-02")]
    (found,) = scan_workloads([quota("requests.nvidia.com/gpu")], changes)
    assert "one is a whole GPU now and 1/2 of a GPU or 1/4 of a GPU after" in found.message
