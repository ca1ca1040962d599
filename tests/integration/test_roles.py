# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles from an empty cluster to an empty cluster with Helm 3, and on an adopted installation with Helm 4."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.observation import allocatable
from tests.integration.operator_variables import LAB_DECLARATION, operator_variables
from tests.testbed.bed import TestBed

# Two clients for each GPU, four on the T4 nodes, none on the MIG node.
EXPECTED = {"gpu-t4-1": 8, "gpu-t4-2": 16, "gpu-v100-1": 2, "gpu-a100-1": 8, "gpu-h100-1": 16, "gpu-mig-1": 2, "gpu-mixed-1": 12}


def release_config(bed: TestBed, helm: str) -> dict[str, str]:
    """What the Helm release would render into the ClusterPolicy."""
    command = [str(bed.programs / helm), "get", "values", "gpu-operator", "-n", "gpu-operator", "-o", "json", f"--kubeconfig={bed.kubeconfig}"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["devicePlugin"]["config"]


def writes_of_the_user(bed: TestBed, since: int) -> list[Any]:
    """What Ansible and Helm wrote; the bed's own parts have users of their own."""
    return [event for event in bed.audit(since) if event.user == "admin" and event.mutating]


def left_behind(bed: TestBed) -> list[str]:
    """Our labels and annotations on nodes."""
    return [
        f"{node['metadata']['name']}: {key}"
        for node in bed.api.list("/api/v1/nodes")
        for key in {**node["metadata"].get("labels", {}), **node["metadata"].get("annotations", {})}
        if key.startswith("gpuops.mps/") or key == "nvidia.com/device-plugin.config"
    ]


@pytest.mark.slow
def test_from_nothing_to_shared_gpus_and_back_with_helm_3(bed_factory: Callable[..., TestBed], run_ansible: Callable[..., Any]) -> None:
    bed = bed_factory("helm-3", nodes="lab", instant=True)
    variables = {**LAB_DECLARATION, **operator_variables(bed, helm="helm3")}

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

    since = bed.mark()
    second = run_ansible("gpuops.mps.site", bed, variables=variables)
    assert (second.status, second.changed) == (0, 0), second.failure()
    assert not writes_of_the_user(bed, since)

    everything = {"mps_remove_operator": True, "gpu_operator_remove_crds": True}
    removed = run_ansible("gpuops.mps.remove", bed, variables={**variables, **everything})
    assert removed.status == 0, removed.failure()
    assert not left_behind(bed)
    assert not bed.api.list("/apis/apps/v1/namespaces/gpu-operator/deployments")
    labels = [key for node in bed.api.list("/api/v1/nodes") for key in node["metadata"].get("labels", {})]
    assert not [key for key in labels if key.startswith("nvidia.com/")]

    again = run_ansible("gpuops.mps.remove", bed, variables={**variables, **everything})
    assert (again.status, again.changed) == (0, 0), again.failure()


@pytest.mark.slow
def test_an_adopted_release_follows_every_change_and_the_removal(bed_factory: Callable[..., TestBed], run_ansible: Callable[..., Any]) -> None:
    bed = bed_factory("adopted", nodes="lab", instant=True)
    bed.install_operator_objects()
    bed.wait_until_settled()
    variables = {**LAB_DECLARATION, **operator_variables(bed), "mps_prove": "never"}
    adopted = run_ansible("gpuops.mps.site", bed, variables=variables)
    assert adopted.status == 0, adopted.failure()
    assert release_config(bed, "helm4") == {"name": "mps-configs", "default": "mps-two"}

    three = {"none": {}, "mps-two": {"replicas": 3}, "mps-four": {"replicas": 4}}
    changed = run_ansible("gpuops.mps.update", bed, variables={**variables, "mps_configs": three})
    assert changed.status == 0, changed.failure()
    assert allocatable(bed)["gpu-a100-1"] == 12

    back = run_ansible("gpuops.mps.rollback", bed, variables=variables)
    assert back.status == 0, back.failure()
    assert allocatable(bed)["gpu-a100-1"] == 8

    removed = run_ansible("gpuops.mps.remove", bed, variables=variables)
    assert removed.status == 0, removed.failure()
    assert not left_behind(bed)
    assert release_config(bed, "helm4") == {"name": "", "default": ""}
    assert allocatable(bed)["gpu-a100-1"] == 4
    (policy,) = bed.api.list("/apis/nvidia.com/v1/clusterpolicies")
    assert not policy["spec"]["devicePlugin"].get("config", {}).get("name")
