# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a plan, or from what a rollout has left behind, to batches of work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import content_hash
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._rollout import NodeRun, RolloutState
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_build import (
    Context,
    back_state,
    canary_is_through,
    forward_state,
    going_back,
    nodes_to_change,
    outdated_agents,
    pods_in_the_way_back,
)
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import (
    APPLIED_ANNOTATION,
    BACK,
    ROLLOUT_ANNOTATION,
    Applied,
    Former,
    read_mark,
    write_annotation,
)
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_node import Begin, next_step
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_record import SCOPE_NODE, SCOPE_WHOLE, Record
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_return import FormerConfigs, WayBack, plan_way_back
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_view import see
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENTS, DEVICE_PLUGIN, DaemonSet
from tests.unit.clusters import agent_pod
from tests.unit.plugins.module_utils.rollout_model import AgentSim, ClusterSim, NodeSim, Run, pacing, text

OLD, NEW = content_hash(text(2)), content_hash(text(4))


def make_cluster(*names: str) -> ClusterSim:
    """Nodes on the old text, which is about to be edited."""
    wanted = {"a": text(4)}
    cluster = ClusterSim([], {"a": text(2)}, wanted, dict.fromkeys(names, "a"), PluginVersion(0, 17, 4))
    for name in names:
        cluster.nodes[name] = NodeSim(name, "a", {agent: AgentSim(cluster.new_uid(), OLD) for agent in AGENTS}, frozenset())
    return cluster


def context_of(cluster: ClusterSim, record: Record | None = None) -> Context:
    """The context of a rollout that has written its record and the map already."""
    record = record or Record("r1", "2026-09-21T00:00:00Z", "map", "cluster-policy", "map", "", former_hashes={"a": OLD})
    formers = FormerConfigs("map", "", {"a": text(2)})
    way = plan_way_back(cluster.plan(), ["a"], formers, cluster.data, PluginVersion(0, 17, 4))
    return Context(cluster.snapshot(), record, formers, way, pacing(2, 0), "")


def test_every_node_with_another_content_is_changed_with_all_its_agents() -> None:
    """A content edit reaches no agent without a restart."""
    cluster = make_cluster("n1", "n2", "n3")
    state = forward_state(cluster.plan(), context_of(cluster))
    assert state.batches == (("n1", "n2"), ("n3",))
    assert all(run.work.target.restart == AGENTS and run.way_back is not None for run in state.runs.values())


def test_a_resuming_run_restarts_what_a_planner_cannot_see() -> None:
    """The map is written, labels and resources would look the same: only the record tells that agents run the former text."""
    cluster = make_cluster("n1")
    context = context_of(cluster)
    plan = cluster.plan()
    silent = replace(plan, nodes=tuple(replace(node, steps=(), content_now=NEW) for node in plan.nodes))
    assert [node.node for node in nodes_to_change(silent, context)] == ["n1"]
    applied = Applied("a", NEW, {}, "r1", "now")
    cluster.nodes["n1"].annotations[APPLIED_ANNOTATION] = write_annotation(applied)
    assert nodes_to_change(silent, context_of(cluster)) == ()


def test_nodes_that_are_not_ready_are_left_out() -> None:
    """Nothing could be restarted or seen there."""
    cluster = make_cluster("n1", "n2")
    context = context_of(cluster)
    nodes = tuple(replace(node, ready=node.name == "n2") for node in context.snapshot.nodes)
    assert [one.node for one in nodes_to_change(cluster.plan(), replace(context, snapshot=replace(context.snapshot, nodes=nodes)))] == ["n2"]


def test_a_node_is_not_tried_twice_in_one_rollout() -> None:
    """It was taken back; the failure counts against the limit of every later run of this rollout."""
    cluster = make_cluster("n1", "n2")
    cluster.nodes["n1"].annotations[APPLIED_ANNOTATION] = write_annotation(Applied("a", OLD, {}, "r1", "now", returned=True))
    state = forward_state(cluster.plan(), context_of(cluster))
    assert set(state.runs) == {"n2"} and state.broken_before == 1


def test_half_done_nodes_come_first_and_need_no_canary_again() -> None:
    """Killed in its second batch: what was begun there is ended before anything else."""
    cluster = make_cluster("n1", "n2", "n3")
    run = Run(cluster, pacing(1, 0))
    while read_mark(cluster.nodes["n2"].annotations) is None:
        run.advance()
        for name in cluster.nodes:
            cluster.tick(name)
    record = cluster.record()
    assert record is not None
    context = context_of(cluster, record)
    assert canary_is_through(context.snapshot, record)
    state = forward_state(cluster.plan(), context, skip_canary=True)
    assert state.batches[0] == ("n2",) and "n1" not in state.runs


@pytest.mark.parametrize(("verified", "scope"), [(False, SCOPE_WHOLE), (True, SCOPE_NODE)])
def test_how_far_to_go_back(verified: bool, scope: str) -> None:
    """With nothing verified elsewhere, map and policy go back too."""
    cluster = make_cluster("n1", "n2")
    context = context_of(cluster)
    if verified:
        cluster.nodes["n1"].annotations[APPLIED_ANNOTATION] = write_annotation(Applied("a", NEW, {}, "r1", "now"))
    run = forward_state(cluster.plan(), context).runs["n2"]
    state = RolloutState((("n2",),), {"n2": replace(run, broken="it does not start", broken_link="device-plugin")})
    record = going_back(context.record, state, cluster.snapshot(), WayBack(SCOPE_NODE, "", {}, {}), {"n2": "; the pod says: no"})
    assert (record.direction, record.scope, record.batch) == (BACK, scope, ("n2",))
    assert record.reasons == {"n2": "device-plugin: it does not start; the pod says: no"}


def test_going_back_alone_keeps_the_others_where_they_are() -> None:
    """The failed batch returns; a node whose turn never came gets a label that still means what it runs, and no restart."""
    cluster = make_cluster("n1", "n2", "n3")
    cluster.data = {"a": text(4), f"a-{OLD}": text(2)}
    cluster.nodes["n1"].annotations[APPLIED_ANNOTATION] = write_annotation(Applied("a", NEW, {}, "r1", "now"))
    record = Record("r1", "2026-09-21T00:00:00Z", "map", "cluster-policy", "map", "", BACK, SCOPE_NODE, ("n2",), {"a": OLD})
    context = context_of(cluster, record)
    begin = Begin("n2", run_mark(cluster, context), "a")
    cluster.act(begin)
    state = back_state(context_of(cluster, record))
    assert state.batches == (("n2",), ("n3",))
    assert {name: (run.work.target.label, run.work.target.restart) for name, run in state.runs.items()} == {
        "n2": (f"a-{OLD}", AGENTS),
        "n3": (f"a-{OLD}", ()),
    }


def run_mark(cluster: ClusterSim, context: Context):
    """The mark that the way forward writes on the second node."""
    from ansible_collections.gpuops.mps.plugins.module_utils._rollout_node import next_step

    run: NodeRun = forward_state(cluster.plan(), context).runs["n2"]
    found = next_step(run.work, cluster.world(("n2",))["n2"], room_until="", change_until="")
    assert found is not None and isinstance(found.action, Begin)
    return found.action.mark


def test_pods_from_an_older_template_are_outdated() -> None:
    """By the label that the DaemonSet controller puts on its pods."""
    cluster = make_cluster("n1")
    snapshot = cluster.snapshot()
    sets = tuple(DaemonSet("gpu-operator", "x", agent, "u", 2, 2, 1, 1, 1, 1, "OnDelete", "", "map", template_generation="2") for agent in AGENTS)
    pods = tuple(replace(pod, generation="1" if "daemon" in pod.app else "2") for pod in snapshot.agent_pods)
    assert outdated_agents(replace(snapshot, daemon_sets=sets, agent_pods=pods), "n1") == ("mps-control-daemon", "device-plugin")
    assert outdated_agents(snapshot, "n1") == ()
    assert ROLLOUT_ANNOTATION not in cluster.nodes["n1"].annotations


def test_a_node_that_was_lost_in_the_middle_is_taken_back_too() -> None:
    """It is not ready, but its mark says that the rollout has begun there; one that was not touched is left alone."""
    cluster = make_cluster("n1", "n2")
    context = context_of(cluster)
    forward = forward_state(cluster.plan(), context).runs["n1"].work
    begin = next_step(forward, see(cluster.snapshot().nodes[0], ()), room_until="", change_until="").action
    assert isinstance(begin, Begin)
    cluster.nodes["n1"].annotations[ROLLOUT_ANNOTATION] = write_annotation(begin.mark)
    lost = replace(cluster.snapshot(), nodes=tuple(replace(node, ready=False) for node in cluster.snapshot().nodes))
    assert set(back_state(replace(context, snapshot=lost)).runs) == {"n1"}


def test_pods_stand_in_the_way_back_where_the_rollout_has_been_and_a_daemon_restarts() -> None:
    """Only running ones, and only those on nodes that go back."""
    cluster = make_cluster("n1", "n2")
    former = Former("a", "a", "label", OLD, True, {}, {"nvidia.com/gpu": 4})
    cluster.nodes["n1"].annotations[APPLIED_ANNOTATION] = write_annotation(Applied("a", NEW, {}, "r1", "now", former))
    pods = (
        agent_pod(DEVICE_PLUGIN, "n1", namespace="default", name="training", phase="Running"),
        agent_pod(DEVICE_PLUGIN, "n1", namespace="default", name="queued", phase="Pending"),
        agent_pod(DEVICE_PLUGIN, "n1", namespace="default", name="leaving", phase="Running", terminating=True),
        agent_pod(DEVICE_PLUGIN, "n2", namespace="default", name="elsewhere", phase="Running"),
    )
    record = context_of(cluster).record
    assert pods_in_the_way_back(replace(cluster.snapshot(), gpu_pods=pods), record) == ("default/training on n1",)
    assert pods_in_the_way_back(replace(cluster.snapshot(), gpu_pods=pods), replace(record, id="r2")) == ()


@pytest.mark.parametrize(("resource", "found"), [("nvidia.com/gpu", ()), ("nvidia.com/gpu.shared", ("default/training on n1",))])
def test_without_a_daemon_pods_stand_in_the_way_back_only_of_a_renamed_resource(resource: str, found: tuple[str, ...]) -> None:
    """A node that goes from one kind of time-slicing to another keeps its processes."""
    cluster = make_cluster("n1")
    former = Former("a", "a", "label", OLD, False, {}, {resource: 4})
    cluster.nodes["n1"].annotations[APPLIED_ANNOTATION] = write_annotation(Applied("a", NEW, {}, "r1", "now", former))
    seen = cluster.snapshot()
    sliced = replace(seen.nodes[0], labels={**seen.nodes[0].labels, "nvidia.com/mps.capable": "false"})
    pods = (agent_pod(DEVICE_PLUGIN, "n1", namespace="default", name="training", phase="Running"),)
    assert pods_in_the_way_back(replace(seen, nodes=(sliced,), gpu_pods=pods), context_of(cluster).record) == found
