# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what is installed of the GPU Operator, who manages it, and what it still waits for."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import Owner

OPERATOR = "gpu-operator"  # the Deployment's name in the chart and in the OLM bundle alike
POLICY_CRD = "clusterpolicies.nvidia.com"
# GPU Operator v24.3.0 is the first that deploys the MPS control daemon (assets/state-mps-control-daemon).
FIRST_WITH_MPS = (24, 3, 0)
# gpu-operator v25.3.4, controllers/state_manager.go: a node with any of these labels at "true" is a GPU node.
PCI_LABELS = tuple(f"feature.node.kubernetes.io/pci-{identifier}.present" for identifier in ("10de", "0302_10de", "0300_10de"))
# Operands without which nothing is advertised, and the node label that asks for each (semantics of state_manager.go).
NEEDED_ON_NODES: t.Mapping[str, str] = {
    "nvidia-device-plugin-daemonset": "nvidia.com/gpu.deploy.device-plugin",
    "gpu-feature-discovery": "nvidia.com/gpu.deploy.gpu-feature-discovery",
}
Object = t.Mapping[str, t.Any]


@dataclass(frozen=True)
class Operand:
    """A DaemonSet that the operator made, with the counts of its status."""

    name: str
    generation: int
    observed_generation: int
    desired: int
    updated: int
    available: int
    on_delete: bool

    def missing(self) -> str | None:
        """What this DaemonSet still waits for, or None.

        The status counts only for the generation that it has observed; with OnDelete old pods are no fault.
        """
        if self.observed_generation < self.generation:
            return f"daemonset/{self.name}: its newest generation {self.generation} is not observed yet"
        if not self.on_delete and self.updated < self.desired:
            return f"daemonset/{self.name}: {self.updated} of {self.desired} pods are of the newest template"
        if self.available < self.desired:
            return f"daemonset/{self.name}: {self.available} of {self.desired} pods are available"
        return None


@dataclass(frozen=True)
class Policy:
    """The ClusterPolicy that the operator follows."""

    name: str
    state: str  # status.state, "" when the operator has not written it yet
    config_name: str
    config_default: str


@dataclass(frozen=True)
class Installation:
    """Everything the role gpu_operator decides from. C(deployment) holds desired, updated and available pods, None when absent."""

    namespace: str
    namespace_labels: t.Mapping[str, str] | None  # None: the namespace does not exist
    deployment: Operand | None
    version: str | None
    owner: Owner | None
    policy: Policy | None
    operands: tuple[Operand, ...]
    gpu_nodes: int
    labelled_nodes: t.Mapping[str, int]  # operand -> nodes whose label asks for it
    standalone_plugins: tuple[str, ...]  # DaemonSets of NVIDIA's device plugin chart, as namespace/name

    @property
    def supported(self) -> bool | None:
        """Whether this operator can do MPS; None when its version cannot be told."""
        version = parse_version(self.version)
        return None if version is None else version >= FIRST_WITH_MPS

    def waiting_for(self, minimum_nodes: int) -> tuple[str, ...]:
        """Everything that is not as it must be before MPS can be configured, in the order in which it comes about."""
        if self.deployment is None:
            return (f"deployment/{OPERATOR} does not exist in namespace {self.namespace}",)
        found = [_deployment_missing(self.deployment)]
        if self.policy is None:
            found.append("no ClusterPolicy exists")
        elif self.policy.state != "ready":
            found.append(f"clusterpolicy/{self.policy.name} is {self.policy.state or 'not seen by the operator yet'}")
        if self.gpu_nodes < minimum_nodes:
            found.append(f"{self.gpu_nodes} GPU nodes are known, at least {minimum_nodes} are expected (Node Feature Discovery labels them)")
        found += [operand.missing() for operand in self.operands]
        found += [self._unserved(name) for name in NEEDED_ON_NODES]
        return tuple(reason for reason in found if reason)

    def _unserved(self, name: str) -> str | None:
        """Why the operand has no pods though nodes ask for it: the API calls such a DaemonSet complete."""
        nodes = self.labelled_nodes.get(name, 0)
        operand = next((operand for operand in self.operands if operand.name == name), None)
        if not nodes or (operand and operand.desired):
            return None
        if operand is None:
            return f"daemonset/{name} does not exist though {nodes} nodes ask for it"
        return f"daemonset/{name} wants no pod though {nodes} nodes ask for it: compare their taints with spec.daemonsets.tolerations"

    def as_dict(self, minimum_nodes: int) -> dict[str, t.Any]:
        """The result of the module."""
        waiting_for = self.waiting_for(minimum_nodes)
        return {
            "installed": self.deployment is not None,
            "namespace": self.namespace,
            "namespace_labels": None if self.namespace_labels is None else dict(self.namespace_labels),
            "version": self.version,
            "supported": self.supported,
            "owner": {"kind": self.owner.kind, "name": self.owner.name, "namespace": self.owner.namespace} if self.owner else None,
            "policy": self.policy.name if self.policy else None,
            "config": {"name": self.policy.config_name, "default": self.policy.config_default} if self.policy else None,
            "gpu_nodes": self.gpu_nodes,
            "standalone_plugins": list(self.standalone_plugins),
            "ready": not waiting_for,
            "waiting_for": list(waiting_for),
        }


def _deployment_missing(deployment: Operand) -> str | None:
    """What the operator's own Deployment waits for; none wanted means that somebody scaled it to zero."""
    if deployment.desired == 0:
        return f"deployment/{OPERATOR} is scaled to 0 replicas"
    reason = deployment.missing()
    return reason.replace("daemonset/", "deployment/") if reason else None


def parse_version(text: str | None) -> tuple[int, int, int] | None:
    """C(v25.3.4-ubi9) -> (25, 3, 4); None for anything that is no such version (a digest, a branch)."""
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", text or "")
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def read_owner(metadata: Object) -> Owner | None:
    """Who manages an object, from the marks that each tool leaves; Flux installs with Helm and is asked before it."""
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("kind") == "ClusterServiceVersion":
            return Owner("olm", reference.get("name", ""), metadata.get("namespace", ""))
    if "olm.owner" in labels:
        return Owner("olm", labels["olm.owner"], labels.get("olm.owner.namespace", ""))
    if tracking := annotations.get("argocd.argoproj.io/tracking-id"):
        return Owner("argocd", tracking.partition(":")[0])
    if "argocd.argoproj.io/instance" in labels:
        return Owner("argocd", labels["argocd.argoproj.io/instance"])
    for prefix in ("helm.toolkit.fluxcd.io", "kustomize.toolkit.fluxcd.io"):
        if f"{prefix}/name" in labels:
            return Owner("flux", labels[f"{prefix}/name"], labels.get(f"{prefix}/namespace", ""))
    if "meta.helm.sh/release-name" in annotations:
        return Owner("helm", annotations["meta.helm.sh/release-name"], annotations.get("meta.helm.sh/release-namespace", ""))
    return None


def read_daemon_set(daemon_set: Object) -> Operand:
    """An operand's numbers from its API object."""
    status, spec = daemon_set.get("status") or {}, daemon_set.get("spec") or {}
    return Operand(
        name=daemon_set["metadata"]["name"],
        generation=int(daemon_set["metadata"].get("generation") or 0),
        observed_generation=int(status.get("observedGeneration") or 0),
        desired=int(status.get("desiredNumberScheduled") or 0),
        updated=int(status.get("updatedNumberScheduled") or 0),
        available=int(status.get("numberAvailable") or 0),
        on_delete=(spec.get("updateStrategy") or {}).get("type") == "OnDelete",
    )


def read_deployment(deployment: Object) -> Operand:
    """The operator's Deployment as the same numbers."""
    status, spec = deployment.get("status") or {}, deployment.get("spec") or {}
    return Operand(
        name=deployment["metadata"]["name"],
        generation=int(deployment["metadata"].get("generation") or 0),
        observed_generation=int(status.get("observedGeneration") or 0),
        desired=int(spec.get("replicas", 1)),
        updated=int(status.get("updatedReplicas") or 0),
        available=int(status.get("availableReplicas") or 0),
        on_delete=False,
    )


def read_version(deployment: Object) -> str | None:
    """The operator's version: its image's tag, else what its chart says."""
    containers = deployment.get("spec", {}).get("template", {}).get("spec", {}).get("containers") or ()
    tags = [image.rpartition(":")[2] for image in (container.get("image", "") for container in containers) if "@" not in image]
    label = (deployment["metadata"].get("labels") or {}).get("app.kubernetes.io/version")
    return next((text for text in (*tags, label) if parse_version(text)), tags[0] if tags else label)


def read_policy(policies: t.Sequence[Object]) -> Policy | None:
    """The active ClusterPolicy: the operator follows the oldest one (clusterpolicy_controller.go)."""
    if not policies:
        return None
    active = min(policies, key=lambda policy: (policy["metadata"].get("creationTimestamp", ""), policy["metadata"]["name"]))
    config = ((active.get("spec") or {}).get("devicePlugin") or {}).get("config") or {}
    state = (active.get("status") or {}).get("state") or ""
    return Policy(active["metadata"]["name"], state, config.get("name") or "", config.get("default") or "")


def is_gpu_node(labels: t.Mapping[str, str]) -> bool:
    """Whether the operator takes a node with these labels for a GPU node."""
    return any(labels.get(label) == "true" for label in PCI_LABELS) or labels.get("nvidia.com/gpu.present") == "true"


def is_standalone_plugin(daemon_set: Object) -> bool:
    """Whether a DaemonSet comes from NVIDIA's device plugin chart: it would register the same resource as the operator's."""
    metadata = daemon_set["metadata"]
    owned = any(reference.get("kind") == "ClusterPolicy" for reference in metadata.get("ownerReferences") or ())
    return not owned and (metadata.get("labels") or {}).get("app.kubernetes.io/name") == "nvidia-device-plugin"
