# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the links on the node itself: GFD's labels, the daemon and its limits, the plugin, the resource."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_agents import (
    DOUBTFUL,
    STALE_CONTENT,
    agent_started,
    check_agent,
    content_state,
    stale,
)
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_case import (
    LINK_DAEMON,
    LINK_DISCOVERY,
    LINK_LABELS,
    LINK_LIMITS,
    LINK_NODE,
    LINK_PLUGIN,
    LINK_RESOURCE,
    LINK_SCHEDULED,
    Break,
    Case,
    Evidence,
    pod_subject,
)
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_limits import limits_differ
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_logs import failed_start, last_line, waits_for_daemon
from ansible_collections.gpuops.mps.plugins.module_utils._expectation import CAPABLE_LABEL
from ansible_collections.gpuops.mps.plugins.module_utils._gpu import GPU, GPU_SHARED
from ansible_collections.gpuops.mps.plugins.module_utils._prediction import Disagreement, disagreements
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import CONTROL_DAEMON, DEVICE_PLUGIN, FEATURE_DISCOVERY, Pod

RESOURCES = (GPU, GPU_SHARED)
COUNT_LABEL = "nvidia.com/gpu.count"
MIG_STATE_LABEL = "nvidia.com/mig.config.state"
DEPLOY_LABELS = ("nvidia.com/gpu.deploy.device-plugin", "nvidia.com/gpu.deploy.gpu-feature-discovery")
OPERANDS_LABEL = "nvidia.com/gpu.deploy.operands"
# What the MIG manager writes into a deploy label while it changes the GPUs' layout.
_PAUSED = "paused-for-mig-change"


def check_node(case: Case) -> Break | None:
    """The node is up and the operator runs its agents there."""
    labels = case.node.labels
    if not case.node.ready:
        return _node_break(case, "node-not-ready", f"the node {case.node.name} is not ready", "status.conditions[Ready]", "False", "True")
    if labels.get(MIG_STATE_LABEL) in ("pending", "rebooting") or any(_PAUSED in labels.get(key, "") for key in DEPLOY_LABELS):
        message = "the MIG manager is changing the GPUs' layout and has paused the agents on this node until it is done"
        value = labels.get(MIG_STATE_LABEL, "absent")
        return _node_break(case, "mig-manager-paused", message, f"metadata.labels[{MIG_STATE_LABEL}]", value, "success", passing=True)
    for key in (OPERANDS_LABEL, *DEPLOY_LABELS):
        if labels.get(key) == "false":
            message = f"the label {key}=false keeps the operator's agents off this node"
            return _node_break(case, "agents-kept-off", message, f"metadata.labels[{key}]", "false", "true")
    return None


def _node_break(case: Case, code: str, message: str, field: str, value: str, expected: str, *, passing: bool = False) -> Break:
    return Break(LINK_NODE, code, message, (Evidence(case.subject, field, value, expected),), passing=passing)


def check_discovery(case: Case) -> Break | None:
    """GPU Feature Discovery runs, with the content now wanted."""
    broken = check_agent(case, FEATURE_DISCOVERY, LINK_DISCOVERY)
    pod = case.pod(FEATURE_DISCOVERY)
    if broken is not None or pod is None:
        return broken
    state, differing = content_state(case, FEATURE_DISCOVERY, pod), differing_labels(case)
    if state == STALE_CONTENT or (state == DOUBTFUL and differing):
        passing = state == DOUBTFUL and case.young(agent_started(pod))
        return stale(case, pod, LINK_DISCOVERY, _label_evidence(case, differing), passing=passing)
    return None


def check_labels(case: Case) -> Break | None:
    """The node's labels are as predicted."""
    discovery = case.pod(FEATURE_DISCOVERY)
    passing = case.young(*((discovery.created, discovery.started) if discovery else ()))
    log = _last_log(case, discovery)
    if COUNT_LABEL not in case.node.labels:
        message = "GPU Feature Discovery runs, but has not labelled the node: its GPUs are unknown"
        evidence = (Evidence(case.subject, f"metadata.labels[{COUNT_LABEL}]", "absent", "the number of GPUs"), *log)
        return Break(LINK_LABELS, "discovery-labels-absent", message, evidence, passing=passing)
    differing = differing_labels(case)
    if not differing:
        return None
    words = ", ".join(f"{key} is {now or 'absent'} and should be {wanted}" for key, (now, wanted) in differing.items())
    code = "daemon-label-by-hand" if list(differing) == [CAPABLE_LABEL] and differing[CAPABLE_LABEL][0] == "true" else "discovery-labels-differ"
    return Break(LINK_LABELS, code, f"the node's labels are not as its config makes them: {words}", (*_label_evidence(case, differing), *log), passing=passing)


def differing_labels(case: Case) -> Mapping[str, tuple[str | None, str]]:
    """The predicted labels that the node does not carry: label -> (is, should be)."""
    return {one.name: (one.actual, one.expected) for one in _disagreements(case) if one.name not in RESOURCES}


def _disagreements(case: Case) -> tuple[Disagreement, ...]:
    prediction = case.expected.prediction
    return disagreements(prediction, case.node.labels, case.node.allocatable) if prediction else ()


def _label_evidence(case: Case, differing: Mapping[str, tuple[str | None, str]]) -> tuple[Evidence, ...]:
    return tuple(Evidence(case.subject, f"metadata.labels[{key}]", now or "absent", wanted) for key, (now, wanted) in differing.items())


def check_scheduled(case: Case) -> Break | None:
    """An MPS control daemon pod is on the node exactly when one belongs there."""
    pod = case.pod(CONTROL_DAEMON)
    if case.expected.daemon and pod is None:
        broken = check_agent(case, CONTROL_DAEMON, LINK_SCHEDULED)
        discovery = case.pod(FEATURE_DISCOVERY)
        if broken is not None and discovery is not None and case.young(discovery.started):
            return Break(broken.link, broken.code, broken.message, broken.evidence, passing=True)
        return broken
    if not case.expected.daemon and pod is not None:
        message = f"the MPS control daemon {pod.name} runs on a node that shares nothing by MPS"
        evidence = Evidence(pod_subject(pod), "spec.nodeName", case.node.name, "no daemon here")
        return Break(LINK_SCHEDULED, "daemon-left-over", message, (evidence,), passing=case.young())
    return None


def check_daemon(case: Case) -> Break | None:
    """The MPS control daemon's pod is up, and the daemon in it has started: the pod has no probe that would tell."""
    if not case.expected.daemon:
        return None
    broken = check_agent(case, CONTROL_DAEMON, LINK_DAEMON)
    pod = case.pod(CONTROL_DAEMON)
    wrong = wrong_resources(case)
    reason = failed_start(case.log_lines(pod)) if pod and wrong else None
    if broken is not None or pod is None or reason is None:
        return broken
    evidence = (Evidence(pod_subject(pod), f"log of {reason.key.container}", reason.line), *_resource_evidence(case, wrong))
    return Break(LINK_DAEMON, reason.code, f"{pod.name} runs, but {reason.words}", evidence)


def check_limits(case: Case) -> Break | None:
    """The daemon answers, and applies the limits of the content now wanted."""
    pod = case.pod(CONTROL_DAEMON)
    if not case.expected.daemon or pod is None:
        return None
    if case.limits is not None:
        return _read_limits(case, pod)
    if content_state(case, CONTROL_DAEMON, pod) == STALE_CONTENT:
        return stale(case, pod, LINK_LIMITS)
    return None


def _read_limits(case: Case, pod: Pod) -> Break | None:
    limits, prediction = case.limits, case.expected.prediction
    if limits is None or prediction is None:
        return None
    if not limits.alive:
        message = f"no MPS control daemon answers in {pod.name}: it has died, and its GPUs may have stayed in EXCLUSIVE_PROCESS"
        return Break(LINK_LIMITS, "daemon-dead", message, (Evidence(pod_subject(pod), "get_default_active_thread_percentage", limits.answer, "an answer"),))
    # A mixed node's memory is predicted for the one model that its labels speak of.
    differing = limits_differ(limits, prediction.thread_percentage, prediction.memory_mib if prediction.exact else None)
    if not differing:
        return None
    words = ", ".join(f"{name} is {now} and should be {wanted}" for name, (now, wanted) in differing.items())
    message = f"the MPS control daemon keeps the limits it started with: {words}"
    evidence = tuple(Evidence(pod_subject(pod), name, now, wanted) for name, (now, wanted) in differing.items())
    return Break(LINK_LIMITS, "daemon-keeps-old-limits", message, evidence, stale=True)


def check_plugin(case: Case) -> Break | None:
    """The device plugin is up with the content now wanted and not waiting for the daemon."""
    broken = check_agent(case, DEVICE_PLUGIN, LINK_PLUGIN)
    pod = case.pod(DEVICE_PLUGIN)
    if broken is not None or pod is None:
        return broken
    wrong = wrong_resources(case)
    state = content_state(case, DEVICE_PLUGIN, pod)
    if state == STALE_CONTENT or (state == DOUBTFUL and wrong):
        daemon = case.pod(CONTROL_DAEMON)
        passing = state == DOUBTFUL and case.young(agent_started(pod), daemon.started if daemon else None)
        return stale(case, pod, LINK_PLUGIN, _resource_evidence(case, wrong), passing=passing)
    return _outside_plugin(case) or _waiting_plugin(case, pod) if wrong else None


def _outside_plugin(case: Case) -> Break | None:
    others = [one for one in case.snapshot.foreign_plugins if one.node in (None, case.node.name)]
    if not others:
        return None
    names = ", ".join(f"{one.kind} {one.namespace}/{one.name}" for one in others)
    message = f"a second device plugin runs beside the operator's and registers the same resource: {names}"
    evidence = tuple(Evidence(f"{one.kind.lower()}/{one.namespace}/{one.name}", "why", one.reason, "no second device plugin") for one in others)
    return Break(LINK_PLUGIN, "second-device-plugin", message, evidence + _resource_evidence(case, wrong_resources(case)))


def _waiting_plugin(case: Case, pod: Pod) -> Break | None:
    reason = waits_for_daemon(case.log_lines(pod))
    if reason is None:
        return None
    daemon = case.pod(CONTROL_DAEMON)
    times = (pod.started, daemon.started if daemon else None)
    evidence = (Evidence(pod_subject(pod), f"log of {reason.key.container}", reason.line), *_resource_evidence(case, wrong_resources(case)))
    message = f"{reason.words}; it asks again every 30 s, and up to 90 s of that is normal"
    return Break(LINK_PLUGIN, reason.code, message, evidence, passing=case.young(*times))


def check_resource(case: Case) -> Break | None:
    """The node offers GPUs times replicas under the right name, and nothing under the other one."""
    wrong = wrong_resources(case)
    if not wrong:
        return None
    pod = case.pod(DEVICE_PLUGIN)
    words = ", ".join(f"{name} is {now} and should be {wanted}" for name, (now, wanted) in wrong.items())
    code = "resource-not-registered" if case.node.allocatable.get(case.expected.resource, 0) == 0 else "resource-differs"
    evidence = _resource_evidence(case, wrong) + _last_log(case, pod)
    daemon = case.pod(CONTROL_DAEMON)
    times = (pod.started if pod else None, daemon.started if daemon else None)
    return Break(LINK_RESOURCE, code, f"the node's allocatable GPUs are wrong: {words}", evidence, passing=case.young(*times))


def wrong_resources(case: Case) -> Mapping[str, tuple[str, str]]:
    """Allocatable resources that are not as predicted: name -> (is, should be).

    Capacity is not looked at: a name that is no longer registered keeps it for five minutes (kubelet, device manager).
    """
    return {one.name: (one.actual or "0", one.expected) for one in _disagreements(case) if one.name in RESOURCES}


def _resource_evidence(case: Case, wrong: Mapping[str, tuple[str, str]]) -> tuple[Evidence, ...]:
    return tuple(Evidence(case.subject, f"status.allocatable[{name}]", now, wanted) for name, (now, wanted) in wrong.items())


def check_prediction(case: Case) -> Break | None:
    """A config that cannot work on these GPUs is not verified by everything failing as predicted."""
    prediction = case.expected.prediction
    problem = next((found for found in prediction.findings if found.severity == "error"), None) if prediction else None
    if problem is None:
        return None
    evidence = (Evidence(case.subject, problem.path, str(case.expected.selection.config)),)
    return Break(LINK_RESOURCE, problem.code, problem.message, evidence, remedy=problem.remedy)


def _last_log(case: Case, pod: Pod | None) -> tuple[Evidence, ...]:
    found = last_line(case.log_lines(pod)) if pod else None
    return () if pod is None or found is None else (Evidence(pod_subject(pod), f"log of {found[0].container}", found[1]),)
