# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every link of the chain, broken alone: the diagnosis names it, and nothing else first."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_case import LINKS, LogKey
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_limits import DaemonLimits
from ansible_collections.gpuops.mps.plugins.module_utils._expectation import Expected, expected_by_cluster
from ansible_collections.gpuops.mps.plugins.module_utils._findings import CATALOGUE
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._plan import Selection
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import (
    AGENTS,
    CONFIG_LABEL,
    CONTROL_DAEMON,
    DEVICE_PLUGIN,
    FEATURE_DISCOVERY,
    ForeignPlugin,
    Snapshot,
)
from ansible_collections.gpuops.mps.plugins.module_utils._verification import verify_node
from tests.unit import clusters
from tests.unit.clusters import agent_pod, clock, config_map, container, daemon_set, gpu_node, policy, snapshot, with_map, with_pods

GFD, DAEMON, PLUGIN = (agent_pod(component) for component in (FEATURE_DISCOVERY, CONTROL_DAEMON, DEVICE_PLUGIN))
MPS_LABELS = {**clusters.T4, **clusters.SHARED_BY_FOUR, CONFIG_LABEL: "mps-four"}
WANTED = expected_by_cluster(snapshot())[0]


def crashing(component: str, name: str, *, init: bool = False) -> object:
    broken = container(name, init=init, ready=False, restarts=5, state="waiting", reason="CrashLoopBackOff", last_exit_code=1, last_reason="Error")
    return agent_pod(component, ready=False, containers=(broken,))


def log(component: str, name: str, text: str) -> dict[LogKey, str]:
    return {LogKey(clusters.NAMESPACE, agent_pod(component).name, name, previous=True): text}


def applied(content: str, **pods: str) -> dict[str, str]:
    return {"gpuops.mps/applied": json.dumps({"config": "mps-four", "content": content, "pods": pods})}


@dataclass(frozen=True)
class Breakage:
    """A cluster broken in one place, and the link, code and verdict that must come out."""

    name: str
    snapshot: Snapshot
    link: str
    code: str
    verdict: str = "broken"
    logs: dict[LogKey, str] = field(default_factory=dict)
    limits: DaemonLimits | None = None
    expected: Expected | None = WANTED  # None: what the broken cluster declares itself
    words: str = ""


BREAKAGES = [
    Breakage("no policy", snapshot(policies=()), "policy", "policy-absent"),
    Breakage("GPUCluster", snapshot(policies=(), gpu_clusters=("gpu-cluster",)), "policy", "policy-replaced-by-gpu-cluster"),
    Breakage("plugin off", snapshot(policies=(policy(device_plugin_enabled=False),)), "policy", "policy-without-plugin"),
    Breakage("GFD off", snapshot(policies=(policy(feature_discovery_enabled=False),)), "policy", "policy-without-discovery"),
    Breakage("old plugin", snapshot(policies=(policy(plugin_version=PluginVersion(0, 14, 5)),)), "policy", "plugin-before-mps"),
    Breakage("CRD without field", snapshot(policies=(policy(config_name=""),), policy_schema_has_config=False), "policy", "policy-schema-without-config"),
    Breakage(
        "config on the ignored policy",
        snapshot(policies=(policy(config_name=""), policy(name="second", active=False))),
        "policy",
        "policy-ignored-carries-config",
    ),
    Breakage("policy put back", snapshot(policies=(policy(config_name="", config_owner="helm"),)), "policy", "policy-names-other-map", words="'helm'"),
    Breakage("other map", snapshot(policies=(policy(config_name="time-slicing"),)), "policy", "policy-names-other-map", words="time-slicing"),
    Breakage("no map", snapshot(config_map=None, referred_map=None), "map", "map-absent"),
    Breakage("empty map", with_map(data={}), "map", "map-without-keys"),
    Breakage(
        "label names no key",
        snapshot(nodes=(gpu_node(labels={**MPS_LABELS, CONFIG_LABEL: "mps-9"}),)),
        "key",
        "key-of-label-absent",
        words="'mps-9'",
    ),
    Breakage(
        "default names no key",
        replace(
            snapshot(policies=(policy(config_default="mps-9"),)),
            nodes=(gpu_node(labels={key: value for key, value in MPS_LABELS.items() if key != CONFIG_LABEL}),),
        ),
        "key",
        "key-of-default-absent",
    ),
    Breakage(
        "default names no key, which from v0.18.2 breaks labelled nodes too",
        snapshot(policies=(policy(config_default="mps-9", plugin_version=PluginVersion(0, 20, 0)),)),
        "key",
        "key-of-default-absent",
    ),
    Breakage("refused text", with_map(data={"mps-four": clusters.MPS_FOUR.replace("4", "1"), "none": clusters.NONE}), "key", "key-refused"),
    Breakage("edited text", with_map(data={"mps-four": clusters.MPS_EIGHT, "none": clusters.NONE}), "key", "key-differs"),
    Breakage(
        "label changed by hand",
        snapshot(nodes=(gpu_node(labels={**MPS_LABELS, CONFIG_LABEL: "none"}, label_owner="kubectl-label"),)),
        "selection",
        "label-differs",
        words="kubectl-label",
    ),
    Breakage(
        "default changed by hand",
        replace(
            snapshot(policies=(policy(config_default="none"),)),
            nodes=(gpu_node(labels={key: value for key, value in MPS_LABELS.items() if key != CONFIG_LABEL}),),
        ),
        "selection",
        "default-differs",
        expected=replace(WANTED, label=None, selection=Selection("mps-four", "default")),
        words="is 'none' and should be 'mps-four'",
    ),
    Breakage(
        "label against the default from v0.18.2",
        replace(
            with_pods(daemon=agent_pod(CONTROL_DAEMON, ready=False, containers=(container("config-manager", ready=False, restarts=4, state="waiting"),))),
            policies=(policy(plugin_version=PluginVersion(0, 19, 1)),),
        ),
        "selection",
        "label-against-default",
    ),
    Breakage("node not ready", snapshot(nodes=(gpu_node(ready=False),)), "node", "node-not-ready"),
    Breakage(
        "MIG manager at work",
        snapshot(nodes=(gpu_node(labels={**MPS_LABELS, "nvidia.com/mig.config.state": "pending"}),), agent_pods=()),
        "node",
        "mig-manager-paused",
        "waiting",
    ),
    Breakage("agents kept off", snapshot(nodes=(gpu_node(labels={**MPS_LABELS, "nvidia.com/gpu.deploy.device-plugin": "false"}),)), "node", "agents-kept-off"),
    Breakage(
        "toolkit validation",
        with_pods(gfd=agent_pod(FEATURE_DISCOVERY, ready=False, phase="Pending", containers=(container("toolkit-validation", init=True, ready=False),))),
        "toolkit-validation",
        "toolkit-validation-stuck",
    ),
    Breakage("no GFD pod", with_pods(gfd=None), "feature-discovery-pod", "agent-pod-missing"),
    Breakage(
        "no GFD DaemonSet",
        replace(with_pods(gfd=None), daemon_sets=(daemon_set(CONTROL_DAEMON), daemon_set(DEVICE_PLUGIN))),
        "feature-discovery-pod",
        "agent-daemon-set-missing",
    ),
    Breakage("GFD crashes", with_pods(gfd=crashing(FEATURE_DISCOVERY, "gpu-feature-discovery")), "feature-discovery-pod", "agent-crash-loop"),
    Breakage(
        "GFD refuses MIG",
        with_pods(gfd=crashing(FEATURE_DISCOVERY, "gpu-feature-discovery")),
        "feature-discovery-pod",
        "mig-refuses-mps",
        logs=log(FEATURE_DISCOVERY, "gpu-feature-discovery", "I start\nsharing using MPS is not supported for MIG devices"),
    ),
    Breakage(
        "image of GFD",
        with_pods(gfd=agent_pod(FEATURE_DISCOVERY, ready=False, containers=(container("x", ready=False, state="waiting", reason="ImagePullBackOff"),))),
        "feature-discovery-pod",
        "agent-image-pull",
    ),
    Breakage(
        "GFD runs older content",
        snapshot(config_map=config_map(changed=clock(20)), nodes=(gpu_node(labels={**MPS_LABELS, "nvidia.com/gpu.replicas": "2"}),)),
        "feature-discovery-pod",
        "agent-stale",
        "stale",
    ),
    Breakage(
        "labels vanished",
        snapshot(nodes=(gpu_node(labels={CONFIG_LABEL: "mps-four"}),)),
        "feature-discovery-labels",
        "discovery-labels-absent",
    ),
    Breakage(
        "labels differ",
        snapshot(nodes=(gpu_node(labels={**MPS_LABELS, "nvidia.com/gpu.replicas": "2"}),)),
        "feature-discovery-labels",
        "discovery-labels-differ",
    ),
    Breakage(
        "mps.capable by hand",
        replace(
            with_pods(daemon=None),
            nodes=(gpu_node(labels={**clusters.T4, CONFIG_LABEL: "none", "nvidia.com/mps.capable": "true"}, allocatable={"nvidia.com/gpu": 2}),),
        ),
        "feature-discovery-labels",
        "daemon-label-by-hand",
        expected=None,
    ),
    Breakage("no daemon pod", with_pods(daemon=None), "daemon-scheduled", "agent-pod-missing"),
    Breakage(
        "old operator",
        replace(with_pods(daemon=None), daemon_sets=(daemon_set(FEATURE_DISCOVERY), daemon_set(DEVICE_PLUGIN))),
        "daemon-scheduled",
        "agent-daemon-set-missing",
        words="v24.3",
    ),
    Breakage(
        "daemon left over",
        snapshot(nodes=(gpu_node(labels={**clusters.T4, CONFIG_LABEL: "none"}, allocatable={"nvidia.com/gpu": 2}),)),
        "daemon-scheduled",
        "daemon-left-over",
        expected=None,
    ),
    Breakage(
        "daemon refused by SELinux",
        with_pods(daemon=crashing(CONTROL_DAEMON, "mps-control-daemon-ctr")),
        "daemon-ready",
        "daemon-refused-by-selinux",
        logs=log(CONTROL_DAEMON, "mps-control-daemon-ctr", "error setting SELinux context: permission denied"),
    ),
    Breakage(
        "daemon does not start in a pod that looks well",
        snapshot(nodes=(gpu_node(allocatable={"nvidia.com/gpu": 0}),)),
        "daemon-ready",
        "daemon-start-fails",
        logs=log(CONTROL_DAEMON, "mps-control-daemon-ctr", "Failed to start MPS daemons: exit status 1\nRetrying in 30s..."),
    ),
    Breakage(
        "replicas above the cap",
        with_pods(daemon=crashing(CONTROL_DAEMON, "mps-control-daemon-ctr")),
        "daemon-ready",
        "daemon-refuses-replicas",
        logs=log(
            CONTROL_DAEMON,
            "mps-control-daemon-ctr",
            "error starting plugins: invalid MPS configuration: invalid device maximum allowed replicas exceeded: 49 > 48",
        ),
        words="49 > 48",
    ),
    Breakage(
        "daemon never ready",
        with_pods(daemon=agent_pod(CONTROL_DAEMON, ready=False, containers=(container("mps-control-daemon-ctr", ready=False),))),
        "daemon-ready",
        "agent-not-ready",
    ),
    Breakage(
        "sidecar crashes",
        with_pods(daemon=crashing(CONTROL_DAEMON, "config-manager")),
        "daemon-ready",
        "sidecar-cannot-signal",
        logs=log(CONTROL_DAEMON, "config-manager", "error finding pid: no process found"),
    ),
    Breakage("daemon dead", snapshot(), "limits", "daemon-dead", limits=DaemonLimits(False, answer="Cannot find MPS control daemon process")),
    Breakage("old limits", snapshot(), "limits", "daemon-keeps-old-limits", "stale", limits=DaemonLimits(True, 50.0, 7680, "7680M"), words="50"),
    Breakage(
        "daemon older than the label, by the record",
        snapshot(nodes=(gpu_node(label_changed=clock(20), annotations=applied("older", **{CONTROL_DAEMON: DAEMON.uid})),)),
        "limits",
        "agent-stale",
        "stale",
    ),
    Breakage("daemon not replaced by the rollout", snapshot(), "limits", "agent-stale", "stale", expected=replace(WANTED, replaced=frozenset({DAEMON.uid}))),
    Breakage("no plugin pod", with_pods(plugin=None), "plugin", "agent-pod-missing"),
    Breakage(
        "plugin crashes",
        with_pods(plugin=crashing(DEVICE_PLUGIN, "nvidia-device-plugin")),
        "plugin",
        "mig-refuses-mps",
        logs=log(DEVICE_PLUGIN, "nvidia-device-plugin", "using --mig-strategy=mixed is not supported with MPS"),
    ),
    Breakage(
        "plugin waits for the daemon",
        snapshot(nodes=(gpu_node(allocatable={"nvidia.com/gpu": 0}),)),
        "plugin",
        "plugin-waits-for-daemon",
        logs=log(DEVICE_PLUGIN, "nvidia-device-plugin", "error checking MPS daemon health: exit status 1\nFailed to start plugins. Retrying in 30s"),
    ),
    Breakage(
        "plugin waits, as it does for a while",
        replace(snapshot(nodes=(gpu_node(allocatable={"nvidia.com/gpu": 0}),)), read_at=clock(11, 30)),
        "plugin",
        "plugin-waits-for-daemon",
        "waiting",
        logs=log(DEVICE_PLUGIN, "nvidia-device-plugin", "error checking MPS daemon health: exit status 1"),
    ),
    Breakage(
        "plugin runs older content",
        snapshot(config_map=config_map(changed=clock(20)), nodes=(gpu_node(allocatable={"nvidia.com/gpu": 4}),)),
        "plugin",
        "agent-stale",
        "stale",
    ),
    Breakage(
        "second device plugin",
        snapshot(
            nodes=(gpu_node(allocatable={"nvidia.com/gpu": 2}),),
            foreign_plugins=(ForeignPlugin("kube-system", "nvidia-device-plugin", "DaemonSet", "mounts the directory"),),
        ),
        "plugin",
        "second-device-plugin",
    ),
    Breakage("nothing registered", snapshot(nodes=(gpu_node(allocatable={}),)), "resource", "resource-not-registered"),
    Breakage("one GPU unhealthy", snapshot(nodes=(gpu_node(allocatable={"nvidia.com/gpu": 7}),)), "resource", "resource-differs"),
    Breakage(
        "old name still offered",
        snapshot(nodes=(gpu_node(allocatable={"nvidia.com/gpu": 8, "nvidia.com/gpu.shared": 8}),)),
        "resource",
        "resource-differs",
        words="gpu.shared",
    ),
]


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.name)
def test_a_breakage_is_named_first(breakage: Breakage) -> None:
    expected = breakage.expected or expected_by_cluster(breakage.snapshot)[0]
    verdict = verify_node(breakage.snapshot, expected, logs=breakage.logs, limits=breakage.limits)
    assert (verdict.link, verdict.code, verdict.verdict) == (breakage.link, breakage.code, breakage.verdict)
    assert breakage.words in verdict.reason
    assert verdict.evidence and all(one.subject and one.field for one in verdict.evidence)
    assert verdict.remedy
    assert verdict.findings[0].code in CATALOGUE


def test_every_link_is_broken_by_some_test() -> None:
    assert {breakage.link for breakage in BREAKAGES} == set(LINKS)


def test_a_healthy_node_is_verified() -> None:
    verdict = verify_node(snapshot(), WANTED, limits=DaemonLimits(True, 25.0, 3840, "3840M"))
    assert verdict.verified
    assert (verdict.reason, verdict.link, verdict.evidence, verdict.findings) == ("", None, (), ())
    assert (verdict.config, verdict.source, verdict.replicas, verdict.allocatable) == ("mps-four", "label", 4, 8)
    assert (verdict.thread_percentage, verdict.memory_mib) == (25, 3840)


def test_a_young_pod_is_waited_for() -> None:
    starting = agent_pod(CONTROL_DAEMON, ready=False, created=clock(39), started=clock(39), containers=(container("mps-control-daemon-ctr", ready=False),))
    verdict = verify_node(with_pods(daemon=starting), WANTED)
    assert (verdict.verdict, verdict.link) == ("waiting", "daemon-ready")


def test_patience_decides_between_waiting_and_broken() -> None:
    starting = agent_pod(CONTROL_DAEMON, ready=False, created=clock(39), started=clock(39), containers=(container("mps-control-daemon-ctr", ready=False),))
    assert verify_node(with_pods(daemon=starting), WANTED, patience=30).verdict == "broken"
    assert verify_node(with_pods(daemon=starting), WANTED, patience=30, since=clock(39, 50)).verdict == "waiting"


def test_a_changed_label_takes_its_time_although_the_pods_are_old() -> None:
    relabelled = {**MPS_LABELS, "nvidia.com/gpu.replicas": "2"}
    assert verify_node(snapshot(nodes=(gpu_node(labels=relabelled, label_changed=clock(39)),)), WANTED).verdict == "waiting"
    assert verify_node(snapshot(nodes=(gpu_node(labels=relabelled, label_changed=clock(20)),)), WANTED).verdict == "broken"


def test_unread_limits_of_a_daemon_older_than_the_label_are_a_doubt_and_no_break() -> None:
    verdict = verify_node(snapshot(nodes=(gpu_node(label_changed=clock(20)),)), WANTED)
    assert verdict.verified
    assert [found.code for found in verdict.findings] == ["daemon-limits-unproven"]


def test_a_restarted_container_counts_as_a_new_start() -> None:
    restarted = agent_pod(CONTROL_DAEMON, containers=(container("mps-control-daemon-ctr", restarts=1, started=clock(30)),))
    broken = replace(with_pods(daemon=restarted), nodes=(gpu_node(label_changed=clock(20), annotations=applied("older", **{CONTROL_DAEMON: DAEMON.uid})),))
    assert verify_node(broken, WANTED).findings == ()


UNSHARED = gpu_node(labels={**MPS_LABELS, "nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.sharing-strategy": "none"})


@pytest.mark.parametrize(
    ("created", "started", "changed", "code"),
    [
        (clock(10), clock(10, 4), clock(10, 2), "agent-stale"),  # mounted before the edit, started after it
        (clock(10), clock(10), clock(10), "agent-stale"),  # within the same second nobody knows
        (clock(5), clock(10, 30), clock(10), "agent-stale"),  # crashed and restarted before kubelet brought the new text
        (clock(5), clock(13), clock(10), "discovery-labels-differ"),  # restarted long after the edit: it has read it
        (clock(10, 1), clock(10, 4), clock(10), "discovery-labels-differ"),  # a new pod gets the text as it is
    ],
)
def test_a_container_that_started_after_an_edit_may_still_have_read_the_older_text(created: str, started: str, changed: str, code: str) -> None:
    discovery = agent_pod(FEATURE_DISCOVERY, created=created, started=created, containers=(container("gpu-feature-discovery", started=started),))
    edited = replace(with_pods(gfd=discovery), nodes=(UNSHARED,), config_map=config_map(changed=changed))
    verdict = verify_node(edited, WANTED)
    assert (verdict.verdict, verdict.code) == ("stale" if code == "agent-stale" else "broken", code)


def test_agents_of_a_map_that_nobody_knows_the_age_of_are_judged_by_what_they_show() -> None:
    """A map that was created empty: who has edited it since, and when, stands nowhere."""
    unknown = config_map(changed=None)
    assert verify_node(snapshot(config_map=unknown), WANTED).verified
    verdict = verify_node(snapshot(config_map=unknown, nodes=(UNSHARED,)), WANTED)
    assert (verdict.verdict, verdict.link, verdict.code) == ("stale", "feature-discovery-pod", "agent-stale")


def test_an_agent_that_has_just_started_gets_time_to_show_what_it_read() -> None:
    discovery = agent_pod(FEATURE_DISCOVERY, containers=(container("gpu-feature-discovery", restarts=1, started=clock(39, 50)),))
    edited = replace(with_pods(gfd=discovery), nodes=(UNSHARED,), config_map=config_map(changed=clock(39)))
    assert verify_node(edited, WANTED).verdict == "waiting"
    assert verify_node(edited, WANTED, patience=5).verdict == "stale"


def test_a_record_says_nothing_about_a_container_that_has_restarted_since() -> None:
    record = json.dumps({"config": "mps-four", "content": "older", "pods": {FEATURE_DISCOVERY: GFD.uid}, "at": clock(12)})
    restarted = agent_pod(FEATURE_DISCOVERY, containers=(container("gpu-feature-discovery", restarts=1, started=clock(30)),))
    nodes = (gpu_node(annotations={"gpuops.mps/applied": record}),)
    edited = replace(with_pods(gfd=restarted), nodes=nodes, config_map=config_map(changed=clock(29)))
    assert verify_node(edited, WANTED).verified
    assert verify_node(replace(edited, agent_pods=with_pods(gfd=GFD).agent_pods), WANTED).verdict == "stale"


def test_one_restart_of_the_sidecar_is_no_crash_loop() -> None:
    calm = agent_pod(CONTROL_DAEMON, containers=(container("mps-control-daemon-ctr"), container("config-manager", restarts=1, last_exit_code=2)))
    assert verify_node(with_pods(daemon=calm), WANTED).verified


def test_a_config_that_cannot_work_is_not_verified_by_failing_as_predicted() -> None:
    volta = {**MPS_LABELS, "nvidia.com/gpu.compute.major": "7", "nvidia.com/gpu.compute.minor": "0", CONFIG_LABEL: "many"}
    labels = {**volta, "nvidia.com/gpu.replicas": "20", "nvidia.com/gpu.family": "volta"}
    found = config_map(data={"none": clusters.NONE, "many": clusters.MPS_FOUR.replace("4", "20")})
    broken = snapshot(nodes=(gpu_node(labels=labels, allocatable={}),), config_map=found, referred_map=found)
    verdict = verify_node(broken, expected_by_cluster(broken)[0])
    assert (verdict.verdict, verdict.link) == ("broken", "resource")
    assert "20" in verdict.reason and "16" in verdict.reason


def test_a_node_that_is_gone_is_broken() -> None:
    verdict = verify_node(snapshot(nodes=()), WANTED)
    assert (verdict.verdict, verdict.code) == ("broken", "node-not-found")


def test_a_mixed_node_is_judged_tolerantly() -> None:
    labels = {**MPS_LABELS, "nvidia.com/gpu.count": "1"}
    mixed = snapshot(nodes=(gpu_node(labels=labels, allocatable={"nvidia.com/gpu": 12}),))
    assert verify_node(mixed, expected_by_cluster(mixed)[0]).verified


@pytest.mark.parametrize("component", AGENTS)
def test_a_terminating_pod_is_a_pod_that_is_being_replaced(component: str) -> None:
    pods = tuple(replace(agent_pod(one), terminating=one == component) for one in AGENTS)
    assert verify_node(snapshot(agent_pods=pods), WANTED).verdict == "waiting"


def test_the_verdict_is_plain_data() -> None:
    assert json.loads(json.dumps(verify_node(snapshot(agent_pods=()), WANTED).as_dict()))["link"] == "feature-discovery-pod"
