# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: run the clients of a proof, look into them, and remove them whatever happens."""

from __future__ import annotations

import threading
import time
import typing as t
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_reads import MAIN_CONTAINERS
from ansible_collections.gpuops.mps.plugins.module_utils._expectation import Expected
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, finding
from ansible_collections.gpuops.mps.plugins.module_utils._interruption import Interrupted, Interruption
from ansible_collections.gpuops.mps.plugins.module_utils._proof import (
    CONTAINER,
    PASSED,
    PROOF_LABEL,
    Manifest,
    Subject,
    Workload,
    client_pod,
    document_deployment,
)
from ansible_collections.gpuops.mps.plugins.module_utils._proof_client import (
    BLOCKED,
    FAILED,
    PENDING,
    QUESTIONS,
    RUNNING,
    Answers,
    Client,
    answers_of,
    client_of,
    judge_client,
    judge_daemon,
    why_not_running,
)
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import CONTROL_DAEMON, Snapshot

_EXEC_SECONDS = 60.0
_LOG_LINES = 40
_PAUSE_SECONDS = 1.0
_SERVER_ATTEMPTS = 8
# A client that the scheduler or the registry refuses may be accepted a moment later; after this it counts as refused.
_BLOCKED_SECONDS = 45.0
_REMOVE_SECONDS = 60.0
# So many client pods at once; a proof of every node of a fleet goes in waves.
MOST_PODS = 200


@dataclass(frozen=True)
class NodeProof:
    """What the proof found on one node. C(limits) are the answers of its clients, as they were given."""

    node: str
    config: str | None
    resource: str
    clients: int
    together: bool
    findings: tuple[Finding, ...]
    limits: Mapping[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against the node."""
        return not any(found.severity == "error" for found in self.findings)

    def as_dict(self) -> dict[str, t.Any]:
        """The proof as plain data for a module's result."""
        return {
            "node": self.node,
            "passed": self.passed,
            "config": self.config,
            "resource": self.resource,
            "clients": self.clients,
            "together": self.together,
            "limits": dict(self.limits),
            "findings": [found.as_dict() for found in self.findings],
        }


class Stage:
    """The namespace in which one run's clients come and go. Use as a context manager: leaving it removes them.

    A signal may end the main thread's waiting while other threads still create clients, so removing begins when they have answered.
    """

    def __init__(self, cluster: Cluster, workload: Workload, interruption: Interruption) -> None:
        self.cluster = cluster
        self.workload = workload
        self.interruption = interruption
        self.run = uuid.uuid4().hex[:12]
        self.left: tuple[str, ...] = ()  # what could not be removed
        self._creating = 0
        self._closed = False
        self._condition = threading.Condition()
        self._pods = f"/api/v1/namespaces/{workload.namespace}/pods"
        self._deployments = f"/apis/apps/v1/namespaces/{workload.namespace}/deployments"

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_details: object) -> None:
        with self._condition:
            self._closed = True
            self._condition.wait_for(lambda: not self._creating, _REMOVE_SECONDS)
        self.left += self.remove(f"{PROOF_LABEL}={self.run}")

    def remove_leftovers(self) -> tuple[str, ...]:
        """Remove what runs that were killed have left behind; returns what is gone, as kind/name."""
        found = [f"{kind}/{name}" for kind, name, _path in self._objects(PROOF_LABEL)]
        if found:
            self.left = self.remove(PROOF_LABEL)
        kept = {name.partition(" ")[0] for name in self.left}
        return tuple(name for name in found if name not in kept)

    def remove(self, selector: str) -> tuple[str, ...]:
        """Delete everything with the label and wait until it is gone.

        Returns what is still there after a minute, as kind/name with the API's words where it refused.
        """
        deadline = time.monotonic() + _REMOVE_SECONDS
        while True:
            there = self._delete_all(selector)
            if not there or time.monotonic() > deadline:
                return tuple(f"{name} ({reason})" if reason else name for name, reason in there.items())
            time.sleep(_PAUSE_SECONDS)

    def _delete_all(self, selector: str) -> dict[str, str]:
        """Try to delete every object with the label. Returns those that were there, each with why it was refused, "" where it was not."""
        try:
            found = self._objects(selector)
        except ClusterError as error:
            return {f"objects/{selector}": error.message}
        return {f"{kind}/{name}": self._delete(path) for kind, name, path in found}

    def _delete(self, path: str) -> str:
        try:
            self.cluster.delete(path, grace_seconds=0)
        except ClusterError as error:
            return error.message
        return ""

    def _objects(self, selector: str) -> list[tuple[str, str, str]]:
        found = []
        for kind, path in (("deployment", self._deployments), ("pod", self._pods)):
            for item in self.cluster.list(path, label_selector=selector, metadata_only=True).items:
                found.append((kind, item["metadata"]["name"], f"{path}/{item['metadata']['name']}"))
        return found

    def create_pod(self, manifest: Manifest) -> str:
        """Create a client; returns the name that the server gave it."""
        return self._create(self._pods, manifest)

    def create_deployment(self, manifest: Manifest) -> str:
        """Create the document's Deployment; returns the name that the server gave it."""
        return self._create(self._deployments, manifest)

    def _create(self, path: str, manifest: Manifest) -> str:
        with self._condition:
            if self._closed:
                raise Interrupted("the clients are being removed")
            self._creating += 1
        try:
            return str(self.cluster.create(path, manifest)["metadata"]["name"])
        finally:
            with self._condition:
                self._creating -= 1
                self._condition.notify_all()

    def why_no_pods(self, deployment: str) -> str:
        """What keeps a Deployment's pods from being created, "" when nothing is known."""
        found = self.cluster.get(f"{self._deployments}/{deployment}") or {}
        for condition in (found.get("status") or {}).get("conditions") or ():
            if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
                return str(condition.get("message", ""))
        return ""

    def clients(self, enough: Callable[[Sequence[Client]], bool], deadline: float) -> list[Client]:
        """This run's clients once they are C(enough), are refused for good, or the time is up."""
        selector = f"{PROOF_LABEL}={self.run}"
        listing = self.cluster.list(self._pods, label_selector=selector)
        pods = {item["metadata"]["name"]: item for item in listing.items}
        started = time.monotonic()
        version = listing.resource_version
        while True:
            found = [client_of(pod) for pod in pods.values()]
            patience_over = time.monotonic() - started > min(_BLOCKED_SECONDS, self.workload.timeout / 2)
            if enough(found) or _hopeless(found, patience_over) or time.monotonic() >= deadline:
                return found
            self.interruption.check()
            # In slices, because a client that stays blocked sends no event.
            for event in self.cluster.watch(
                self._pods, resource_version=version, label_selector=selector, deadline=min(deadline, time.monotonic() + 2 * _PAUSE_SECONDS)
            ):
                version = event.object.get("metadata", {}).get("resourceVersion", version)
                if event.type == "RELISTED":
                    pods = {item["metadata"]["name"]: item for item in event.object["items"]}
                elif event.type == "DELETED":
                    pods.pop(event.object["metadata"]["name"], None)
                elif event.type in ("ADDED", "MODIFIED"):
                    pods[event.object["metadata"]["name"]] = event.object
                if enough([client_of(pod) for pod in pods.values()]):
                    break

    def ask(self, client: Client, deadline: float) -> Answers:
        """Look into a running client; its log is read again until the sample has passed or the time is up."""
        command = ("/bin/bash", "-c", QUESTIONS)
        answer = self.cluster.execute(self.workload.namespace, client.name, container=CONTAINER, command=command, timeout=_EXEC_SECONDS)
        return answers_of(answer.stdout, self._log(client, deadline))

    def _log(self, client: Client, deadline: float) -> str:
        while True:
            text = self.cluster.logs(self.workload.namespace, client.name, container=CONTAINER, tail_lines=_LOG_LINES)
            if PASSED in text or time.monotonic() >= deadline:
                return text
            time.sleep(_PAUSE_SECONDS)


def _hopeless(clients: Sequence[Client], patience_over: bool) -> bool:
    """Whether no client can change any more: all run, have failed, or stay refused."""
    if not clients or any(client.state == PENDING for client in clients):
        return False
    if any(client.state == BLOCKED for client in clients):
        return patience_over
    return any(client.state == FAILED for client in clients)


def prove_subjects(stage: Stage, snapshot: Snapshot, subjects: Sequence[Subject]) -> list[NodeProof]:
    """The thorough form: several clients at once on each node, in waves where there are many nodes."""
    return [proof for wave in _waves(subjects) for proof in _prove_wave(stage, snapshot, wave)]


def _waves(subjects: Sequence[Subject]) -> Iterator[list[Subject]]:
    wave: list[Subject] = []
    for subject in subjects:
        if wave and sum(one.clients for one in wave) + subject.clients > MOST_PODS:
            yield wave
            wave = []
        wave.append(subject)
    if wave:
        yield wave


def _prove_wave(stage: Stage, snapshot: Snapshot, subjects: Sequence[Subject]) -> list[NodeProof]:
    deadline = time.monotonic() + stage.workload.timeout
    orders = [subject for subject in subjects for _client in range(subject.clients)]
    created = stage.cluster.each(lambda subject: stage.create_pod(client_pod(stage.workload, subject, stage.run)), orders)
    subject_of = {name: subject.node for name, subject in zip(created, orders, strict=True) if isinstance(name, str)}
    refused = {subject.node: result for result, subject in zip(created, orders, strict=True) if isinstance(result, ClusterError)}
    found = stage.clients(lambda clients: sum(client.state == RUNNING for client in clients) >= len(subject_of), deadline) if subject_of else []
    findings, limits = _judge_clients(stage, [(client, _expected_of(subjects, client)) for client in found if client.state == RUNNING], deadline)
    verdicts = []
    for subject in subjects:
        clients = [client for client in found if subject_of.get(client.name) == subject.node]
        verdicts.append((subject, clients, _about_clients(stage, subject, clients, refused.get(subject.node)) + findings.get(subject.node, [])))
    sound = [subject for subject, _clients, against in verdicts if not against]
    daemons = dict(zip((subject.node for subject in sound), stage.cluster.each(lambda one: _look_at_daemon(stage.cluster, snapshot, one), sound), strict=True))
    stage.remove(f"{PROOF_LABEL}={stage.run}")
    return [_node_proof(subject, clients, against, daemons.get(subject.node, ()), limits.get(subject.node, {})) for subject, clients, against in verdicts]


def _expected_of(subjects: Sequence[Subject], client: Client) -> Expected | None:
    return next((subject.expected for subject in subjects if subject.node == client.node), None)


def _about_clients(stage: Stage, subject: Subject, clients: Sequence[Client], refused: ClusterError | None) -> list[Finding]:
    """Why not all clients of a node run, if not."""
    if refused is not None:
        return [refusal(refused.message, f"node/{subject.node}", _remedy(refused))]
    found = [why_not_running(client, stage.workload.timeout) for client in clients if client.state != RUNNING]
    if not found and len(clients) < subject.clients:
        found = [finding("proof-timeout", "clients", f"{len(clients)} of {subject.clients} clients ran on {subject.node}", subject=f"node/{subject.node}")]
    return found


def _node_proof(
    subject: Subject, clients: Sequence[Client], against: Sequence[Finding], daemon: tuple[Finding, ...] | ClusterError, limits: Mapping[str, str]
) -> NodeProof:
    findings = list(against)
    if isinstance(daemon, ClusterError):
        message = f"the MPS control daemon's pod on {subject.node} could not be looked into: {daemon.message}"
        findings.append(finding("proof-not-examined", "daemon", message, subject=f"node/{subject.node}"))
    else:
        findings += daemon
    if not subject.together and not findings:
        message = f"{subject.node} had room for {subject.clients} clients only, so two on one GPU could not be arranged"
        findings.append(finding("proof-not-concurrent", "clients", message, subject=f"node/{subject.node}"))
    running = sum(client.state == RUNNING for client in clients)
    expected = subject.expected
    return NodeProof(subject.node, expected.selection.config, expected.resource, running, subject.together, once_per_kind(findings), limits)


def once_per_kind(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The clients of a node mostly have the same trouble: told once, with how many more have it."""
    by_kind: dict[tuple[str, str], list[Finding]] = {}
    for found in findings:
        by_kind.setdefault((found.code, found.path), []).append(found)
    more = {kind: f" (and {len(same) - 1} more)" if len(same) > 1 else "" for kind, same in by_kind.items()}
    return tuple(replace(same[0], message=f"{same[0].message}{more[kind]}") for kind, same in by_kind.items())


def refusal(message: str, subject: str, remedy: str | None = None) -> Finding:
    """Admission refused a client: the message of the API names the policy or quota."""
    return finding("proof-refused", "clients", message, subject=subject, remedy=remedy)


def _remedy(error: ClusterError) -> str | None:
    """What to do where it was not admission that kept a client from being created; None where it was, or a right is missing."""
    return None if error.status in (403, 422) else error.remedy


def _judge_clients(
    stage: Stage, clients: Sequence[tuple[Client, Expected | None]], deadline: float
) -> tuple[dict[str, list[Finding]], dict[str, dict[str, str]]]:
    """By node: the findings about its running clients, and the answers of one of them."""
    findings: dict[str, list[Finding]] = {}
    limits: dict[str, dict[str, str]] = {}
    answers = stage.cluster.each(lambda item: stage.ask(item[0], deadline), clients)
    for (client, expected), answer in zip(clients, answers, strict=True):
        against = findings.setdefault(client.node, [])
        subject = f"node/{client.node}"
        if isinstance(answer, ClusterError):
            against.append(finding("proof-not-examined", "clients", f"{client.name} could not be looked into: {answer.message}", subject=subject))
        elif expected is None:
            message = f"the scheduler chose {client.node}, which is no GPU node of the operator"
            against.append(finding("proof-without-node", "clients", message, subject=subject))
        else:
            against += judge_client(client, answer, expected)
            limits[client.node] = {"thread_percentage": answer.percentage, "memory": answer.memory, "pipe_directory": answer.pipe_directory}
    return findings, limits


def _look_at_daemon(cluster: Cluster, snapshot: Snapshot, subject: Subject) -> tuple[Finding, ...]:
    """While the clients run: compute modes and servers, as the daemon's own pod sees them. Raises ClusterError when nobody can be asked."""
    daemons = [pod for pod in snapshot.pods_of(subject.node, CONTROL_DAEMON) if not pod.terminating]
    if not daemons:
        message = f"no MPS control daemon pod runs on {subject.node}"
        return (finding("proof-daemon-dead", "daemon", message, subject=f"node/{subject.node}"),)

    def execute(command: str) -> str:
        pod, container = daemons[-1], MAIN_CONTAINERS[CONTROL_DAEMON]
        shell = ("sh", "-c", f"{command} 2>&1 || true")
        return cluster.execute(pod.namespace, pod.name, container=container, command=shell, timeout=_EXEC_SECONDS).stdout

    modes = execute("nvidia-smi --query-gpu=compute_mode --format=csv,noheader")
    servers = _servers(lambda: execute(f"echo get_server_list | CUDA_MPS_PIPE_DIRECTORY=/mps/{subject.expected.resource}/pipe nvidia-cuda-mps-control"))
    return judge_daemon(subject.node, modes, servers)


def _servers(ask: Callable[[], str]) -> str:
    """The daemon's servers; a server that is just starting is given a few seconds."""
    for _attempt in range(_SERVER_ATTEMPTS):
        servers = ask()
        if servers.strip():
            return servers
        time.sleep(_PAUSE_SECONDS)
    return ""


def prove_document(stage: Stage, nodes: Mapping[str, Expected], resource: str, replicas: int, wanted: int) -> list[NodeProof]:
    """The document's form: its Deployment, its log, its two questions. C(wanted) of the replicas can run at the same time."""
    deadline = time.monotonic() + stage.workload.timeout
    try:
        name = stage.create_deployment(document_deployment(stage.workload, resource, replicas, stage.run))
    except ClusterError as error:
        return [NodeProof("", None, resource, 0, False, (refusal(error.message, stage.workload.namespace, _remedy(error)),))]
    clients = stage.clients(lambda found: sum(client.state == RUNNING for client in found) >= wanted, deadline)
    running = [client for client in clients if client.state == RUNNING]
    findings, limits = _judge_clients(stage, [(client, nodes.get(client.node)) for client in running], deadline)
    proofs = []
    for node in sorted(findings):
        count = sum(client.node == node for client in running)
        config = nodes[node].selection.config if node in nodes else None
        proofs.append(NodeProof(node, config, resource, count, count > 1, once_per_kind(findings[node]), limits.get(node, {})))
    if len(running) < wanted:
        proofs.append(_missing_clients(stage, name, resource, clients, wanted - len(running)))
    return proofs


def _missing_clients(stage: Stage, deployment: str, resource: str, clients: Sequence[Client], missing: int) -> NodeProof:
    stuck = [client for client in clients if client.state != RUNNING]
    findings = [why_not_running(client, stage.workload.timeout) for client in stuck[:missing]]
    if not stuck:
        words = stage.why_no_pods(deployment)
        subject = f"deployment/{stage.workload.namespace}/{deployment}"
        late = finding("proof-timeout", "clients", f"{missing} clients were not created after {stage.workload.timeout} s", subject=subject)
        findings = [refusal(words, subject) if words else late]
    return NodeProof("", None, resource, 0, False, once_per_kind(findings))
