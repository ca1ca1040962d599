# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One summary over clusters of which some failed, some have nothing to say, and some had no turn yet."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._report_fleet import REGISTERED, ClusterRow, summarise_fleet
from tests.unit.reports import BROKEN, GOOD, RESULTS, VERIFICATION

ROLLOUT: dict[str, Any] = {"state": "verified", "nodes": [{"name": "gpu-1", "verdict": "verified"}, {"name": "gpu-3", "verdict": "unchanged"}]}
PLAN: dict[str, Any] = {"plan": {"summary": {"nodes": 7, "nodes_changed": 2}}}


def row(finished: bool, **variables: Any) -> ClusterRow:
    """The row of one cluster with these variables."""
    (found,) = summarise_fleet({"a": variables}, ["a"], ["a"] if finished else []).clusters
    return found


@pytest.mark.parametrize(
    ("finished", "variables", "expected"),
    [
        (True, {}, ClusterRow("a", "not reached", 0, 0, 0, 0, "")),
        (True, {"_mps_rollout": {"skipped": True}}, ClusterRow("a", "not reached", 0, 0, 0, 0, "")),
        (False, {}, ClusterRow("a", "failed", 0, 0, 0, 0, "see the failed task")),
        (True, {"_mps_plan": PLAN}, ClusterRow("a", "planned", 7, 0, 2, 0, "")),
        (True, {"_mps_rollout": ROLLOUT}, ClusterRow("a", "verified", 2, 0, 1, 0, "")),
        (True, {"_mps_before": {"summary": {}}}, ClusterRow("a", "done", 0, 0, 0, 0, "")),
        (True, {"_mps_rollout": ROLLOUT, "_mps_verification": {"nodes": [GOOD]}}, ClusterRow("a", "clean", 1, 1, 1, 8, "")),
        (True, {"mps_verification_result": {"nodes": [GOOD]}, "_mps_verification": {"nodes": []}}, ClusterRow("a", "clean", 1, 1, 0, 8, "")),
        (True, {"mps_verification_result": VERIFICATION}, ClusterRow("a", "not right", 2, 1, 0, 8, "")),
        (False, {"mps_verification_result": {"nodes": [BROKEN]}}, ClusterRow("a", "failed", 1, 0, 0, 0, f"gpu-2: {BROKEN['reason']}")),
        (False, {"_mps_rollout": {"failed": True, "msg": "first line\nmore"}}, ClusterRow("a", "failed", 0, 0, 0, 0, "first line")),
    ],
)
def test_a_cluster(finished: bool, variables: dict[str, Any], expected: ClusterRow) -> None:
    assert row(finished, **variables) == expected


def test_all_clusters_in_the_order_of_the_play() -> None:
    variables = {"b": {"_mps_rollout": ROLLOUT}, "a": {"_gpu_operator_found": {"failed": True, "msg": "no | API"}}, "c": {}}
    summary = summarise_fleet(variables, ["b", "a", "c"], ["b", "c"])
    assert (summary.failed, summary.not_reached) == (("a",), ("c",))
    lines = summary.lines()
    assert [line.split()[:2] for line in lines[1:4]] == [["b", "verified"], ["a", "failed"], ["c", "not"]]
    assert lines[-1].split() == ["all", "3", "1", "done", "2", "0", "1", "0"]
    assert "no \\| API" in summary.markdown()
    assert summary.as_dict()["clusters"][1]["reason"] == "no | API"


@given(st.dictionaries(st.sampled_from([name for names in REGISTERED.values() for name in names]), RESULTS), st.booleans())
def test_whatever_a_run_left_behind_is_summarised(variables: dict[str, Any], finished: bool) -> None:
    summary = summarise_fleet({"a": variables}, ["a", "unknown"], ["a"] if finished else [])
    assert [found.cluster for found in summary.clusters] == ["a", "unknown"]
    assert (summary.clusters[0].state == "failed") == (not finished)
    assert len(summary.lines()) == 4
    assert len(summary.markdown().splitlines()) >= 7
