# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two hundred nodes in batches of twenty, one of them bad: its batch goes back, the rest stays as it has to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.disturbance import watching
from tests.integration.rollouts import group, labels, nothing_left_behind, own_writes, roll, set_fault
from tests.testbed.bed import TestBed

NODES = 200
BATCH = 20
BAD = "gpu-0047"  # in the third batch
CONFIGS: dict[str, Any] = {"none": {}, "two": {"replicas": 2}}
NAMES = tuple(f"gpu-{number:04d}" for number in range(NODES))
# Written for each verified node: label and mark, three pods at most, the record.
WRITES_FOR_A_NODE = 5


@pytest.fixture(scope="module")
def bed(worker: str) -> Iterator[TestBed]:
    """A fleet with instant agents, on which every node has a config without sharing."""
    started = TestBed.start(f"fleet-{worker}", nodes=f"fleet:{NODES}", instant=True)
    try:
        started.install_operator_objects()
        started.wait_until_settled(600)
        result = roll(started, configs=CONFIGS, default="none", batch_size="100%", wait_timeout=600)
        assert result["state"] == "verified", result["msg"]
        yield started
    finally:
        started.stop()


@pytest.mark.reliability
def test_one_bad_node_takes_its_batch_back_and_nothing_else(bed: TestBed) -> None:
    """Forty nodes stay verified, twenty return, the others are never touched; no more than twenty disturbed at once."""
    set_fault(bed, BAD, "plugin-stuck")
    mark = bed.mark()
    with watching(bed) as watcher:
        result = roll(bed, configs=CONFIGS, default="none", node_groups=[group("two", *NAMES)], batch_size="10%", wait_timeout=90)
    verdicts = {node["name"]: node["verdict"] for node in result["nodes"]}
    assert [name for name in NAMES if verdicts[name] == "verified"] == list(NAMES[: 2 * BATCH])
    assert {verdicts[name] for name in NAMES[2 * BATCH : 3 * BATCH] if name != BAD} == {"returned"}
    assert {verdicts[name] for name in NAMES[3 * BATCH :]} == {"waiting"}
    assert BAD in result["msg"] and verdicts[BAD] in ("returned", "failed")
    found = labels(bed)
    assert {found[name] for name in NAMES[: 2 * BATCH]} == {"two"}
    assert {found[name] for name in NAMES[2 * BATCH :]} == {None}
    assert len(watcher.most) <= BATCH
    touched = {event.name for event in own_writes(bed, mark) if event.resource == "nodes"}
    assert touched == set(NAMES[: 3 * BATCH])
    set_fault(bed, BAD, None)
    mark = bed.mark()
    again = roll(bed, configs=CONFIGS, default="none", node_groups=[group("two", *NAMES)], batch_size="50%", wait_timeout=300)
    assert again["state"] == "verified" and set(labels(bed).values()) == {"two"}, again["msg"]
    assert len([event for event in own_writes(bed, mark) if event.resource in ("nodes", "pods")]) <= WRITES_FOR_A_NODE * (NODES - 2 * BATCH)
    nothing_left_behind(bed)
