# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verification costs the same for any number of nodes, needs a reader's rights only, and sees what has drifted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integration.observation import GPU_CLUSTERS
from tests.integration.verifications import (
    MPS_NODES,
    POLICY,
    SharingConfig,
    Strategy,
    configure,
    label,
    verdicts,
    verify,
    write_config,
    write_map,
)
from tests.testbed.bed import TestBed

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GPU_CLUSTER = {"apiVersion": "nvidia.com/v1alpha1", "kind": "GPUCluster", "metadata": {"name": "gpu-cluster"}}
DECLARED: dict[str, Any] = {
    "mps_configs": {"none": {}, "mps-four": {"replicas": 4}},
    "mps_default": "none",
    "mps_node_groups": [{"name": "shared", "config": "mps-four", "nodes": list(MPS_NODES)}],
}


def requests(bed: TestBed, **options: Any) -> Counter[tuple[str, str, str]]:
    """How often each kind of request was made by one verification; the pages of a list count as one."""
    mark = bed.mark()
    verify(bed, **options)
    made = [(event.verb, event.resource, event.name) for event in bed.audit(mark) if event.user_agent.startswith("gpuops")]
    return Counter(one for one in made if one[0] != "list") + Counter({one for one in made if one[0] == "list"})


def plain_node(number: int) -> dict[str, Any]:
    labels = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "1", "nvidia.com/gpu.product": "Tesla-T4"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"many-{number:04d}", "labels": labels}}


@pytest.fixture(scope="module")
def bare(worker: str) -> Iterator[TestBed]:
    """A cluster on which no operator is installed, with nodes that carry the operator's label."""
    started = TestBed.start(f"bare-{worker}", operator=False, agents=False)
    try:
        yield started
    finally:
        started.stop()


def test_hundreds_of_nodes_cost_no_more_requests_than_three(bare: TestBed) -> None:
    counts = []
    for numbers in (range(3), range(3, 600)):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: bare.api.post("/api/v1/nodes", plain_node(number)), numbers))
        counts.append(requests(bare, account="admin"))
    (alike,) = verify(bare, account="admin")["nodes"]
    assert len(alike["names"]) == 600, "nodes that are alike are told once"
    assert counts[0] == counts[1] and counts[0].total() < 15


def test_without_a_policy_the_first_broken_link_is_the_policy(bare: TestBed) -> None:
    """No operator at all, and one that is set up by a GPUCluster in place of a ClusterPolicy."""
    bare.api.post("/api/v1/nodes", {**plain_node(600), "metadata": {**plain_node(600)["metadata"], "name": "alone"}})
    assert verdicts(verify(bare, account="admin", nodes=["alone"])) == {"alone": ("broken", "policy", "policy-absent")}
    bare.api.post(DEFINITIONS, GPU_CLUSTERS)
    bare.wait_for("the API for GPUClusters", lambda: bare.api.post("/apis/nvidia.com/v1alpha1/gpuclusters", GPU_CLUSTER), 30)
    found = verify(bare, account="admin", nodes=["alone"])["nodes"][0]
    assert (found["verdict"], found["link"], found["code"]) == ("broken", "policy", "policy-replaced-by-gpu-cluster")
    assert found["evidence"][0]["subject"] == "gpucluster/gpu-cluster"


@pytest.fixture(scope="module")
def bed(lab: TestBed) -> Iterator[TestBed]:
    configure(lab, {**dict.fromkeys(MPS_NODES, "mps-four"), "gpu-mig-1": None})
    yield lab
    lab.reset()


def test_the_playbook_drift_reads_only_and_its_status_says_whether_all_is_as_declared(bed: TestBed, run_ansible: Callable[..., Any], tmp_path: Path) -> None:
    variables = {**DECLARED, "mps_report_folder": str(tmp_path / "reports")}
    # Texts as this collection writes them; they mean what the agents have read, so nothing need be restarted.
    texts = {"none": write_config(SharingConfig("none", Strategy.NONE)), "mps-four": write_config(SharingConfig("mps-four", Strategy.MPS, 4))}
    write_map(bed, texts)
    mark = bed.mark()
    run = run_ansible("gpuops.mps.drift", bed, variables=variables)
    assert run.status == 0, run.failure()
    written = [event for event in bed.audit(mark) if event.user_agent.startswith("gpuops") and event.verb not in ("get", "list", "watch")]
    assert not written
    assert {path.suffix for path in (tmp_path / "reports").iterdir()} == {".json", ".md", ".html", ".xml"}
    label(bed, "gpu-t4-1", "none")
    try:
        run = run_ansible("gpuops.mps.drift", bed, variables=variables)
    finally:
        label(bed, "gpu-t4-1", "mps-four")
    assert run.status != 0 and "label-differs" in json.dumps(run.result("Look at every GPU node")["nodes"])
    report = next((tmp_path / "reports").glob("*.html")).read_text()
    assert "label-differs" in report


def test_a_policy_that_was_put_back_is_drift_and_names_who_did_it(bed: TestBed) -> None:
    applied = json.dumps({"config": "mps-four", "content": "x", "pods": {}, "rollout": "r", "at": "t"})
    bed.api.patch("/api/v1/nodes/gpu-t4-2", {"metadata": {"annotations": {"gpuops.mps/applied": applied}}})
    declared = {"configs": DECLARED["mps_configs"], "default": "none", "node_groups": DECLARED["mps_node_groups"], "config_map": "mps-configs"}
    put_back = {"spec": {"devicePlugin": {"config": {"name": "", "default": ""}}}}
    bed.api.patch(POLICY, put_back, fieldManager="helm")
    try:
        result = verify(bed, **declared)
    finally:
        bed.api.patch(POLICY, {"spec": {"devicePlugin": {"config": {"name": "mps-configs", "default": "none"}}}})
        bed.api.patch("/api/v1/nodes/gpu-t4-2", {"metadata": {"annotations": {"gpuops.mps/applied": None}}})
    found = [one for one in result["drift"] if one["code"] == "policy-put-back"]
    assert found and "'helm'" in found[0]["message"] and not result["clean"]


def test_waiting_ends_when_the_nodes_are_as_they_should_be(bed: TestBed) -> None:
    configure(bed, {"gpu-t4-1": "mps-four"})
    label(bed, "gpu-t4-1", "none")
    result = verify(bed, wait=True, wait_timeout=60, patience=30, nodes=["gpu-t4-1"])
    label(bed, "gpu-t4-1", "mps-four")
    assert verdicts(result) == {"gpu-t4-1": ("verified", None, None)}
    again = verify(bed, wait=True, wait_timeout=60, patience=30, nodes=["gpu-t4-1"], fail_on=["broken", "waiting"])
    assert not again.get("failed") and again["nodes"][0]["config"] == "mps-four"


def test_a_name_that_is_no_gpu_node_is_missing(bed: TestBed) -> None:
    result = verify(bed, nodes=["cpu-1"], fail_on=["broken"])
    assert result["failed"] and verdicts(result)["cpu-1"][2] == "node-not-found"
    assert "cpu-1" in result["msg"]


def test_a_declaration_that_cannot_be_used_fails_with_its_findings(bed: TestBed) -> None:
    result = verify(bed, configs={"mps-one": {"replicas": 1}})
    assert result["failed"] and "mps-one" in result["msg"] and result["findings"]
