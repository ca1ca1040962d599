# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bed on which nothing moves by itself: the real API server with the operator's objects, and neither operator nor agents.

What the modules that write one thing do there is all that happens, so that nothing has to settle between two tries.
"""

from __future__ import annotations

from pathlib import Path

from tests.reliability.operations import LABEL, MAP_PATH, NAMESPACE, POLICY_PATH
from tests.testbed.bed import TestBed

NODES = Path(__file__).parent / "nodes.yml"
GPU_LABELS = {
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.product": "Tesla-T4",
    "nvidia.com/gpu.count": "2",
    "nvidia.com/gpu.memory": "15360",
    "nvidia.com/gpu.compute.major": "7",
    "nvidia.com/gpu.compute.minor": "5",
    "nvidia.com/mig.capable": "false",
}
GPU_NODES = ("gpu-1", "gpu-2")


def start(name: str) -> TestBed:
    """A quiet bed with two GPU nodes."""
    bed = TestBed.start(name, nodes=str(NODES), operator=False, agents=False)
    bed.install_operator_objects()
    bed.wait_for("the ClusterPolicy", lambda: bed.api.find(POLICY_PATH))
    for node in GPU_NODES:
        bed.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": GPU_LABELS}})
    return bed


def reset(bed: TestBed) -> None:
    """Take away what the writers write."""
    bed.api.patch(POLICY_PATH, {"spec": {"devicePlugin": {"config": None}}})
    for node in GPU_NODES:
        bed.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {LABEL: None}}})
    bed.api.delete(MAP_PATH)
    bed.api.delete(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/gpuops-mps-rollout")
