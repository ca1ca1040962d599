# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mps_info and mps_plan_info on the lab."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.quiet_bed import Run
from tests.integration.rights import signed_in
from tests.testbed.bed import TestBed

GPU_NODES = ["gpu-a100-1", "gpu-h100-1", "gpu-mig-1", "gpu-mixed-1", "gpu-t4-1", "gpu-t4-2", "gpu-v100-1"]
DECLARED: dict[str, Any] = {
    "configs": {"none": {}, "mps-four": {"replicas": 4}},
    "default": "none",
    "node_groups": [{"name": "t4", "config": "mps-four", "nodes": ["gpu-t4-1", "gpu-t4-2"]}],
}


@pytest.fixture(scope="module")
def sharing(worker: str) -> Iterator[TestBed]:
    """A lab of its own (no resource names that other tests left behind) with gpu-t4-1 shared by four, the others exclusive by default."""
    lab = TestBed.start(f"info-{worker}", instant=True)
    lab.install_operator_objects()
    lab.wait_until_settled()
    data = {"none": "version: v1\n", "mps-four": "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"}
    lab.api.post("/api/v1/namespaces/gpu-operator/configmaps", {"metadata": {"name": "mps-configs"}, "data": data})
    lab.api.patch("/api/v1/nodes/gpu-t4-1", {"metadata": {"labels": {"nvidia.com/device-plugin.config": "mps-four"}}})
    policy = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
    lab.api.patch(policy, {"spec": {"devicePlugin": {"config": {"name": "mps-configs", "default": "none"}}}})

    def shared() -> bool:
        allocatable = lab.api.get("/api/v1/nodes/gpu-t4-1")["status"]["allocatable"]
        return allocatable.get("nvidia.com/gpu") == "8"

    lab.wait_for("eight shares", shared, seconds=180)
    lab.wait_until_settled()
    yield lab
    lab.stop()


def by_name(nodes: list[dict[str, Any]], key: str = "name") -> dict[str, dict[str, Any]]:
    return {node[key]: node for node in nodes}


def test_info_tells_each_nodes_config_and_where_it_comes_from(sharing: TestBed, run_module: Run) -> None:
    result = run_module(sharing, "mps_info", {})
    nodes = by_name(result["nodes"])
    assert list(nodes) == GPU_NODES
    assert result["summary"]["by_config"] == {"none": 6, "mps-four": 1} and result["summary"]["stale"] == []
    shared, exclusive = nodes["gpu-t4-1"], nodes["gpu-t4-2"]
    assert (shared["config"], shared["source"], shared["running"], shared["allocatable"]) == ("mps-four", "label", "current", {"nvidia.com/gpu": 8})
    assert (exclusive["config"], exclusive["source"], exclusive["allocatable"]) == ("none", "default", {"nvidia.com/gpu": 4})
    assert shared["gpus"]["product"] == exclusive["gpus"]["product"] == "Tesla-T4"
    assert shared["agents"]["mps-control-daemon"]["ready"] and exclusive["agents"]["mps-control-daemon"] is None
    assert result["config_map"]["configs"]["mps-four"]["replicas"] == 4 and not result["config_map"]["configs"]["mps-four"]["managed"]
    assert result["policy"]["config_default"] == "none" and "raw" not in result


def test_info_only_reads_and_needs_few_requests(sharing: TestBed, run_module: Run) -> None:
    mark = sharing.mark()
    run_module(sharing, "mps_info", {"raw": True}, check=True)
    events = [event for event in sharing.audit(mark) if event.user_agent == "gpuops.mps"]
    assert {event.verb for event in events} <= {"get", "list"}
    assert len(events) < 15


def test_infos_nodes_can_be_validated_without_the_cluster(sharing: TestBed, run_module: Run) -> None:
    info = run_module(sharing, "mps_info", {})
    many = {"configs": {"many": {"replicas": 20}}, "node_groups": [{"name": "v", "config": "many", "nodes": ["gpu-v100-1"]}]}
    result = run_module(None, "mps_validate", {**many, "nodes": info["nodes"]})
    assert "replicas-above-cap" in {found["code"] for found in result["findings"]}


def test_a_plan_foretells_what_the_cluster_then_is(sharing: TestBed, run_module: Run) -> None:
    result = run_module(sharing, "mps_plan_info", DECLARED)
    assert result["admitted"] and result["plan_changed"] and not result["changed"]
    nodes = {name: node for node in result["plan"]["nodes"] for name in node["names"]}
    assert nodes["gpu-t4-2"]["label"] == {"before": None, "after": "mps-four"}
    assert nodes["gpu-t4-2"]["allocatable"] == {"before": {"nvidia.com/gpu": 4}, "after": {"nvidia.com/gpu": 16}}
    assert nodes["gpu-t4-2"]["steps"] == ["label", "gpu-feature-discovery", "device-plugin"]
    assert (nodes["gpu-t4-2"]["memory_mib"], nodes["gpu-t4-2"]["thread_percentage"]) == (3840, 25)
    assert nodes["gpu-t4-1"]["steps"] == [] and nodes["gpu-t4-1"]["running"] == "current"
    assert result["plan"]["config_map"]["change"] == [], "a text with the same meaning is left alone"
    assert result["plan"]["summary"]["labels_changed"] == 1
    live = sharing.api.get("/api/v1/nodes/gpu-t4-1")["metadata"]["labels"]
    assert {key: live.get(key) for key in nodes["gpu-t4-1"]["labels"]["after"]} == nodes["gpu-t4-1"]["labels"]["after"]


def test_a_plan_with_errors_is_data_or_a_failure(sharing: TestBed, run_module: Run) -> None:
    wrong = {"configs": {"many": {"replicas": 20}}, "node_groups": [{"name": "v", "config": "many", "nodes": ["gpu-v100-1"]}]}
    data = run_module(sharing, "mps_plan_info", wrong)
    assert not data.get("failed") and not data["admitted"]
    failed = run_module(sharing, "mps_plan_info", {**wrong, "fail_on_error": True})
    assert failed["failed"] and "20 replicas are more than the 16" in failed["msg"] and failed["plan"] == data["plan"]


def test_a_declaration_that_cannot_be_understood_is_a_failure(sharing: TestBed, run_module: Run) -> None:
    result = run_module(sharing, "mps_plan_info", {"configs": {"mps-two": {"replicas": "two"}}})
    assert result["failed"] and {found["code"] for found in result["findings"]} == {"option-type"}


def test_a_kubeconfig_is_looked_up_beside_the_play_and_one_group_holds_for_both_collections(sharing: TestBed, run_ansible: Any, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    shutil.copy(signed_in(sharing, "reader"), tmp_path / "files" / "lab.kubeconfig")
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "module_defaults": {"group/gpuops.mps.mps": {"kubeconfig": "lab.kubeconfig"}},
        "tasks": [
            {"name": "ours", "gpuops.mps.mps_info": {}},
            {"name": "theirs", "kubernetes.core.k8s_info": {"kind": "Namespace", "name": "gpu-operator"}},
        ],
    }
    path = tmp_path / "play.json"
    path.write_text(json.dumps([play]))
    run = run_ansible(str(path), environ={"KUBECONFIG": "/nowhere"})
    assert run.status == 0, run.failure()
    assert run.result("ours")["summary"]["nodes"] == len(GPU_NODES)
    assert len(run.result("theirs")["resources"]) == 1


def test_a_user_without_rights_is_told_which_one(sharing: TestBed, run_module: Run) -> None:
    result = run_module(sharing, "mps_info", {"impersonate_user": "nobody"}, account="admin")
    assert result["failed"] and result["code"] == "cluster-forbidden"
    assert 'User "nobody" cannot list resource "clusterpolicies"' in result["msg"]
    assert "Traceback" not in json.dumps(result)


def test_a_cluster_that_does_not_answer_is_an_error_without_a_traceback(sharing: TestBed, run_module: Run) -> None:
    result = run_module(sharing, "mps_info", {"host": "https://127.0.0.1:1", "api_key": "x"})
    assert result["failed"] and result["code"] == "cluster-unreachable"
    assert "Traceback" not in json.dumps(result)
