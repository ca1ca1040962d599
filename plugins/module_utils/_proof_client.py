# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what a client of a proof is and what its answers prove. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_limits import limits_differ, read_limits, read_percentage
from ansible_collections.gpuops.mps.plugins.module_utils._expectation import Expected
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, finding
from ansible_collections.gpuops.mps.plugins.module_utils._proof import PASSED

RUNNING = "running"
PENDING = "pending"
BLOCKED = "blocked"  # on its way, but for a reason that rarely passes
FAILED = "failed"  # it will never run

_IMAGE_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable", "ImageInspectError")
_NEVER = ("InvalidImageName", "ErrImageNeverPull")

# The document's two questions and the variable that tells an MPS client from others, in one command. Without the variable the
# control program would look for a daemon of the host, so it is not asked.
QUESTIONS = (
    'echo "pipe=$CUDA_MPS_PIPE_DIRECTORY"; [ -n "$CUDA_MPS_PIPE_DIRECTORY" ] || exit 0; '
    'echo "percentage=$(echo get_default_active_thread_percentage | nvidia-cuda-mps-control 2>&1)"; '
    'echo "memory=$(echo get_default_device_pinned_mem_limit | nvidia-cuda-mps-control 2>&1)"'
)


@dataclass(frozen=True)
class Client:
    """One client's pod as far as a proof cares. C(code) is the finding for what keeps it from running, "" when nothing does."""

    name: str
    node: str
    state: str
    code: str = ""
    message: str = ""


@dataclass(frozen=True)
class Answers:
    """What was found in a running client: its log, its pipe directory, and the control program's answers."""

    log: str
    pipe_directory: str
    percentage: str
    memory: str


def answers_of(output: str, log: str) -> Answers:
    """The answers in the output of QUESTIONS; what was not answered is empty."""
    found = dict(line.partition("=")[::2] for line in output.splitlines() if "=" in line)
    return Answers(log, found.get("pipe", "").strip(), found.get("percentage", "").strip(), found.get("memory", "").strip())


def client_of(pod: Mapping[str, t.Any]) -> Client:
    """The client that a pod of the proof is, from its API JSON."""
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    name, node = pod["metadata"]["name"], spec.get("nodeName") or ""
    phase = status.get("phase", "Pending")
    if phase in ("Failed", "Succeeded"):
        return _ended(name, node, status)
    if not node:
        return _unscheduled(name, status)
    containers = status.get("containerStatuses") or ()
    for container in containers:
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason", "")
        if reason in _IMAGE_REASONS:
            state = FAILED if reason in _NEVER else BLOCKED
            return Client(name, node, state, "proof-image-pull", f"{reason}: {waiting.get('message', 'the image cannot be pulled')}")
        if reason == "CrashLoopBackOff":
            return Client(name, node, FAILED, "proof-workload-failed", "the sample ends with an error again and again")
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ())
    return Client(name, node, RUNNING if phase == "Running" and ready else PENDING)


def _ended(name: str, node: str, status: Mapping[str, t.Any]) -> Client:
    reason = status.get("reason", "")
    if reason == "UnexpectedAdmissionError":
        return Client(name, node, FAILED, "proof-workload-failed", f"kubelet refused the pod: {status.get('message', reason)}")
    codes = [((one.get("state") or {}).get("terminated") or {}).get("exitCode") for one in status.get("containerStatuses") or ()]
    words = reason or f"exit code {next((code for code in codes if code is not None), 'unknown')}"
    return Client(name, node, FAILED, "proof-workload-failed", f"the sample ended ({words})")


def _unscheduled(name: str, status: Mapping[str, t.Any]) -> Client:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return Client(name, "", BLOCKED, "proof-not-scheduled", condition.get("message", "the scheduler found no node"))
    return Client(name, "", PENDING)


def why_not_running(client: Client, seconds: int) -> Finding:
    """The finding for a client that did not run: its own reason, or that the time was up."""
    code = client.code or "proof-timeout"
    message = client.message or f"the client {client.name} was not running after {seconds} s"
    return finding(code, "clients", message, subject=_subject(client))


def judge_client(client: Client, answers: Answers, expected: Expected) -> tuple[Finding, ...]:
    """What a running client's answers prove: that it computes, that it does so through MPS, and with the predicted limits.

    A sample that passes proves CUDA alone; without the MPS environment the node is time-sliced or exclusive (k8s-device-plugin,
    internal/plugin/mps.go sets the variable and mounts the pipe directory for every resource of a node under MPS).
    """
    subject = _subject(client)
    if not answers.pipe_directory.startswith("/mps/"):
        message = f"CUDA_MPS_PIPE_DIRECTORY is {answers.pipe_directory or 'not set'} in {client.name}: the client does not use MPS"
        return (finding("proof-no-mps-environment", "environment", message, subject=subject),)
    if read_percentage(answers.percentage) is None:
        words = answers.percentage.strip() or "nothing"
        message = f"the MPS control daemon does not answer in {client.name}: {words}"
        return (finding("proof-daemon-dead", "get_default_active_thread_percentage", message, subject=subject),)
    found = list(_limits(client, answers, expected))
    if PASSED not in answers.log:
        last = next((line.strip() for line in reversed(answers.log.splitlines()) if line.strip()), "nothing")
        found.insert(0, finding("proof-workload-failed", "log", f"'{PASSED}' is not in the log of {client.name}; its last line is: {last}", subject=subject))
    return tuple(found)


def _limits(client: Client, answers: Answers, expected: Expected) -> tuple[Finding, ...]:
    prediction = expected.prediction
    limits = read_limits(answers.percentage, answers.memory)
    memory = prediction.memory_mib if prediction and prediction.exact else None
    differing = limits_differ(limits, prediction.thread_percentage if prediction else None, memory)
    return tuple(
        finding("proof-limits-differ", name, f"{name} is {now} in {client.name} and should be {wanted}", subject=_subject(client))
        for name, (now, wanted) in differing.items()
    )


def judge_daemon(node: str, compute_modes: str, servers: str) -> tuple[Finding, ...]:
    """What the MPS control daemon's own pod shows while clients run: every GPU exclusive, and at least one server."""
    found = []
    modes = [line.strip() for line in compute_modes.splitlines() if line.strip() and "not found" not in line]
    wrong = sorted({mode for mode in modes if mode.lower() not in ("exclusive_process", "e. process")})
    if wrong:
        message = f"a GPU of {node} is in the compute mode {', '.join(wrong)} and not in EXCLUSIVE_PROCESS"
        found.append(finding("proof-not-exclusive", "compute_mode", message, subject=f"node/{node}"))
    if not any(line.strip().isdigit() for line in servers.splitlines()):
        message = f"the MPS control daemon of {node} has no server while clients of the proof run"
        found.append(finding("proof-no-server", "get_server_list", message, subject=f"node/{node}"))
    return tuple(found)


def _subject(client: Client) -> str:
    return f"node/{client.node}" if client.node else f"pod/{client.name}"
