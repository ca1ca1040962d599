# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A healthy little cluster as a snapshot, to be broken in one place by a test.

One node, gpu-1 with two Tesla T4, shares by MPS with four replicas through its label; times are minutes of one morning.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import (
    AGENT_DAEMON_SETS,
    AGENTS,
    CONFIG_LABEL,
    CONTROL_DAEMON,
    DEVICE_PLUGIN,
    FEATURE_DISCOVERY,
    ClusterPolicy,
    ConfigMap,
    Container,
    DaemonSet,
    Node,
    Pod,
    Snapshot,
)

NAMESPACE = "gpu-operator"
MPS_FOUR = "version: v1\nsharing:\n  mps:\n    resources:\n      - name: nvidia.com/gpu\n        replicas: 4\n"
MPS_EIGHT = MPS_FOUR.replace("4", "8")
SLICED = MPS_FOUR.replace("mps:", "timeSlicing:")
NONE = "version: v1\n"
MAIN_CONTAINERS = {FEATURE_DISCOVERY: "gpu-feature-discovery", CONTROL_DAEMON: "mps-control-daemon-ctr", DEVICE_PLUGIN: "nvidia-device-plugin"}
T4 = {
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.deploy.device-plugin": "true",
    "nvidia.com/gpu.deploy.gpu-feature-discovery": "true",
    "nvidia.com/gpu.product": "Tesla-T4",
    "nvidia.com/gpu.count": "2",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.sharing-strategy": "none",
    "nvidia.com/gpu.memory": "15360",
    "nvidia.com/gpu.family": "turing",
    "nvidia.com/gpu.compute.major": "7",
    "nvidia.com/gpu.compute.minor": "5",
    "nvidia.com/gpu.mode": "compute",
    "nvidia.com/mig.capable": "false",
    "nvidia.com/mig.strategy": "single",
    "nvidia.com/mps.capable": "false",
}
SHARED_BY_FOUR = {
    "nvidia.com/gpu.product": "Tesla-T4-SHARED",
    "nvidia.com/gpu.replicas": "4",
    "nvidia.com/gpu.sharing-strategy": "mps",
    "nvidia.com/mps.capable": "true",
}


def clock(minute: int, second: int = 0) -> str:
    """A time of that morning."""
    return f"2026-11-30T10:{minute:02d}:{second:02d}Z"


def container(name: str, *, init: bool = False, **state: Any) -> Container:
    """A container that runs and is ready, or with the state given."""
    values: dict[str, Any] = {"ready": True, "restarts": 0, "state": "running", "started": clock(10)}
    return Container(name=name, init=init, **{**values, **state})


def agent_pod(component: str, node: str = "gpu-1", **changes: Any) -> Pod:
    """A healthy pod of one agent, started at minute 10."""
    app = AGENT_DAEMON_SETS[component]
    healthy = Pod(
        namespace=NAMESPACE,
        name=f"{app}-{node}",
        uid=f"uid-{component}-{node}",
        node=node,
        phase="Running",
        ready=True,
        created=clock(10),
        started=clock(10),
        terminating=False,
        app=app,
        containers=(container(MAIN_CONTAINERS[component]), container("config-manager")),
        owner_kind="DaemonSet",
        owner_name=app,
    )
    return replace(healthy, **changes)


def gpu_node(name: str = "gpu-1", labels: dict[str, str] | None = None, allocatable: dict[str, int] | None = None, **changes: Any) -> Node:
    """A node with two T4 under MPS by four, or with other labels and resources."""
    resources = {"nvidia.com/gpu": 8} if allocatable is None else allocatable
    healthy = Node(
        name=name,
        uid=f"uid-{name}",
        resource_version="7",
        labels={**T4, **SHARED_BY_FOUR, CONFIG_LABEL: "mps-four"} if labels is None else labels,
        annotations={},
        capacity=resources,
        allocatable=resources,
        ready=True,
        unschedulable=False,
        created=clock(0),
        label_owner="gpuops.mps",
        label_changed=clock(6),
        taints=("nvidia.com/gpu=present:NoSchedule",),
    )
    return replace(healthy, **changes)


def policy(**changes: Any) -> ClusterPolicy:
    """The active ClusterPolicy, with the ConfigMap mps-configs and the default none."""
    healthy = ClusterPolicy(
        name="cluster-policy",
        uid="uid-policy",
        resource_version="5",
        generation=2,
        created=clock(0),
        state="ready",
        namespace=NAMESPACE,
        config_name="mps-configs",
        config_default="none",
        mig_strategy="single",
        device_plugin_enabled=True,
        feature_discovery_enabled=True,
        plugin_version=PluginVersion(0, 17, 4),
        mps_root="/run/nvidia/mps",
        update_strategy="RollingUpdate",
        max_unavailable="1",
        active=True,
        config_owner="gpuops.mps",
    )
    return replace(healthy, **changes)


def config_map(**changes: Any) -> ConfigMap:
    """The ConfigMap mps-configs, last changed at minute 5."""
    healthy = ConfigMap(
        namespace=NAMESPACE,
        name="mps-configs",
        uid="uid-map",
        resource_version="6",
        data={"none": NONE, "mps-four": MPS_FOUR},
        labels={},
        annotations={},
        changed=clock(5),
    )
    return replace(healthy, **changes)


def daemon_set(component: str, **changes: Any) -> DaemonSet:
    """A DaemonSet of an agent with one pod."""
    healthy = DaemonSet(
        namespace=NAMESPACE,
        name=AGENT_DAEMON_SETS[component],
        component=component,
        uid=f"uid-set-{component}",
        generation=2,
        observed_generation=2,
        desired=1,
        updated=1,
        ready=1,
        available=1,
        update_strategy="RollingUpdate",
        image="nvcr.io/nvidia/k8s-device-plugin:v0.17.4",
        config_name="mps-configs",
    )
    return replace(healthy, **changes)


def snapshot(**changes: Any) -> Snapshot:
    """The healthy cluster, read at minute 40."""
    found = config_map()
    healthy = Snapshot(
        server="https://cluster",
        server_version="v1.37.2",
        read_at=clock(40),
        namespace=NAMESPACE,
        policies=(policy(),),
        policy_schema_has_config=True,
        gpu_clusters=(),
        config_map=found,
        daemon_sets=tuple(daemon_set(component) for component in AGENTS),
        nodes=(gpu_node(),),
        agent_pods=tuple(agent_pod(component) for component in AGENTS),
        gpu_pods=(),
        referred_map=found,
        map_name=found.name,
    )
    return replace(healthy, **changes)


def with_map(**changes: Any) -> Snapshot:
    """The healthy cluster with another ConfigMap."""
    found = config_map(**changes)
    return snapshot(config_map=found, referred_map=found)


def with_pods(**changes: Any) -> Snapshot:
    """The healthy cluster with changed pods: C(gfd), C(daemon) and C(plugin) are a Pod, or None for no pod."""
    names = {"gfd": FEATURE_DISCOVERY, "daemon": CONTROL_DAEMON, "plugin": DEVICE_PLUGIN}
    pods = {component: agent_pod(component) for component in AGENTS} | {names[name]: pod for name, pod in changes.items()}
    return snapshot(agent_pods=tuple(pod for pod in pods.values() if pod is not None))
