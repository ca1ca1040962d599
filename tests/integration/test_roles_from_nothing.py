# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles from an empty cluster to an empty cluster with Helm 3, with charts from an HTTP and an OCI mirror."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.chart_mirror import CURRENT, FORMER, ChartMirror
from tests.integration.observation import allocatable
from tests.integration.operator_variables import LAB_DECLARATION, operator_variables
from tests.integration.releases import EXPECTED, from_repository, left_behind, release_chart, release_config, writes_of_the_user
from tests.integration.rights import signed_in
from tests.testbed.bed import TestBed


@pytest.mark.slow
def test_from_nothing_to_shared_gpus_and_back_with_helm_3(bed_factory: Callable[..., TestBed], run_ansible: Callable[..., Any], mirror: ChartMirror) -> None:
    bed = bed_factory("helm-3", nodes="lab", instant=True)
    variables = {**LAB_DECLARATION, **operator_variables(bed, helm="helm3"), **from_repository(mirror, FORMER)}

    installer = signed_in(bed, "installer", everywhere=True)  # who makes the namespace, and removes it

    since = bed.mark()
    dry = run_ansible("gpuops.mps.site", bed, kubeconfig=installer, variables=variables, check=True)
    assert dry.status == 0, dry.failure()
    assert not writes_of_the_user(bed, since)

    first = run_ansible("gpuops.mps.site", bed, kubeconfig=installer, variables=variables)
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
    second = run_ansible("gpuops.mps.site", bed, kubeconfig=installer, variables=variables)
    assert (second.status, second.changed) == (0, 0), second.failure()
    assert not writes_of_the_user(bed, since)

    since = bed.mark()
    asked = {**variables, "gpu_operator_upgrade": True}
    upgraded = run_ansible("gpuops.mps.site", bed, kubeconfig=installer, variables=asked, arguments=("--tags", "gpu_operator"))
    assert upgraded.status == 0, upgraded.failure()
    assert release_chart(bed, "helm3") == f"gpu-operator-{CURRENT}"
    assert release_config(bed, "helm3") == {"name": "mps-configs", "default": "mps-two"}
    assert allocatable(bed) == EXPECTED
    # What the chart of the same content renders otherwise is its version: no node had to follow.
    assert not [event for event in writes_of_the_user(bed, since) if event.resource in ("nodes", "pods", "configmaps")]

    everything = {"mps_remove_operator": True, "gpu_operator_remove_crds": True, "gpu_operator_remove_namespace": True}
    removed = run_ansible("gpuops.mps.remove", bed, kubeconfig=installer, variables={**variables, **everything})
    assert removed.status == 0, removed.failure()
    assert not left_behind(bed)
    assert not bed.api.find("/api/v1/namespaces/gpu-operator")
    assert not bed.api.find("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterpolicies.nvidia.com")
    labels = [key for node in bed.api.list("/api/v1/nodes") for key in node["metadata"].get("labels", {})]
    assert not [key for key in labels if key.startswith("nvidia.com/")]

    again = run_ansible("gpuops.mps.remove", bed, kubeconfig=installer, variables={**variables, **everything})
    assert (again.status, again.changed) == (0, 0), again.failure()
