# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rollout's state machine, model-checked in small: whatever fails, is killed and run again, it ends well."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import content_hash
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._rollout import rfc3339, seconds_of
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import FAILED
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENTS
from tests.unit.plugins.module_utils.rollout_model import AgentSim, ClusterSim, NodeSim, Run, disturbed, marks, pacing, text

OLD, NEW = content_hash(text(2)), content_hash(text(4))
VERSIONS = {"0.17.4": PluginVersion(0, 17, 4), "0.20.0": PluginVersion(0, 20, 0)}
# What changes: the label between two keys, or the text under the one key.
CHANGES = ("relabel", "edit", "edit-of-the-default")


def make_cluster(count: int, change: str, version: str, bad: frozenset[int], lost: frozenset[int], cordoned: frozenset[int], busy: int = 0) -> ClusterSim:
    """A settled cluster on the old content. C(bad) nodes do not stand the new content, C(lost) ones neither of both."""
    names = [f"gpu-{number}" for number in range(count)]
    label = None if change == "edit-of-the-default" else "a"
    data = {"a": text(2)} if change != "relabel" else {"a": text(2), "b": text(4)}
    wanted = {"a": text(4)} if change != "relabel" else data
    wanted_label = "b" if change == "relabel" else label
    cluster = ClusterSim([], data, wanted, dict.fromkeys(names, wanted_label), VERSIONS[version])
    cluster.default = "a" if change == "edit-of-the-default" else ""
    for number, name in enumerate(names):
        # A lost node works with the old content until it is restarted; see break_lost_nodes.
        contents = frozenset({NEW} if number in bad | lost else set())
        agents = {agent: AgentSim(cluster.new_uid(), OLD) for agent in AGENTS}
        node = NodeSim(name, label, agents, contents, unschedulable=number in cordoned, cordoned_by_others=number in cordoned, gpu_pods=busy)
        cluster.nodes[name] = node
    return cluster


def break_lost_nodes(cluster: ClusterSim, lost: frozenset[int]) -> None:
    """From now on nothing works on these nodes any more, once they are restarted."""
    for number in lost:
        node = cluster.nodes.get(f"gpu-{number}")
        if node is not None and any(sim.starting for sim in node.agents.values()):
            node.bad_contents = frozenset({OLD, NEW})


def run_to_the_end(cluster: ClusterSim, run: Run, lost: frozenset[int], limit: int) -> None:
    """Let everything happen in turn until the run has ended; raises when it never does."""
    for _turn in range(3000):
        if run.done:
            return
        run.advance()
        for name in list(cluster.nodes):
            cluster.tick(name)
        break_lost_nodes(cluster, lost)
        cluster.now += 7.0
        assert len(disturbed(cluster)) <= limit
    raise AssertionError(f"the rollout never ends: {run.state}")


OPERATIONS = st.lists(st.sampled_from(["advance"] * 6 + ["tick-0", "tick-1", "tick-2", "tick-3", "lose-write", "kill", "wait"]), max_size=120)
SOME_NODES = st.frozensets(st.integers(0, 3), max_size=2)


@settings(max_examples=3000)
@given(
    count=st.integers(1, 4),
    change=st.sampled_from(CHANGES),
    version=st.sampled_from(sorted(VERSIONS)),
    bad=SOME_NODES,
    lost=st.frozensets(st.integers(0, 3), max_size=1),
    cordoned=st.frozensets(st.integers(0, 3), max_size=1),
    batch_size=st.integers(1, 3),
    max_failures=st.integers(0, 2),
    disruption=st.sampled_from(["allow", "drain", "wait"]),
    operations=OPERATIONS,
)
def test_every_interleaving_ends_and_leaves_agreement(
    count: int,
    change: str,
    version: str,
    bad: frozenset[int],
    lost: frozenset[int],
    cordoned: frozenset[int],
    batch_size: int,
    max_failures: int,
    disruption: str,
    operations: list[str],
) -> None:
    """Whatever is lost, killed and run again: an end, agreement on every node that is not lost, and no cordon left behind."""
    cluster = make_cluster(count, change, version, bad, lost, cordoned, busy=2 if disruption == "drain" else 0)
    choices = pacing(batch_size, max_failures, disruption)
    run = Run(cluster, choices)
    for operation in operations:
        if operation in ("advance", "lose-write"):
            run.advance(fails=operation == "lose-write")
        elif operation == "kill":
            run = Run(cluster, choices)
        elif operation == "wait":
            cluster.now += 60.0
        else:
            cluster.tick(f"gpu-{operation[-1]}")
        break_lost_nodes(cluster, lost)
        assert len(disturbed(cluster)) <= batch_size
    run_to_the_end(cluster, run, lost, batch_size)
    if cluster.record() is None or cluster.record().under_way:
        run_to_the_end(cluster, Run(cluster, choices), lost, batch_size)
    assert_ended(cluster, count, cordoned)


def assert_ended(cluster: ClusterSim, count: int, cordoned: frozenset[int]) -> None:
    """The rollout is over, every node agrees or says why not, and nothing of ours is left behind."""
    record = cluster.record()
    assert record is not None and record.ended in ("verified", "returned", "failed")
    for number in range(count):
        node = cluster.nodes[f"gpu-{number}"]
        mark = marks(cluster).get(node.name)
        assert node.unschedulable == (number in cordoned)
        if mark is not None:
            assert mark.state == FAILED and mark.reason
            assert record.ended == "failed"
            continue
        runs = {sim.content for sim in node.agents.values()}
        assert runs == {cluster.selected(node)}, f"{node.name} runs {runs}, its label selects {cluster.selected(node)}"
        assert cluster.allocatable(node), f"{node.name} offers nothing"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("version", sorted(VERSIONS))
def test_without_faults_every_node_is_verified(change: str, version: str) -> None:
    """The plain case."""
    cluster = make_cluster(4, change, version, frozenset(), frozenset(), frozenset())
    run_to_the_end(cluster, Run(cluster, pacing(2, 0)), frozenset(), 2)
    assert cluster.record().ended == "verified"
    assert all(sim.content == NEW for node in cluster.nodes.values() for sim in node.agents.values())


def test_times_survive_their_text() -> None:
    """Whole seconds go there and back; anything else counts as long ago."""
    assert seconds_of(rfc3339(1_790_000_000.0)) == 1_790_000_000.0
    assert seconds_of("yesterday") == 0.0
