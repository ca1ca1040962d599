# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest
from hypothesis import given

from ansible_collections.gpuops.mps.plugins.module_utils._report import FINDINGS_URL, make_report
from tests.unit.reports import BROKEN, DRIFT, GOOD, PROOF, RESULTS, ROLLOUT, VERIFICATION

WHOLE = make_report(VERIFICATION, ROLLOUT, PROOF)


@pytest.mark.parametrize(
    ("nodes", "drift", "proof", "wanted"),
    [
        ([GOOD], [], None, "clean"),
        ([GOOD], [], {"passed": True}, "clean"),
        ([GOOD], [DRIFT], None, "drifted"),
        ([GOOD, BROKEN], [DRIFT], {"passed": False}, "not right"),
        ([GOOD], [DRIFT], {"passed": False}, "not proven"),
        ([GOOD], [], {"skipped": True}, "clean"),
        ([], [], None, "unknown"),
    ],
)
def test_the_worst_decides_the_state(nodes: list, drift: list, proof: object, wanted: str) -> None:
    assert make_report({"nodes": nodes, "drift": drift}, None, proof).state == wanted


def test_what_is_not_right_comes_first() -> None:
    assert [node.name for node in WHOLE.nodes] == ["gpu-2", "gpu-1"]
    assert [found.code for found in WHOLE.findings] == ["daemon-refuses-replicas", "proof-timeout", "policy-put-back"]
    assert WHOLE.nodes[0].url == f"{FINDINGS_URL}daemon-refuses-replicas"


def test_a_node_has_its_numbers_before_and_after() -> None:
    node = WHOLE.nodes[1]
    assert (node.allocatable_before, node.allocatable, node.thread_percentage, node.memory_mib, node.proof) == (2, 8, 25, 3840, "passed")
    assert WHOLE.nodes[0].allocatable_before is None


def test_nodes_that_are_told_once_are_rows_of_their_own() -> None:
    report = make_report({"nodes": [{**GOOD, "names": ["gpu-1", "gpu-3"]}]}, ROLLOUT, PROOF)
    assert [(node.name, node.allocatable, node.allocatable_before) for node in report.nodes] == [("gpu-1", 8, 2), ("gpu-3", 8, None)]
    assert report.counts["clients"] == 16


def test_a_group_gathers_its_nodes() -> None:
    (group,) = WHOLE.groups
    assert (group.group, group.nodes, group.verified, group.allocatable, group.thread_percentage, group.memory_mib) == ("t4", 2, 1, 8, "2 to 25", "313 to 3840")


def test_only_real_changes_are_listed() -> None:
    assert [(change.title, change.before, change.after) for change in WHOLE.changes] == [("configmap", "replicas: 2\n", "replicas: 4\n")]


def test_counts_are_of_the_report_itself() -> None:
    assert WHOLE.counts == {"nodes": 2, "broken": 1, "stale": 0, "waiting": 0, "verified": 1, "sharing": 2, "clients": 8}


@given(RESULTS, RESULTS, RESULTS)
def test_any_results_make_a_report(verification: object, rollout: object, proof: object) -> None:
    report = make_report(verification, rollout, proof)
    json.dumps(report.as_dict(), allow_nan=False)
