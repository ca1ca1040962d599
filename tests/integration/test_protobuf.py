# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes and pods are the same from the API server's protobuf as from its JSON, whatever state they are in."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot_build import node_of, pod_of
from tests.testbed.bed import TestBed

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "seen", "namespace": "default", "labels": {"app": "", "long": "x" * 63}},
    "spec": {
        "schedulerName": "nobody",
        "initContainers": [{"name": "first", "image": "registry.example/first"}],
        "containers": [{"name": "main", "image": "registry.example/main", "resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "100m", "memory": "1Gi"}}}],
    },
}
CRASHED = {
    "phase": "Running",
    "reason": "Evicted",
    "message": "line\nline \u2603",
    "startTime": "2026-11-30T10:00:00Z",
    "conditions": [{"type": "Ready", "status": "False"}],
    "initContainerStatuses": [
        {
            "name": "first",
            "ready": True,
            "restartCount": 0,
            "image": "i",
            "imageID": "",
            "state": {"terminated": {"exitCode": 0, "startedAt": "2026-11-30T10:00:01Z", "finishedAt": "2026-11-30T10:00:02Z"}},
        }
    ],
    "containerStatuses": [
        {
            "name": "main",
            "ready": False,
            "restartCount": 300,
            "image": "i",
            "imageID": "",
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
            "lastState": {"terminated": {"exitCode": -1, "reason": "Error", "message": "no", "startedAt": None, "finishedAt": "2026-11-30T10:00:02Z"}},
        }
    ],
}
TAINTED = {
    "metadata": {"annotations": {"note": "a \u2603 " * 100}, "labels": {"empty": ""}},
    "spec": {"unschedulable": True, "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}, {"key": "bare", "effect": "NoExecute"}]},
}


def everything(cluster: Cluster, *, protobuf: bool) -> list[Any]:
    nodes = [node_of(item) for page in cluster.pages("/api/v1/nodes", protobuf=protobuf) for item in page.items]
    metadata = [node_of(item) for page in cluster.pages("/api/v1/nodes", protobuf=protobuf, metadata_only=True) for item in page.items]
    pods = [pod_of(item) for page in cluster.pages("/api/v1/pods", protobuf=protobuf) for item in page.items]
    return [*nodes, *metadata, *pods]


def same(bed: TestBed, cluster: Cluster) -> list[Any]:
    """What both encodings give. A node that changes between the two reads is read again."""
    seen: list[list[Any]] = []

    def equal() -> bool:
        seen[:] = [everything(cluster, protobuf=True), everything(cluster, protobuf=False)]
        return seen[0] == seen[1]

    bed.wait_for("equal nodes and pods", equal, 30)
    return seen[0]


def test_both_encodings_give_the_same_nodes_and_pods(lab: TestBed) -> None:
    cluster = Cluster.connect({"kubeconfig": str(lab.kubeconfig)})
    lab.api.post("/api/v1/namespaces/default/pods", POD)
    before = lab.api.get("/api/v1/nodes/gpu-t4-1")
    try:
        lab.api.patch("/api/v1/nodes/gpu-t4-1", TAINTED)
        assert next(pod for pod in same(lab, cluster) if pod.name == "seen").node is None
        lab.api.patch("/api/v1/namespaces/default/pods/seen/status", {"status": CRASHED})
        assert next(pod for pod in same(lab, cluster) if pod.name == "seen").containers[1].last_exit_code == -1
    finally:
        lab.api.delete("/api/v1/namespaces/default/pods/seen")
        removed = {"annotations": {"note": None}, "labels": {"empty": None}}
        spec = {"unschedulable": None, "taints": before["spec"].get("taints")}
        lab.api.patch("/api/v1/nodes/gpu-t4-1", {"metadata": removed, "spec": spec})


def test_a_refusal_in_protobuf_is_told_in_the_api_servers_words(lab: TestBed) -> None:
    cluster = Cluster.connect({"kubeconfig": str(lab.kubeconfig)})
    with pytest.raises(ClusterError, match="unable to parse requirement") as caught:
        list(cluster.pages("/api/v1/pods", label_selector="a in (b", protobuf=True))
    assert caught.value.status == 400
