# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles from an empty cluster to an empty cluster with Helm 3, and on an adopted installation with Helm 4, with upgrades from a mirror."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.chart_mirror import CURRENT, FORMER, ChartMirror, chart_mirror
from tests.integration.observation import allocatable
from tests.integration.operator_variables import LAB_DECLARATION, operator_variables
from tests.testbed.bed import TestBed
from tests.testbed.build import build

# Two clients for each GPU, four on the T4 nodes, none on the MIG node.
EXPECTED = {"gpu-t4-1": 8, "gpu-t4-2": 16, "gpu-v100-1": 2, "gpu-a100-1": 8, "gpu-h100-1": 16, "gpu-mig-1": 2, "gpu-mixed-1": 12}


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChartMirror]:
    """Two versions of the chart in an HTTP repository and in an OCI registry."""
    with chart_mirror(build(), tmp_path_factory.mktemp("mirror")) as started:
        yield started


def helm(bed: TestBed, program: str, *arguments: str) -> Any:
    """What Helm says about the release, read as JSON."""
    command = [str(bed.programs / program), *arguments, "-n", "gpu-operator", "-o", "json", f"--kubeconfig={bed.kubeconfig}"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def release_values(bed: TestBed, program: str) -> dict[str, Any]:
    """The values that the release was last installed or upgraded with."""
    values: dict[str, Any] = helm(bed, program, "get", "values", "gpu-operator")
    return values


def release_config(bed: TestBed, program: str) -> dict[str, str]:
    """What the Helm release would render into the ClusterPolicy."""
    config: dict[str, str] = release_values(bed, program)["devicePlugin"]["config"]
    return config


def release_chart(bed: TestBed, program: str) -> str:
    """Name and version of the release's chart."""
    (release,) = helm(bed, program, "list")
    return str(release["chart"])


def writes_of_the_user(bed: TestBed, since: int) -> list[Any]:
    """What Ansible and Helm wrote; the bed's own parts have users of their own."""
    return [event for event in bed.audit(since) if event.user == "admin" and event.mutating]


def from_repository(mirror: ChartMirror, version: str) -> dict[str, Any]:
    """Variables for the chart of a version in the HTTP repository."""
    return {"gpu_operator_chart_ref": "gpu-operator", "gpu_operator_chart_repository": mirror.repository, "gpu_operator_chart_version": version}


def left_behind(bed: TestBed) -> list[str]:
    """Our labels and annotations on nodes."""
    return [
        f"{node['metadata']['name']}: {key}"
        for node in bed.api.list("/api/v1/nodes")
        for key in {**node["metadata"].get("labels", {}), **node["metadata"].get("annotations", {})}
        if key.startswith("gpuops.mps/") or key == "nvidia.com/device-plugin.config"
    ]


@pytest.mark.slow
def test_from_nothing_to_shared_gpus_and_back_with_helm_3(
    bed_factory: Callable[..., TestBed], run_ansible: Callable[..., Any], mirror: ChartMirror
) -> None:
    bed = bed_factory("helm-3", nodes="lab", instant=True)
    variables = {**LAB_DECLARATION, **operator_variables(bed, helm="helm3"), **from_repository(mirror, FORMER)}

    since = bed.mark()
    dry = run_ansible("gpuops.mps.site", bed, variables=variables, check=True)
    assert dry.status == 0, dry.failure()
    assert not writes_of_the_user(bed, since)

    first = run_ansible("gpuops.mps.site", bed, variables=variables)
    assert first.status == 0, first.failure()
    assert allocatable(bed) == EXPECTED
    assert first.result("vectorAdd")["passed"] is True
    table = "\n".join(first.result("each node's result")["msg"])
    assert "gpu-t4-2" in table and "3840 MiB" in table and "25 %" in table
    assert release_config(bed, "helm3") == {"name": "mps-configs", "default": "mps-two"}
    assert release_chart(bed, "helm3") == f"gpu-operator-{FORMER}"

    # Another version is named, but nobody asked for an upgrade.
    variables |= {"gpu_operator_chart_ref": mirror.oci, "gpu_operator_chart_repository": "", "gpu_operator_plain_http": True}
    variables["gpu_operator_chart_version"] = CURRENT
    since = bed.mark()
    second = run_ansible("gpuops.mps.site", bed, variables=variables)
    assert (second.status, second.changed) == (0, 0), second.failure()
    assert not writes_of_the_user(bed, since)

    since = bed.mark()
    asked = {**variables, "gpu_operator_upgrade": True}
    upgraded = run_ansible("gpuops.mps.site", bed, variables=asked, arguments=("--tags", "gpu_operator"))
    assert upgraded.status == 0, upgraded.failure()
    assert release_chart(bed, "helm3") == f"gpu-operator-{CURRENT}"
    assert release_config(bed, "helm3") == {"name": "mps-configs", "default": "mps-two"}
    assert allocatable(bed) == EXPECTED
    # What the chart of the same content renders otherwise is its version: no node had to follow.
    assert not [event for event in writes_of_the_user(bed, since) if event.resource in ("nodes", "pods", "configmaps")]

    everything = {"mps_remove_operator": True, "gpu_operator_remove_crds": True, "gpu_operator_remove_namespace": True}
    removed = run_ansible("gpuops.mps.remove", bed, variables={**variables, **everything})
    assert removed.status == 0, removed.failure()
    assert not left_behind(bed)
    assert not bed.api.find("/api/v1/namespaces/gpu-operator")
    assert not bed.api.find("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterpolicies.nvidia.com")
    labels = [key for node in bed.api.list("/api/v1/nodes") for key in node["metadata"].get("labels", {})]
    assert not [key for key in labels if key.startswith("nvidia.com/")]

    again = run_ansible("gpuops.mps.remove", bed, variables={**variables, **everything})
    assert (again.status, again.changed) == (0, 0), again.failure()


@pytest.mark.slow
def test_an_adopted_release_follows_every_change_and_the_removal(
    bed_factory: Callable[..., TestBed], run_ansible: Callable[..., Any], mirror: ChartMirror
) -> None:
    bed = bed_factory("adopted", nodes="lab", instant=True)
    bed.install_operator_objects({"daemonsets": {"labels": {"chosen-by": "the-user"}}})
    bed.wait_until_settled()
    former_chart = release_chart(bed, "helm4")
    variables = {**LAB_DECLARATION, **operator_variables(bed), "mps_prove": "never"}
    adopted = run_ansible("gpuops.mps.site", bed, variables=variables)
    assert adopted.status == 0, adopted.failure()
    assert release_config(bed, "helm4") == {"name": "mps-configs", "default": "mps-two"}
    assert release_chart(bed, "helm4") == former_chart

    variables |= from_repository(mirror, CURRENT)
    upgraded = run_ansible("gpuops.mps.site", bed, variables={**variables, "gpu_operator_upgrade": True})
    assert upgraded.status == 0, upgraded.failure()
    assert release_chart(bed, "helm4") == f"gpu-operator-{CURRENT}"
    assert release_values(bed, "helm4")["daemonsets"]["labels"] == {"chosen-by": "the-user"}
    assert allocatable(bed) == EXPECTED

    # Other replicas for most nodes, and MPS off for one.
    declared = {
        "mps_configs": {**LAB_DECLARATION["mps_configs"], "mps-two": {"replicas": 3}},
        "mps_node_groups": [*LAB_DECLARATION["mps_node_groups"], {"name": "exclusive", "config": "none", "nodes": ["gpu-v100-1"]}],
    }
    changed = run_ansible("gpuops.mps.update", bed, variables={**variables, **declared})
    assert changed.status == 0, changed.failure()
    assert (allocatable(bed)["gpu-a100-1"], allocatable(bed)["gpu-v100-1"]) == (12, 1)

    back = run_ansible("gpuops.mps.rollback", bed, variables=variables)
    assert back.status == 0, back.failure()
    assert (allocatable(bed)["gpu-a100-1"], allocatable(bed)["gpu-v100-1"]) == (8, 2)

    removed = run_ansible("gpuops.mps.remove", bed, variables=variables)
    assert removed.status == 0, removed.failure()
    assert not left_behind(bed)
    assert release_config(bed, "helm4") == {"name": "", "default": ""}
    assert allocatable(bed)["gpu-a100-1"] == 4
    (policy,) = bed.api.list("/apis/nvidia.com/v1/clusterpolicies")
    assert not policy["spec"]["devicePlugin"].get("config", {}).get("name")
