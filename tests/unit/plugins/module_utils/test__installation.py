# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What counts as an installed and ready GPU Operator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._installation import (
    Installation,
    Operand,
    Policy,
    is_gpu_node,
    is_standalone_plugin,
    parse_version,
    read_daemon_set,
    read_deployment,
    read_owner,
    read_policy,
    read_version,
)
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import Owner

PLUGIN = Operand("nvidia-device-plugin-daemonset", generation=2, observed_generation=2, desired=3, updated=3, available=3, on_delete=False)
DISCOVERY = replace(PLUGIN, name="gpu-feature-discovery")
DAEMON = replace(PLUGIN, name="nvidia-device-plugin-mps-control-daemon", desired=0, updated=0, available=0)
READY = Installation(
    namespace="gpu-operator",
    namespace_labels={},
    deployment=Operand("gpu-operator", generation=1, observed_generation=1, desired=1, updated=1, available=1, on_delete=False),
    version="v25.3.4",
    owner=Owner("helm", "gpu-operator", "gpu-operator"),
    policy=Policy("cluster-policy", "ready", "mps-configs", "mps-two"),
    operands=(PLUGIN, DISCOVERY, DAEMON),
    gpu_nodes=3,
    labelled_nodes={"nvidia-device-plugin-daemonset": 3, "gpu-feature-discovery": 3},
    standalone_plugins=(),
)


def test_nothing_is_missing_from_a_complete_installation_without_mps() -> None:
    """The MPS DaemonSet wants no pod before MPS is configured, and that is right."""
    assert READY.waiting_for(3) == ()
    assert READY.as_dict(1)["ready"] is True


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"deployment": None}, "deployment/gpu-operator does not exist in namespace gpu-operator"),
        ({"deployment": replace(READY.deployment, desired=0, updated=0, available=0)}, "deployment/gpu-operator is scaled to 0 replicas"),
        ({"deployment": replace(READY.deployment, available=0)}, "deployment/gpu-operator: 0 of 1 pods are available"),
        ({"policy": None}, "no ClusterPolicy exists"),
        ({"policy": Policy("cluster-policy", "", "", "")}, "clusterpolicy/cluster-policy is not seen by the operator yet"),
        ({"policy": Policy("cluster-policy", "notReady", "", "")}, "clusterpolicy/cluster-policy is notReady"),
        ({"gpu_nodes": 0}, "0 GPU nodes are known"),
        ({"operands": (replace(PLUGIN, generation=3), DISCOVERY)}, "daemonset/nvidia-device-plugin-daemonset: its newest generation 3 is not observed yet"),
        ({"operands": (replace(PLUGIN, updated=1), DISCOVERY)}, "daemonset/nvidia-device-plugin-daemonset: 1 of 3 pods are of the newest template"),
        ({"operands": (PLUGIN, replace(DISCOVERY, available=2))}, "daemonset/gpu-feature-discovery: 2 of 3 pods are available"),
        ({"operands": (DISCOVERY,)}, "daemonset/nvidia-device-plugin-daemonset does not exist though 3 nodes ask for it"),
        ({"operands": (DAEMON, DISCOVERY, replace(PLUGIN, desired=0, updated=0, available=0))}, "daemonset/nvidia-device-plugin-daemonset wants no pod"),
    ],
)
def test_what_is_missing_is_named(change: dict, expected: str) -> None:
    """Each fault alone is the one that is reported."""
    waiting_for = replace(READY, **change).waiting_for(1)
    assert len(waiting_for) == 1
    assert waiting_for[0].startswith(expected)


def test_old_pods_of_an_on_delete_daemon_set_are_no_fault() -> None:
    """The driver's DaemonSet is OnDelete: its pods stay old until somebody deletes them."""
    driver = replace(PLUGIN, name="nvidia-driver-daemonset", updated=0, on_delete=True)
    assert replace(READY, operands=(*READY.operands, driver)).waiting_for(1) == ()


@pytest.mark.parametrize(
    ("version", "expected"),
    [("v23.9.2", False), ("v24.3.0", True), ("v25.3.4-ubi9", True), ("26.7.0", True), ("devel-ubi8", None), (None, None)],
)
def test_the_first_operator_with_mps_is_24_3(version: str | None, expected: bool | None) -> None:
    """GPU Operator v24.3.0 added the MPS control daemon's DaemonSet."""
    assert replace(READY, version=version).supported is expected


def test_a_version_needs_three_numbers() -> None:
    """A branch or a digest says nothing about the version."""
    assert parse_version("v25.3.4") == (25, 3, 4)
    assert parse_version("sha256") is None


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, None),
        ({"annotations": {"meta.helm.sh/release-name": "gpu", "meta.helm.sh/release-namespace": "ops"}}, Owner("helm", "gpu", "ops")),
        ({"labels": {"helm.toolkit.fluxcd.io/name": "gpu", "helm.toolkit.fluxcd.io/namespace": "flux-system"}}, Owner("flux", "gpu", "flux-system")),
        ({"annotations": {"argocd.argoproj.io/tracking-id": "gpu-stack:apps/Deployment:gpu-operator/gpu-operator"}}, Owner("argocd", "gpu-stack")),
        ({"labels": {"argocd.argoproj.io/instance": "gpu-stack"}}, Owner("argocd", "gpu-stack")),
        ({"labels": {"olm.owner": "gpu-operator-certified.v25.3.4", "olm.owner.namespace": "ops"}}, Owner("olm", "gpu-operator-certified.v25.3.4", "ops")),
        ({"namespace": "ops", "ownerReferences": [{"kind": "ClusterServiceVersion", "name": "csv"}]}, Owner("olm", "csv", "ops")),
    ],
)
def test_owner_marks(metadata: dict, expected: Owner | None) -> None:
    """Each tool's own mark names it."""
    assert read_owner(metadata) == expected


def test_flux_wins_over_the_helm_marks_it_leaves() -> None:
    """Flux installs charts with Helm, so both marks are there, and Flux is who puts things back."""
    metadata = {
        "annotations": {"meta.helm.sh/release-name": "gpu", "meta.helm.sh/release-namespace": "ops"},
        "labels": {"helm.toolkit.fluxcd.io/name": "gpu", "helm.toolkit.fluxcd.io/namespace": "flux-system"},
    }
    assert read_owner(metadata) == Owner("flux", "gpu", "flux-system")


def test_api_objects_become_numbers() -> None:
    """Fields that the API leaves out while they are zero are zero."""
    daemon_set = {"metadata": {"name": "a", "generation": 4}, "spec": {"updateStrategy": {"type": "OnDelete"}}, "status": {"desiredNumberScheduled": 2}}
    assert read_daemon_set(daemon_set) == Operand("a", 4, 0, 2, 0, 0, True)
    deployment = {"metadata": {"name": "b", "generation": 1}, "spec": {}, "status": {"observedGeneration": 1, "updatedReplicas": 1, "availableReplicas": 1}}
    assert read_deployment(deployment) == Operand("b", 1, 1, 1, 1, 1, False)


@pytest.mark.parametrize(
    ("image", "label", "expected"),
    [
        ("registry.example:5000/nvidia/gpu-operator:v25.3.4", "v24.9.0", "v25.3.4"),
        ("registry.example/nvidia/gpu-operator@sha256:0123", "v24.9.0", "v24.9.0"),
        ("registry.example/nvidia/gpu-operator:mirrored", "v24.9.0", "v24.9.0"),
        ("registry.example/nvidia/gpu-operator:devel-ubi8", None, "devel-ubi8"),
    ],
)
def test_version_comes_from_image_or_chart(image: str, label: str | None, expected: str) -> None:
    """A digest or a mirror's own tag leaves the chart's label as the witness."""
    labels = {"app.kubernetes.io/version": label} if label else {}
    deployment = {"metadata": {"name": "gpu-operator", "labels": labels}, "spec": {"template": {"spec": {"containers": [{"image": image}]}}}}
    assert read_version(deployment) == expected


def test_the_oldest_policy_is_the_active_one() -> None:
    """The operator ignores every younger ClusterPolicy."""
    old = {
        "metadata": {"name": "z", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"devicePlugin": {"config": {"name": "m"}}},
        "status": {"state": "ready"},
    }
    young = {"metadata": {"name": "a", "creationTimestamp": "2026-02-01T00:00:00Z"}, "spec": {}}
    assert read_policy([young, old]) == Policy("z", "ready", "m", "")
    assert read_policy([]) is None


def test_gpu_nodes_and_standalone_plugins() -> None:
    """Labels decide in both cases; the operator's own DaemonSet is never standalone."""
    assert is_gpu_node({"feature.node.kubernetes.io/pci-0302_10de.present": "true"})
    assert not is_gpu_node({"feature.node.kubernetes.io/pci-8086.present": "true"})
    labels = {"app.kubernetes.io/name": "nvidia-device-plugin"}
    assert is_standalone_plugin({"metadata": {"name": "nvdp", "labels": labels}})
    assert not is_standalone_plugin({"metadata": {"name": "nvdp", "labels": labels, "ownerReferences": [{"kind": "ClusterPolicy"}]}})
