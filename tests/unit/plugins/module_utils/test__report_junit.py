# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given

from ansible_collections.gpuops.mps.plugins.module_utils._report import make_report
from ansible_collections.gpuops.mps.plugins.module_utils._report_junit import write_junit
from tests.unit.reports import GOOD, PROOF, RESULTS, ROLLOUT, VERIFICATION


def parse(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.encode())


def test_each_node_is_a_test_and_what_is_wrong_is_a_failure() -> None:
    suite = parse(write_junit(make_report(VERIFICATION, ROLLOUT, PROOF))).find("testsuite")
    assert suite is not None and (suite.get("tests"), suite.get("failures")) == ("4", "3")
    cases = {case.get("name"): case.find("failure") for case in suite.iter("testcase")}
    assert cases["gpu-1"] is None
    assert "49 > 48" in cases["gpu-2"].get("message") and cases["gpu-2"].get("type") == "daemon-ready"
    assert cases["proof with a workload"].get("message") == "'helm' put it back"


def test_a_clean_cluster_has_no_failures() -> None:
    suite = parse(write_junit(make_report({"nodes": [GOOD]}, None, {"passed": True}))).find("testsuite")
    assert suite is not None and (suite.get("tests"), suite.get("failures")) == ("2", "0")


@given(RESULTS, RESULTS, RESULTS)
def test_any_results_make_xml(verification: object, rollout: object, proof: object) -> None:
    parse(write_junit(make_report(verification, rollout, proof)))
