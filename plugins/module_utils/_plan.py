# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan: a declaration and a snapshot become, for every node, now, wanted, steps and findings. Private to the gpuops.mps collection."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding
from ansible_collections.gpuops.mps.plugins.module_utils._prediction import Prediction

# Steps on a node, in their order. Each is one write.
STEP_LABEL = "label"
STEP_FEATURE_DISCOVERY = "gpu-feature-discovery"
STEP_CONTROL_DAEMON = "mps-control-daemon"
STEP_DEVICE_PLUGIN = "device-plugin"
STEPS = (STEP_LABEL, STEP_FEATURE_DISCOVERY, STEP_CONTROL_DAEMON, STEP_DEVICE_PLUGIN)


@dataclass(frozen=True)
class Selection:
    """Which config a node gets and why. C(source) is label, default or none (the operator's empty fallback)."""

    config: str | None
    source: str


@dataclass(frozen=True)
class PodName:
    """A pod by name, with its controller for people."""

    namespace: str
    name: str
    owner: str = ""


@dataclass(frozen=True)
class NodePlan:
    """One node: what it has, what it gets, what must be done there, what will break.

    C(running) says what the agents run against the wanted content: current, stale (older or other content),
    unknown (cannot be told) or none (no agents there). C(steps) is a subset of STEPS in their order; empty means nothing to do.
    C(steps) for agents that the operator replaces by itself (a changed policy) are left out and C(operator_rolls) is true.
    """

    node: str
    group: str | None
    label_now: str | None
    label_wanted: str | None
    now: Selection
    wanted: Selection
    content_now: str | None  # hash of the text under now.config in the map as it is
    content_wanted: str | None  # hash of the text under wanted.config in the map as it will be
    running: str
    steps: tuple[str, ...]
    prediction: Prediction | None
    allocatable_now: t.Mapping[str, int]
    labels_now: t.Mapping[str, str]  # the nvidia.com/* labels that the prediction speaks of
    gpu_pods: tuple[PodName, ...] = ()  # running pods that break when the daemon restarts or the resource goes
    operator_rolls: bool = False
    left_group: bool = False
    resource_version: str = ""

    @property
    def changed(self) -> bool:
        """Whether anything is to be done on this node."""
        return bool(self.steps) or self.operator_rolls

    @property
    def label_changes(self) -> bool:
        """Whether the config label is written."""
        return self.label_now != self.label_wanted


@dataclass(frozen=True)
class KeyChange:
    """One key of the ConfigMap: C(action) is add, change or remove; texts are None where the key is absent."""

    key: str
    action: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class ConfigMapPlan:
    """What happens to the ConfigMap. C(exists) tells whether it is there now, C(deletes) that the map itself goes."""

    namespace: str
    name: str
    exists: bool
    resource_version: str | None
    keys: tuple[KeyChange, ...] = ()
    deletes: bool = False

    @property
    def changed(self) -> bool:
        """Whether the map is created or deleted or any key of it changes."""
        return bool(self.keys) or not self.exists or self.deletes


@dataclass(frozen=True)
class PolicyPlan:
    """What happens to spec.devicePlugin.config of the active ClusterPolicy; "" means unset."""

    name: str
    resource_version: str
    name_before: str
    name_after: str
    default_before: str
    default_after: str

    @property
    def changed(self) -> bool:
        """Whether either field changes."""
        return (self.name_before, self.default_before) != (self.name_after, self.default_after)


@dataclass(frozen=True)
class Plan:
    """The whole plan. C(findings) are sorted by severity, then code, then path; accepted ones are already warnings."""

    config_map: ConfigMapPlan
    policy: PolicyPlan | None
    nodes: tuple[NodePlan, ...]
    findings: tuple[Finding, ...]
    groups: t.Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # group name -> node names

    @property
    def changed(self) -> bool:
        """Whether anything at all would be written."""
        policy_changes = self.policy is not None and self.policy.changed
        return self.config_map.changed or policy_changes or any(node.changed for node in self.nodes)

    @property
    def admitted(self) -> bool:
        """False when an error finding stands: nothing may be written then."""
        return all(found.severity != "error" for found in self.findings)
