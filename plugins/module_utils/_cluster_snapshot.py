# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: read everything that a plan is made from, in as few requests as there are kinds of objects."""

from __future__ import annotations

import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._policy import policy_not_active
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import (
    AGENT_DAEMON_SETS,
    DEVICE_PLUGIN,
    ClusterPolicy,
    ConfigMap,
    DaemonSet,
    ForeignPlugin,
    Node,
    Pod,
    Snapshot,
)
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot_build import (
    config_map_of,
    daemon_set_of,
    foreign_plugin_of,
    foreign_plugin_pod_of,
    node_of,
    operand_apps,
    operator_version_of,
    pod_of,
    policies_of,
    schema_has_config,
    uses_gpus,
    version_of_image,
)

DEFAULT_NAMESPACE = "gpu-operator"
DEFAULT_CONFIG_MAP = "mps-configs"
GPU_PRESENT = "nvidia.com/gpu.present=true"
PCI_PRESENT = "feature.node.kubernetes.io/pci-10de.present=true"
POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
READS_AT_ONCE = 4

Object = dict[str, t.Any]
Item = t.TypeVar("Item")

# Controllers, quotas and limit ranges that tell how workloads ask for GPUs. The API leaves the kind out of a list's items.
WORKLOAD_KINDS: t.Mapping[str, str] = {
    "/apis/apps/v1/deployments": "Deployment",
    "/apis/apps/v1/statefulsets": "StatefulSet",
    "/apis/apps/v1/daemonsets": "DaemonSet",
    "/apis/batch/v1/jobs": "Job",
    "/apis/batch/v1/cronjobs": "CronJob",
    "/api/v1/resourcequotas": "ResourceQuota",
    "/api/v1/limitranges": "LimitRange",
}


def read_snapshot(
    cluster: Cluster,
    *,
    namespace: str | None = None,
    config_map: str | None = None,
    policy: str | None = None,
    workloads: bool = False,
    gpu_pods: bool = True,
    agents: bool = True,
    nodes: str = "full",
) -> Snapshot:
    """The snapshot of a cluster.

    ``namespace`` is the operator's, found from the ClusterPolicy when None; ``config_map`` the map to plan for, by default
    the one that the policy refers to. ``nodes`` is full, metadata (labels without status) or none.
    Raises ClusterError when something cannot be read that nothing can be planned without, and ``policy-not-active`` when
    ``policy`` names a ClusterPolicy that the operator does not follow: what was planned for it would have no effect.
    """
    policy_items = _items(cluster, POLICIES)
    policies = policies_of(policy_items)
    mistaken = policy_not_active(policies, policy)
    if mistaken is not None:
        raise ClusterError(mistaken.message, code=mistaken.code, remedy=mistaken.remedy, subject=mistaken.subject)
    unread: list[str] = []
    # The long lists are on their way while the small ones are read: the server works on one and this process on another.
    with ThreadPoolExecutor(READS_AT_ONCE) as pool:
        nodes_read = pool.submit(_nodes, cluster, nodes)
        workloads_read = pool.submit(_workloads, cluster, workloads)
        place, set_items = _daemon_sets(cluster, namespace, policies, agents, unread)
        agents_read = pool.submit(_agent_pods, cluster, place, agents)
        pods_read = pool.submit(_gpu_pods, cluster, place, set_items, gpu_pods)
        found = _without_long_lists(cluster, place, config_map, policies, policy_items, set_items, unread)
        found_nodes, agent_pods = nodes_read.result(), agents_read.result()
        (pods, plugin_pods), (controllers, refusals) = pods_read.result(), workloads_read.result()
    return replace(
        found,
        read_at=cluster.server_time or "",
        nodes=found_nodes,
        agent_pods=agent_pods,
        gpu_pods=pods,
        foreign_plugins=(*plugin_pods, *_foreign_sets(set_items, place, plugin_pods)),
        workloads=controllers,
        unlabelled_gpu_nodes=() if found_nodes or nodes == "none" else _unlabelled(cluster),
        unread=(*unread, *refusals),
    )


def _without_long_lists(
    cluster: Cluster,
    place: str,
    config_map: str | None,
    policies: tuple[ClusterPolicy, ...],
    policy_items: t.Sequence[Object],
    set_items: t.Sequence[Object],
    unread: list[str],
) -> Snapshot:
    """The part of a snapshot that is small on every cluster: policies, DaemonSets, the map, versions."""
    operator_sets = [item for item in set_items if item["metadata"]["namespace"] == place]
    daemon_sets = tuple(daemon_set_of(item) for item in operator_sets)
    policies = _with_versions(policies, daemon_sets)
    referred = next((one.config_name for one in policies if one.active), "")
    wanted_map = config_map or referred or DEFAULT_CONFIG_MAP
    found_map = _config_map(cluster, place, wanted_map)
    return Snapshot(
        server=cluster.server,
        server_version=str((cluster.get("/version") or {}).get("gitVersion", "")),
        read_at="",
        namespace=place,
        policies=policies,
        policy_schema_has_config=_schema_has_config(cluster, policy_items, unread),
        gpu_clusters=_gpu_clusters(cluster, unread),
        config_map=found_map,
        daemon_sets=daemon_sets,
        nodes=(),
        agent_pods=(),
        gpu_pods=(),
        operator_version=operator_version_of(policy_items, operator_sets),
        map_name=wanted_map,
        referred_map=found_map if referred == wanted_map else _config_map(cluster, place, referred),
    )


def read_daemon_sets(cluster: Cluster, namespace: str) -> tuple[DaemonSet, ...]:
    """The DaemonSets of the three agents."""
    found = map(daemon_set_of, _items(cluster, f"/apis/apps/v1/namespaces/{namespace}/daemonsets"))
    return tuple(one for one in found if one.component in AGENT_DAEMON_SETS)


def _items(cluster: Cluster, path: str) -> tuple[Object, ...]:
    """All objects of a kind, none when the kind does not exist."""
    try:
        return cluster.list(path).items
    except ClusterError as error:
        if error.status == 404:
            return ()
        raise


def _readable(cluster: Cluster, path: str, unread: list[str]) -> tuple[Object, ...] | None:
    """The same over all namespaces, None when the user may not look there; the refusal goes into ``unread``."""
    try:
        return _items(cluster, path)
    except ClusterError as error:
        if error.status == 403:
            unread.append(error.message)
            return None
        raise


def _reduced(cluster: Cluster, path: str, keep: t.Callable[[Object], Item | None], **selectors: t.Any) -> tuple[Item, ...]:
    """A list reduced page by page, so that memory holds one page of raw objects at most."""
    found: list[Item] = []
    for page in cluster.pages(path, **selectors):
        if page.restarted:
            found.clear()
        found.extend(kept for kept in map(keep, page.items) if kept is not None)
    return tuple(found)


def _daemon_sets(
    cluster: Cluster, namespace: str | None, policies: tuple[ClusterPolicy, ...], wanted: bool, unread: list[str]
) -> tuple[str, tuple[Object, ...]]:
    """The operator's namespace and, where ``wanted``, all DaemonSets that may be read: at least the operator's."""
    if not wanted:
        return namespace or _namespace(policies, ()), ()
    found = _readable(cluster, "/apis/apps/v1/daemonsets", unread)
    place = namespace or _namespace(policies, found or ())
    return place, _items(cluster, f"/apis/apps/v1/namespaces/{place}/daemonsets") if found is None else found


def _namespace(policies: t.Iterable[ClusterPolicy], set_items: t.Iterable[Object]) -> str:
    """Where the operator runs: what the active policy says, else where its device plugin is, else the usual name."""
    told = next((policy.namespace for policy in policies if policy.active and policy.namespace), "")
    if told:
        return told
    plugin = AGENT_DAEMON_SETS[DEVICE_PLUGIN]
    return next((item["metadata"]["namespace"] for item in set_items if item["metadata"]["name"] == plugin), DEFAULT_NAMESPACE)


def _with_versions(policies: tuple[ClusterPolicy, ...], daemon_sets: t.Iterable[DaemonSet]) -> tuple[ClusterPolicy, ...]:
    """Policies that do not name the plugin's version get it from the DaemonSet's image."""
    image = next((one.image for one in daemon_sets if one.component == DEVICE_PLUGIN), "")
    version = version_of_image(image)
    return tuple(policy if policy.plugin_version else replace(policy, plugin_version=version) for policy in policies)


def _config_map(cluster: Cluster, namespace: str, name: str) -> ConfigMap | None:
    found = cluster.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}") if name else None
    return config_map_of(found) if found else None


def _nodes(cluster: Cluster, how: str) -> tuple[Node, ...]:
    if how == "none":
        return ()
    nodes = _reduced(cluster, "/api/v1/nodes", node_of, label_selector=GPU_PRESENT, metadata_only=how == "metadata", protobuf=True)
    return tuple(sorted(nodes, key=lambda node: node.name))


def _unlabelled(cluster: Cluster) -> tuple[str, ...]:
    """Nodes in which Node Feature Discovery saw an NVIDIA device; tells "no GPUs" from "the operator has not been here yet"."""
    return tuple(sorted(item["metadata"]["name"] for item in cluster.list("/api/v1/nodes", label_selector=PCI_PRESENT, metadata_only=True).items))


def _agent_pods(cluster: Cluster, namespace: str, wanted: bool) -> tuple[Pod, ...]:
    """The pods of the three agents, which are most of the bytes of a large cluster."""
    if not wanted:
        return ()
    selector = f"app in ({','.join(AGENT_DAEMON_SETS.values())})"
    return _reduced(cluster, f"/api/v1/namespaces/{namespace}/pods", pod_of, label_selector=selector, protobuf=True)


def _gpu_pods(cluster: Cluster, namespace: str, set_items: t.Iterable[Object], wanted: bool) -> tuple[tuple[Pod, ...], tuple[ForeignPlugin, ...]]:
    """From all pods that have not ended: those that use GPUs, and those that are device plugins of somebody else.

    The pods of the operator's own DaemonSets are neither, and there are ten of them on every node: the server leaves them out.
    """
    if not wanted:
        return (), ()

    def keep(item: Object) -> Pod | ForeignPlugin | None:
        return pod_of(item, with_spec=True) if uses_gpus(item) else foreign_plugin_pod_of(item, namespace)

    apps = operand_apps(set_items, namespace)
    others = f"app notin ({','.join(apps)})" if apps else None
    beside = _reduced(cluster, f"/api/v1/namespaces/{namespace}/pods", keep, label_selector=others, field_selector=NOT_ENDED)
    elsewhere = _reduced(cluster, "/api/v1/pods", keep, field_selector=f"metadata.namespace!={namespace},{NOT_ENDED}")
    found = (*beside, *elsewhere)
    return tuple(one for one in found if isinstance(one, Pod)), tuple(one for one in found if isinstance(one, ForeignPlugin))


def _foreign_sets(items: t.Iterable[Object], namespace: str, seen: t.Iterable[ForeignPlugin]) -> t.Iterator[ForeignPlugin]:
    """DaemonSets that are device plugins of somebody else and whose pods have not been seen."""
    known = {(one.namespace, one.name) for one in seen}
    for item in items:
        plugin = foreign_plugin_of(item, namespace)
        if plugin is not None and (plugin.namespace, plugin.name) not in known:
            yield plugin


def _schema_has_config(cluster: Cluster, policy_items: t.Iterable[Object], unread: list[str]) -> bool:
    """What the CRD says; a user who may not read CRDs learns it from the read-back after the write."""
    if any("config" in ((item.get("spec") or {}).get("devicePlugin") or {}) for item in policy_items):
        return True  # the field would have been pruned
    try:
        definition = cluster.get(f"{DEFINITIONS}/clusterpolicies.nvidia.com")
    except ClusterError as error:
        if error.status == 403:
            unread.append(error.message)
            return True
        raise
    return schema_has_config(definition)


def _gpu_clusters(cluster: Cluster, unread: list[str]) -> tuple[str, ...]:
    """Names of GPUCluster objects (gpu-operator v26.7 and later), found without probing versions that do not exist."""
    try:
        if cluster.get(f"{DEFINITIONS}/gpuclusters.nvidia.com", metadata_only=True) is None:
            return ()
        definition = cluster.get(f"{DEFINITIONS}/gpuclusters.nvidia.com") or {}
        version = next(one["name"] for one in definition["spec"]["versions"] if one["storage"])
        found = cluster.list(f"/apis/nvidia.com/{version}/gpuclusters", metadata_only=True)
    except ClusterError as error:
        if error.status == 403:
            unread.append(error.message)
        if error.status in (403, 404):
            return ()
        raise
    return tuple(sorted(item["metadata"]["name"] for item in found.items))


def _workloads(cluster: Cluster, wanted: bool) -> tuple[tuple[Object, ...], tuple[str, ...]]:
    """Raw controllers and quotas of all namespaces, as far as the user may read them, and what the API server said where not."""
    refusals: list[str] = []
    kinds = WORKLOAD_KINDS.items() if wanted else ()
    found = tuple({"kind": kind, **item} for path, kind in kinds for item in _readable(cluster, path, refusals) or ())
    return found, tuple(refusals)
