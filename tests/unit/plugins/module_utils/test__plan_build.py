# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan: for every node what it has and gets, what is done there, and everything that stands against it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import Declaration, Match, NodeGroup, SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._plan import NodePlan, Plan, PodName, Selection
from ansible_collections.gpuops.mps.plugins.module_utils._plan_build import make_plan
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import (
    AGENTS,
    CONFIG_LABEL,
    CONTROL_DAEMON,
    DEVICE_PLUGIN,
    FEATURE_DISCOVERY,
    ForeignPlugin,
    Node,
    Owner,
    Pod,
    Snapshot,
)
from tests.unit.clusters import MPS_FOUR, NONE, SLICED, T4, agent_pod, clock, config_map, daemon_set, gpu_node, policy, snapshot, with_map

FOUR = SharingConfig("mps-four", Strategy.MPS, 4)
EIGHT = SharingConfig("mps-eight", Strategy.MPS, 8)
NOTHING = SharingConfig("none", Strategy.NONE)
V100 = {**T4, "nvidia.com/gpu.product": "Tesla-V100-SXM2-16GB", "nvidia.com/gpu.compute.minor": "0", "nvidia.com/gpu.family": "volta"}
EXCLUSIVE = gpu_node("gpu-2", labels=dict(T4), allocatable={"nvidia.com/gpu": 2}, label_owner=None)


def declared(*configs: SharingConfig, default: str | None = None, **groups: tuple[str, tuple[str, ...]]) -> Declaration:
    """Configs, and groups as name=(config, node names)."""
    return Declaration(configs, default, tuple(NodeGroup(name, config, nodes) for name, (config, nodes) in groups.items()))


def node_plan(plan: Plan, name: str = "gpu-1") -> NodePlan:
    return next(one for one in plan.nodes if one.node == name)


def by_code(plan: Plan) -> dict[str, Finding]:
    return {found.code: found for found in plan.findings}


def gpu_pod(name: str = "train", node: str = "gpu-1", **fields: Any) -> Pod:
    spec = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    return Pod("team", name, f"uid-{name}", node, "Running", True, clock(11), clock(11), False, requests={"nvidia.com/gpu": 1}, spec=spec, **fields)


SETTLED = declared(NOTHING, FOUR, t4=("mps-four", ("gpu-1",)))


def test_a_settled_cluster_has_nothing_to_do() -> None:
    plan = make_plan(SETTLED, snapshot())
    assert not plan.changed
    assert plan.admitted
    assert plan.findings == ()
    assert node_plan(plan).steps == ()
    assert node_plan(plan).running == "current"


def test_another_label_is_written_and_all_agents_restarted() -> None:
    plan = make_plan(declared(FOUR, EIGHT, NOTHING, t4=("mps-eight", ("gpu-1",))), snapshot())
    one = node_plan(plan)
    assert (one.group, one.label_now, one.label_wanted) == ("t4", "mps-four", "mps-eight")
    assert one.steps == ("label", *AGENTS)
    assert one.prediction is not None and one.prediction.resources == {"nvidia.com/gpu": 16}
    assert (one.prediction.thread_percentage, one.prediction.memory_mib) == (12, 1920)
    assert [(change.key, change.action) for change in plan.config_map.keys] == [("mps-eight", "add")]


def test_a_changed_text_restarts_agents_without_a_label() -> None:
    plan = make_plan(declared(replace(FOUR, replicas=3), NOTHING, t4=("mps-four", ("gpu-1",))), snapshot())
    assert node_plan(plan).steps == AGENTS
    assert node_plan(plan).content_now != node_plan(plan).content_wanted


def test_a_node_that_stops_sharing_loses_its_daemon_by_itself() -> None:
    plan = make_plan(declared(FOUR, NOTHING, t4=("none", ("gpu-1",))), snapshot())
    assert node_plan(plan).steps == ("label", FEATURE_DISCOVERY, DEVICE_PLUGIN)


def test_a_node_that_starts_sharing_gets_its_daemon_by_itself() -> None:
    pods = tuple(agent_pod(agent, "gpu-2") for agent in (FEATURE_DISCOVERY, DEVICE_PLUGIN))
    plan = make_plan(declared(FOUR, NOTHING, t4=("mps-four", ("gpu-2",))), snapshot(nodes=(EXCLUSIVE,), agent_pods=pods))
    assert node_plan(plan, "gpu-2").steps == ("label", FEATURE_DISCOVERY, DEVICE_PLUGIN)
    assert node_plan(plan, "gpu-2").now == Selection("none", "default")


def test_another_key_with_the_same_text_moves_only_the_label() -> None:
    cluster = with_map(data={"mps-four": MPS_FOUR, "a-copy": MPS_FOUR, "none": NONE})
    plan = make_plan(Declaration((), None, (NodeGroup("t4", "a-copy", ("gpu-1",)),)), cluster)
    assert node_plan(plan).steps == ("label",)


def test_stale_agents_are_restarted_and_no_others() -> None:
    plan = make_plan(SETTLED, snapshot(nodes=(gpu_node(label_changed=clock(15)),)))
    assert (node_plan(plan).running, node_plan(plan).steps) == ("stale", (CONTROL_DAEMON,))


def test_a_node_without_agents_gets_only_its_label() -> None:
    plan = make_plan(declared(FOUR, NOTHING, t4=("mps-four", ("gpu-2",))), snapshot(nodes=(EXCLUSIVE,), agent_pods=()))
    assert (node_plan(plan, "gpu-2").running, node_plan(plan, "gpu-2").steps) == ("none", ("label",))


# The policy


def test_a_new_default_makes_the_operator_replace_the_agents_everywhere() -> None:
    cluster = snapshot(nodes=(gpu_node(), EXCLUSIVE), gpu_pods=(gpu_pod(),))
    plan = make_plan(replace(SETTLED, default="mps-four"), cluster)
    assert plan.policy is not None and plan.policy.default_after == "mps-four"
    assert [(one.operator_rolls, one.steps, one.changed) for one in plan.nodes] == [(True, (), True), (True, (), True)]
    assert node_plan(plan, "gpu-2").wanted == Selection("mps-four", "default")
    assert "on all 2 GPU nodes" in by_code(plan)["operator-rolls-everything"].message
    assert "team/train" in by_code(plan)["gpu-pods-break"].message


def test_a_held_operator_leaves_the_steps_to_the_caller() -> None:
    pods = tuple(agent_pod(agent, "gpu-2") for agent in (FEATURE_DISCOVERY, DEVICE_PLUGIN))
    cluster = snapshot(nodes=(gpu_node(), EXCLUSIVE), agent_pods=(*snapshot().agent_pods, *pods))
    plan = make_plan(replace(SETTLED, default="mps-four"), cluster, operator_held=True)
    assert [(one.operator_rolls, one.steps) for one in plan.nodes] == [(False, ()), (False, (FEATURE_DISCOVERY, DEVICE_PLUGIN))]


def test_an_operator_that_updates_on_delete_rolls_nothing() -> None:
    cluster = snapshot(policies=(policy(update_strategy="OnDelete"),))
    plan = make_plan(replace(SETTLED, default="mps-four"), cluster)
    assert not node_plan(plan).operator_rolls
    assert by_code(plan)["update-strategy-on-delete"].severity == "info"


def test_the_map_to_come_is_read_from_the_map_the_policy_refers_to() -> None:
    former = config_map(name="old-configs", data={"mps-four": MPS_FOUR.replace("4", "2")})
    cluster = snapshot(policies=(policy(config_name="old-configs"),), referred_map=former, nodes=(gpu_node(),))
    one = node_plan(make_plan(SETTLED, cluster))
    assert one.operator_rolls
    assert one.content_now != one.content_wanted


def test_without_a_policy_every_node_has_no_config() -> None:
    plan = make_plan(SETTLED, snapshot(policies=()))
    assert not plan.admitted and plan.policy is None
    assert node_plan(plan).wanted == Selection(None, "none")


# Versioned keys


def test_versioned_keys_change_the_label_with_the_text() -> None:
    versioned = make_plan(SETTLED, snapshot(), update_strategy="versioned")
    key = node_plan(versioned).label_wanted
    assert key is not None and key.startswith("mps-four-") and len(key) == len("mps-four-") + 10
    assert [change.action for change in versioned.config_map.keys] == ["add", "add"]
    other = make_plan(declared(NOTHING, replace(FOUR, replicas=3), t4=("mps-four", ("gpu-1",))), snapshot(), update_strategy="versioned")
    assert node_plan(other).label_wanted != key


# Findings


def test_a_default_that_names_no_key_is_refused() -> None:
    found = by_code(make_plan(replace(SETTLED, default="mps-4"), snapshot()))["key-of-default-absent"]
    assert found.message == "the default 'mps-4' is not one of the keys of the ConfigMap 'mps-configs': mps-four, none"


def test_the_default_that_stays_is_checked_too() -> None:
    cluster = snapshot(policies=(policy(config_default="gone"),))
    assert "'gone'" in by_code(make_plan(SETTLED, cluster))["key-of-default-absent"].message


def test_a_group_that_names_no_key_is_refused() -> None:
    assert "key-of-label-absent" in by_code(make_plan(declared(FOUR, t4=("mps-five", ("gpu-1",))), snapshot()))


def test_groups_that_meet_on_a_live_node_are_refused() -> None:
    groups = (NodeGroup("a", "mps-four", (), (), Match(product="Tesla-T4")), NodeGroup("b", "none", ("gpu-1",)))
    plan = make_plan(Declaration((FOUR, NOTHING), None, groups), snapshot())
    assert not plan.admitted
    assert "the groups 'a' (config 'mps-four') and 'b' (config 'none')" in by_code(plan)["group-overlap"].message


def test_too_many_replicas_for_a_v100_are_refused() -> None:
    cluster = snapshot(nodes=(replace(EXCLUSIVE, labels=V100),))
    plan = make_plan(declared(SharingConfig("many", Strategy.MPS, 20), NOTHING, v=("many", ("gpu-2",))), cluster)
    assert "replicas-above-cap" in by_code(plan) and not plan.admitted


def test_a_node_in_mig_mode_is_refused() -> None:
    labels = {**T4, "nvidia.com/mig.capable": "true", "nvidia.com/gpu.replicas": "0"}
    plan = make_plan(declared(FOUR, NOTHING, v=("mps-four", ("gpu-2",))), snapshot(nodes=(replace(EXCLUSIVE, labels=labels),)))
    assert "mig-enabled" in by_code(plan) and not plan.admitted


NEW = (policy(plugin_version=PluginVersion(0, 20, 0)),)


def test_with_a_new_plugin_an_mps_label_must_be_the_default_and_the_ways_out_are_named() -> None:
    found = by_code(make_plan(SETTLED, snapshot(policies=NEW)))["label-against-default"]
    assert found.severity == "error"
    assert "'gpu-1' would have the label 'mps-four' while the default is 'none'" in found.message
    assert "Make the MPS config the default" in found.remedy and "v0.18.1" in found.remedy


def test_with_a_new_plugin_the_default_may_be_mps_and_other_nodes_labelled_none() -> None:
    declaration = declared(FOUR, NOTHING, default="mps-four", t4=("mps-four", ("gpu-1",)), lab=("none", ("gpu-2",)))
    assert "label-against-default" not in by_code(make_plan(declaration, snapshot(policies=NEW, nodes=(gpu_node(), EXCLUSIVE))))


def test_a_shared_default_that_reaches_nodes_of_no_group_is_said() -> None:
    cluster = snapshot(nodes=(gpu_node(), EXCLUSIVE))
    found = by_code(make_plan(replace(SETTLED, default="mps-four"), cluster))["default-reaches-unlisted"]
    assert "no group contains 'gpu-2'" in found.message
    assert "default-reaches-unlisted" not in by_code(make_plan(replace(SETTLED, default="none"), cluster))
    assert "default-reaches-unlisted" not in by_code(make_plan(declared(FOUR, NOTHING, default="mps-four"), cluster))


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("policy-without-plugin", {"policies": (policy(device_plugin_enabled=False),)}),
        ("policy-without-discovery", {"policies": (policy(feature_discovery_enabled=False),)}),
        ("plugin-before-mps", {"policies": (policy(plugin_version=PluginVersion(0, 14, 5)),)}),
        ("operator-too-old", {"operator_version": "v23.9.2"}),
        ("operator-too-old", {"daemon_sets": (daemon_set(DEVICE_PLUGIN), daemon_set(FEATURE_DISCOVERY))}),
        ("second-device-plugin", {"foreign_plugins": (ForeignPlugin("other", "nvdp", "DaemonSet", "it mounts"),)}),
        ("second-device-plugin", {"foreign_plugins": (ForeignPlugin("other", "nvdp", "DaemonSet", "it mounts", "gpu-1"),)}),
        ("policies-several", {"policies": (policy(), policy(name="other", active=False))}),
        ("config-map-name-unusable", {"map_name": "mps-root"}),
        ("policy-owned-elsewhere", {"policies": (policy(config_name="", owners=(Owner("helm", "gpu-operator"),)),)}),
        ("no-gpu-nodes", {"nodes": (), "unlabelled_gpu_nodes": ("gpu-9",)}),
        ("agents-kept-off", {"nodes": (gpu_node(labels={**T4, "nvidia.com/gpu.deploy.device-plugin": "false"}, label_owner=None),)}),
        ("mig-manager-paused", {"nodes": (gpu_node(labels={**T4, "nvidia.com/gpu.deploy.device-plugin": "paused-for-mig-change"}, label_owner=None),)}),
        (
            "driver-too-old",
            {"nodes": (gpu_node(labels={**T4, "nvidia.com/cuda.driver.major": "470", "nvidia.com/cuda.driver.minor": "82"}, label_owner=None),)},
        ),
        ("nodes-not-ready", {"nodes": (replace(EXCLUSIVE, name="gpu-1", ready=False),)}),
        ("node-cordoned", {"nodes": (replace(EXCLUSIVE, name="gpu-1", unschedulable=True),)}),
    ],
)
def test_what_the_cluster_has_against_a_plan(code: str, changes: dict[str, Any]) -> None:
    assert code not in by_code(make_plan(SETTLED, snapshot()))
    found = by_code(make_plan(SETTLED, snapshot(**changes)))[code]
    assert found.message and found.remedy and found.path


def test_a_second_plugin_on_nodes_without_gpus_is_no_matter() -> None:
    cluster = snapshot(foreign_plugins=(ForeignPlugin("other", "nvdp", "DaemonSet", "it mounts", "cpu-1"),))
    assert "second-device-plugin" not in by_code(make_plan(SETTLED, cluster))


@pytest.mark.parametrize("version", ["v24.3.0", "v26.7.0", "v1.0.0-devel", None])
def test_an_operator_that_is_new_enough_or_does_not_say(version: str | None) -> None:
    assert "operator-too-old" not in by_code(make_plan(SETTLED, snapshot(operator_version=version)))


def test_a_text_that_nobody_declared_is_judged_when_a_node_gets_it() -> None:
    broken = with_map(data={"none": NONE, "mps-four": "sharing: ["})
    plan = make_plan(Declaration((), None, ()), broken)
    assert not plan.admitted
    assert any(found.path.startswith("mps-four") for found in plan.findings)
    spare = with_map(data={"none": NONE, "mps-four": MPS_FOUR, "spare": "sharing: ["})
    assert make_plan(Declaration((), None, ()), spare).admitted


def test_a_foreign_time_slicing_key_is_understood_and_left_alone() -> None:
    cluster = with_map(data={"none": NONE, "mps-four": MPS_FOUR, "slices": SLICED})
    plan = make_plan(declared(NOTHING, FOUR, t4=("slices", ("gpu-1",))), cluster)
    assert node_plan(plan).prediction is not None
    assert plan.config_map.keys == ()


def test_running_gpu_pods_break_only_where_a_daemon_is_concerned() -> None:
    pods = (gpu_pod(), gpu_pod("other"), replace(gpu_pod("leaving"), terminating=True), replace(gpu_pod("waiting"), phase="Pending"))
    plan = make_plan(declared(FOUR, EIGHT, NOTHING, t4=("mps-eight", ("gpu-1",))), snapshot(gpu_pods=pods))
    assert node_plan(plan).gpu_pods == (PodName("team", "train"), PodName("team", "other"))
    settled = make_plan(SETTLED, snapshot(gpu_pods=pods))
    assert node_plan(settled).gpu_pods == ()


def test_workloads_that_no_longer_fit_are_named() -> None:
    renamed = replace(FOUR, rename_by_default=True)
    plan = make_plan(declared(NOTHING, renamed, t4=("mps-four", ("gpu-1",))), snapshot(gpu_pods=(gpu_pod(owner_kind="Job", owner_name="train"),)))
    assert any(found.subject == "pod/team/train" for found in plan.findings)
    deployment = {"kind": "Deployment", "metadata": {"namespace": "team", "name": "train"}, "spec": {"template": {"spec": gpu_pod().spec}}}
    own = {**deployment, "metadata": {"namespace": "gpu-operator", "name": "own"}}
    whole = make_plan(declared(NOTHING, renamed, t4=("mps-four", ("gpu-1",))), snapshot(workloads=(deployment, own)))
    subjects = {found.subject for found in whole.findings}
    assert "deployment/team/train" in subjects and "deployment/gpu-operator/own" not in subjects


def test_an_accepted_error_is_a_warning_and_the_plan_goes_on() -> None:
    cluster = snapshot(foreign_plugins=(ForeignPlugin("other", "nvdp", "DaemonSet", "it mounts"),))
    assert not make_plan(SETTLED, cluster).admitted
    plan = make_plan(SETTLED, cluster, accept=["second-device-plugin"])
    assert plan.admitted
    assert by_code(plan)["second-device-plugin"].severity == "warning"


def test_findings_come_once_and_the_worst_first() -> None:
    nodes = tuple(replace(EXCLUSIVE, name=f"gpu-{number}", labels=V100) for number in range(3))
    plan = make_plan(declared(SharingConfig("many", Strategy.MPS, 20), default="many"), snapshot(nodes=nodes))
    severities = [found.severity for found in plan.findings]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)
    assert len(set(plan.findings)) == len(plan.findings)


# Properties

LABELS = st.sampled_from([None, "none", "mps-four", "mps-eight", "gone"])


def a_node(number: int, label: str | None, shared: bool) -> Node:
    base = gpu_node(f"gpu-{number}")
    labels = {**T4, **(base.labels if shared else {})}
    labels.pop(CONFIG_LABEL, None)
    return replace(base, labels=labels if label is None else {**labels, CONFIG_LABEL: label}, allocatable={"nvidia.com/gpu": 8 if shared else 2})


CLUSTERS = st.builds(
    lambda nodes, default, held: snapshot(
        nodes=tuple(a_node(number, label, shared) for number, (label, shared) in enumerate(nodes)),
        agent_pods=tuple(
            agent_pod(agent, f"gpu-{number}") for number, (_label, shared) in enumerate(nodes) for agent in AGENTS if shared or agent != CONTROL_DAEMON
        ),
        policies=(policy(config_default=default, update_strategy="OnDelete" if held else "RollingUpdate"),),
    ),
    st.lists(st.tuples(LABELS, st.booleans()), max_size=5),
    st.sampled_from(["", "none", "mps-four", "gone"]),
    st.booleans(),
)
DECLARATIONS = st.builds(
    lambda replicas, default, members, config: declared(
        NOTHING, replace(FOUR, replicas=replicas), default=default, t4=(config, tuple(f"gpu-{number}" for number in sorted(members)))
    ),
    st.integers(2, 60),
    st.sampled_from([None, "none", "mps-four", "gone"]),
    st.sets(st.integers(0, 6)),
    st.sampled_from(["none", "mps-four", "gone"]),
)


@given(cluster=CLUSTERS, declaration=DECLARATIONS, strategy=st.sampled_from(["in_place", "versioned"]), left=st.sampled_from(["keep", "remove"]))
def test_a_plan_is_made_of_anything_and_agrees_with_itself(cluster: Snapshot, declaration: Declaration, strategy: str, left: str) -> None:
    plan = make_plan(declaration, cluster, update_strategy=strategy, on_left_group=left)
    assert [one.node for one in plan.nodes] == [node.name for node in cluster.nodes]
    assert make_plan(declaration, cluster, update_strategy=strategy, on_left_group=left) == plan
    for one in plan.nodes:
        assert ("label" in one.steps) == one.label_changes
        assert not (one.operator_rolls and set(one.steps) - {"label"})
        assert one.changed or one.content_now == one.content_wanted or one.running == "none"
        if one.group:
            assert one.wanted.source == "label"


def test_what_may_not_be_read_is_said() -> None:
    refused = 'jobs.batch is forbidden: User "reader" cannot list resource "jobs"'
    found = by_code(make_plan(declared(), snapshot(unread=(refused,))))["not-readable"]
    assert found.severity == "warning" and refused in found.message
