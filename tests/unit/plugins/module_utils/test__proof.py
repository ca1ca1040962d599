# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._expectation import expected_by_cluster
from ansible_collections.gpuops.mps.plugins.module_utils._proof import (
    IMAGE,
    LOOP,
    PROOF_LABEL,
    Subject,
    Workload,
    choose,
    client_pod,
    document_deployment,
    document_nodes,
    document_resource,
    free_replicas,
    unknown_nodes,
)
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import CONFIG_LABEL, Pod, Snapshot
from tests.unit import clusters
from tests.unit.clusters import gpu_node, snapshot

WORKLOAD = Workload("default")
V100 = {**clusters.T4, **clusters.SHARED_BY_FOUR, CONFIG_LABEL: "mps-four", "nvidia.com/gpu.product": "Tesla-V100-SXM2-16GB-SHARED"}
EXCLUSIVE = {**clusters.T4, CONFIG_LABEL: "none"}


def user(node: str, count: int) -> Pod:
    return Pod("default", "job", "u", node, "Running", True, "", None, False, requests={"nvidia.com/gpu": count})


def three_kinds() -> Snapshot:
    v100 = gpu_node("gpu-3", labels=V100)
    exclusive = gpu_node("gpu-4", labels=EXCLUSIVE, allocatable={"nvidia.com/gpu": 2})
    return snapshot(nodes=(gpu_node("gpu-1"), gpu_node("gpu-2"), v100, exclusive), gpu_pods=(user("gpu-1", 3),))


def chosen(found: Snapshot, names: list[str] | None = None, *, every: bool = False) -> dict[str, tuple[int, bool]]:
    return {one.node: (one.clients, one.together) for one in choose(found, expected_by_cluster(found), names, every=every)}


def test_one_node_of_each_kind_is_proven_the_one_with_the_most_room() -> None:
    assert chosen(three_kinds()) == {"gpu-2": (3, True), "gpu-3": (3, True)}


def test_every_shared_node_is_proven_when_asked() -> None:
    assert set(chosen(three_kinds(), every=True)) == {"gpu-1", "gpu-2", "gpu-3"}


def test_named_nodes_are_proven_whatever_they_are() -> None:
    assert chosen(three_kinds(), ["gpu-4", "gpu-4", "gpu-9"]) == {"gpu-4": (2, False)}
    assert unknown_nodes(expected_by_cluster(three_kinds()), ["gpu-4", "gpu-9"]) == ("gpu-9",)


@pytest.mark.parametrize(("used", "wanted"), [(0, (3, True)), (5, (3, True)), (6, (2, False)), (7, (1, False)), (8, (1, False))])
def test_one_client_more_than_gpus_makes_two_meet(used: int, wanted: tuple[int, bool]) -> None:
    found = snapshot(gpu_pods=(user("gpu-1", used),) if used else ())
    assert chosen(found) == {"gpu-1": wanted}
    assert free_replicas(found, expected_by_cluster(found)[0]) == 8 - used


def security(spec: dict[str, Any]) -> tuple[object, ...]:
    return (
        spec["securityContext"]["runAsNonRoot"],
        spec["securityContext"]["seccompProfile"]["type"],
        spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"],
        spec["containers"][0]["securityContext"]["capabilities"]["drop"],
    )


def test_a_client_is_bound_restricted_and_ends_by_itself() -> None:
    subject = Subject("gpu-1", expected_by_cluster(snapshot())[0], 3, True)
    pod = client_pod(Workload("tests", pull_secrets=("mirror",), timeout=100), subject, "run")
    spec = pod["spec"]
    assert pod["metadata"] == {"generateName": "mps-proof-", "namespace": "tests", "labels": {PROOF_LABEL: "run"}}
    assert security(spec) == (True, "RuntimeDefault", False, ["ALL"])
    assert not {"hostPID", "hostIPC", "volumes", "nodeName"} & set(spec)
    assert spec["activeDeadlineSeconds"] > 100 and spec["imagePullSecrets"] == [{"name": "mirror"}]
    assert spec["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    assert spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["gpu-1"]


def test_the_documents_deployment_is_as_in_the_document() -> None:
    """Multi-Process Service in Kubernetes, Verifying the MPS Configuration: the manifest, without its fixed name."""
    found = document_deployment(WORKLOAD, "nvidia.com/gpu", 5, "run")
    assert found["spec"]["replicas"] == 5
    assert found["spec"]["template"]["spec"] == {
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "hostPID": True,
        "containers": [
            {
                "name": "cuda-sample-vector-add",
                "image": IMAGE,
                "command": ["/bin/bash", "-c", "--"],
                "args": [LOOP],
                "resources": {"limits": {"nvidia.com/gpu": 1}},
            }
        ],
        "nodeSelector": {"nvidia.com/gpu.sharing-strategy": "mps"},
    }
    assert found["spec"]["selector"]["matchLabels"] == found["spec"]["template"]["metadata"]["labels"]


def test_the_deployment_runs_where_its_selector_fits() -> None:
    found = three_kinds()
    nodes = document_nodes(found, expected_by_cluster(found), WORKLOAD)
    assert [one.node for one in nodes] == ["gpu-1", "gpu-2", "gpu-3"]
    assert document_resource(nodes) == "nvidia.com/gpu"
    assert document_resource(()) == "nvidia.com/gpu"
