# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read for a snapshot, and where it is looked for."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_snapshot import read_daemon_sets, read_snapshot
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import Snapshot
from tests.unit.clusters import T4
from tests.unit.memory_cluster import MemoryCluster

POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GPU = {"containers": [{"image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}], "nodeName": "gpu-1"}
PLUGIN = {"containers": [{"image": "nvdp"}], "volumes": [{"hostPath": {"path": "/var/lib/kubelet/device-plugins"}}], "nodeName": "gpu-1"}


def item(name: str, namespace: str = "", labels: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "resourceVersion": "1", "labels": labels or {}, **fields.pop("metadata", {})}
    return {"metadata": metadata, **fields}


def policy(name: str = "cluster-policy", config: dict[str, str] | None = None, namespace: str = "gpus", created: str = "1") -> dict[str, Any]:
    plugin: dict[str, Any] = {"config": config} if config is not None else {}
    return item(name, metadata={"creationTimestamp": created}, spec={"devicePlugin": plugin}, status={"namespace": namespace} if namespace else {})


class Kubernetes(MemoryCluster):
    """Lists over all namespaces but one too, as the API server gives them; paths in C(forbidden) are refused."""

    forbidden: tuple[str, ...] = ()

    def get(self, path: str, **options: Any) -> Any:
        self._check(path)
        return super().get(path, **options)

    def list(self, path: str, **selectors: Any) -> Any:
        self._check(path)
        return super().list(path, **selectors)

    def pages(self, path: str, **selectors: Any) -> Any:
        group, _slash, kind = path.rpartition("/")
        left_out = re.match(r"metadata\.namespace!=([^,]+)", selectors.get("field_selector") or "")
        everywhere = {
            f"{path}/{index}": found
            for index, (where, found) in enumerate(self.objects.items())
            if where.startswith(f"{group}/namespaces/") and f"/{kind}/" in where and not (left_out and found["metadata"]["namespace"] == left_out[1])
        }
        return MemoryCluster({**self.objects, **everywhere}).pages(path, **selectors)

    def _check(self, path: str) -> None:
        if path in self.forbidden:
            raise ClusterError(f"{path} is forbidden", code="cluster-forbidden", remedy="", status=403)


def read(objects: dict[str, Any], *, forbidden: tuple[str, ...] = (), **options: Any) -> Snapshot:
    cluster = Kubernetes(objects)
    cluster.forbidden = forbidden
    return read_snapshot(cast(Cluster, cluster), **options)


def test_the_namespace_is_what_the_policy_says_then_where_the_plugin_is_then_the_usual_one() -> None:
    plugin = {"/apis/apps/v1/namespaces/nvidia/daemonsets/nvidia-device-plugin-daemonset": item("nvidia-device-plugin-daemonset", "nvidia")}
    assert read({f"{POLICIES}/p": policy(), **plugin}).namespace == "gpus"
    assert read({f"{POLICIES}/p": policy(namespace=""), **plugin}).namespace == "nvidia"
    assert read({}).namespace == "gpu-operator"
    assert read({f"{POLICIES}/p": policy()}, namespace="mine").namespace == "mine"


def test_the_map_is_the_named_one_else_the_referred_one_else_the_usual_one() -> None:
    maps = {f"/api/v1/namespaces/gpus/configmaps/{name}": item(name, "gpus", data={name: ""}) for name in ("referred", "named")}
    referring = {f"{POLICIES}/p": policy(config={"name": "referred"}), **maps}
    usual = read(referring)
    assert usual.config_map is not None and usual.config_map is usual.referred_map and usual.map_name == "referred"
    named = read(referring, config_map="named")
    assert named.config_map is not None and named.referred_map is not None
    assert (named.config_map.name, named.referred_map.name, named.map_name) == ("named", "referred", "named")
    bare = read({f"{POLICIES}/p": policy()})
    assert (bare.config_map, bare.referred_map, bare.map_name) == (None, None, "mps-configs")


def test_a_policy_that_is_not_the_active_one_cannot_be_planned_for() -> None:
    two = {f"{POLICIES}/old": policy("old"), f"{POLICIES}/new": policy("new", created="2")}
    assert read(two, policy="old").policy is not None
    with pytest.raises(ClusterError, match="the ClusterPolicy 'new' is ignored by the operator; the operator follows 'old'") as caught:
        read(two, policy="new")
    assert caught.value.code == "policy-not-active"


NODES = {
    "/api/v1/nodes/gpu-1": item("gpu-1", labels=T4, status={"allocatable": {"nvidia.com/gpu": "2"}}),
    "/api/v1/nodes/cpu-1": item("cpu-1"),
}


def test_only_gpu_nodes_are_read_and_as_much_of_them_as_asked_for() -> None:
    assert [node.name for node in read(NODES).nodes] == ["gpu-1"]
    assert read(NODES, nodes="none").nodes == ()


def test_a_device_that_the_operator_has_not_labelled_is_seen() -> None:
    fresh = {"/api/v1/nodes/gpu-9": item("gpu-9", labels={"feature.node.kubernetes.io/pci-10de.present": "true"})}
    assert read(fresh).unlabelled_gpu_nodes == ("gpu-9",)
    assert read({**NODES, **fresh}).unlabelled_gpu_nodes == ()


def test_pods_that_use_gpus_and_second_plugins_are_found_among_all_pods() -> None:
    pods = {
        "/api/v1/namespaces/team/pods/train": item("train", "team", spec=GPU),
        "/api/v1/namespaces/team/pods/web": item("web", "team", spec={"containers": [{}]}),
        "/api/v1/namespaces/kube-system/pods/nvdp-x": item("nvdp-x", "kube-system", spec=PLUGIN),
    }
    found = read(pods)
    assert [pod.name for pod in found.gpu_pods] == ["train"]
    assert [(plugin.name, plugin.node) for plugin in found.foreign_plugins] == [("nvdp-x", "gpu-1")]
    assert read(pods, gpu_pods=False).gpu_pods == ()


def test_of_the_operators_namespace_only_the_pods_of_its_own_daemon_sets_are_left_out() -> None:
    """A validator or a proof asks for a GPU there too; a user's DaemonSet is nobody's operand."""
    owned = {"ownerReferences": [{"kind": "ClusterPolicy", "name": "cluster-policy"}]}
    selected = {"selector": {"matchLabels": {"app": "nvidia-dcgm"}}}
    objects = {
        f"{POLICIES}/p": policy(),
        "/apis/apps/v1/namespaces/gpus/daemonsets/nvidia-dcgm": item("nvidia-dcgm", "gpus", metadata=owned, spec=selected),
        "/apis/apps/v1/namespaces/gpus/daemonsets/mine": item("mine", "gpus", spec={"selector": {"matchLabels": {"app": "mine"}}}),
        "/api/v1/namespaces/gpus/pods/nvidia-dcgm-x": item("nvidia-dcgm-x", "gpus", labels={"app": "nvidia-dcgm"}, spec=GPU),
        "/api/v1/namespaces/gpus/pods/mine-x": item("mine-x", "gpus", labels={"app": "mine"}, spec=GPU),
        "/api/v1/namespaces/gpus/pods/proof": item("proof", "gpus", spec=GPU),
        "/api/v1/namespaces/team/pods/same-label": item("same-label", "team", labels={"app": "nvidia-dcgm"}, spec=GPU),
    }
    assert [pod.name for pod in read(objects).gpu_pods] == ["mine-x", "proof", "same-label"]


def test_a_second_plugins_daemon_set_is_named_once() -> None:
    owner = {"ownerReferences": [{"kind": "DaemonSet", "name": "nvdp", "controller": True}]}
    objects = {
        "/apis/apps/v1/namespaces/other/daemonsets/nvdp": item("nvdp", "other", spec={"template": {"spec": PLUGIN}}, status={"desiredNumberScheduled": 1}),
        "/api/v1/namespaces/other/pods/nvdp-x": item("nvdp-x", "other", spec=PLUGIN, metadata=owner),
    }
    assert [(one.kind, one.name, one.node) for one in read(objects).foreign_plugins] == [("DaemonSet", "nvdp", "gpu-1")]
    assert [one.node for one in read(objects, gpu_pods=False).foreign_plugins] == [None]


def test_a_user_who_may_see_one_namespace_only_sees_the_operators_daemon_sets() -> None:
    name = "gpu-feature-discovery"
    objects = {f"{POLICIES}/p": policy(), f"/apis/apps/v1/namespaces/gpus/daemonsets/{name}": item(name, "gpus", spec={})}
    found = read(objects, forbidden=("/apis/apps/v1/daemonsets",))
    assert [one.name for one in found.daemon_sets] == [name]


def schema(*names: str) -> dict[str, Any]:
    plugin: dict[str, Any] = {"properties": {name: {} for name in names}}
    openapi = {"properties": {"spec": {"properties": {"devicePlugin": plugin}}}}
    return item("crd", spec={"versions": [{"name": "v1", "storage": True, "schema": {"openAPIV3Schema": openapi}}]})


@pytest.mark.parametrize(("names", "known"), [(("config", "image"), True), (("image",), False)])
def test_the_crds_schema_is_looked_at_until_a_policy_proves_it(names: tuple[str, ...], known: bool) -> None:
    crd = {f"{CRDS}/clusterpolicies.nvidia.com": schema(*names)}
    assert read({**crd, f"{POLICIES}/p": policy()}).policy_schema_has_config is known
    assert read({**crd, f"{POLICIES}/p": policy(config={})}).policy_schema_has_config
    unreadable = (f"{CRDS}/clusterpolicies.nvidia.com",)
    assert read({**crd, f"{POLICIES}/p": policy()}, forbidden=unreadable).policy_schema_has_config, "reading back will tell"


def test_gpu_clusters_are_found_without_probing() -> None:
    definition = item("gpuclusters.nvidia.com", spec={"versions": [{"name": "v1alpha1", "storage": True}]})
    objects = {f"{CRDS}/gpuclusters.nvidia.com": definition, "/apis/nvidia.com/v1alpha1/gpuclusters/gpus": item("gpus")}
    assert read(objects).gpu_clusters == ("gpus",)
    assert read({}).gpu_clusters == ()
    assert read(objects, forbidden=(f"{CRDS}/gpuclusters.nvidia.com",)).gpu_clusters == ()


def test_workloads_come_with_their_kind_and_only_when_asked_for() -> None:
    objects = {"/apis/apps/v1/namespaces/team/deployments/web": item("web", "team"), "/api/v1/namespaces/team/resourcequotas/q": item("q", "team")}
    assert [one["kind"] for one in read(objects, workloads=True).workloads] == ["Deployment", "ResourceQuota"]
    assert read(objects).workloads == ()


def test_the_plugins_version_comes_from_the_image_where_the_policy_is_silent() -> None:
    image = {"template": {"spec": {"containers": [{"image": "registry/k8s-device-plugin:v0.17.4"}]}}}
    plugin = item("nvidia-device-plugin-daemonset", "gpus", spec=image)
    found = read({f"{POLICIES}/p": policy(), "/apis/apps/v1/namespaces/gpus/daemonsets/nvidia-device-plugin-daemonset": plugin})
    assert str(found.plugin_version) == "0.17.4"


def test_the_agents_daemon_sets_alone() -> None:
    names = ("gpu-feature-discovery", "nvidia-driver-daemonset")
    objects = {f"/apis/apps/v1/namespaces/gpus/daemonsets/{name}": item(name, "gpus", spec={}) for name in names}
    assert [one.name for one in read_daemon_sets(cast(Cluster, MemoryCluster(objects)), "gpus")] == ["gpu-feature-discovery"]


def test_what_may_not_be_read_is_noted() -> None:
    forbidden = ("/apis/batch/v1/jobs", "/apis/apps/v1/daemonsets", f"{CRDS}/gpuclusters.nvidia.com", f"{CRDS}/clusterpolicies.nvidia.com")
    assert set(read({}, forbidden=forbidden, workloads=True).unread) == {f"{path} is forbidden" for path in forbidden}
    assert read({}, workloads=True).unread == ()
