# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout says it did, or would do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import content_hash
from ansible_collections.gpuops.mps.plugins.module_utils._plan import KeyChange, PodName, PolicyPlan
from ansible_collections.gpuops.mps.plugins.module_utils._rollout import BROKEN, VERIFIED, WORKING, RolloutState
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_build import forward_state
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import (
    APPLIED_ANNOTATION,
    BACK,
    ROLLOUT_ANNOTATION,
    Applied,
    Former,
    Mark,
    write_annotation,
)
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_result import (
    batch_line,
    batches_data,
    disagreements_found,
    interference_found,
    nodes_data,
    nodes_planned,
    progress_lines,
    rollout_diff,
)
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_return import FormerConfigs
from tests.unit.plugins.module_utils.rollout_model import ClusterSim, text
from tests.unit.plugins.module_utils.test__rollout_build import context_of, make_cluster

OLD, NEW = content_hash(text(2)), content_hash(text(4))


def test_batches_say_what_will_change() -> None:
    """Nodes with labels and resources before and after, the pods that break, the usual time."""
    cluster = make_cluster("n1", "n2", "n3")
    plan = cluster.plan()
    plan = replace(plan, nodes=tuple(replace(node, gpu_pods=(PodName("default", f"pod-{node.node}"),)) for node in plan.nodes))
    state = forward_state(plan, context_of(cluster))
    batches = batches_data(state, plan, pause=30)
    assert [[node["name"] for node in batch["nodes"]] for batch in batches] == [["n1", "n2"], ["n3"]]
    assert batches[0]["gpu_pods"] == ["default/pod-n1", "default/pod-n2"]
    assert batches[0]["estimated_seconds"] == batches[1]["estimated_seconds"] + 30
    assert batches[1]["nodes"][0]["allocatable"] == {"before": {"nvidia.com/gpu": 4}, "after": {"nvidia.com/gpu": 8}}
    last = rollout_diff(plan, batches)[-1]
    assert (
        "batch 2" in last["after_header"]
        and "n3: config a" in last["after"]
        and "nvidia.com/gpu=8" in last["after"]
        and "breaks: default/pod-n3" in last["after"]
    )


@pytest.mark.parametrize(
    ("rollout", "returned", "verdict"),
    [("r1", False, "verified"), ("r1", True, "returned"), ("r0", False, "waiting")],
)
def test_verdicts_come_from_the_nodes(rollout: str, returned: bool, verdict: str) -> None:
    """Only this rollout's own records count."""
    cluster = make_cluster("n1")
    applied = Applied(
        "a", NEW, {}, rollout, "now", Former("a", "a", "label", OLD, True, {}, {"nvidia.com/gpu": 3}), returned, "it did not start" if returned else ""
    )
    cluster.nodes["n1"].annotations[APPLIED_ANNOTATION] = write_annotation(applied)
    found = nodes_data(cluster.plan(), cluster.snapshot(), context_of(cluster).record)[0]
    assert found["verdict"] == verdict
    assert (found["allocatable_before"] == {"nvidia.com/gpu": 3}) is (rollout == "r1")
    assert found["thread_percentage"] == 25 and found["replicas"] == 4


def test_what_is_planned_is_not_told_as_done() -> None:
    """Nothing was written: nodes to come are planned, with what they offer now and will offer; an earlier rollout's numbers do not count."""
    cluster = make_cluster("n1", "n2")
    former = Former("a", "a", "label", OLD, True, {}, {"nvidia.com/gpu": 1})
    for name in ("n1", "n2"):
        cluster.nodes[name].annotations[APPLIED_ANNOTATION] = write_annotation(Applied("a", OLD, {}, "r1", "now", former))
    found = nodes_planned(cluster.plan(), cluster.snapshot(), context_of(cluster).record, {"n1"}, "planned", "why")
    assert [(node["verdict"], node["reason"]) for node in found] == [("planned", "why"), ("verified", "")]
    assert (found[0]["allocatable_before"], found[0]["allocatable_after"]) == ({"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 8})
    assert (found[1]["allocatable_before"], found[1]["allocatable_after"]) == ({"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 4})


def test_a_node_that_is_half_done_is_not_told_as_planned() -> None:
    """The word for what an earlier run has left there says more."""
    cluster = make_cluster("n1")
    mark = Mark("r1", BACK, "changing", "a", "a", OLD, Former("a", "a", "label", OLD, True, {}, {}), {}, "", reason="it did not start")
    cluster.nodes["n1"].annotations[ROLLOUT_ANNOTATION] = write_annotation(mark)
    found = nodes_planned(cluster.plan(), cluster.snapshot(), context_of(cluster).record, {"n1"}, "planned", "")
    assert [(node["verdict"], node["reason"]) for node in found] == [("returning", "it did not start")]


def test_nodes_that_do_not_agree_are_named() -> None:
    """A node that was left out of a content edit runs another text than its label selects."""
    cluster = make_cluster("n1", "n2")
    cluster.data = {"a": text(4)}
    cluster.nodes["n1"].annotations[APPLIED_ANNOTATION] = write_annotation(Applied("a", NEW, {}, "r1", "now"))
    formers = FormerConfigs("map", "", {"a": text(2)})
    found = disagreements_found(cluster.snapshot(), replace(context_of(cluster).record, started="2026-09-21T00:00:00Z"), formers)
    assert [(one.code, one.subject) for one in found] == [("rollout-disagreement", "node/n2")]
    assert OLD in found[0].message and NEW in found[0].message


def ended_cluster() -> ClusterSim:
    """A cluster of two nodes after a rollout that has changed all of it: nothing is left to do."""
    cluster = make_cluster("n1", "n2")
    cluster.data = {"a": text(4)}
    return cluster


@pytest.mark.parametrize(
    ("label", "data", "default", "words"),
    [
        ("other", text(4), "", "the labels of n1"),
        ("a", text(8), "", "the map's keys a"),
        ("a", text(4), "x", "the policy's config"),
        ("other", text(8), "x", "the map's keys a and the labels of n1 and the policy's config"),
    ],
)
def test_what_others_have_changed_is_named(label: str, data: str, default: str, words: str) -> None:
    """The rollout has written all that the plan wants, so what differs at its end was somebody else."""
    cluster = ended_cluster()
    cluster.nodes["n1"].label = label
    cluster.data["a"] = data
    plan = cluster.plan()
    plan = replace(plan, policy=PolicyPlan("cluster-policy", "1", "map", "map", default, ""))
    found = interference_found(plan, cluster.snapshot())
    assert [one.code for one in found] == ["rollout-interfered"]
    assert f"somebody else has changed {words} during the rollout" in found[0].message


def test_what_the_rollout_has_left_itself_is_nobodys_interference() -> None:
    """A node that was taken back keeps its label, and a key is removed only when no node needs it."""
    cluster = ended_cluster()
    plan = cluster.plan()
    assert interference_found(plan, cluster.snapshot()) == ()
    cluster.nodes["n1"].label = "kept"
    cluster.nodes["n1"].annotations[APPLIED_ANNOTATION] = write_annotation(Applied("kept", OLD, {}, "r1", "now", returned=True))
    plan = cluster.plan()
    assert [node.node for node in plan.nodes if node.label_changes] == ["n1"]
    removal = KeyChange("kept", "remove", text(2), None)
    assert interference_found(replace(plan, config_map=replace(plan.config_map, keys=(removal,))), cluster.snapshot()) == ()


def state_with(phases: dict[str, tuple[str, str, float]], direction: str = "forward") -> RolloutState:
    """A state whose nodes are at these phases and links since then."""
    cluster = make_cluster(*phases)
    runs = forward_state(cluster.plan(), context_of(cluster)).runs
    changed = {name: replace(runs[name], phase=phase, link=link, since=since, reason=f"why {name}") for name, (phase, link, since) in phases.items()}
    return RolloutState((tuple(phases),), changed, direction=direction)


def test_progress_names_the_link_and_who_waits_longest() -> None:
    """One line for each link; nodes that are through are not named."""
    phases = {f"n{number}": (WORKING, "device-plugin", 100.0 - number) for number in range(5)} | {"done": (VERIFIED, "", 0.0)}
    assert progress_lines(state_with(phases), 110.0) == ["batch 1 of 1: n0, n1, n2 and 2 more at device-plugin for 14 s: why n4"]


def test_a_batch_is_summed_up() -> None:
    """How many ended how, forward and back."""
    phases = {"n1": (VERIFIED, "", 0.0), "n2": (VERIFIED, "", 0.0), "n3": (BROKEN, "label", 0.0)}
    assert batch_line(state_with(phases), 0) == "batch 1 of 1 ended: 1 broken, 2 verified"
    assert batch_line(state_with(phases, BACK), 0).startswith("way back, batch 1")
