# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every kind of change, one after the other on the same cluster, with both generations of the device plugin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.integration.disturbance import watching
from tests.integration.rollouts import (
    LABEL,
    MAP,
    agreement,
    allocatable,
    group,
    labels,
    nothing_left_behind,
    own_writes,
    roll,
    write_node_set,
)
from tests.integration.verifications import verify
from tests.testbed.bed import TestBed

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
TIME_SLICING = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n      - name: nvidia.com/gpu\n        replicas: 4\n"


@dataclass(frozen=True)
class Change:
    """One change: what is declared, and what each node offers afterwards. C(before) prepares the cluster by other hands."""

    name: str
    options: dict[str, Any]
    offered: dict[str, dict[str, int]]
    by_hand: bool = False
    labels: dict[str, str | None] = field(default_factory=dict)


def four(a: int, b: int, c: int, d: int, resource: str = GPU, renamed: str = "abcd") -> dict[str, dict[str, int]]:
    """What the four nodes offer; C(renamed) are the nodes that offer it under C(resource)."""
    counts = {"gpu-a": a, "gpu-b": b, "gpu-c": c, "gpu-d": d}
    return {name: {resource if name[-1] in renamed else GPU: count} for name, count in counts.items()}


CONFIGS: dict[str, Any] = {"none": {}, "two": {"replicas": 2}, "four": {"replicas": 4}}
ON_AB = [group("two", "gpu-a", "gpu-b")]

LABELS_DIFFER = (  # plugins before 0.18.2: any label on any node
    Change("none to MPS", {"configs": CONFIGS, "default": "none", "node_groups": ON_AB}, four(4, 6, 1, 4)),
    Change("replicas in place", {"configs": {**CONFIGS, "two": {"replicas": 3}}, "default": "none", "node_groups": ON_AB}, four(6, 9, 1, 4)),
    Change("relabel between MPS configs", {"configs": CONFIGS, "default": "none", "node_groups": [group("four", "gpu-a", "gpu-b")]}, four(8, 12, 1, 4)),
    Change(
        "rename on",
        {"configs": {**CONFIGS, "four": {"replicas": 4, "rename_by_default": True}}, "default": "none", "node_groups": [group("four", "gpu-a", "gpu-b")]},
        four(8, 12, 1, 4, SHARED, "ab"),
    ),
    Change("rename off", {"configs": CONFIGS, "default": "none", "node_groups": [group("four", "gpu-a", "gpu-b")]}, four(8, 12, 1, 4)),
    Change("MPS to none", {"configs": CONFIGS, "default": "none", "node_groups": [group("none", "gpu-a", "gpu-b")]}, four(2, 3, 1, 4)),
    Change("time-slicing to MPS", {"configs": CONFIGS, "default": "none", "node_groups": [group("four", "gpu-c")]}, four(2, 3, 4, 4), by_hand=True),
    Change("default changed", {"configs": CONFIGS, "default": "two", "node_groups": [], "on_left_group": "remove"}, four(4, 6, 2, 8)),
    Change("default removed", {"configs": CONFIGS, "default": "", "node_groups": []}, four(2, 3, 1, 4)),
)

LABELS_FOLLOW_THE_DEFAULT = (  # plugins from 0.18.2: MPS is the default, and only the other nodes are labelled
    Change("none to MPS", {"configs": CONFIGS, "default": "two", "node_groups": [group("none", "gpu-c", "gpu-d")]}, four(4, 6, 1, 4)),
    Change(
        "replicas in place",
        {"configs": {**CONFIGS, "two": {"replicas": 3}}, "default": "two", "node_groups": [group("none", "gpu-c", "gpu-d")]},
        four(6, 9, 1, 4),
    ),
    Change("default changed", {"configs": CONFIGS, "default": "four", "node_groups": [group("none", "gpu-c", "gpu-d")]}, four(8, 12, 1, 4)),
    Change(
        "rename on",
        {"configs": {**CONFIGS, "four": {"replicas": 4, "rename_by_default": True}}, "default": "four", "node_groups": [group("none", "gpu-c", "gpu-d")]},
        four(8, 12, 1, 4, SHARED, "ab"),
    ),
    Change("rename off", {"configs": CONFIGS, "default": "four", "node_groups": [group("none", "gpu-c", "gpu-d")]}, four(8, 12, 1, 4)),
    Change("one node more", {"configs": CONFIGS, "default": "four", "node_groups": [group("none", "gpu-c")], "on_left_group": "remove"}, four(8, 12, 1, 16)),
    Change("time-slicing to MPS", {"configs": CONFIGS, "default": "four", "node_groups": [group("four", "gpu-c")]}, four(8, 12, 4, 16), by_hand=True),
    Change("MPS to none", {"configs": CONFIGS, "default": "none", "node_groups": [], "on_left_group": "remove"}, four(2, 3, 1, 4)),
    Change("default removed", {"configs": CONFIGS, "default": "", "node_groups": []}, four(2, 3, 1, 4)),
)


@pytest.fixture(scope="module", params=["0.17.4", "0.20.0"])
def bed(request: pytest.FixtureRequest, worker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBed]:
    """Four GPU nodes with fast agents of one version."""
    nodes = write_node_set(tmp_path_factory.mktemp("nodes"))
    started = TestBed.start(f"matrix-{request.param.replace('.', '')}-{worker}", nodes=nodes, plugin_version=request.param, instant=True)
    try:
        started.install_operator_objects()
        started.wait_until_settled()
        yield started
    finally:
        started.stop()


def test_every_change_is_carried_out_batch_by_batch(bed: TestBed) -> None:
    """Each change ends verified, disturbs no more than two nodes at once, and leaves nothing of the rollout behind."""
    newer = bed.settings.plugin_version == "0.20.0"
    for change in LABELS_FOLLOW_THE_DEFAULT if newer else LABELS_DIFFER:
        if change.by_hand:
            share_time_by_hand(bed, "gpu-c")
        with watching(bed) as watcher:
            result = roll(bed, batch_size="2", canary=["1"], **change.options)
        assert result["state"] == "verified", (change.name, result.get("msg"), result["findings"], result["progress"])
        assert result["changed"], change.name
        assert allocatable(bed) == change.offered, change.name
        assert len(watcher.most) <= 2, (change.name, watcher.most)
        agreement(bed)
        assert_verification_agrees(bed, change)
        nothing_left_behind(bed)
    assert_second_run_writes_nothing(bed, change.options)


def assert_verification_agrees(bed: TestBed, change: Change) -> None:
    """What the rollout's own gate took for done, the verification of every node takes for right, limits and memory included."""
    result = verify(bed, limits="all", **change.options)
    assert result["verified"], (change.name, [(node["names"], node["code"], node["reason"]) for node in result["nodes"]])


def assert_second_run_writes_nothing(bed: TestBed, options: dict[str, Any]) -> None:
    """The same again: no change, and not one mutating request in the audit log."""
    mark = bed.mark()
    again = roll(bed, **options)
    assert (again["state"], again["changed"]) == ("verified", False)
    assert {node["name"]: node["allocatable_before"] for node in again["nodes"]} == allocatable(bed), "before is before this run"
    assert own_writes(bed, mark) == []


def share_time_by_hand(bed: TestBed, node: str) -> None:
    """Somebody else has set a node up for time-slicing: a key and a label that this collection did not write."""
    bed.api.patch(MAP, {"data": {"sliced": TIME_SLICING}})
    bed.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {LABEL: "sliced"}}})
    bed.wait_for("time-slicing", lambda: allocatable(bed)[node] == {GPU: 4}, seconds=40)
    assert labels(bed)[node] == "sliced"


def test_a_label_that_the_plugin_cannot_follow_is_refused(bed: TestBed) -> None:
    """From 0.18.2 a label that differs from the default breaks the MPS pods: refused before anything is written."""
    mark = bed.mark()
    result = roll(bed, check=bed.settings.plugin_version != "0.20.0", configs=CONFIGS, default="none", node_groups=ON_AB)
    if bed.settings.plugin_version == "0.20.0":
        assert result["state"] == "refused" and "label-against-default" in {found["code"] for found in result["findings"]}
    else:
        assert result["state"] == "planned"
    assert own_writes(bed, mark) == []


def test_check_mode_shows_batches_and_writes_nothing(bed: TestBed) -> None:
    """Per batch: nodes, predicted labels and allocatable, pods that break, usual duration."""
    mark = bed.mark()
    result = roll(bed, check=True, configs=CONFIGS, default="four", batch_size="2", canary=["gpu-c"])
    assert (result["state"], result["changed"]) == ("planned", True)
    assert [[node["name"] for node in batch["nodes"]] for batch in result["batches"]] == [["gpu-c"], ["gpu-a", "gpu-b"], ["gpu-d"]]
    first = result["batches"][0]
    assert first["nodes"][0]["allocatable"] == {"before": {GPU: 1}, "after": {GPU: 4}}
    assert first["nodes"][0]["labels"]["nvidia.com/gpu.replicas"] == {"before": "1", "after": "4"}
    assert {node["verdict"] for node in result["nodes"]} == {"planned"}
    assert {node["name"]: node["allocatable_after"][GPU] for node in result["nodes"]} == {"gpu-a": 8, "gpu-b": 12, "gpu-c": 4, "gpu-d": 16}
    assert first["estimated_seconds"] > 0 and first["gpu_pods"] == []
    assert any("gpu-c: config four" in part["after"] for part in result["diff"])
    assert own_writes(bed, mark) == []
