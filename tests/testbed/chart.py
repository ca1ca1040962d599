# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install NVIDIA's GPU Operator chart into a bed with the real Helm."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from tests.testbed.bed import TestBed

VALUES = Path(__file__).parent / "values.yml"
NAMESPACE = "gpu-operator"
RELEASE = "gpu-operator"


class ChartError(Exception):
    """Helm refused; the message is its own."""


def chart_directory(programs: Path) -> Path:
    """Return the chart of the operator's own Go module."""
    return programs / "operator-chart"


def install(bed: TestBed, values: Mapping[str, Any]) -> None:
    """Install or upgrade the release with values.yml, the bed's plugin version and `values` on top. Raises ChartError."""
    helm(
        bed,
        "upgrade",
        "--install",
        RELEASE,
        str(chart_directory(bed.programs)),
        f"--namespace={NAMESPACE}",
        "--create-namespace",
        "--values=-",
        # With server-side apply the chart's `default: null` is refused by its own CRD.
        "--server-side=false",
        values=merged(bed_values(bed), values),
    )


def bed_values(bed: TestBed) -> dict[str, Any]:
    """Return the chart values every installation on this bed needs."""
    return simulation_values(bed.settings.plugin_version)


def simulation_values(plugin_version: str) -> dict[str, Any]:
    """Return the chart values for a cluster with simulated GPU nodes: values.yml and the plugin's version."""
    version = {"version": f"v{plugin_version}"}
    return merged(yaml.safe_load(VALUES.read_text()), {"devicePlugin": version, "gfd": version})


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return chart values as Helm merges them: mappings key by key, everything else replaced."""
    result = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merged(result[key], value) if both else value
    return result


def uninstall(bed: TestBed) -> None:
    """Remove the release. Raises ChartError."""
    helm(bed, "uninstall", RELEASE, f"--namespace={NAMESPACE}", "--wait")


def helm(bed: TestBed, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
    """Run Helm 4 against the bed and return what it prints. Raises ChartError."""
    command = [str(bed.programs / "helm4"), f"--kubeconfig={bed.kubeconfig}", *arguments]
    answer = subprocess.run(command, input=json.dumps(values or {}), capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise ChartError(f"helm {arguments[0]}: {answer.stderr.strip()}")
    return answer.stdout
