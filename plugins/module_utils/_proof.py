# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: which nodes a proof runs on, with how many clients, and the manifests of its clients. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.gpuops.mps.plugins.module_utils._expectation import Expected
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import Node, Snapshot

# On everything that a proof creates; its value is the run. What carries it and is not of this run is left over.
PROOF_LABEL = "gpuops.mps/proof"
CONTAINER = "cuda-sample-vector-add"
# NVIDIA's documented verification workload (Multi-Process Service in Kubernetes, Verifying the MPS Configuration).
IMAGE = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda11.7.1-ubuntu20.04"
LOOP = "while true; do /cuda-samples/vectorAdd; done"
PASSED = "Test PASSED"
TOLERATIONS: tuple[Mapping[str, str], ...] = ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},)
NODE_SELECTOR: Mapping[str, str] = {"nvidia.com/gpu.sharing-strategy": "mps"}
PRODUCT_LABEL = "nvidia.com/gpu.product"
COUNT_LABEL = "nvidia.com/gpu.count"

DOCUMENT = "document"
THOROUGH = "thorough"
# How much longer than the proof a client may live when nobody is left to delete it.
_ORPHAN_SECONDS = 60

Manifest = dict[str, t.Any]


@dataclass(frozen=True)
class Workload:
    """What the clients of a proof are made of. C(timeout) is in seconds."""

    namespace: str
    image: str = IMAGE
    pull_secrets: tuple[str, ...] = ()
    tolerations: tuple[Mapping[str, t.Any], ...] = TOLERATIONS
    node_selector: Mapping[str, str] = field(default_factory=lambda: dict(NODE_SELECTOR))
    run_as_user: int = 1000
    timeout: int = 300


@dataclass(frozen=True)
class Subject:
    """One node to prove, and the number of clients that run there at once.

    C(clients) is one more than the node has GPUs where that many replicas are free: replicas are spread over the GPUs,
    so only then two clients are sure to meet on one. C(together) says whether it is so.
    """

    node: str
    expected: Expected
    clients: int
    together: bool


def choose(snapshot: Snapshot, expected: Iterable[Expected], names: Sequence[str] | None, *, every: bool) -> tuple[Subject, ...]:
    """The nodes to prove: those named, or those that should share by MPS, C(every) one or one for each config and kind of GPU."""
    chosen: dict[t.Any, Expected] = {}
    known = {one.node: one for one in expected}
    if names is not None:
        candidates = [known[name] for name in dict.fromkeys(names) if name in known]
    else:
        candidates = [one for one in known.values() if one.daemon]
    for one in candidates:
        node = snapshot.node(one.node)
        key = one.node if every or names is not None or node is None else _kind(one, node)
        # A node with more room shows more; the first one otherwise.
        if key not in chosen or free_replicas(snapshot, one) > free_replicas(snapshot, chosen[key]):
            chosen[key] = one
    return tuple(_subject(snapshot, one) for one in chosen.values())


def unknown_nodes(expected: Iterable[Expected], names: Sequence[str] | None) -> tuple[str, ...]:
    """Names that are no GPU node of the cluster."""
    known = {one.node for one in expected}
    return tuple(name for name in dict.fromkeys(names or ()) if name not in known)


def _kind(expected: Expected, node: Node) -> tuple[t.Any, ...]:
    return (expected.group, expected.selection.config, expected.resource, node.labels.get(PRODUCT_LABEL), node.labels.get(COUNT_LABEL))


def _subject(snapshot: Snapshot, expected: Expected) -> Subject:
    node = snapshot.node(expected.node)
    allocatable = node.allocatable.get(expected.resource, 0) if node else 0
    gpus = max(1, allocatable // (expected.replicas or 1))
    clients = max(1, min(gpus + 1, free_replicas(snapshot, expected)))
    return Subject(expected.node, expected, clients, together=clients > gpus)


def free_replicas(snapshot: Snapshot, expected: Expected) -> int:
    """How many of the node's replicas no pod uses; the pods of an earlier proof count as gone."""
    node = snapshot.node(expected.node)
    used = sum(pod.requests.get(expected.resource, 0) for pod in snapshot.gpu_pods_on(expected.node))
    return max(0, (node.allocatable.get(expected.resource, 0) if node else 0) - used)


def client_pod(workload: Workload, subject: Subject, run: str) -> Manifest:
    """A client bound to one node. It passes the Pod Security level restricted, and ends by itself when nobody deletes it.

    The node is chosen by affinity, not by C(nodeName): the scheduler must count the replica, and kubelet refuses what does not fit.
    """
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [subject.node]}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "mps-proof-", "namespace": workload.namespace, "labels": {PROOF_LABEL: run}},
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": workload.timeout + _ORPHAN_SECONDS,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}},
            "tolerations": [dict(one) for one in workload.tolerations],
            "imagePullSecrets": [{"name": name} for name in workload.pull_secrets],
            "securityContext": {"runAsNonRoot": True, "runAsUser": workload.run_as_user, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    **_container(workload, subject.expected.resource),
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }


def document_deployment(workload: Workload, resource: str, replicas: int, run: str) -> Manifest:
    """The document's Deployment as it stands, with a name from the server and a label of this run beside its own."""
    labels = {"app": "mps-verification", PROOF_LABEL: run}
    spec: Manifest = {
        "tolerations": [dict(one) for one in workload.tolerations],
        "hostPID": True,
        "containers": [_container(workload, resource)],
        "nodeSelector": dict(workload.node_selector),
    }
    if workload.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in workload.pull_secrets]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"generateName": "mps-verification-", "namespace": workload.namespace, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _container(workload: Workload, resource: str) -> Manifest:
    """The request is always one: MPS refuses more, and two replicas are no bigger share."""
    return {
        "name": CONTAINER,
        "image": workload.image,
        "command": ["/bin/bash", "-c", "--"],
        "args": [LOOP],
        "resources": {"limits": {resource: 1}},
    }


def document_nodes(snapshot: Snapshot, expected: Iterable[Expected], workload: Workload) -> tuple[Expected, ...]:
    """The nodes that the document's Deployment can run on."""
    found = []
    for one in expected:
        node = snapshot.node(one.node)
        if node and all(node.labels.get(key) == value for key, value in workload.node_selector.items()):
            found.append(one)
    return tuple(found)


def document_resource(nodes: Iterable[Expected]) -> str:
    """The resource that most of these nodes offer, nvidia.com/gpu when there is a tie."""
    names = [one.resource for one in nodes]
    return max(sorted(set(names)), key=names.count) if names else "nvidia.com/gpu"
