# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node's agents run what the ConfigMap says."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import content_hash
from ansible_collections.gpuops.mps.plugins.module_utils._plan import Selection
from ansible_collections.gpuops.mps.plugins.module_utils._running import Running, running
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENTS, CONTROL_DAEMON, DEVICE_PLUGIN, FEATURE_DISCOVERY, Snapshot
from tests.unit.clusters import MPS_EIGHT, MPS_FOUR, T4, agent_pod, clock, config_map, gpu_node, snapshot
from tests.unit.samples import T4 as T4_GPUS
from tests.unit.samples import judge, mps

BY_LABEL = Selection("mps-four", "label")
FOUR = content_hash(MPS_FOUR)
PREDICTION = judge(mps(4), T4_GPUS, mig_strategy="single")


def applied(content: str = FOUR, config: str = "mps-four", **pods: str) -> dict[str, str]:
    """The annotation that a rollout writes; pods are the healthy cluster's where not given."""
    uids = {agent: f"uid-{agent}-gpu-1" for agent in AGENTS} | {agent.replace("_", "-"): uid for agent, uid in pods.items()}
    return {"gpuops.mps/applied": json.dumps({"config": config, "content": content, "pods": uids, "rollout": "r", "at": clock(12)})}


def judged(cluster: Snapshot, selection: Selection = BY_LABEL, content: str | None = FOUR) -> Running:
    return running(cluster.nodes[0], cluster, selection, content, PREDICTION)


def test_agents_made_after_the_texts_last_change_run_it() -> None:
    assert judged(snapshot()) == Running("current")


def test_a_node_without_agents_runs_nothing() -> None:
    assert judged(snapshot(agent_pods=())) == Running("none")
    leaving = tuple(agent_pod(agent, terminating=True) for agent in AGENTS)
    assert judged(snapshot(agent_pods=leaving)) == Running("none")


def changed_map(minute: int = 20) -> Snapshot:
    found = config_map(changed=clock(minute))
    return snapshot(config_map=found, referred_map=found)


def test_agents_older_than_a_change_may_run_something_else() -> None:
    assert judged(changed_map()) == Running("unknown")


def test_agents_made_in_the_second_of_a_change_may_run_something_else() -> None:
    assert judged(changed_map(10)) == Running("unknown")


def test_agents_older_than_a_change_that_contradict_it_do_run_something_else() -> None:
    plain = gpu_node(labels={**T4, "nvidia.com/device-plugin.config": "mps-four"}, allocatable={"nvidia.com/gpu": 2})
    assert judged(replace(changed_map(), nodes=(plain,))) == Running("stale", AGENTS)


def test_only_the_plugin_contradicts_when_only_the_resource_differs() -> None:
    node = gpu_node(allocatable={"nvidia.com/gpu": 2})
    assert judged(replace(changed_map(), nodes=(node,))) == Running("stale", (DEVICE_PLUGIN,))


def test_what_a_rollout_verified_is_known_although_other_keys_changed_since() -> None:
    assert judged(replace(changed_map(), nodes=(gpu_node(annotations=applied()),))) == Running("current")


def test_what_a_rollout_verified_is_stale_once_the_text_is_another() -> None:
    cluster = replace(changed_map(), nodes=(gpu_node(annotations=applied()),))
    assert judged(cluster, content=content_hash(MPS_EIGHT)) == Running("stale", AGENTS)


def test_an_agent_that_was_replaced_since_is_judged_by_its_age() -> None:
    cluster = replace(changed_map(), nodes=(gpu_node(annotations=applied(device_plugin="former")),))
    assert judged(cluster) == Running("unknown")


def test_a_daemon_older_than_the_label_never_heard_of_it() -> None:
    node = gpu_node(label_changed=clock(15))
    assert judged(snapshot(nodes=(node,))) == Running("stale", (CONTROL_DAEMON,))
    assert judged(snapshot(nodes=(node,)), Selection("mps-four", "default")) == Running("current")


def test_the_others_follow_a_label_by_themselves() -> None:
    pods = (agent_pod(FEATURE_DISCOVERY), agent_pod(DEVICE_PLUGIN))
    assert judged(snapshot(nodes=(gpu_node(label_changed=clock(15)),), agent_pods=pods)) == Running("current")


def test_a_label_moved_by_hand_after_a_rollout_leaves_the_daemon_behind() -> None:
    node = gpu_node(annotations=applied(content=content_hash(MPS_EIGHT), config="mps-eight"), label_changed=clock(15))
    assert judged(snapshot(nodes=(node,))) == Running("stale", (CONTROL_DAEMON,))


def test_without_a_config_there_is_nothing_to_be_behind_of() -> None:
    assert judged(changed_map(), Selection(None, "none"), None) == Running("current")


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"pods": 7}'])
def test_a_broken_annotation_counts_as_absent(text: str) -> None:
    assert judged(snapshot(nodes=(gpu_node(annotations={"gpuops.mps/applied": text}),))) == Running("current")


def test_a_missing_map_proves_nothing() -> None:
    assert judged(snapshot(config_map=None, referred_map=None), content=None).state == "unknown"
