# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: one run of a proof, from what the cluster declares to the module's result."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_proof import NodeProof, Stage, prove_document, prove_subjects
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_snapshot import read_snapshot
from ansible_collections.gpuops.mps.plugins.module_utils._expectation import Expected, expected_by_cluster
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, finding
from ansible_collections.gpuops.mps.plugins.module_utils._interruption import Interrupted, Interruption
from ansible_collections.gpuops.mps.plugins.module_utils._proof import (
    DOCUMENT,
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
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import Snapshot


def prove_cluster(cluster: Cluster, options: Mapping[str, t.Any], *, check_mode: bool) -> dict[str, t.Any]:
    """The result of C(mps_proof). Raises ClusterError when the cluster cannot be read."""
    workload = _workload(options)
    if check_mode:
        return _would_do(cluster, options, workload)
    stage: Stage | None = None
    proofs: list[NodeProof] = []
    leftovers: tuple[str, ...] = ()
    stopped = ""
    try:
        with Interruption() as interruption, Stage(cluster, workload, interruption) as stage, interruption.raising():
            leftovers = stage.remove_leftovers()
            proofs = _prove(stage, options, _snapshot(cluster, options))
    except Interrupted as told:
        stopped = str(told)
    except ClusterError as error:
        if stage is not None and stage.left:
            error.message = f"{error.message}; and still there in {workload.namespace}: {', '.join(stage.left)}"
        raise
    return _result(proofs, _about_objects(workload, leftovers, stage.left if stage else ()), stopped)


def _workload(options: Mapping[str, t.Any]) -> Workload:
    return Workload(
        namespace=options["workload_namespace"],
        image=options["image"],
        pull_secrets=tuple(options["pull_secrets"]),
        tolerations=tuple(options["tolerations"]),
        node_selector=options["node_selector"],
        run_as_user=options["run_as_user"],
        timeout=options["wait_timeout"],
    )


def _snapshot(cluster: Cluster, options: Mapping[str, t.Any]) -> Snapshot:
    return read_snapshot(cluster, namespace=options["namespace"], config_map=options["config_map"], policy=options["policy"])


def _prove(stage: Stage, options: Mapping[str, t.Any], snapshot: Snapshot) -> list[NodeProof]:
    expected = expected_by_cluster(snapshot)
    if options["form"] == DOCUMENT:
        return _prove_document(stage, options, snapshot, expected)
    missing = [_no_node(f"{name} is no GPU node of this cluster", name) for name in unknown_nodes(expected, options["nodes"])]
    subjects = _subjects(options, snapshot, expected)
    if not subjects and not missing:
        return [_no_node("no node of this cluster should share by MPS, so there is nothing to prove")]
    return missing + prove_subjects(stage, snapshot, subjects)


def _subjects(options: Mapping[str, t.Any], snapshot: Snapshot, expected: Sequence[Expected]) -> tuple[Subject, ...]:
    return choose(snapshot, expected, options["nodes"], every=options["per"] == "node")


def _prove_document(stage: Stage, options: Mapping[str, t.Any], snapshot: Snapshot, expected: Sequence[Expected]) -> list[NodeProof]:
    nodes = document_nodes(snapshot, expected, stage.workload)
    if not nodes:
        selector = ", ".join(f"{key}={value}" for key, value in stage.workload.node_selector.items())
        return [_no_node(f"no GPU node has the labels {selector}, so the Deployment cannot run")]
    resource = options["resource"] or document_resource(nodes)
    room = sum(free_replicas(snapshot, one) for one in nodes if one.resource == resource)
    wanted = max(1, min(options["replicas"], room))
    return prove_document(stage, {one.node: one for one in expected}, resource, options["replicas"], wanted)


def _no_node(message: str, node: str = "") -> NodeProof:
    found = finding("proof-without-node", "nodes", message, subject=f"node/{node}" if node else "")
    return NodeProof(node, None, "", 0, False, (found,))


def _would_do(cluster: Cluster, options: Mapping[str, t.Any], workload: Workload) -> dict[str, t.Any]:
    """What a run would create, without creating it; the names come from the server."""
    snapshot = _snapshot(cluster, options)
    expected = expected_by_cluster(snapshot)
    if options["form"] == DOCUMENT:
        nodes = document_nodes(snapshot, expected, workload)
        resource = options["resource"] or document_resource(nodes)
        manifests = [document_deployment(workload, resource, options["replicas"], "check-mode")] if nodes else []
        clients = {one.node: free_replicas(snapshot, one) for one in nodes}
    else:
        subjects = _subjects(options, snapshot, expected)
        manifests = [client_pod(workload, subject, "check-mode") for subject in subjects]
        clients = {subject.node: subject.clients for subject in subjects}
    return {"changed": bool(manifests), "passed": None, "would_create": manifests, "would_use": clients, "nodes": [], "findings": []}


def _about_objects(workload: Workload, leftovers: Sequence[str], left: Sequence[str]) -> list[Finding]:
    found = []
    if leftovers:
        message = f"removed what an earlier proof had left behind in {workload.namespace}: {', '.join(leftovers)}"
        found.append(finding("proof-leftovers", "objects", message, subject=f"namespace/{workload.namespace}"))
    if left:
        message = f"still there in {workload.namespace}: {', '.join(left)}"
        found.append(finding("proof-not-removed", "objects", message, subject=f"namespace/{workload.namespace}"))
    return found


def _result(proofs: Sequence[NodeProof], about_objects: Sequence[Finding], stopped: str) -> dict[str, t.Any]:
    findings = [*about_objects, *(found for proof in proofs for found in proof.findings)]
    errors = [found for found in findings if found.severity == "error"]
    passed = bool(proofs) and not errors and not stopped
    result: dict[str, t.Any] = {
        "changed": any(proof.clients for proof in proofs) or bool(about_objects),
        "passed": passed,
        "nodes": [proof.as_dict() for proof in proofs],
        "findings": [found.as_dict() for found in findings],
    }
    if not passed:
        words = f"{errors[0].message}. {errors[0].remedy}" if errors else "nothing was proven"
        more = f" ({len(errors)} findings in all)" if len(errors) > 1 else ""
        cleared = words if errors else "its clients were removed"
        said = f"The proof was {stopped}; {cleared}" if stopped else f"The proof failed: {words}{more}"
        result.update(failed=True, msg=said)
    return result
