# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what about the installation and the nodes stands against a plan. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, finding
from ansible_collections.gpuops.mps.plugins.module_utils._groups import listed
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion, label_must_equal_default
from ansible_collections.gpuops.mps.plugins.module_utils._plan import NodePlan, PolicyPlan
from ansible_collections.gpuops.mps.plugins.module_utils._policy import subject_of
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENT_DAEMON_SETS, CONTROL_DAEMON, DEVICE_PLUGIN, Node, Snapshot

# k8s-device-plugin v0.15.0 is the first with an MPS control daemon; gpu-operator v24.3.0 the first that deploys it.
FIRST_PLUGIN = PluginVersion(0, 15, 0)
FIRST_OPERATOR = (24, 3)
# Per-client memory limits came with CUDA 11.5; k8s-device-plugin report 669 shows driver 470 without the command.
FIRST_DRIVER = 495
DEPLOY_LABELS = ("nvidia.com/gpu.deploy.device-plugin", "nvidia.com/gpu.deploy.gpu-feature-discovery", "nvidia.com/gpu.deploy.operands")
PAUSED = "paused-for-mig-change"


def check_installation(snapshot: Snapshot) -> t.Iterator[Finding]:
    """What every plan needs of the operator, whatever it wants of the nodes."""
    policy = snapshot.policy
    if policy is not None and not policy.device_plugin_enabled:
        yield finding(
            "policy-without-plugin",
            "spec.devicePlugin.enabled",
            "the operator does not run the device plugin, so its config has no effect",
            subject=subject_of(policy),
        )
    if policy is not None and not policy.feature_discovery_enabled:
        yield finding(
            "policy-without-discovery",
            "spec.gfd.enabled",
            "the operator does not run GPU Feature Discovery, so no node is ever marked as MPS capable and no MPS control daemon starts",
            subject=subject_of(policy),
        )
    yield from _versions(snapshot)
    yield from _foreign_plugins(snapshot)
    if not snapshot.nodes:
        seen = snapshot.unlabelled_gpu_nodes
        detail = f"; an NVIDIA device was seen in {listed(seen)}, but the operator has not labelled anything there" if seen else ""
        yield finding("no-gpu-nodes", "nodes", f"no node carries nvidia.com/gpu.present=true{detail}")


def _foreign_plugins(snapshot: Snapshot) -> t.Iterator[Finding]:
    """One finding for each second device plugin, with the nodes it was seen on."""
    gpu_nodes = {node.name for node in snapshot.nodes}
    seen: dict[tuple[str, str, str, str], list[str]] = {}
    for plugin in snapshot.foreign_plugins:
        if plugin.node is None or plugin.node in gpu_nodes:
            nodes = seen.setdefault((plugin.kind, plugin.namespace, plugin.name, plugin.reason), [])
            nodes.extend([plugin.node] if plugin.node else [])
    for (kind, namespace, name, reason), nodes in seen.items():
        where = f" on {listed(nodes)}" if nodes else ""
        yield finding(
            "second-device-plugin",
            "nodes",
            f"the {kind} '{namespace}/{name}' registers GPUs{where} beside the operator's device plugin: {reason}",
            subject=f"{kind.lower()}/{namespace}/{name}",
        )


def _versions(snapshot: Snapshot) -> t.Iterator[Finding]:
    plugin = snapshot.plugin_version
    if plugin is not None and plugin < FIRST_PLUGIN:
        yield finding(
            "plugin-before-mps",
            "spec.devicePlugin.version",
            f"the device plugin is {plugin}; MPS needs {FIRST_PLUGIN} or later",
            subject=AGENT_DAEMON_SETS[DEVICE_PLUGIN],
        )
    release = _release(snapshot.operator_version)
    components = {one.component for one in snapshot.daemon_sets}
    lacks_daemon = DEVICE_PLUGIN in components and CONTROL_DAEMON not in components
    if lacks_daemon or (release is not None and release < FIRST_OPERATOR):
        found = f"version {snapshot.operator_version}" if snapshot.operator_version else "of unknown version"
        missing = f" and has no DaemonSet {AGENT_DAEMON_SETS[CONTROL_DAEMON]}" if lacks_daemon else ""
        yield finding(
            "operator-too-old", "operator", f"the GPU Operator is {found}{missing}; MPS needs 24.3 or later", subject=f"namespace/{snapshot.namespace}"
        )


def _release(version: str | None) -> tuple[int, int] | None:
    """Year and month that a release is named by; other numbers belong to development builds and say nothing about their age."""
    found = re.match(r"v?(\d\d)\.(\d+)", version or "")
    return (int(found.group(1)), int(found.group(2))) if found else None


def check_default(snapshot: Snapshot, default: str, available: t.Collection[str]) -> t.Iterator[Finding]:
    """The default must be a key of the map; upstream's own message prints an empty name, so the typo is not visible there."""
    if default and default not in available:
        known = ", ".join(sorted(available)) or "none"
        yield finding(
            "key-of-default-absent",
            "mps_default",
            f"the default '{default}' is not one of the keys of the ConfigMap '{snapshot.map_name}': {known}",
            subject=f"configmap/{snapshot.namespace}/{snapshot.map_name}",
        )


def check_selected(plans: t.Sequence[NodePlan], meanings: t.Mapping[str, SharingConfig], default: str, snapshot: Snapshot) -> t.Iterator[Finding]:
    """What the selected configs mean together: version rules, and nodes that get the default although groups are declared."""
    version = snapshot.plugin_version
    if version is not None and label_must_equal_default(version):
        yield from _differing_labels(plans, meanings, default, version)
    fallen = [plan.node for plan in plans if plan.group is None and plan.wanted.source == "default"]
    grouped = any(plan.group for plan in plans)
    meaning = meanings.get(default)
    if grouped and fallen and meaning is not None and meaning.strategy is not Strategy.NONE:
        yield finding(
            "default-reaches-unlisted",
            "mps_default",
            f"no group contains {listed(fallen)}, and without a label the default '{default}' applies there: the GPUs are shared too",
            subject=f"node/{fallen[0]}",
        )


def _differing_labels(plans: t.Iterable[NodePlan], meanings: t.Mapping[str, SharingConfig], default: str, version: PluginVersion) -> t.Iterator[Finding]:
    by_config: dict[str, list[str]] = {}
    for plan in plans:
        meaning = meanings.get(plan.wanted.config or "")
        if plan.wanted.source == "label" and plan.wanted.config != default and meaning is not None and meaning.strategy is Strategy.MPS:
            by_config.setdefault(plan.wanted.config or "", []).append(plan.node)
    for config, names in sorted(by_config.items()):
        yield finding(
            "label-against-default",
            f"mps_configs.{config}",
            f"with device plugin {version} the MPS daemon of a node breaks when its label is not the policy's default:"
            f" {listed(names)} would have the label '{config}' while the default is '{default or 'unset'}'",
            subject=f"node/{names[0]}",
        )


def check_nodes(plans: t.Sequence[NodePlan], snapshot: Snapshot, meanings: t.Mapping[str, SharingConfig]) -> t.Iterator[Finding]:
    """Nodes that something is to be done on, or that are to share by MPS, and that are not in a state for it."""
    concerned: dict[str, list[str]] = {}
    for plan in plans:
        node = snapshot.node(plan.node)
        meaning = meanings.get(plan.wanted.config or "")
        under_mps = meaning is not None and meaning.strategy is Strategy.MPS
        if node is not None and (plan.changed or under_mps):
            for code in _conditions(node, under_mps, plan.changed):
                concerned.setdefault(code, []).append(plan.node)
    for code, names in concerned.items():
        yield finding(code, "nodes", _NODE_WORDS[code].format(names=listed(names), are="is" if len(names) == 1 else "are"), subject=f"node/{names[0]}")


def _conditions(node: Node, under_mps: bool, changed: bool) -> t.Iterator[str]:
    if not node.ready and changed:
        yield "nodes-not-ready"
    if node.unschedulable and changed:
        yield "node-cordoned"
    deploys = [node.labels.get(label) for label in DEPLOY_LABELS]
    if PAUSED in deploys:
        yield "mig-manager-paused"
    elif "false" in deploys:
        yield "agents-kept-off"
    driver = node.gpus.driver
    if under_mps and driver is not None and driver[0] < FIRST_DRIVER:
        yield "driver-too-old"


_NODE_WORDS: t.Mapping[str, str] = {
    "nodes-not-ready": "{names} {are} not ready; nothing there will change until the kubelet answers again",
    "node-cordoned": "{names} {are} cordoned; agents are replaced there all the same, workloads do not come back",
    "mig-manager-paused": "{names} {are} paused by the MIG manager, which has taken the agents away for the time of its change",
    "agents-kept-off": "{names} {are} excluded from the operator's agents by a label nvidia.com/gpu.deploy.* with the value false",
    "driver-too-old": "the driver of {names} is older than 495 and has no command for memory limits per client, so the MPS daemon fails",
}


def check_disruption(plans: t.Sequence[NodePlan], policy: PolicyPlan | None, snapshot: Snapshot) -> t.Iterator[Finding]:
    """Which running pods break, and what the operator replaces everywhere by itself."""
    hit = [plan for plan in plans if plan.gpu_pods]
    pods = [f"{pod.namespace}/{pod.name}" for plan in hit for pod in plan.gpu_pods]
    if pods:
        yield finding(
            "gpu-pods-break",
            "nodes",
            f"{len(pods)} running pods on {listed([plan.node for plan in hit])} lose their GPU when the agents there restart: {listed(pods)}",
            subject=f"node/{hit[0].node}",
        )
    if policy is None or not policy.changed or snapshot.policy is None:
        return
    if snapshot.policy.update_strategy == "OnDelete":
        yield finding(
            "update-strategy-on-delete",
            "spec.daemonsets.updateStrategy",
            "the operator's DaemonSets are updated OnDelete: pods keep the former config until each is deleted, and the policy stays notReady meanwhile",
            subject=subject_of(snapshot.policy),
        )
    elif plans:
        yield finding(
            "operator-rolls-everything",
            "spec.devicePlugin.config",
            f"the changed policy makes the operator replace the agents' pods on all {len(plans)} GPU nodes by itself, in no order that can be chosen",
            subject=subject_of(snapshot.policy),
        )
