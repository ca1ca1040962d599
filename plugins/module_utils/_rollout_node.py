# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: one node of a rollout. What is seen on it decides the first link that does not hold yet, and what to do.

The chain on a node (k8s-device-plugin v0.20.0 and gpu-operator v25.3.4): the label selects the config; GPU Feature
Discovery reads it at its start only and sets C(nvidia.com/mps.capable); that label schedules the MPS control daemon,
which never learns of a later change; the device plugin advertises once the daemon answers. Nothing is remembered
between two looks except what stands on the node itself, so the chain goes on wherever a killed run left it.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ansible_collections.gpuops.mps.plugins.module_utils._prediction import Disagreement, Prediction, disagreements
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import BACK, CHANGING, EMPTYING, FAILED, Applied, Former, Mark
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENTS, CONTROL_DAEMON, DEVICE_PLUGIN, FEATURE_DISCOVERY

LINK_GPU_PODS = "gpu-pods"
LINK_LABEL = "label"
LINK_DISCOVERY = FEATURE_DISCOVERY
LINK_FEATURES = "feature-labels"
LINK_DAEMON = CONTROL_DAEMON
LINK_LIMITS = "daemon-limits"
LINK_PLUGIN = DEVICE_PLUGIN
LINK_ALLOCATABLE = "allocatable"
LINK_FINISH = "finish"

UNREADABLE = -1  # the daemon could not be asked, for example without the right to exec; its fresh start is the evidence then
NO_ANSWER = -2  # asked, and nobody was there


@dataclass(frozen=True)
class Target:
    """What a node is to become. C(restart) names the agents whose pods must be replaced.

    C(prediction) is what the config makes of the node, or on the way back what was seen there before.
    """

    label: str | None
    config: str | None
    source: str
    content: str | None
    prediction: Prediction
    restart: tuple[str, ...] = AGENTS


@dataclass(frozen=True)
class AgentPod:
    """One pod of an agent, as far as a rollout looks at it.

    C(trouble) is what keeps it from being ready; C(outdated) tells that its DaemonSet has another template by now.
    """

    namespace: str
    name: str
    uid: str
    ready: bool
    terminating: bool = False
    trouble: str = ""
    outdated: bool = False


@dataclass(frozen=True)
class Seen:
    """One node as it is. C(gpu_pods) is None as long as nobody has looked; C(limits) is the pod's uid and its percentage."""

    name: str
    label: str | None
    features: Mapping[str, str]
    allocatable: Mapping[str, int]
    agents: Mapping[str, tuple[AgentPod, ...]]
    ready: bool = True
    unschedulable: bool = False
    mark: Mark | None = None
    applied: Applied | None = None
    gpu_pods: tuple[tuple[str, str], ...] | None = None  # namespace, name
    limits: tuple[str, int] | None = None


@dataclass(frozen=True)
class MakeRoom:
    """Say in the mark that GPU pods are on their way out and, to drain, make the node unschedulable: one guarded patch."""

    node: str
    mark: Mark
    cordon: bool


@dataclass(frozen=True)
class Evict:
    """Evict GPU pods (namespace, name); a disruption budget may refuse, then it is tried again until the deadline."""

    node: str
    pods: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Begin:
    """Write label and mark in one patch, guarded by the label's old value."""

    node: str
    mark: Mark
    label_before: str | None


@dataclass(frozen=True)
class Restart:
    """Delete one agent's pod, guarded by its uid; its DaemonSet makes a new one."""

    node: str
    component: str
    pod: AgentPod


@dataclass(frozen=True)
class ReadLimits:
    """Ask the daemon in this pod for its thread percentage."""

    node: str
    pod: AgentPod
    resource: str


@dataclass(frozen=True)
class Finish:
    """Record what was verified, take the mark away, undo an own cordon: one patch."""

    node: str
    applied: Applied
    uncordon: bool


@dataclass(frozen=True)
class GiveUp:
    """Leave the reason in the mark and undo an own cordon: one patch."""

    node: str
    mark: Mark
    uncordon: bool


@dataclass(frozen=True)
class Release:
    """Take the mark away from a node that was not touched yet and undo an own cordon: one patch."""

    node: str
    uncordon: bool


Action: t.TypeAlias = "MakeRoom | Evict | Begin | Restart | ReadLimits | Finish | GiveUp | Release"


@dataclass(frozen=True)
class Work:
    """What is to be done with one node. C(breaks) tells that GPU processes running there do not survive it.

    C(labels_known) are the labels that this rollout has seen or written there; any other one is somebody else's.
    C(reason) is why the node is taken back.
    """

    node: str
    rollout: str
    direction: str
    target: Target
    former: Former
    labels_known: frozenset[str | None]
    breaks: bool = True
    disruption: str = "allow"
    reason: str = ""


@dataclass(frozen=True)
class Step:
    """The first link that does not hold, why, and what to do about it now.

    C(hopeless) means that waiting cannot help, C(unseen) that nobody has looked yet, so that nothing can be judged.
    """

    link: str
    reason: str
    action: Action | None = None
    hopeless: bool = False
    unseen: bool = False


def begun(work: Work, mark: Mark | None) -> bool:
    """Whether the node's mark says that exactly this work has begun there."""
    if mark is None or mark.state != CHANGING:
        return False
    same_target = (mark.label, mark.config, mark.content) == (work.target.label, work.target.config, work.target.content)
    return same_target and mark.direction == work.direction and mark.rollout == work.rollout


def next_step(work: Work, seen: Seen, *, room_until: str, change_until: str) -> Step | None:
    """The next step of the work on a node, or None when everything holds and is recorded.

    The deadlines are RFC 3339 text for the mark: until when GPU pods may stay, and until when the change has to be done.
    """
    if seen.label not in work.labels_known:
        wrote = "removed" if seen.label is None else f"set to '{seen.label}'"
        return Step(LINK_LABEL, f"the config label was {wrote} by somebody else during the rollout", hopeless=True)
    if finished(work, seen):
        return None
    if not begun(work, seen.mark):
        return _empty(work, seen, room_until) or _begin(work, seen, change_until)
    return _chain(work, seen) or _finish(work, seen)


def finished(work: Work, seen: Seen) -> bool:
    """Whether the node carries the record that this work ended well."""
    if seen.mark is not None or seen.applied is None or seen.label != work.target.label:
        return False
    applied = seen.applied
    same = (applied.rollout, applied.config, applied.content) == (work.rollout, work.target.config, work.target.content)
    return same and applied.returned == (work.direction == BACK)


def _empty(work: Work, seen: Seen, deadline: str) -> Step | None:
    """The step that gets running GPU pods out of the way, by the user's choice."""
    if not work.breaks or work.disruption == "allow":
        return None
    if seen.gpu_pods is None:
        return Step(LINK_GPU_PODS, "the node's GPU pods have not been read yet", unseen=True)
    names = ", ".join(f"{namespace}/{name}" for namespace, name in seen.gpu_pods)
    if not seen.gpu_pods and work.disruption != "drain":
        return None
    if work.disruption == "refuse":
        return Step(LINK_GPU_PODS, f"GPU pods have started since the plan was made: {names}", hopeless=True)
    if not _room_is_made(work, seen):
        room = MakeRoom(seen.name, _mark(work, seen, EMPTYING, deadline), cordon=work.disruption == "drain" and not seen.unschedulable)
        return Step(LINK_GPU_PODS, "the node is about to be emptied", room)
    if not seen.gpu_pods:
        return None
    if work.disruption == "drain":
        return Step(LINK_GPU_PODS, f"GPU pods are being evicted: {names}", Evict(seen.name, seen.gpu_pods))
    return Step(LINK_GPU_PODS, f"GPU pods are still running: {names}")


def room_is_being_made(work: Work, mark: Mark) -> bool:
    """Whether the node's mark says that GPU pods are on their way out for this work."""
    return mark.state == EMPTYING and (mark.rollout, mark.direction) == (work.rollout, work.direction)


def _room_is_made(work: Work, seen: Seen) -> bool:
    if seen.mark is None or not room_is_being_made(work, seen.mark):
        return False
    return seen.unschedulable or work.disruption != "drain"


def _begin(work: Work, seen: Seen, deadline: str) -> Step:
    mark = _mark(work, seen, CHANGING, deadline)
    return Step(LINK_LABEL, "the config label is about to be written", Begin(seen.name, mark, seen.label))


def _mark(work: Work, seen: Seen, state: str, deadline: str) -> Mark:
    """The mark for this work. A cordon made by an earlier run of this collection stays our own."""
    before = seen.mark
    cordons = state == EMPTYING and work.disruption == "drain" and not seen.unschedulable
    return Mark(
        rollout=work.rollout,
        direction=work.direction,
        state=state,
        label=work.target.label,
        config=work.target.config,
        content=work.target.content,
        former=work.former,
        replaced={component: _newest_uid(seen, component) for component in work.target.restart},
        deadline=deadline,
        cordoned=cordons or (before is not None and before.cordoned),
        touched=state == CHANGING or (before is not None and before.touched),
        reason=work.reason,
    )


def _newest_uid(seen: Seen, component: str) -> str:
    pods = [pod for pod in seen.agents.get(component, ()) if not pod.terminating]
    return pods[-1].uid if pods else ""


def _chain(work: Work, seen: Seen) -> Step | None:
    """The first link of the chain on the node that does not hold."""
    return (
        _agent(work, seen, FEATURE_DISCOVERY)
        or _features(work, seen)
        or (_agent(work, seen, CONTROL_DAEMON) or _limits(work, seen) if work.target.prediction.daemon else _no_daemon(seen))
        or _agent(work, seen, DEVICE_PLUGIN)
        or _allocatable(work, seen)
    )


def _agent(work: Work, seen: Seen, component: str) -> Step | None:
    """The agent's pod replaced where that is needed, and ready.

    A pod from a template that has been replaced since the work began, by an upgrade of the operator for example, is
    replaced once more: while updates are held back nobody else does it.
    """
    pods = seen.agents.get(component, ())
    old = seen.mark.replaced.get(component, "") if seen.mark else ""
    for pod in pods:
        if pod.outdated or (old and pod.uid == old):
            restart = None if pod.terminating else Restart(seen.name, component, pod)
            return Step(component, f"the pod {pod.name} is being replaced", restart)
    standing = [pod for pod in pods if not pod.terminating]
    if not standing:
        return Step(component, f"no {component} pod has appeared on the node")
    if not standing[-1].ready:
        trouble = standing[-1].trouble or "not ready yet"
        return Step(component, f"the pod {standing[-1].name} is not ready: {trouble}")
    return None


def _features(work: Work, seen: Seen) -> Step | None:
    """The labels by which GPU Feature Discovery shows which config it runs."""
    wrong = [one for one in disagreements(work.target.prediction, seen.features, seen.allocatable) if one.name in work.target.prediction.labels]
    return Step(LINK_FEATURES, f"the node's labels are not as predicted: {_wrong(wrong)}") if wrong else None


def _wrong(found: Iterable[Disagreement]) -> str:
    return "; ".join(f"{one.name} is {one.actual or 'absent'}, expected {one.expected}" for one in found)


def _no_daemon(seen: Seen) -> Step | None:
    """Without MPS the daemon's pod must end by itself: only a clean stop sets the GPUs' compute mode back to DEFAULT."""
    pods = seen.agents.get(CONTROL_DAEMON, ())
    if not pods:
        return None
    return Step(CONTROL_DAEMON, f"the MPS control daemon's pod {pods[-1].name} has not ended yet")


def _limits(work: Work, seen: Seen) -> Step | None:
    """The daemon answers with the new limits: a ready pod alone may still run those of the former config."""
    wanted = work.target.prediction.thread_percentage
    if wanted is None:
        return None
    pod = [pod for pod in seen.agents.get(CONTROL_DAEMON, ()) if not pod.terminating][-1]
    ask = ReadLimits(seen.name, pod, _shared_resource(work))
    if seen.limits is None or seen.limits[0] != pod.uid:
        return Step(LINK_LIMITS, f"the daemon in {pod.name} has not been asked yet", ask, unseen=True)
    if seen.limits[1] in (wanted, UNREADABLE):
        return None
    if seen.limits[1] == NO_ANSWER:
        return Step(LINK_LIMITS, f"no MPS control daemon answers in {pod.name}", ask)
    return Step(LINK_LIMITS, f"the daemon in {pod.name} gives {seen.limits[1]} percent of the threads to each client, expected {wanted}", ask)


def _shared_resource(work: Work) -> str:
    """The resource whose daemon is asked: one daemon per shared resource, and this collection shares exactly one."""
    return next((name for name, count in work.target.prediction.resources.items() if count), "nvidia.com/gpu")


def _allocatable(work: Work, seen: Seen) -> Step | None:
    """Allocatable, never capacity: kubelet keeps the capacity of a resource that is gone (kubernetes, devicemanager)."""
    wrong = disagreements(work.target.prediction, seen.features, seen.allocatable)
    return Step(LINK_ALLOCATABLE, f"allocatable is not as predicted: {_wrong(wrong)}") if wrong else None


def _finish(work: Work, seen: Seen) -> Step:
    """Everything holds: what is left is the record."""
    pods = {component: _newest_uid(seen, component) or None for component in AGENTS}
    applied = Applied(
        config=work.target.config,
        content=work.target.content,
        pods=pods,
        rollout=work.rollout,
        at="",  # the edge knows the time
        former=work.former,
        returned=work.direction == BACK,
        reason=work.reason,
        label=work.target.label,
    )
    uncordon = seen.mark is not None and seen.mark.cordoned
    return Step(LINK_FINISH, "everything is as predicted", Finish(seen.name, applied, uncordon))


def give_up(seen: Seen, reason: str) -> GiveUp | None:
    """The action that leaves the reason on a node where the work has begun; None where nothing was written."""
    if seen.mark is None:
        return None
    failed = replace(seen.mark, state=FAILED, cordoned=False, reason=reason)
    return GiveUp(seen.name, failed, uncordon=seen.mark.cordoned)
