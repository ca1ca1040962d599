# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster is, as frozen dataclasses built from API JSON. Private to the gpuops.mps collection."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass, field

from ansible_collections.gpuops.mps.plugins.module_utils._gpu import Gpus, gpus_from_labels
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion

CONFIG_LABEL = "nvidia.com/device-plugin.config"

# The three agents that read a device plugin config, under the names of their work on a node.
FEATURE_DISCOVERY = "gpu-feature-discovery"
CONTROL_DAEMON = "mps-control-daemon"
DEVICE_PLUGIN = "device-plugin"
# Restart order on a node: GFD's label schedules the daemon, and the plugin advertises only once the daemon answers.
AGENTS = (FEATURE_DISCOVERY, CONTROL_DAEMON, DEVICE_PLUGIN)

AGENT_DAEMON_SETS: t.Mapping[str, str] = {
    FEATURE_DISCOVERY: "gpu-feature-discovery",
    CONTROL_DAEMON: "nvidia-device-plugin-mps-control-daemon",
    DEVICE_PLUGIN: "nvidia-device-plugin-daemonset",
}


@dataclass(frozen=True)
class Container:
    """One container's state: C(init) tells an init container; C(last_reason) and C(last_message) come from its previous run."""

    name: str
    init: bool
    ready: bool
    restarts: int
    state: str  # "waiting" | "running" | "terminated"
    reason: str = ""
    message: str = ""
    last_reason: str = ""
    last_message: str = ""
    last_exit_code: int | None = None
    started: str | None = None  # of the running process


@dataclass(frozen=True)
class Pod:
    """A pod of an agent, of the operator, or one that uses GPUs. Times are RFC 3339 text as the API gives them."""

    namespace: str
    name: str
    uid: str
    node: str | None
    phase: str
    ready: bool
    created: str
    started: str | None
    terminating: bool
    app: str = ""
    containers: tuple[Container, ...] = ()
    reason: str = ""
    message: str = ""
    generation: str = ""  # pod-template-generation label of a DaemonSet's pod
    owner_kind: str = ""
    owner_name: str = ""
    requests: t.Mapping[str, int] = field(default_factory=dict)  # nvidia.com/* limits summed over the containers
    largest_request: int = 0  # the most that one container asks of one nvidia.com/gpu* resource
    spec: t.Mapping[str, t.Any] = field(default_factory=dict)  # the raw spec, only for pods that use GPUs


@dataclass(frozen=True)
class Node:
    """One GPU node. C(capacity) and C(allocatable) hold the nvidia.com/* resources only."""

    name: str
    uid: str
    resource_version: str
    labels: t.Mapping[str, str]
    annotations: t.Mapping[str, str]
    capacity: t.Mapping[str, int]
    allocatable: t.Mapping[str, int]
    ready: bool
    unschedulable: bool
    created: str
    kernel: str = ""
    operating_system: str = ""
    label_owner: str | None = None  # field manager that owns the config label
    label_changed: str | None = None  # RFC 3339 time of that manager's last write, so never before the label's last change
    taints: tuple[str, ...] = ()

    @property
    def config_label(self) -> str | None:
        """The config label's value; an empty value counts as unset (k8s-device-plugin, cmd/config-manager)."""
        return self.labels.get(CONFIG_LABEL) or None

    @functools.cached_property
    def gpus(self) -> Gpus:
        """What the node's labels, kernel and resources say about its GPUs; a plan asks for it several times."""
        return gpus_from_labels(self.labels, kernel=self.kernel, allocatable=self.allocatable)


@dataclass(frozen=True)
class Owner:
    """Somebody else who may put a field back: C(kind) is helm, argocd, flux, olm or manager; C(name) says which one."""

    kind: str
    name: str
    namespace: str = ""


@dataclass(frozen=True)
class ClusterPolicy:
    """The part of a ClusterPolicy that sharing depends on."""

    name: str
    uid: str
    resource_version: str
    generation: int
    created: str
    state: str  # status.state: ready, notReady, ignored or ""
    namespace: str  # status.namespace, the operator's namespace; "" when the operator has not said it yet
    config_name: str  # "" when unset
    config_default: str  # "" when unset
    mig_strategy: str  # spec.mig.strategy, "" when unset
    device_plugin_enabled: bool
    feature_discovery_enabled: bool
    plugin_version: PluginVersion | None
    mps_root: str
    update_strategy: str  # RollingUpdate or OnDelete
    max_unavailable: str
    active: bool
    config_owner: str | None = None  # field manager of spec.devicePlugin.config
    owners: tuple[Owner, ...] = ()
    conditions: tuple[tuple[str, str, str, str], ...] = ()  # type, status, reason, message


@dataclass(frozen=True)
class ConfigMap:
    """The ConfigMap that the policy refers to, or the one that the user names."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    data: t.Mapping[str, str]
    labels: t.Mapping[str, str]
    annotations: t.Mapping[str, str]
    binary_keys: tuple[str, ...] = ()
    changed: str | None = None  # RFC 3339 time of the last change of data by managedFields, where known
    owners: tuple[Owner, ...] = ()
    immutable: bool = False


@dataclass(frozen=True)
class DaemonSet:
    """A DaemonSet of the operator. C(component) is one of AGENTS, or the DaemonSet's name for the others."""

    namespace: str
    name: str
    component: str
    uid: str
    generation: int
    observed_generation: int
    desired: int
    updated: int
    ready: int
    available: int
    update_strategy: str
    image: str
    config_name: str | None  # volume's ConfigMap, None when the config-manager is not there
    host_pid: bool = False
    template_generation: str = ""
    default_config: str | None = None  # DEFAULT_CONFIG of the config-manager, None when it is not there


@dataclass(frozen=True)
class ForeignPlugin:
    """A device plugin that is not the operator's but would register the same resource."""

    namespace: str
    name: str
    kind: str  # DaemonSet or Pod
    reason: str
    node: str | None = None  # the node it runs on, None when it may run on any


@dataclass(frozen=True)
class Snapshot:
    """Everything that a plan is made from, read in one go. C(nodes) are the GPU nodes sorted by name."""

    server: str
    server_version: str
    read_at: str  # RFC 3339, the API server's clock where it gives one
    namespace: str  # the operator's namespace
    policies: tuple[ClusterPolicy, ...]
    policy_schema_has_config: bool  # the CRD's schema knows spec.devicePlugin.config
    gpu_clusters: tuple[str, ...]
    config_map: ConfigMap | None
    daemon_sets: tuple[DaemonSet, ...]
    nodes: tuple[Node, ...]
    agent_pods: tuple[Pod, ...]  # pods of the operator's namespace
    gpu_pods: tuple[Pod, ...]  # running or pending pods of any namespace that ask for nvidia.com/gpu*
    foreign_plugins: tuple[ForeignPlugin, ...] = ()
    workloads: tuple[t.Mapping[str, t.Any], ...] = ()  # raw controllers and quotas, only when asked for
    operator_version: str | None = None
    map_name: str = ""  # the name config_map is looked for under, also when no such map exists
    referred_map: ConfigMap | None = None  # the map that the policy refers to now, config_map itself in the usual case
    unlabelled_gpu_nodes: tuple[str, ...] = ()  # NFD sees a GPU, the operator has not labelled the node
    unread: tuple[str, ...] = ()  # what the user may not read and a plan can be made without, in the API server's words

    @functools.cached_property
    def policy(self) -> ClusterPolicy | None:
        """The active policy: the operator follows the oldest one only."""
        return next((policy for policy in self.policies if policy.active), None)

    @property
    def plugin_version(self) -> PluginVersion | None:
        """The device plugin's version, from the policy or else from the DaemonSet's image."""
        return self.policy.plugin_version if self.policy else None

    def node(self, name: str) -> Node | None:
        """The GPU node of that name, or None."""
        return self._nodes_by_name.get(name)

    def known_node(self, name: str) -> Node:
        """The GPU node of that name, which a plan made from this snapshot speaks of. Raises KeyError."""
        return self._nodes_by_name[name]

    def pods_of(self, node: str, component: str) -> tuple[Pod, ...]:
        """The pods of one agent on one node, newest last; terminating ones are included."""
        return self._pods_by_node_and_app.get((node, AGENT_DAEMON_SETS[component]), ())

    # A plan and a verification ask for every node's pods: without an index that is the square of the cluster.
    @functools.cached_property
    def _nodes_by_name(self) -> t.Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    @functools.cached_property
    def _pods_by_node_and_app(self) -> t.Mapping[tuple[str | None, str], tuple[Pod, ...]]:
        found: dict[tuple[str | None, str], tuple[Pod, ...]] = {}
        for pod in sorted(self.agent_pods, key=lambda pod: pod.created):
            found[pod.node, pod.app] = (*found.get((pod.node, pod.app), ()), pod)
        return found

    def gpu_pods_on(self, node: str) -> tuple[Pod, ...]:
        """The pods on one node that use its GPUs."""
        return self._gpu_pods_by_node.get(node, ())

    @functools.cached_property
    def _gpu_pods_by_node(self) -> t.Mapping[str | None, tuple[Pod, ...]]:
        found: dict[str | None, list[Pod]] = {}
        for pod in self.gpu_pods:
            found.setdefault(pod.node, []).append(pod)
        return {node: tuple(pods) for node, pods in found.items()}
