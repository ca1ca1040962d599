# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node: which link does not hold, and what is done about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._prediction import Prediction
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import BACK, CHANGING, EMPTYING, FORWARD, Applied, Former, Mark
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_node import (
    LINK_ALLOCATABLE,
    LINK_DAEMON,
    LINK_DISCOVERY,
    LINK_FEATURES,
    LINK_FINISH,
    LINK_GPU_PODS,
    LINK_LABEL,
    LINK_LIMITS,
    LINK_PLUGIN,
    NO_ANSWER,
    UNREADABLE,
    AgentPod,
    Begin,
    Evict,
    Finish,
    MakeRoom,
    ReadLimits,
    Restart,
    Seen,
    Step,
    Target,
    Work,
    give_up,
    next_step,
)
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import CONTROL_DAEMON, DEVICE_PLUGIN, FEATURE_DISCOVERY

GPU = "nvidia.com/gpu"
REPLICAS = "nvidia.com/gpu.replicas"
FORMER = Former("none", "none", "label", "aaa", False, {REPLICAS: "1"}, {GPU: 2})
TARGET = Target("four", "four", "label", "bbb", Prediction(labels={REPLICAS: "4"}, resources={GPU: 8}, thread_percentage=25, daemon=True))
WORK = Work("gpu-1", "r1", FORWARD, TARGET, FORMER, frozenset({"none", "four"}))
OLD = {FEATURE_DISCOVERY: "f-old", CONTROL_DAEMON: "d-old", DEVICE_PLUGIN: "p-old"}
MARK = Mark("r1", FORWARD, CHANGING, "four", "four", "bbb", FORMER, OLD, "2026-01-01T00:00:00Z", touched=True)


def pod(uid: str, *, ready: bool = True, terminating: bool = False) -> tuple[AgentPod, ...]:
    """The one pod of an agent."""
    return (AgentPod("gpu-operator", f"pod-{uid}", uid, ready, terminating, "" if ready else "container x: CrashLoopBackOff"),)


def seen(**changes: Any) -> Seen:
    """The node when everything holds and only the record is missing; C(agents) changes single ones."""
    agents = {FEATURE_DISCOVERY: pod("f"), CONTROL_DAEMON: pod("d"), DEVICE_PLUGIN: pod("p"), **changes.pop("agents", {})}
    base = Seen("gpu-1", "four", {REPLICAS: "4"}, {GPU: 8}, agents, mark=MARK, limits=("d", 25))
    return replace(base, **changes)


def step(work: Work, node: Seen) -> Step | None:
    """The next step with fixed deadlines."""
    return next_step(work, node, room_until="room", change_until="change")


@pytest.mark.parametrize(
    ("node", "link", "action"),
    [
        (seen(label="none", mark=None), LINK_LABEL, Begin),
        (seen(agents={FEATURE_DISCOVERY: pod("f-old")}), LINK_DISCOVERY, Restart),
        (seen(agents={FEATURE_DISCOVERY: pod("f-old", terminating=True)}), LINK_DISCOVERY, None),
        (seen(agents={FEATURE_DISCOVERY: ()}), LINK_DISCOVERY, None),
        (seen(agents={FEATURE_DISCOVERY: pod("f", ready=False)}), LINK_DISCOVERY, None),
        (seen(features={REPLICAS: "1"}), LINK_FEATURES, None),
        (seen(agents={CONTROL_DAEMON: pod("d-old")}), LINK_DAEMON, Restart),
        (seen(limits=None), LINK_LIMITS, ReadLimits),
        (seen(limits=("d-old", 25)), LINK_LIMITS, ReadLimits),
        (seen(limits=("d", 50)), LINK_LIMITS, ReadLimits),
        (seen(limits=("d", NO_ANSWER)), LINK_LIMITS, ReadLimits),
        (seen(agents={DEVICE_PLUGIN: pod("p-old")}), LINK_PLUGIN, Restart),
        (seen(allocatable={GPU: 2}), LINK_ALLOCATABLE, None),
        (seen(allocatable={GPU: 8, "nvidia.com/gpu.shared": 8}), LINK_ALLOCATABLE, None),
        (seen(), LINK_FINISH, Finish),
        (seen(limits=("d", UNREADABLE)), LINK_FINISH, Finish),
    ],
)
def test_the_chain(node: Seen, link: str, action: type | None) -> None:
    """The first link that does not hold decides; a later one is never touched before it."""
    found = step(WORK, node)
    assert found is not None and found.link == link and found.reason
    assert isinstance(found.action, action or type(None))


def test_the_daemon_must_end_by_itself_without_sharing() -> None:
    """Only a clean stop sets the GPUs' compute mode back to DEFAULT, so its pod is never deleted."""
    target = replace(TARGET, prediction=replace(TARGET.prediction, daemon=False, thread_percentage=None))
    found = step(replace(WORK, target=target), seen(agents={CONTROL_DAEMON: pod("d-old")}))
    assert found is not None and found.link == LINK_DAEMON and found.action is None
    ended = step(replace(WORK, target=target), seen(agents={CONTROL_DAEMON: ()}))
    assert ended is not None and ended.link == LINK_FINISH


def test_nothing_is_left_when_the_record_stands() -> None:
    """Done is what the node itself says."""
    applied = Applied("four", "bbb", {}, "r1", "now", FORMER)
    assert step(WORK, seen(mark=None, applied=applied)) is None
    assert step(WORK, seen(mark=None, applied=replace(applied, rollout="r0"))) is not None
    assert step(WORK, seen(mark=None, applied=replace(applied, returned=True))) is not None
    assert step(replace(WORK, direction=BACK), seen(mark=None, applied=replace(applied, returned=True))) is None


def test_the_begin_notes_what_is_to_be_replaced() -> None:
    """Label, former state and the uids of the pods in one patch, guarded by the label that was seen."""
    found = step(WORK, seen(label="none", mark=None))
    assert found is not None and isinstance(found.action, Begin)
    mark = found.action.mark
    assert (found.action.label_before, mark.label, mark.deadline, mark.touched) == ("none", "four", "change", True)
    assert mark.replaced == {FEATURE_DISCOVERY: "f", CONTROL_DAEMON: "d", DEVICE_PLUGIN: "p"} and mark.former == FORMER


def test_a_foreign_label_is_left_alone() -> None:
    """A label that the rollout does not know is somebody's wish."""
    found = step(WORK, seen(label="theirs"))
    assert found is not None and found.hopeless and found.action is None and "theirs" in found.reason
    removed = step(WORK, seen(label=None))
    assert removed is not None and "removed" in removed.reason


PODS = (("default", "training"),)


@pytest.mark.parametrize(
    ("disruption", "pods", "mark", "cordoned", "action", "hopeless"),
    [
        ("allow", PODS, None, False, Begin, False),
        ("refuse", None, None, False, None, False),
        ("refuse", PODS, None, False, None, True),
        ("refuse", (), None, False, Begin, False),
        ("wait", PODS, None, False, MakeRoom, False),
        ("wait", PODS, EMPTYING, False, None, False),
        ("wait", (), EMPTYING, False, Begin, False),
        ("drain", (), None, False, MakeRoom, False),
        ("drain", PODS, EMPTYING, True, Evict, False),
        ("drain", PODS, EMPTYING, False, MakeRoom, False),
        ("drain", (), EMPTYING, True, Begin, False),
    ],
)
def test_running_pods(disruption: str, pods: Any, mark: str | None, cordoned: bool, action: type | None, hopeless: bool) -> None:
    """Refuse, wait, drain, allow: before the node is touched, and only where GPU processes do not survive."""
    work = replace(WORK, disruption=disruption)
    noted = replace(MARK, state=EMPTYING, touched=False) if mark else None
    found = step(work, seen(label="none", mark=noted, gpu_pods=pods, unschedulable=cordoned))
    assert found is not None and isinstance(found.action, action or type(None)) and found.hopeless is hopeless
    assert found.link == (LINK_LABEL if action is Begin else LINK_GPU_PODS)
    harmless = step(replace(work, breaks=False), seen(label="none", mark=None, gpu_pods=pods))
    assert harmless is not None and isinstance(harmless.action, Begin)


@pytest.mark.parametrize("cordoned_before", [True, False])
def test_only_own_cordons_are_undone(cordoned_before: bool) -> None:
    """Who was cordoned before the rollout stays so, whichever way it ends."""
    work = replace(WORK, disruption="drain")
    first = step(work, seen(label="none", mark=None, gpu_pods=(), unschedulable=cordoned_before))
    assert first is not None and isinstance(first.action, MakeRoom) and first.action.cordon is not cordoned_before
    begin = step(work, seen(label="none", mark=first.action.mark, gpu_pods=(), unschedulable=True))
    assert begin is not None and isinstance(begin.action, Begin)
    mark = replace(begin.action.mark, replaced=OLD)
    finish = step(work, seen(mark=mark, unschedulable=True))
    assert finish is not None and isinstance(finish.action, Finish) and finish.action.uncordon is not cordoned_before
    given_up = give_up(seen(mark=mark, unschedulable=True), "it does not start")
    assert given_up is not None and given_up.uncordon is not cordoned_before and given_up.mark.reason == "it does not start"
    assert give_up(seen(mark=None), "nothing was written") is None
