# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: read the installation of the GPU Operator from the API, and wait until it is ready."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.gpuops.mps.plugins.module_utils._installation import (
    NEEDED_ON_NODES,
    OPERATOR,
    POLICY_CRD,
    Installation,
    is_gpu_node,
    is_standalone_plugin,
    read_daemon_set,
    read_deployment,
    read_owner,
    read_policy,
    read_version,
)
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot_build import is_operand

if t.TYPE_CHECKING:
    from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, Object

POLICIES = "/apis/nvidia.com/v1/clusterpolicies"


def read_installation(cluster: Cluster, namespace: str) -> Installation:
    """Read the operator wherever it runs; ``namespace`` is where it belongs when it is not installed yet."""
    deployments = cluster.list("/apis/apps/v1/deployments", field_selector=f"metadata.name={OPERATOR}").items
    deployment = next((found for found in deployments if found["metadata"]["namespace"] == namespace), next(iter(deployments), None))
    if deployment is not None:
        namespace = deployment["metadata"]["namespace"]
    daemon_sets = cluster.list("/apis/apps/v1/daemonsets").items
    gpu_nodes, labelled_nodes = _count_nodes(cluster)
    return Installation(
        namespace=namespace,
        namespace_labels=_namespace_labels(cluster, namespace),
        deployment=read_deployment(deployment) if deployment else None,
        version=read_version(deployment) if deployment else None,
        owner=read_owner(deployment["metadata"]) if deployment else None,
        policy=read_policy(_policies(cluster)),
        operands=tuple(read_daemon_set(found) for found in daemon_sets if is_operand(found, namespace)),
        gpu_nodes=gpu_nodes,
        labelled_nodes=labelled_nodes,
        standalone_plugins=tuple(
            f"{found['metadata']['namespace']}/{found['metadata']['name']}" for found in daemon_sets if is_standalone_plugin(found)
        ),
    )


def wait_for_installation(cluster: Cluster, namespace: str, *, minimum_nodes: int, timeout: float, pause: float) -> Installation:
    """Read until nothing is missing, at most ``timeout`` seconds; the last state is returned in either case."""
    deadline = time.monotonic() + timeout
    while True:
        installation = read_installation(cluster, namespace)
        if not installation.waiting_for(minimum_nodes) or time.monotonic() + pause > deadline:
            return installation
        time.sleep(pause)


def _namespace_labels(cluster: Cluster, namespace: str) -> dict[str, str] | None:
    found = cluster.get(f"/api/v1/namespaces/{namespace}", metadata_only=True)
    return None if found is None else dict(found["metadata"].get("labels") or {})


def _policies(cluster: Cluster) -> tuple[Object, ...]:
    """All ClusterPolicies; the CRD is asked for first, because a list of an unknown kind is an error."""
    if cluster.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{POLICY_CRD}", metadata_only=True) is None:
        return ()
    return cluster.list(POLICIES).items


def _count_nodes(cluster: Cluster) -> tuple[int, dict[str, int]]:
    """GPU nodes, and for each needed operand the nodes whose label asks for it."""
    gpu_nodes, labelled = 0, dict.fromkeys(NEEDED_ON_NODES, 0)
    for page in cluster.pages("/api/v1/nodes", metadata_only=True):
        if page.restarted:
            gpu_nodes, labelled = 0, dict.fromkeys(NEEDED_ON_NODES, 0)
        for node in page.items:
            labels = node["metadata"].get("labels") or {}
            gpu_nodes += is_gpu_node(labels)
            for operand, label in NEEDED_ON_NODES.items():
                labelled[operand] += labels.get(label) == "true"
    return gpu_nodes, labelled
