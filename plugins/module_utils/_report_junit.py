# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: a report as JUnit XML, so that a CI system shows nodes as tests. Pure."""

from __future__ import annotations

from xml.etree import ElementTree

from ansible_collections.gpuops.mps.plugins.module_utils._report import NodeRow, Report


def write_junit(report: Report) -> str:
    """One test case for each node, for each drifted thing, and one for the proof; what is not right is a failure."""
    cases = [_node_case(node) for node in report.nodes]
    cases += [_case("drift", f"{found.subject} {found.code}", found.message, found.remedy) for found in report.drift]
    if report.proof is not None:
        problem = "" if report.proof == "passed" else next((found.message for found in report.findings if found.code.startswith("proof-")), "the proof failed")
        cases.append(_case("proof", "proof with a workload", problem, ""))
    failures = sum(case.find("failure") is not None for case in cases)
    attributes = {"name": report.title, "tests": str(len(cases)), "failures": str(failures), "errors": "0"}
    suites = ElementTree.Element("testsuites", attributes)
    suite = ElementTree.SubElement(suites, "testsuite", {**attributes, "timestamp": report.read_at, "hostname": report.server})
    suite.extend(cases)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"


def _node_case(node: NodeRow) -> ElementTree.Element:
    problem = "" if node.verdict == "verified" else node.reason or node.verdict
    evidence = "\n".join(f"{one.subject} {one.field}: {one.value}" + (f" (should be {one.expected})" if one.expected else "") for one in node.evidence)
    return _case("nodes", node.name, problem, "\n".join(part for part in (evidence, node.remedy) if part), kind=node.link or node.verdict)


def _case(group: str, name: str, problem: str, details: str, *, kind: str = "") -> ElementTree.Element:
    case = ElementTree.Element("testcase", {"classname": f"gpuops.mps.{group}", "name": name, "time": "0"})
    if problem:
        failure = ElementTree.SubElement(case, "failure", {"message": problem, "type": kind or group})
        failure.text = details
    return case
