# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what a snapshot says about sharing, as plain data. Pure."""

from __future__ import annotations

import typing as t
from collections import Counter

from ansible_collections.gpuops.mps.plugins.module_utils._config_map import managed_keys
from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import content_hash, read_config
from ansible_collections.gpuops.mps.plugins.module_utils._gpu import Gpus
from ansible_collections.gpuops.mps.plugins.module_utils._plan_report import findings_data
from ansible_collections.gpuops.mps.plugins.module_utils._prediction import Prediction, predict
from ansible_collections.gpuops.mps.plugins.module_utils._running import STALE, newest, running
from ansible_collections.gpuops.mps.plugins.module_utils._selection import select
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENTS, ConfigMap, Node, Snapshot

Data = dict[str, t.Any]
# Without a key the operator's fallback is an empty file: every GPU is exclusive.
NO_SHARING = SharingConfig(name="", strategy=Strategy.NONE)
# Dozens of hardware facts on every node that say nothing about sharing.
DISCOVERY_PREFIX = "feature.node.kubernetes.io/"


def sharing_data(snapshot: Snapshot) -> Data:
    """Summary, cluster, policy, map and nodes."""
    in_force = _meanings(snapshot.referred_map, snapshot)
    nodes = [_node_data(node, snapshot, in_force) for node in snapshot.nodes]
    return {
        "summary": {
            "nodes": len(nodes),
            "gpus": sum(node["gpus"]["count"] or 0 for node in nodes),
            "by_config": dict(Counter(node["config"] or "" for node in nodes)),
            "by_product": dict(Counter(node["gpus"]["product"] or "" for node in nodes)),
            "gpu_pods": len(snapshot.gpu_pods),
            "stale": [node["name"] for node in nodes if node["running"] == STALE],
            "stale_resources": {node["name"]: stale for node in nodes if (stale := _stale_resources(node["capacity"]))},
        },
        "cluster": {
            "server": snapshot.server,
            "version": snapshot.server_version,
            "namespace": snapshot.namespace,
            "operator": snapshot.operator_version,
            "device_plugin": str(snapshot.plugin_version) if snapshot.plugin_version else None,
        },
        "policy": _policy_data(snapshot),
        "config_map": _config_map_data(snapshot.config_map, snapshot) if snapshot.config_map else None,
        "nodes": nodes,
    }


def _stale_resources(capacity: t.Mapping[str, int]) -> list[str]:
    """Resources that nothing offers any more: kubelet shows them at 0 until it starts again (kubernetes v1.37, cm/devicemanager/manager.go)."""
    return sorted(name for name, count in capacity.items() if count == 0)


def _policy_data(snapshot: Snapshot) -> Data | None:
    policy = snapshot.policy
    if policy is None:
        return None
    return {
        "name": policy.name,
        "state": policy.state,
        "config_name": policy.config_name,
        "config_default": policy.config_default,
        "mig_strategy": policy.mig_strategy,
        "update_strategy": policy.update_strategy,
        "owners": [{"kind": owner.kind, "name": owner.name, "namespace": owner.namespace} for owner in policy.owners],
    }


def _config_map_data(found: ConfigMap, snapshot: Snapshot) -> Data:
    managed = managed_keys(found)
    configs = {}
    for key, text in sorted(found.data.items()):
        reading = read_config(key, text, plugin_version=snapshot.plugin_version)
        configs[key] = {**_meaning(reading.config), "managed": key in managed, "findings": findings_data(reading.findings)}
    return {"name": found.name, "namespace": found.namespace, "configs": configs}


def _meanings(found: ConfigMap | None, snapshot: Snapshot) -> dict[str, tuple[str, SharingConfig | None]]:
    """Key -> hash of its text and what the text means (None: nothing that can be understood); read once for all nodes."""
    texts = found.data if found else {}
    return {key: (content_hash(text), read_config(key, text, plugin_version=snapshot.plugin_version).config) for key, text in texts.items()}


def _meaning(config: SharingConfig | None) -> Data:
    if config is None:
        return {"strategy": None, "replicas": None, "rename_by_default": None}
    return {"strategy": config.strategy.value, "replicas": config.replicas, "rename_by_default": config.rename_by_default}


def _node_data(node: Node, snapshot: Snapshot, in_force: t.Mapping[str, tuple[str, SharingConfig | None]]) -> Data:
    selection = select(node.config_label, snapshot.policy)
    content, meaning = in_force.get(selection.config or "", (None, None))
    gpus = node.gpus
    pods = {agent: newest(snapshot, node.name, agent) for agent in AGENTS}
    return {
        "name": node.name,
        "gpus": _gpus_data(gpus),
        "label": node.config_label,
        "config": selection.config,
        "source": selection.source,
        "running": running(node, snapshot, selection, content, _predict(NO_SHARING if selection.config is None else meaning, gpus, snapshot)).state,
        "agents": {agent: {"name": pod.name, "ready": pod.ready, "created": pod.created} if pod else None for agent, pod in pods.items()},
        "capacity": dict(node.capacity),
        "allocatable": dict(node.allocatable),
        "gpu_pods": [{"namespace": pod.namespace, "name": pod.name, "requests": dict(pod.requests)} for pod in snapshot.gpu_pods_on(node.name)],
        "ready": node.ready,
        "schedulable": not node.unschedulable,
        "kernel": node.kernel,
        "labels": {key: value for key, value in node.labels.items() if not key.startswith(DISCOVERY_PREFIX)},
    }


def _predict(meaning: SharingConfig | None, gpus: Gpus, snapshot: Snapshot) -> Prediction | None:
    mig_strategy = snapshot.policy.mig_strategy if snapshot.policy else None
    return predict(meaning, gpus, mig_strategy=mig_strategy or None, plugin_version=snapshot.plugin_version) if meaning else None


def _gpus_data(gpus: Gpus) -> Data:
    return {
        "product": gpus.product,
        "count": gpus.count,
        "memory_mib": gpus.memory_mib,
        "architecture": gpus.family,
        "compute": f"{gpus.compute[0]}.{gpus.compute[1]}" if gpus.compute else None,
        "driver": ".".join(map(str, gpus.driver)) if gpus.driver else None,
        "mig_enabled": gpus.mig_enabled,
        "mixed": gpus.mixed,
    }
