# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""API JSON becomes the snapshot's dataclasses."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import CONFIG_LABEL, Owner
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot_build import (
    config_map_of,
    daemon_set_of,
    foreign_plugin_of,
    foreign_plugin_pod_of,
    node_of,
    operator_version_of,
    owners_of,
    pod_of,
    policies_of,
    schema_has_config,
    uses_gpus,
    version_of_image,
)


def owned(manager: str, time: str, *path: str, subresource: str = "") -> dict[str, Any]:
    """A managedFields entry."""
    fields: dict[str, Any] = {}
    for step in reversed(path):
        fields = {step: fields}
    return {"manager": manager, "time": time, "fieldsV1": fields, **({"subresource": subresource} if subresource else {})}


NODE = {
    "metadata": {
        "name": "gpu-1",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {CONFIG_LABEL: "mps-four"},
        "creationTimestamp": "2026-11-30T10:00:00Z",
        "managedFields": [
            owned("kubectl", "2026-11-30T10:01:00Z", "f:metadata", "f:labels", f"f:{CONFIG_LABEL}"),
            owned("gpuops.mps", "2026-11-30T10:02:00Z", "f:metadata", "f:labels", f"f:{CONFIG_LABEL}"),
            owned("nfd-master", "2026-11-30T10:03:00Z", "f:metadata", "f:labels", "f:other"),
        ],
    },
    "spec": {"unschedulable": True, "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}, {"key": "x", "effect": "NoExecute"}]},
    "status": {
        "capacity": {"cpu": "8", "nvidia.com/gpu": "8"},
        "allocatable": {"cpu": "8", "nvidia.com/gpu": "2k", "nvidia.com/odd": "1m"},
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"kernelVersion": "6.8.0", "osImage": "Ubuntu"},
    },
}


def test_a_node_has_its_gpu_resources_and_the_owner_of_its_label() -> None:
    node = node_of(NODE)
    assert node.capacity == {"nvidia.com/gpu": 8}
    assert node.allocatable == {"nvidia.com/gpu": 2000, "nvidia.com/odd": 0}
    assert (node.ready, node.unschedulable, node.kernel, node.operating_system) == (True, True, "6.8.0", "Ubuntu")
    assert node.taints == ("nvidia.com/gpu=present:NoSchedule", "x:NoExecute")
    assert (node.config_label, node.label_owner, node.label_changed) == ("mps-four", "gpuops.mps", "2026-11-30T10:02:00Z")


def test_a_node_read_as_metadata_counts_as_ready_and_one_that_says_nothing_does_not() -> None:
    assert node_of({"metadata": NODE["metadata"]}).ready
    assert not node_of({**NODE, "status": {}}).ready


POD = {
    "metadata": {
        "name": "train-0",
        "namespace": "team",
        "uid": "p",
        "creationTimestamp": "2026-11-30T10:00:00Z",
        "deletionTimestamp": "2026-11-30T11:00:00Z",
        "labels": {"app": "train", "pod-template-generation": "3"},
        "ownerReferences": [{"kind": "Job", "name": "other"}, {"kind": "StatefulSet", "name": "train", "controller": True}],
    },
    "spec": {
        "nodeName": "gpu-1",
        "containers": [
            {"name": "a", "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "2"}}},
            {"name": "b", "resources": {"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/mig-1g.5gb": "4"}}},
        ],
    },
    "status": {
        "phase": "Running",
        "startTime": "2026-11-30T10:00:01Z",
        "conditions": [{"type": "Ready", "status": "False"}],
        "initContainerStatuses": [{"name": "init", "ready": True, "state": {"terminated": {"reason": "Completed", "exitCode": 0}}}],
        "containerStatuses": [
            {
                "name": "a",
                "ready": False,
                "restartCount": 3,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                "lastState": {"terminated": {"reason": "Error", "message": "boom", "exitCode": 1}},
            },
            {"name": "b", "ready": True, "state": {"running": {"startedAt": "2026-11-30T10:00:02Z"}}},
        ],
    },
}


def test_a_pod_has_its_requests_and_its_containers() -> None:
    pod = pod_of(POD)
    assert pod.requests == {"nvidia.com/gpu": 3, "nvidia.com/mig-1g.5gb": 4}
    assert pod.largest_request == 2
    assert (pod.owner_kind, pod.owner_name, pod.generation, pod.terminating, pod.ready) == ("StatefulSet", "train", "3", True, False)
    init, first, second = pod.containers
    assert (init.init, init.state, init.reason) == (True, "terminated", "Completed")
    assert (first.state, first.reason, first.restarts, first.last_message, first.last_exit_code) == ("waiting", "CrashLoopBackOff", 3, "boom", 1)
    assert (second.state, second.started) == ("running", "2026-11-30T10:00:02Z")
    assert pod.spec == {} and pod_of(POD, with_spec=True).spec == POD["spec"]


def test_a_new_pod_has_little() -> None:
    pod = pod_of({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [{"name": "c"}]}})
    assert (pod.node, pod.phase, pod.requests, pod.containers, pod.started) == (None, "", {}, (), None)


@pytest.mark.parametrize(
    ("resource", "phase", "expected"),
    [
        ("nvidia.com/gpu", "Running", True),
        ("nvidia.com/gpu.shared", "Pending", True),
        ("nvidia.com/gpu", "Succeeded", False),
        ("nvidia.com/gpu", "Failed", False),
        ("nvidia.com/mig-1g.5gb", "Running", False),
        ("amd.com/gpu", "Running", False),
    ],
)
def test_pods_that_use_gpus(resource: str, phase: str, expected: bool) -> None:
    item = {"spec": {"containers": [{"resources": {"limits": {resource: "1"}}}]}, "status": {"phase": phase}}
    assert uses_gpus(item) is expected


def policy(name: str, created: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "creationTimestamp": created}, **fields}


def test_the_oldest_policy_is_active() -> None:
    found = policies_of([policy("cluster-policy", "2026-11-30T12:00:00Z"), policy("gpu-cluster-policy", "2026-11-30T10:00:00Z")])
    assert [(one.name, one.active) for one in found] == [("gpu-cluster-policy", True), ("cluster-policy", False)]


def test_a_policy_that_the_operator_ignores_is_not_active_whatever_its_age() -> None:
    found = policies_of([policy("a", "2026-11-30T10:00:00Z", status={"state": "ignored"}), policy("b", "2026-11-30T12:00:00Z")])
    assert [one.name for one in found if one.active] == ["b"]


def test_a_policys_fields_have_the_operators_defaults() -> None:
    (bare,) = policies_of([policy("p", "t")])
    assert (bare.config_name, bare.config_default, bare.device_plugin_enabled, bare.feature_discovery_enabled) == ("", "", True, True)
    assert (bare.mps_root, bare.update_strategy, bare.max_unavailable, bare.plugin_version) == ("/run/nvidia/mps", "RollingUpdate", "1", None)
    spec = {
        "devicePlugin": {"enabled": False, "version": "v0.17.4-ubi9", "config": {"name": "m", "default": None}, "mps": {"root": "/mps"}},
        "gfd": {"enabled": False},
        "mig": {"strategy": "mixed"},
        "daemonsets": {"updateStrategy": "OnDelete", "rollingUpdate": {"maxUnavailable": "25%"}},
    }
    status = {"state": "ready", "namespace": "nvidia-gpu-operator", "conditions": [{"type": "Ready", "status": "True", "reason": "Reconciled", "message": ""}]}
    (full,) = policies_of([policy("p", "t", spec=spec, status=status)])
    assert (full.config_name, full.config_default, full.device_plugin_enabled, full.feature_discovery_enabled) == ("m", "", False, False)
    assert (full.mps_root, full.update_strategy, full.max_unavailable, full.plugin_version) == ("/mps", "OnDelete", "25%", PluginVersion(0, 17, 4))
    assert (full.mig_strategy, full.namespace, full.conditions) == ("mixed", "nvidia-gpu-operator", (("Ready", "True", "Reconciled", ""),))


def test_the_config_fields_other_manager_is_known_and_ours_is_not_named() -> None:
    path = ("f:spec", "f:devicePlugin", "f:config", "f:name")
    fields = [owned("helm", "1", *path), owned("gpuops.mps", "2", *path), owned("gpu-operator", "3", *path, subresource="status")]
    (found,) = policies_of([{"metadata": {"name": "p", "managedFields": fields}}])
    assert found.config_owner == "helm"
    (ours,) = policies_of([{"metadata": {"name": "p", "managedFields": fields[1:2]}}])
    assert ours.config_owner is None


def test_a_config_map_knows_when_its_data_changed() -> None:
    metadata = {"name": "m", "namespace": "n", "creationTimestamp": "2026-11-30T09:00:00Z"}
    fields = [owned("a", "2026-11-30T10:00:00Z", "f:data", "f:x"), owned("b", "2026-11-30T11:00:00Z", "f:metadata")]
    found = config_map_of({"metadata": {**metadata, "managedFields": fields}, "data": {"x": "text"}, "binaryData": {"y": "AA=="}, "immutable": True})
    assert (found.changed, found.data, found.binary_keys, found.immutable) == ("2026-11-30T10:00:00Z", {"x": "text"}, ("y",), True)


def test_a_config_map_without_managers_may_have_changed_at_any_time() -> None:
    """One that was created empty has none, however often it was edited since; its creation says nothing."""
    metadata = {"name": "m", "namespace": "n", "creationTimestamp": "2026-11-30T09:00:00Z"}
    assert config_map_of({"metadata": metadata, "data": {"x": "text"}}).changed is None
    labelled = [owned("a", "2026-11-30T10:00:00Z", "f:metadata")]
    assert config_map_of({"metadata": {**metadata, "managedFields": labelled}, "data": {"x": "text"}}).changed is None


def daemon_set(name: str, namespace: str = "gpu-operator", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, **fields.pop("metadata", {})}, **fields}


def test_a_daemon_set_tells_its_config_and_how_far_it_is() -> None:
    spec = {
        "template": {
            "spec": {
                "hostPID": True,
                "containers": [
                    {"name": "nvidia-device-plugin", "image": "registry/k8s-device-plugin:v0.17.4"},
                    {"name": "config-manager", "env": [{"name": "DEFAULT_CONFIG", "value": "none"}, {"name": "NODE_NAME", "valueFrom": {}}]},
                ],
                "volumes": [
                    {"name": "nvidia-device-plugin-entrypoint", "configMap": {"name": "nvidia-device-plugin-entrypoint"}},
                    {"name": "mps-configs", "configMap": {"name": "mps-configs"}},
                ],
            }
        }
    }
    status = {"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 2, "numberReady": 1, "numberAvailable": 1}
    found = daemon_set_of(daemon_set("nvidia-device-plugin-daemonset", metadata={"generation": 2}, spec=spec, status=status))
    assert (found.component, found.config_name, found.default_config, found.host_pid) == ("device-plugin", "mps-configs", "none", True)
    assert (found.generation, found.observed_generation, found.desired, found.updated, found.ready, found.available) == (2, 2, 3, 2, 1, 1)
    assert found.update_strategy == "RollingUpdate"


def test_a_daemon_set_without_a_config_manager_has_no_config() -> None:
    volumes = [{"name": "mps-configs", "configMap": {"name": "mps-configs"}}]
    found = daemon_set_of(daemon_set("driver", spec={"template": {"spec": {"containers": [{"image": "x"}], "volumes": volumes}}}))
    assert (found.component, found.config_name, found.default_config) == ("driver", None, None)


def plugin(image: str = "nvcr.io/nvidia/k8s-device-plugin:v0.17.4", path: str = "/var/lib/kubelet/device-plugins") -> dict[str, Any]:
    return {"containers": [{"image": image}], "volumes": [{"hostPath": {"path": path}}], "nodeName": "gpu-1"}


def foreign_set(pod_spec: dict[str, Any], *, name: str = "nvdp", namespace: str = "other", desired: int = 1, owner: str = "") -> dict[str, Any]:
    owners = {"ownerReferences": [{"kind": owner}]} if owner else {}
    return daemon_set(name, namespace, metadata=owners, spec={"template": {"spec": pod_spec}}, status={"desiredNumberScheduled": desired})


@pytest.mark.parametrize(
    ("item", "foreign"),
    [
        (foreign_set(plugin()), True),
        (foreign_set(plugin(path="/var/lib/kubelet/device-plugins/")), True),
        (foreign_set(plugin("docker.io/projecthami/hami:v2.6")), True),
        (foreign_set(plugin(), namespace="gpu-operator"), True),
        (foreign_set(plugin(), namespace="gpu-operator", owner="ClusterPolicy"), False),
        (foreign_set(plugin(), desired=0), False),
        (foreign_set(plugin("ghcr.io/k8snetworkplumbingwg/sriov:v3"), name="sriov"), False),
        (foreign_set(plugin("intel/gpu-device-plugin"), name="intel-gpu-plugin"), False),
        (foreign_set(plugin(path="/somewhere")), False),
    ],
)
def test_a_second_device_plugin_is_told_from_others(item: dict[str, Any], foreign: bool) -> None:
    assert (foreign_plugin_of(item, "gpu-operator") is not None) is foreign


def test_a_pod_of_a_second_plugin_is_named_by_its_controller_and_its_node() -> None:
    metadata = {"name": "nvdp-x", "namespace": "kube-system", "ownerReferences": [{"kind": "DaemonSet", "name": "nvdp", "controller": True}]}
    found = foreign_plugin_pod_of({"metadata": metadata, "spec": plugin()}, "gpu-operator")
    assert found is not None
    assert (found.kind, found.name, found.node) == ("DaemonSet", "nvdp", "gpu-1")
    alone = foreign_plugin_pod_of({"metadata": {"name": "static", "namespace": "kube-system"}, "spec": plugin()}, "gpu-operator")
    assert alone is not None and (alone.kind, alone.name) == ("Pod", "static")
    assert foreign_plugin_pod_of({"metadata": {**metadata, "namespace": "gpu-operator"}, "spec": plugin()}, "gpu-operator") is None


def test_the_operators_version_comes_from_the_chart_or_the_validators_image() -> None:
    chart = {"metadata": {"name": "p", "labels": {"helm.sh/chart": "gpu-operator-v25.3.4"}}}
    containers = [{"image": "nvcr.io/nvidia/cloud-native/gpu-operator-validator:v24.9.2"}]
    validator = daemon_set("nvidia-operator-validator", spec={"template": {"spec": {"containers": containers}}})
    other = daemon_set("gpu-feature-discovery", spec={"template": {"spec": {"containers": containers}}})
    assert operator_version_of([chart], [validator]) == "v25.3.4"
    assert operator_version_of([policy("p", "t")], [other, validator]) == "v24.9.2"
    assert operator_version_of([], [other]) is None


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("nvcr.io/nvidia/k8s-device-plugin:v0.20.0", PluginVersion(0, 20, 0)),
        ("registry:5000/k8s-device-plugin:0.17.4-ubi9", PluginVersion(0, 17, 4)),
        ("registry/k8s-device-plugin@sha256:0123", None),
        ("k8s-device-plugin", None),
    ],
)
def test_the_plugins_version_from_an_image(image: str, version: PluginVersion | None) -> None:
    assert version_of_image(image) == version


def definition(schema: dict[str, Any], storage: bool = True) -> dict[str, Any]:
    return {"spec": {"versions": [{"name": "v1", "storage": storage, "schema": {"openAPIV3Schema": schema}}]}}


def nested(*path: str, leaf: dict[str, Any]) -> dict[str, Any]:
    for step in reversed(path):
        leaf = {"properties": {step: leaf}}
    return leaf


@pytest.mark.parametrize(
    ("crd", "expected"),
    [
        (definition(nested("spec", "devicePlugin", "config", leaf={"type": "object"})), True),
        (definition(nested("spec", "devicePlugin", leaf={"properties": {"image": {}}})), False),
        (definition(nested("spec", leaf={"x-kubernetes-preserve-unknown-fields": True})), True),
        (definition(nested("spec", "devicePlugin", "config", leaf={}), storage=False), False),
        ({}, False),
        (None, False),
    ],
)
def test_whether_the_schema_knows_the_field(crd: dict[str, Any] | None, expected: bool) -> None:
    assert schema_has_config(crd) is expected


@pytest.mark.parametrize(
    ("labels", "annotations", "expected"),
    [
        ({"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/instance": "gpus"}, {}, (Owner("helm", "gpus"),)),
        ({}, {"meta.helm.sh/release-name": "gpus", "meta.helm.sh/release-namespace": "ns"}, (Owner("helm", "gpus", "ns"),)),
        ({}, {"argocd.argoproj.io/tracking-id": "app:nvidia.com/ClusterPolicy:/cluster-policy"}, (Owner("argocd", "app"),)),
        ({"argocd.argoproj.io/instance": "app"}, {}, (Owner("argocd", "app"),)),
        ({"kustomize.toolkit.fluxcd.io/name": "gpus", "kustomize.toolkit.fluxcd.io/namespace": "flux"}, {}, (Owner("flux", "gpus", "flux"),)),
        ({"olm.owner": "gpu-operator-certified.v25.3.4", "olm.owner.namespace": "ns"}, {}, (Owner("olm", "gpu-operator-certified.v25.3.4", "ns"),)),
        ({"operators.coreos.com/gpu-operator-certified.nvidia-gpu-operator": ""}, {}, (Owner("olm", ""),)),
        ({"team": "a"}, {"note": "b"}, ()),
    ],
)
def test_owners_are_known_by_their_marks(labels: dict[str, str], annotations: dict[str, str], expected: tuple[Owner, ...]) -> None:
    assert owners_of({"labels": labels, "annotations": annotations}) == expected
