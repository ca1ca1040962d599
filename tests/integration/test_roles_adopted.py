# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles on an installation that was there before, with Helm 4: adopted, upgraded, changed, rolled back, removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.chart_mirror import CURRENT, ChartMirror
from tests.integration.observation import allocatable
from tests.integration.operator_variables import LAB_DECLARATION, operator_variables
from tests.integration.releases import EXPECTED, from_repository, left_behind, release_chart, release_config, release_values
from tests.testbed.bed import TestBed


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
    assert not bed.api.find("/api/v1/namespaces/gpu-operator/configmaps/mps-configs")
    assert not bed.api.find("/apis/coordination.k8s.io/v1/namespaces/gpu-operator/leases/gpuops-mps-rollout")
    assert release_config(bed, "helm4") == {"name": "", "default": ""}
    assert allocatable(bed)["gpu-a100-1"] == 4
    (policy,) = bed.api.list("/apis/nvidia.com/v1/clusterpolicies")
    assert not policy["spec"]["devicePlugin"].get("config", {}).get("name")
