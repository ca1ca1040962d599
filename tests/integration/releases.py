# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Helm says about the operator's release, and what a removal must not leave behind."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.integration.chart_mirror import ChartMirror
from tests.integration.rights import requests_of_accounts
from tests.testbed.bed import TestBed

# Two clients for each GPU, four on the T4 nodes, none on the MIG node.
EXPECTED = {"gpu-t4-1": 8, "gpu-t4-2": 16, "gpu-v100-1": 2, "gpu-a100-1": 8, "gpu-h100-1": 16, "gpu-mig-1": 2, "gpu-mixed-1": 12}


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
    """What Ansible and Helm wrote."""
    return [event for event in requests_of_accounts(bed, since) if event.mutating]


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
