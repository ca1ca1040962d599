# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a bed back to the state right after the operator's install, so that tests can share it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.testbed.chart import NAMESPACE
from tests.testbed.node_sets import GPU_ANNOTATION

if TYPE_CHECKING:
    from tests.testbed.bed import TestBed

POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
PLAIN_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease", NAMESPACE})
PLAIN_CONFIG_MAPS = frozenset({"kube-root-ca.crt"})
CONFIG_LABEL = "nvidia.com/device-plugin.config"
# The DaemonSets whose pods read a sharing config.
DISCOVERY = "gpu-feature-discovery"
AGENTS = frozenset({DISCOVERY, "nvidia-device-plugin-daemonset", "nvidia-device-plugin-mps-control-daemon"})
# Annotations that must stay on a node; all others of ours and of the bed's knobs go.
KEPT_ANNOTATIONS = frozenset({GPU_ANNOTATION})
OUR_PREFIXES = ("gpuops.mps/", "testbed.gpuops.example/")


def reset(bed: TestBed) -> None:
    """Remove what tests left on the cluster and wait until agents and operator have settled. Raises BedError."""
    _remove_workloads(bed)
    _reset_policy(bed)
    for node in bed.api.list("/api/v1/nodes"):
        _reset_node(bed, node)
    # Only now: a pod that still reads a config must not lose its file before policy and operator have let go of it.
    if bed.settings.operator and bed.api.find(POLICY):
        bed.wait_for("operator that follows the policy", lambda: _operator_follows(bed.api.get(POLICY), _daemon_sets(bed)), poll=0.2)
    _remove_config_maps(bed)
    bed.api.delete(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/gpuops-mps-rollout")
    bed.wait_until_settled()


def settled(bed: TestBed) -> bool:
    """Tell whether the policy is ready, the operator has followed it, every DaemonSet is rolled out, and no node still shows a sharing config."""
    policy = bed.api.find(POLICY)
    if not policy or policy.get("status", {}).get("state") != "ready":
        return False
    daemon_sets = _daemon_sets(bed)
    rolled_out = bool(daemon_sets) and all(_rolled_out(daemon_set) for daemon_set in daemon_sets)
    return rolled_out and _operator_follows(policy, daemon_sets) and _agents_settled(bed, policy)


def _daemon_sets(bed: TestBed) -> list[dict[str, Any]]:
    return bed.api.list(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets")


def _operator_follows(policy: dict[str, Any], daemon_sets: list[dict[str, Any]]) -> bool:
    """Tell whether the agents' DaemonSets carry the policy's config and version; the policy's own state may be from before."""
    plugin = policy["spec"]["devicePlugin"]
    agents = [one for one in daemon_sets if one["metadata"]["name"] in AGENTS]
    images = [one["spec"]["template"]["spec"]["containers"][0]["image"] for one in agents if one["metadata"]["name"] != DISCOVERY]
    return all(image.endswith(plugin.get("version") or "") for image in images) and all(_carries_config(one, plugin.get("config") or {}) for one in agents)


def _carries_config(daemon_set: dict[str, Any], config: dict[str, Any]) -> bool:
    spec = daemon_set["spec"]["template"]["spec"]
    managers = [container for container in spec["containers"] if container["name"] == "config-manager"]
    if not config.get("name"):
        return not managers
    maps = {volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume}
    defaults = [variable.get("value", "") for manager in managers for variable in manager.get("env", []) if variable["name"] == "DEFAULT_CONFIG"]
    return config["name"] in maps and [config.get("default", "")] == (defaults or [""])


def _rolled_out(daemon_set: dict[str, Any]) -> bool:
    status = daemon_set.get("status", {})
    wanted = status.get("desiredNumberScheduled", 0)
    return (
        status.get("observedGeneration") == daemon_set["metadata"]["generation"]
        and status.get("updatedNumberScheduled", 0) == wanted
        and status.get("numberAvailable", 0) == wanted
        and status.get("currentNumberScheduled", 0) == wanted
    )


def _agents_settled(bed: TestBed, policy: dict[str, Any]) -> bool:
    """Without a sharing config every GPU node must advertise its whole GPUs, and nothing shared."""
    if not bed.settings.agents or policy["spec"]["devicePlugin"].get("config", {}).get("name"):
        return True
    return all(_whole_gpus(node) for node in bed.api.list("/api/v1/nodes", labelSelector="nvidia.com/gpu.present=true"))


def _whole_gpus(node: dict[str, Any]) -> bool:
    labels, allocatable = node["metadata"]["labels"], node["status"]["allocatable"]
    advertised = any(name.startswith("nvidia.com/") and amount != "0" for name, amount in allocatable.items())
    shared = labels.get("nvidia.com/mps.capable") == "true" or labels.get("nvidia.com/gpu.sharing-strategy", "none") != "none"
    return advertised and not shared and allocatable.get("nvidia.com/gpu.shared", "0") == "0"


def _remove_workloads(bed: TestBed) -> None:
    for namespace in bed.api.list("/api/v1/namespaces"):
        if namespace["metadata"]["name"] not in PLAIN_NAMESPACES:
            bed.api.delete(f"/api/v1/namespaces/{namespace['metadata']['name']}")
    for kind in ("apis/apps/v1/namespaces/default/deployments", "apis/batch/v1/namespaces/default/jobs", "api/v1/namespaces/default/pods"):
        bed.api.delete(f"/{kind}", propagationPolicy="Background")
    bed.wait_for("end of the tests' pods", lambda: not list(_foreign_pods(bed)))


def _foreign_pods(bed: TestBed) -> Iterator[str]:
    for pod in bed.api.list("/api/v1/pods"):
        if pod["metadata"]["namespace"] not in (NAMESPACE, "kube-system"):
            yield pod["metadata"]["name"]


def _reset_policy(bed: TestBed) -> None:
    policy = bed.api.find(POLICY)
    if policy is None:
        return
    # `mps` and `config` are absent after an install; everything else a test changed, it puts back itself.
    present = {key: None for key in ("config", "mps") if key in policy["spec"]["devicePlugin"]}
    if present:
        bed.api.patch(POLICY, {"spec": {"devicePlugin": present}})


def _reset_node(bed: TestBed, node: dict[str, Any]) -> None:
    metadata, path = node["metadata"], f"/api/v1/nodes/{node['metadata']['name']}"
    annotations = {key: None for key in metadata.get("annotations", {}) if key.startswith(OUR_PREFIXES) and key not in KEPT_ANNOTATIONS}
    labels = {CONFIG_LABEL: None} if CONFIG_LABEL in metadata["labels"] else {}
    patch: dict[str, Any] = {}
    if annotations or labels:
        patch["metadata"] = {"annotations": annotations, "labels": labels}
    if node["spec"].get("unschedulable"):
        patch["spec"] = {"unschedulable": None}
    if patch:
        bed.api.patch(path, patch)


def _remove_config_maps(bed: TestBed) -> None:
    collection = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    for config_map in bed.api.list(collection):
        metadata = config_map["metadata"]
        if metadata["name"] not in PLAIN_CONFIG_MAPS and "ownerReferences" not in metadata and not _of_helm(metadata):
            bed.api.delete(f"{collection}/{metadata['name']}")


def _of_helm(metadata: dict[str, Any]) -> bool:
    return "meta.helm.sh/release-name" in metadata.get("annotations", {})
