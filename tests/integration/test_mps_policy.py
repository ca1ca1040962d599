# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mps_policy on a real API server."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_writes import apply_policy
from ansible_collections.gpuops.mps.plugins.module_utils._plan import PolicyPlan
from tests.integration.quiet_bed import MPS_TWO, NONE, POLICY, Run, Step, refer, twelve_steps, write_map, writes
from tests.integration.rights import signed_in
from tests.testbed.bed import TestBed

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterpolicies.nvidia.com"
DATA = {"none": NONE, "mps-two": MPS_TWO}


def config(bed: TestBed) -> dict[str, Any]:
    return bed.api.get(POLICY)["spec"]["devicePlugin"].get("config") or {}


def test_create_modify_delete(quiet: TestBed, run_module: Run) -> None:
    write_map(quiet, DATA)
    steps = (
        Step("create", {"config_map": "mps-configs", "default": "none"}, {"name": "mps-configs", "default": "none"}),
        Step("modify", {"config_map": "mps-configs", "default": "mps-two"}, {"name": "mps-configs", "default": "mps-two"}),
        Step("clear the default", {"default": ""}, {"name": "mps-configs"}),
        Step("delete", {"state": "absent"}, {}),
    )
    twelve_steps(quiet, run_module, "mps_policy", steps, lambda: config(quiet))


def test_only_the_two_fields_change(quiet: TestBed, run_module: Run) -> None:
    write_map(quiet, DATA)
    before = quiet.api.get(POLICY)
    run_module(quiet, "mps_policy", {"config_map": "mps-configs", "default": "none"})
    after = quiet.api.get(POLICY)
    assert after["spec"]["devicePlugin"].pop("config") == {"name": "mps-configs", "default": "none"}
    before["spec"]["devicePlugin"].pop("config", None)
    assert after["spec"] == before["spec"] and after["metadata"]["labels"] == before["metadata"]["labels"]


def test_helm_is_named_with_the_values_to_commit(quiet: TestBed, run_module: Run) -> None:
    write_map(quiet, DATA)
    result = run_module(quiet, "mps_policy", {"default": "none"}, check=True)
    (warning,) = [text for text in result["warnings"] if "policy-owned-elsewhere" in text]
    assert "the Helm release 'gpu-operator' in gpu-operator" in warning
    assert 'devicePlugin: {config: {create: false, name: "mps-configs", default: "none"}}' in warning


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ({"config_map": "gone"}, "map-absent", "the ConfigMap 'gone' does not exist in the operator's namespace 'gpu-operator'"),
        ({"default": "mps-2"}, "key-of-default-absent", "the default 'mps-2' is not one of the keys of the ConfigMap 'mps-configs': mps-two, none"),
    ],
)
def test_what_cannot_work_is_refused_and_nothing_is_written(quiet: TestBed, run_module: Run, arguments: dict[str, Any], code: str, words: str) -> None:
    write_map(quiet, DATA)
    mark = quiet.mark()
    result = run_module(quiet, "mps_policy", arguments)
    assert result["failed"] and words in result["msg"]
    assert code in {found["code"] for found in result["findings"]}
    assert writes(quiet, mark) == []


def test_of_several_policies_the_oldest_is_used(quiet: TestBed, run_module: Run) -> None:
    write_map(quiet, DATA)
    second = copy.deepcopy(quiet.api.get(POLICY))
    second["metadata"] = {"name": "aaa-policy"}
    quiet.wait_for("a later second", lambda: _later(quiet))
    quiet.api.post(POLICY.rpartition("/")[0], second)
    try:
        result = run_module(quiet, "mps_policy", {"default": "none"})
        assert result["policy"]["name"] == "cluster-policy"
        assert any("follows the oldest ClusterPolicy, 'cluster-policy', and ignores 'aaa-policy'" in warning for warning in result["warnings"])
        named = run_module(quiet, "mps_policy", {"default": "none", "policy": "aaa-policy"})
        assert named["code"] == "policy-not-active" and "the ClusterPolicy 'aaa-policy' is ignored by the operator" in named["msg"]
    finally:
        quiet.api.delete("/apis/nvidia.com/v1/clusterpolicies/aaa-policy")


def _later(bed: TestBed) -> bool:
    """Creation times have whole seconds: whether an object made now is younger than the policy."""
    probe = bed.api.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "clock"}})
    bed.api.delete("/api/v1/namespaces/default/configmaps/clock")
    return bool(probe["metadata"]["creationTimestamp"] > bed.api.get(POLICY)["metadata"]["creationTimestamp"])


def test_a_gpu_cluster_is_an_error(quiet: TestBed, run_module: Run) -> None:
    write_map(quiet, DATA)
    definition = {
        "metadata": {"name": "gpuclusters.nvidia.com"},
        "spec": {
            "group": "nvidia.com",
            "scope": "Cluster",
            "names": {"plural": "gpuclusters", "singular": "gpucluster", "kind": "GPUCluster", "listKind": "GPUClusterList"},
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    crds = CRD.rpartition("/")[0]
    quiet.api.post(crds, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **definition})
    try:
        path = "/apis/nvidia.com/v1alpha1/gpuclusters"
        quiet.wait_for("kind", lambda: quiet.api.post(path, {"apiVersion": "nvidia.com/v1alpha1", "kind": "GPUCluster", "metadata": {"name": "gpus"}}))
        result = run_module(quiet, "mps_policy", {"default": "none"})
        assert "the GPUCluster 'gpus' runs this cluster's GPUs, not a ClusterPolicy" in result["msg"]
        assert "policy-replaced-by-gpu-cluster" in {found["code"] for found in result["findings"]}
    finally:
        quiet.api.delete(f"{crds}/gpuclusters.nvidia.com")


def _schema(bed: TestBed) -> dict[str, Any]:
    return bed.api.get(CRD)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["devicePlugin"]["properties"]


@pytest.fixture
def old_schema(quiet: TestBed) -> Any:
    """The CRD without the config field, as an old release left it behind."""
    kept = _schema(quiet)["config"]
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/devicePlugin/properties/config"
    patch = "application/json-patch+json"
    quiet.api.patch(CRD, [{"op": "remove", "path": path}], patch)
    yield quiet
    quiet.api.patch(CRD, [{"op": "add", "path": path, "value": kept}], patch)

    def writable() -> bool:
        refer(quiet, "probe")
        return config(quiet) == {"name": "probe"}

    quiet.wait_for("schema", writable)


def test_a_crd_without_the_field_is_refused_before_the_write(old_schema: TestBed, run_module: Run) -> None:
    write_map(old_schema, DATA)
    result = run_module(old_schema, "mps_policy", {"default": "none"})
    assert "does not know spec.devicePlugin.config" in result["msg"]
    assert "policy-schema-without-config" in {found["code"] for found in result["findings"]}


def test_a_field_that_was_dropped_is_seen_by_reading_back(old_schema: TestBed) -> None:
    """A user who may not read CRDs learns it only now; the dry run of check mode sees it too."""
    for dry_run in (True, False):
        cluster = Cluster.connect({"kubeconfig": str(signed_in(old_schema, "operator"))}, dry_run=dry_run)
        version = old_schema.api.get(POLICY)["metadata"]["resourceVersion"]

        def dropped(cluster: Cluster = cluster, version: str = version) -> bool:
            with pytest.raises(ClusterError) as caught:
                apply_policy(cluster, PolicyPlan("cluster-policy", version, "", "mps-configs", "", "none"))
            return caught.value.code == "policy-pruned"

        old_schema.wait_for("pruning", dropped)


def test_a_change_by_somebody_else_meanwhile_is_not_overwritten(quiet: TestBed) -> None:
    cluster = Cluster.connect({"kubeconfig": str(signed_in(quiet, "operator"))})
    version = quiet.api.get(POLICY)["metadata"]["resourceVersion"]
    plan = PolicyPlan("cluster-policy", version, "", "mps-configs", "", "none")
    quiet.api.patch(POLICY, {"metadata": {"annotations": {"unrelated": "change"}}})
    assert apply_policy(cluster, plan) is not None
    refer(quiet, "theirs")
    with pytest.raises(ClusterError) as caught:
        apply_policy(cluster, plan)
    assert caught.value.code == "changed-meanwhile"
    assert config(quiet)["name"] == "theirs"


def test_without_the_operator_nothing_is_created(empty_lab: TestBed, run_module: Run) -> None:
    result = run_module(empty_lab, "mps_policy", {"default": "none", "namespace": "default"}, account="admin")
    assert result["failed"] and "no ClusterPolicy is active in the cluster" in result["msg"]
    assert result["policy"] is None


def test_waiting_ends_when_the_operator_has_replaced_the_pods(lab: TestBed, run_module: Run) -> None:
    try:
        run_module(lab, "mps_config", {"configs": {"none": {}}})
        result = run_module(lab, "mps_policy", {"default": "none", "wait": True, "wait_sleep": 1, "wait_timeout": 120})
        assert result["changed"] and not result.get("failed"), result
        sets = lab.api.list("/apis/apps/v1/namespaces/gpu-operator/daemonsets")
        plugin = next(one for one in sets if one["metadata"]["name"] == "nvidia-device-plugin-daemonset")
        assert plugin["status"]["updatedNumberScheduled"] == plugin["status"]["desiredNumberScheduled"] == plugin["status"]["numberAvailable"]
    finally:
        lab.reset()


def test_waiting_that_is_in_vain_says_what_was_written(quiet: TestBed, run_module: Run) -> None:
    write_map(quiet, DATA)
    sets = "/apis/apps/v1/namespaces/gpu-operator/daemonsets"
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
    quiet.api.post(sets, {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "gpu-feature-discovery"}, "spec": spec})
    try:
        result = run_module(quiet, "mps_policy", {"default": "none", "wait": True, "wait_sleep": 1, "wait_timeout": 2})
        assert result["failed"] and result["changed"] and result["code"] == "operator-not-done"
        assert "The ClusterPolicy is written, but after 2 seconds the operator has not finished with gpu-feature-discovery" in result["msg"]
    finally:
        quiet.api.delete(f"{sets}/gpu-feature-discovery")
