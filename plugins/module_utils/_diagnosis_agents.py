# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: whether an agent's pod is there, up, and runs the content now wanted."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from datetime import datetime, timedelta

from ansible_collections.gpuops.mps.plugins.module_utils._annotations import annotated
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_case import (
    LINK_TOOLKIT,
    Break,
    Case,
    Evidence,
    parse_time,
    pod_subject,
)
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_logs import explain, last_line
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENT_DAEMON_SETS, AGENTS, CONTROL_DAEMON, Container, Pod

APPLIED_ANNOTATION = "gpuops.mps/applied"

CURRENT = "current"
DOUBTFUL = "doubtful"
STALE_CONTENT = "stale"

# A changed ConfigMap reaches a running pod's volume within kubelet's sync period, a minute by default, and as long again
# where kubelet caches ConfigMaps by their age (kubernetes, KubeletConfiguration: syncFrequency, configMapAndSecretChangeDetectionStrategy).
PROJECTION_SECONDS = 120

_IMAGE_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable", "ImageInspectError")
_SIDECAR = "config-manager"
_TOOLKIT_CONTAINER = "toolkit-validation"


def content_state(case: Case, component: str, pod: Pod) -> str:
    """Whether the pod runs the content now wanted: CURRENT, STALE_CONTENT, or DOUBTFUL where only its effect can tell.

    An agent reads its config when it starts; afterwards GFD and the plugin follow the node's label by a signal, the daemon
    follows nothing (k8s-device-plugin, cmd/config-manager: its signal never reaches mps-control-daemon).
    """
    if pod.uid in case.expected.replaced:
        return STALE_CONTENT
    if _younger_than_changes(case, component, pod):
        return CURRENT
    applied = applied_of(case)
    pods = applied.get("pods")
    if isinstance(pods, Mapping) and pods.get(component) == pod.uid and not _restarted_since(applied, pod):
        return _state_by_record(case, component, applied)
    return DOUBTFUL


def _restarted_since(applied: Mapping[str, t.Any], pod: Pod) -> bool:
    """Whether the agent's container has started once more after the record was written: it has read its config anew."""
    recorded, started = parse_time(str(applied.get("at", ""))), parse_time(agent_started(pod))
    return recorded is not None and started is not None and started > recorded


def applied_of(case: Case) -> Mapping[str, t.Any]:
    """What the last verified rollout recorded on the node; empty when there is nothing readable."""
    return annotated(case.node.annotations, APPLIED_ANNOTATION, dict)


def _state_by_record(case: Case, component: str, applied: Mapping[str, t.Any]) -> str:
    same_config = applied.get("config") == case.expected.selection.config
    if same_config and applied.get("content") == case.expected.content:
        return CURRENT
    if component == CONTROL_DAEMON or same_config:
        return STALE_CONTENT
    return DOUBTFUL


def _younger_than_changes(case: Case, component: str, pod: Pod) -> bool:
    """Whether everything the agent reads surely had its present value when it read it.

    Only the daemon misses a changed label; the time of that change is the label owner's last write. An unknown time proves
    nothing, and neither does the same time: the API counts whole seconds.
    """
    config_map, read = case.snapshot.config_map, _surely_read(pod)
    changes = [parse_time(config_map.changed)] if config_map else []
    if component == CONTROL_DAEMON and case.node.config_label:
        changes.append(parse_time(case.node.label_changed))
    return read is not None and all(change is not None and change < read for change in changes)


def _surely_read(pod: Pod) -> datetime | None:
    """The newest time of which it is sure that the agent has read what was written before it.

    A new pod gets the ConfigMap as it is. A container that starts later reads its pod's volume, which may be older.
    """
    created, started = parse_time(pod.created), parse_time(agent_started(pod))
    projected = started - timedelta(seconds=PROJECTION_SECONDS) if started else None
    return max((time for time in (created, projected) if time), default=None)


def agent_started(pod: Pod) -> str:
    """When the agent itself last started: its container where one runs, else the pod. A restarted container reads its config anew."""
    running = (one.started for one in pod.containers if not one.init and one.name != _SIDECAR and one.state == "running" and one.started)
    return next(running, None) or pod.started or pod.created


def check_toolkit(case: Case) -> Break | None:
    """The init container that waits for the NVIDIA container toolkit blocks every agent alike; MPS is not its cause."""
    for component in AGENTS:
        pod = case.pod(component)
        stuck = pod and next((one for one in pod.containers if one.name == _TOOLKIT_CONTAINER and one.state == "running"), None)
        if pod and stuck:
            message = f"the pod {pod.name} still waits in its init container {stuck.name} for the NVIDIA container toolkit"
            evidence = (Evidence(pod_subject(pod), f"status.initContainerStatuses[{stuck.name}].state", "running", "terminated"),)
            return Break(LINK_TOOLKIT, "toolkit-validation-stuck", message, evidence + _last_log(case, pod), passing=case.young(pod.created))
    return None


def check_agent(case: Case, component: str, link: str) -> Break | None:
    """The first thing that keeps the agent's pod from running: its absence, its image, a crash, or that it is not ready."""
    pod = case.pod(component)
    if pod is None:
        return _missing(case, component, link)
    return _image(case, pod, link) or _crash(case, pod, link) or _unready(case, pod, link)


def _missing(case: Case, component: str, link: str) -> Break:
    name = AGENT_DAEMON_SETS[component]
    daemon_set = next((one for one in case.snapshot.daemon_sets if one.component == component), None)
    subject = f"daemonset/{case.snapshot.namespace}/{name}"
    if daemon_set is None:
        message = f"the DaemonSet {name} is not there: the operator has not made it, or is too old for MPS (before v24.3)"
        return Break(link, "agent-daemon-set-missing", message, (Evidence(subject, "metadata.name", "absent", name),))
    terminating = any(pod.terminating for pod in case.snapshot.pods_of(case.node.name, component))
    evidence = Evidence(subject, "status.desiredNumberScheduled", str(daemon_set.desired), f"a pod on {case.node.name}")
    message = f"no {name} pod runs on {case.node.name}"
    return Break(link, "agent-pod-missing", message, (evidence,), passing=terminating or case.young(case.node.created))


def _image(case: Case, pod: Pod, link: str) -> Break | None:
    for container in pod.containers:
        if container.reason in _IMAGE_REASONS:
            message = f"the pod {pod.name} cannot pull the image of its container {container.name} ({container.reason})"
            return Break(link, "agent-image-pull", message, (_waiting(pod, container),))
    return None


def _crash(case: Case, pod: Pod, link: str) -> Break | None:
    container = next((one for one in pod.containers if _crash_loops(one)), None)
    if container is None:
        return None
    reason = explain(case.log_lines(pod))
    code = f" with exit code {container.last_exit_code}" if container.last_exit_code is not None else ""
    message = f"the container {container.name} of {pod.name} crashes again and again ({container.restarts} restarts{code})"
    evidence = (_waiting(pod, container),)
    if reason is None:
        return Break(link, "agent-crash-loop", message, evidence + _last_log(case, pod))
    log = Evidence(pod_subject(pod), f"log of {reason.key.container}", reason.line)
    return Break(link, reason.code, f"{message}: {reason.words}", (*evidence, log))


def _crash_loops(container: Container) -> bool:
    """One restart is no loop: the daemon's sidecar exits once after every change up to plugin v0.18.1."""
    if container.reason == "CrashLoopBackOff":
        return True
    failed = container.last_exit_code not in (None, 0)
    return not container.ready and container.state != "terminated" and failed and container.restarts >= 2


def _unready(case: Case, pod: Pod, link: str) -> Break | None:
    if pod.ready:
        return None
    container = next((one for one in pod.containers if not one.ready and not (one.init and one.state == "terminated")), None)
    where = f": its container {container.name} is {container.reason or container.state}" if container else f" ({pod.reason or pod.phase})"
    evidence = (_waiting(pod, container),) if container else (Evidence(pod_subject(pod), "status.phase", pod.phase, "Running"),)
    message = f"the pod {pod.name} is not ready{where}"
    return Break(link, "agent-not-ready", message, evidence + _last_log(case, pod), passing=case.young(pod.created, pod.started))


def stale(case: Case, pod: Pod, link: str, evidence: tuple[Evidence, ...] = (), *, passing: bool = False) -> Break:
    """The agent still runs content that is not the one now wanted; with C(passing) it may only not have shown it yet."""
    applied = applied_of(case)
    record = Evidence(case.subject, f"metadata.annotations[{APPLIED_ANNOTATION}]", str(applied.get("content", "absent")), str(case.expected.content))
    config_map = case.snapshot.config_map
    changed = config_map.changed if config_map and config_map.changed else "unknown"
    wanted = f"a pod made after the ConfigMap's last change ({changed}), or a container started {PROJECTION_SECONDS} s after it"
    start = Evidence(pod_subject(pod), "started", agent_started(pod), wanted)
    message = f"the pod {pod.name} still runs older content than the ConfigMap holds: an agent reads its config only when it starts"
    return Break(link, "agent-stale", message, (start, record, *evidence), passing=passing, stale=True)


def _waiting(pod: Pod, container: Container) -> Evidence:
    kind = "initContainerStatuses" if container.init else "containerStatuses"
    value = " ".join(part for part in (container.state, container.reason, container.message or container.last_message) if part)
    return Evidence(pod_subject(pod), f"status.{kind}[{container.name}]", value, "ready")


def _last_log(case: Case, pod: Pod) -> tuple[Evidence, ...]:
    found = last_line(case.log_lines(pod))
    return () if found is None else (Evidence(pod_subject(pod), f"log of {found[0].container}", found[1]),)
