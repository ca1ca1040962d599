# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bed on which nothing moves by itself, and kubernetes.core's own test matrix for modules that write.

The chart's objects are there, the operator and the agents are not: what changes was changed by the module under test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.testbed.audit import AuditEvent
from tests.testbed.bed import TestBed

NAMESPACE = "gpu-operator"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
MAP = f"{CONFIG_MAPS}/mps-configs"
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
CONFIG_LABEL = "nvidia.com/device-plugin.config"
NONE = "version: v1\n"
MPS_TWO = "version: v1\nsharing:\n  mps:\n    resources:\n      - name: nvidia.com/gpu\n        replicas: 2\n"

Run = Callable[..., dict[str, Any]]


def start_quiet(name: str) -> TestBed:
    """Start a bed with the lab's nodes and the chart's objects."""
    bed = TestBed.start(name, operator=False, agents=False)
    bed.install_operator_objects()
    for node in bed.api.list("/api/v1/nodes"):
        if node["metadata"]["name"] != "cpu-1":
            bed.api.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"metadata": {"labels": {"nvidia.com/gpu.present": "true"}}})
    return bed


def wipe(bed: TestBed) -> None:
    """Remove what a writer may have written."""
    bed.api.patch(POLICY, {"spec": {"devicePlugin": {"config": {"name": None, "default": None}}}})
    if bed.api.find(MAP):
        bed.api.delete(MAP)
    for node in bed.api.list("/api/v1/nodes"):
        if CONFIG_LABEL in node["metadata"]["labels"]:
            set_label(bed, node["metadata"]["name"], None)


def set_label(bed: TestBed, node: str, value: str | None) -> None:
    """Write a node's config label as somebody else."""
    bed.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {CONFIG_LABEL: value}}})


def label(bed: TestBed, node: str) -> str | None:
    """A node's config label."""
    return bed.api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"].get(CONFIG_LABEL)


def write_map(bed: TestBed, data: Mapping[str, str], **metadata: Any) -> None:
    """Create the map as somebody else."""
    bed.api.post(CONFIG_MAPS, {"metadata": {"name": "mps-configs", **metadata}, "data": dict(data)})


def refer(bed: TestBed, name: str | None, default: str | None = None) -> None:
    """Set the policy's two fields as somebody else."""
    bed.api.patch(POLICY, {"spec": {"devicePlugin": {"config": {"name": name, "default": default}}}})


def writes(bed: TestBed, mark: int) -> list[AuditEvent]:
    """The writes that the collection has sent since the mark, dry runs included."""
    return [event for event in bed.audit(mark) if event.user_agent == "gpuops.mps" and event.verb not in ("get", "list", "watch")]


@dataclass(frozen=True)
class Step:
    """One of create, modify and delete: the module's options and the state that they lead to."""

    name: str
    arguments: Mapping[str, Any]
    state: Any


def twelve_steps(bed: TestBed, run: Run, module: str, steps: tuple[Step, ...], look: Callable[[], Any]) -> None:
    """kubernetes.core's matrix: create, modify and delete, in check mode and really, the first time and again.

    C(look) returns what the module is about. Check mode must change nothing, send no write that is not a dry run, and
    return exactly what the real run returns; both again must find nothing to do, and the real one must send no write at all.
    """
    for step in steps:
        before, mark = look(), bed.mark()
        foretold = run(bed, module, step.arguments, check=True, diff=True)
        assert foretold["changed"] and not foretold.get("failed"), f"{step.name}: {foretold}"
        assert look() == before, step.name
        assert [event for event in writes(bed, mark) if not event.dry_run] == [], step.name
        assert run(bed, module, step.arguments, diff=True) == foretold, step.name
        assert look() == step.state, step.name
        mark = bed.mark()
        settled = run(bed, module, step.arguments, diff=True)
        assert not settled["changed"] and settled["diff"]["before"] == settled["diff"]["after"], step.name
        assert run(bed, module, step.arguments, check=True, diff=True) == settled, step.name
        assert writes(bed, mark) == [], step.name
