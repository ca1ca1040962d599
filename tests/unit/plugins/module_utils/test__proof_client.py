# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._expectation import expected_by_cluster
from ansible_collections.gpuops.mps.plugins.module_utils._proof_client import (
    BLOCKED,
    FAILED,
    PENDING,
    RUNNING,
    Answers,
    Client,
    answers_of,
    client_of,
    judge_client,
    judge_daemon,
    why_not_running,
)
from tests.unit.clusters import snapshot

EXPECTED = expected_by_cluster(snapshot())[0]
CLIENT = Client("mps-proof-x", "gpu-1", RUNNING)
PIPE = "/mps/nvidia.com/gpu/pipe"
GOOD = Answers("Test PASSED\nDone", PIPE, "25.0", "3840M")


def pod(phase: str = "Running", node: str | None = "gpu-1", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "mps-proof-x"}, "spec": {"nodeName": node} if node else {}, "status": {"phase": phase, **status}}


def waiting(reason: str) -> list[dict[str, Any]]:
    return [{"state": {"waiting": {"reason": reason, "message": "because"}}}]


READY = [{"type": "Ready", "status": "True"}]
UNSCHEDULED = [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]
PODS = [
    (pod(conditions=READY), RUNNING, ""),
    (pod(conditions=[{"type": "Ready", "status": "False"}]), PENDING, ""),
    (pod("Pending", None), PENDING, ""),
    (pod("Pending", None, conditions=UNSCHEDULED), BLOCKED, "proof-not-scheduled"),
    (pod("Pending", containerStatuses=waiting("ContainerCreating")), PENDING, ""),
    (pod("Pending", containerStatuses=waiting("ImagePullBackOff")), BLOCKED, "proof-image-pull"),
    (pod("Pending", containerStatuses=waiting("InvalidImageName")), FAILED, "proof-image-pull"),
    (pod(containerStatuses=waiting("CrashLoopBackOff")), FAILED, "proof-workload-failed"),
    (pod("Failed", reason="UnexpectedAdmissionError", message="Allocate failed"), FAILED, "proof-workload-failed"),
    (pod("Failed", containerStatuses=[{"state": {"terminated": {"exitCode": 137}}}]), FAILED, "proof-workload-failed"),
    (pod("Succeeded"), FAILED, "proof-workload-failed"),
]


@pytest.mark.parametrize(("found", "state", "code"), PODS)
def test_a_pod_is_read_as_a_client(found: dict[str, Any], state: str, code: str) -> None:
    client = client_of(found)
    assert (client.state, client.code) == (state, code)
    reason = why_not_running(client, 60)
    assert reason.code == (code or "proof-timeout") and reason.remedy


def codes(answers: Answers) -> list[str]:
    return [found.code for found in judge_client(CLIENT, answers, EXPECTED)]


def test_a_client_under_mps_with_the_right_limits_proves_it() -> None:
    assert codes(GOOD) == []


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        (Answers("Test PASSED", "", "", ""), ["proof-no-mps-environment"]),
        (Answers("Test PASSED", "/tmp/nvidia-mps", "25.0", "3G"), ["proof-no-mps-environment"]),
        (Answers("Test PASSED", PIPE, "Cannot find MPS control daemon process", ""), ["proof-daemon-dead"]),
        (Answers("Test PASSED", PIPE, "50.0", "7G"), ["proof-limits-differ", "proof-limits-differ"]),
        (Answers("CUDA error 805", PIPE, "25.0", "3840M"), ["proof-workload-failed"]),
        (Answers("", PIPE, "25.0", "3840M"), ["proof-workload-failed"]),
    ],
)
def test_a_passing_sample_alone_proves_nothing(answers: Answers, wanted: list[str]) -> None:
    assert codes(answers) == wanted


def test_the_answers_come_out_of_the_commands_output() -> None:
    assert answers_of(f"pipe={PIPE}\npercentage=25.0\nmemory=3G\n", "log") == Answers("log", PIPE, "25.0", "3G")
    assert answers_of("pipe=\n", "log") == Answers("log", "", "", "")


@pytest.mark.parametrize(
    ("modes", "servers", "wanted"),
    [
        ("Exclusive_Process\nExclusive_Process\n", "4001\n", []),
        ("E. Process\n", "4001\n", []),
        ("Exclusive_Process\nDefault\n", "4001\n", ["proof-not-exclusive"]),
        ("Exclusive_Process\n", "", ["proof-no-server"]),
        ("Default\n", "Cannot find MPS control daemon process\n", ["proof-not-exclusive", "proof-no-server"]),
        ("sh: nvidia-smi: not found\n", "4001\n", []),
    ],
)
def test_the_daemon_shows_exclusive_gpus_and_a_server(modes: str, servers: str, wanted: list[str]) -> None:
    assert [found.code for found in judge_daemon("gpu-1", modes, servers)] == wanted


@given(st.builds(Answers, st.text(), st.text(), st.text(), st.text()))
def test_any_answer_can_be_judged(answers: Answers) -> None:
    assert all(found.severity == "error" for found in judge_client(CLIENT, answers, EXPECTED))
