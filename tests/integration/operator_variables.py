# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ties the role gpu_operator to a test bed, and a declaration that fits the node set lab.

`python -m tests.integration.operator_variables [NAME]` prints the variables for the bed of that name as JSON; without a name those for
a cluster that is none, to which Helm and the chart come as they come to a user.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.testbed.bed import Settings, TestBed
from tests.testbed.build import build
from tests.testbed.chart import bed_values, chart_directory, simulation_values
from tests.testbed.layout import Layout

# The MIG node cannot share; everything else gets two clients for each GPU, the T4 nodes four.
LAB_DECLARATION: dict[str, Any] = {
    "mps_configs": {"none": {}, "mps-two": {"replicas": 2}, "mps-four": {"replicas": 4}},
    "mps_default": "mps-two",
    "mps_node_groups": [
        {"name": "t4", "config": "mps-four", "match": {"product": "Tesla-T4"}},
        # Which of its two products this node's labels name changes from time to time.
        {"name": "mixed", "config": "mps-four", "nodes": ["gpu-mixed-1"]},
        {"name": "partitioned", "config": "none", "nodes": ["gpu-mig-1"]},
    ],
    "mps_batch_size": "100%",
}


def operator_variables(bed: TestBed, *, helm: str = "helm4") -> dict[str, Any]:
    """Variables for the chart and the Helm of the bed's cache; ``helm`` is helm3 or helm4."""
    return {
        "gpu_operator_chart_ref": str(chart_directory(bed.programs)),
        "gpu_operator_chart_repository": "",
        "gpu_operator_helm": str(bed.programs / helm),
        "gpu_operator_values": bed_values(bed),
        "gpu_operator_wait_timeout": 300,
        "gpu_operator_wait_sleep": 2,
    }


def main(names: list[str]) -> None:
    """Print the variables of the bed, if one is named."""
    settings = Settings()
    chosen = {"gpu_operator_values": simulation_values(settings.plugin_version)}
    for name in names:
        chosen = operator_variables(TestBed(Layout.of(name), settings, build()))
    print(json.dumps(chosen, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
