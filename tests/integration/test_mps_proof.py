# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof passes on shared GPUs and on nothing else, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.ansible_runs import environment
from tests.integration.rights import bind_role, signed_in
from tests.integration.verifications import DAEMON, MPS_NODES, PLUGIN, configure, fault, label, prove, restart, until, verdicts
from tests.testbed.bed import TestBed

PROOF_LABEL = "gpuops.mps/proof"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"
SLICED, EXCLUSIVE, RELABELLED, DEAD = "gpu-h100-1", "gpu-mig-1", "gpu-a100-1", "gpu-t4-2"


@pytest.fixture(scope="module")
def bed(lab: TestBed) -> Iterator[TestBed]:
    """The lab: MPS everywhere but on a time-sliced and an exclusive node."""
    configure(lab, {**dict.fromkeys(MPS_NODES, "mps-four"), SLICED: "sliced", EXCLUSIVE: None})
    yield lab
    lab.reset()


@pytest.fixture(autouse=True)
def nothing_left(bed: TestBed) -> Iterator[None]:
    yield
    assert not leftovers(bed)


def leftovers(bed: TestBed) -> list[str]:
    """Names of the proof's objects that are still there."""
    return [item["metadata"]["name"] for path in (DEPLOYMENTS, PODS) for item in bed.api.list(path, labelSelector=PROOF_LABEL)]


def codes(result: dict) -> set[str]:
    return {found["code"] for found in result["findings"]}


def test_the_thorough_form_passes_on_the_lab(bed: TestBed) -> None:
    result = prove(bed)
    assert result["passed"] and not result["findings"], result
    proven = {node["node"]: node for node in result["nodes"]}
    assert set(proven) == set(MPS_NODES) - {SLICED}
    assert all(node["together"] and node["clients"] > 1 for node in proven.values())
    assert proven["gpu-t4-1"]["limits"] == {"thread_percentage": "25.0", "memory": "3G", "pipe_directory": "/mps/nvidia.com/gpu/pipe"}


def test_the_documents_form_passes_on_the_lab(bed: TestBed) -> None:
    result = prove(bed, form="document")
    assert result["passed"], result
    assert sum(node["clients"] for node in result["nodes"]) == 5
    assert not {node["node"] for node in result["nodes"]} & {SLICED, EXCLUSIVE}


def test_check_mode_says_what_it_would_do_and_writes_nothing(bed: TestBed) -> None:
    mark = bed.mark()
    result = prove(bed, check=True)
    assert result["changed"] and result["passed"] is None
    assert result["would_use"]["gpu-t4-1"] == 3
    assert all(manifest["kind"] == "Pod" for manifest in result["would_create"])
    written = [event for event in bed.audit(mark) if event.user_agent.startswith("gpuops") and event.verb not in ("get", "list", "watch")]
    assert not written


@pytest.mark.parametrize("node", [SLICED, EXCLUSIVE])
def test_it_fails_where_gpus_are_not_shared_by_mps(bed: TestBed, node: str) -> None:
    result = prove(bed, nodes=[node])
    assert result["failed"] and codes(result) == {"proof-no-mps-environment"}


def test_it_fails_with_a_dead_daemon(bed: TestBed) -> None:
    fault(bed, DEAD, "daemon-killed")
    try:
        result = prove(bed, nodes=[DEAD], wait_timeout=15)
    finally:
        fault(bed, DEAD, None)
        restart(bed, DEAD, DAEMON, PLUGIN)
    assert result["failed"] and codes(result) == {"proof-daemon-dead"}


def test_it_fails_with_old_limits_after_a_relabel(bed: TestBed) -> None:
    label(bed, RELABELLED, "mps-two")
    until(bed, lambda found: verdicts(found)[RELABELLED][0] == "stale", limits="all", patience=30)
    result = prove(bed, nodes=[RELABELLED])
    label(bed, RELABELLED, "mps-four")
    assert result["failed"] and codes(result) == {"proof-limits-differ"}
    assert "25" in result["msg"] and "50" in result["msg"]


def test_an_image_that_cannot_be_pulled_is_no_failure_of_mps(bed: TestBed) -> None:
    fault(bed, "gpu-v100-1", "image-pull")
    try:
        result = prove(bed, nodes=["gpu-v100-1"], wait_timeout=12)
    finally:
        fault(bed, "gpu-v100-1", None)
    assert result["failed"] and codes(result) == {"proof-image-pull"}


def test_a_failing_sample_is_told_with_its_last_line(bed: TestBed) -> None:
    fault(bed, "gpu-v100-1", "vectoradd-fails")
    try:
        result = prove(bed, nodes=["gpu-v100-1"], wait_timeout=8)
    finally:
        fault(bed, "gpu-v100-1", None)
    assert result["failed"] and codes(result) == {"proof-workload-failed"}


def test_clients_that_no_node_takes_are_told_apart(bed: TestBed) -> None:
    result = prove(bed, nodes=["gpu-v100-1"], tolerations=[], wait_timeout=8)
    assert result["failed"] and codes(result) == {"proof-not-scheduled"}


def test_the_thorough_form_fits_the_restricted_level_and_the_documents_does_not(bed: TestBed) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    bed.api.post("/api/v1/namespaces", {"metadata": {"name": "restricted", "labels": labels}})
    try:
        bed.wait_for("the namespace's account", lambda: bed.api.find("/api/v1/namespaces/restricted/serviceaccounts/default"), 30)
        bind_role(bed, "operator", "gpuops-mps-proof-namespace", "restricted")
        assert prove(bed, nodes=["gpu-v100-1"], workload_namespace="restricted")["passed"]
        result = prove(bed, form="document", workload_namespace="restricted", wait_timeout=10)
    finally:
        bed.api.delete("/api/v1/namespaces/restricted")
    assert result["failed"] and codes(result) == {"proof-refused"}
    assert "hostPID" in result["msg"]


def test_a_cluster_without_shared_nodes_proves_nothing(bed: TestBed) -> None:
    result = prove(bed, form="document", node_selector={"nvidia.com/gpu.product": "none-of-these"})
    assert result["failed"] and codes(result) == {"proof-without-node"}
    assert prove(bed, nodes=["cpu-1"])["failed"]


def test_what_a_killed_run_left_is_removed_by_the_next(bed: TestBed) -> None:
    pod = {"metadata": {"name": "left", "labels": {PROOF_LABEL: "older"}}, "spec": {"containers": [{"name": "c", "image": "pause"}]}}
    bed.api.post(PODS, pod)
    result = prove(bed, nodes=["gpu-v100-1"])
    assert result["passed"] and codes(result) == {"proof-leftovers"}


def test_the_playbook_verify_proves_and_reports(bed: TestBed, run_ansible: Callable[..., Any], tmp_path: Path) -> None:
    variables = {"mps_verification_nodes": ["gpu-v100-1"], "mps_report_folder": str(tmp_path / "reports")}
    run = run_ansible("gpuops.mps.verify", bed, variables=variables)
    assert run.status == 0, run.failure()
    report = json.loads(next((tmp_path / "reports").glob("*.json")).read_text())
    assert (report["state"], report["proof"]) == ("clean", "passed")
    assert [(node["name"], node["proof"]) for node in report["nodes"]] == [("gpu-v100-1", "passed")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_removes_its_clients(bed: TestBed, tmp_path: Path, number: signal.Signals) -> None:
    fault(bed, "gpu-v100-1", "image-pull")  # keeps the clients waiting until the signal comes
    arguments = "nodes=gpu-v100-1 wait_timeout=120"
    command = [str(Path(sys.executable).parent / "ansible"), "localhost", "-c", "local", "-m", "gpuops.mps.mps_proof", "-a", arguments]
    run = subprocess.Popen(
        command, env=environment(signed_in(bed, "operator")), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        bed.wait_for("clients of the proof", lambda: leftovers(bed), 60)
        os.killpg(run.pid, number)
        run.wait(timeout=90)
        deadline = time.monotonic() + 30
        while leftovers(bed) and time.monotonic() < deadline:
            time.sleep(0.5)
    finally:
        fault(bed, "gpu-v100-1", None)
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
    assert not leftovers(bed)
