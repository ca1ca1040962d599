# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: a report as Markdown, for merge requests and chats. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ansible_collections.gpuops.mps.plugins.module_utils._report import FindingRow, NodeRow, Report

_GROUP_HEAD = ("Group", "Config", "From", "Nodes", "Verified", "Allocatable", "Threads %", "MiB per client")
_NODE_HEAD = ("Node", "Verdict", "GPU", "Config", "Replicas", "Allocatable", "Threads %", "MiB per client", "Proof")
_ACTIVE = "\\`*_[]<>#|~&"
# What makes a list, a heading or a line of a text that begins with it: a run of signs, or a number before one.
_LINE_START = re.compile(r"[-+=]+|\d+(?=[.)])")


def write_markdown(report: Report) -> str:
    """The report as Markdown with tables (the dialect of GitHub and GitLab)."""
    counts = report.counts
    lines = [
        f"# {_plain(report.title)}",
        "",
        f"**{_plain(report.state)}**: {counts['verified']} of {counts['nodes']} GPU nodes verified, {counts['broken']} broken, {counts['stale']} stale, "
        f"{counts['waiting']} waiting. {counts['sharing']} nodes share by MPS and take {counts['clients']} clients.",
        "",
        *_facts(report),
    ]
    if report.groups:
        rows = [
            (row.group or "-", row.config or "-", row.source, row.nodes, row.verified, row.allocatable, row.thread_percentage or "-", row.memory_mib or "-")
            for row in report.groups
        ]
        lines += ["## Groups", "", *table(_GROUP_HEAD, rows)]
    if report.nodes:
        lines += ["## Nodes", "", *table(_NODE_HEAD, [_node_cells(node) for node in report.nodes])]
    for node in (node for node in report.nodes if node.reason):
        lines += _broken_node(node)
    if report.drift:
        lines += ["## Drift", "", *_findings(report.drift)]
    if report.changes:
        lines += ["## What changed", ""]
        for change in report.changes:
            lines += [f"### {_plain(change.title)}", "", *_fenced(change.before, change.after)]
    if report.findings:
        lines += ["## Findings", "", *_findings(report.findings)]
    return "\n".join(lines).rstrip() + "\n"


def _facts(report: Report) -> list[str]:
    facts = [("Cluster", report.server), ("Namespace", report.namespace), ("Read at", report.read_at), ("Proof", report.proof or "")]
    return [*(f"- {name}: {_plain(value)}" for name, value in facts if value), ""]


def _node_cells(node: NodeRow) -> tuple[object, ...]:
    known = "-" if node.allocatable is None else str(node.allocatable)
    allocatable = known if node.allocatable_before in (None, node.allocatable) else f"{node.allocatable_before} → {known}"
    replicas, threads, memory = ("-" if value is None else value for value in (node.replicas, node.thread_percentage, node.memory_mib))
    return (node.name, node.verdict, node.product or "-", node.config or "-", replicas, allocatable, threads, memory, node.proof or "-")


def _broken_node(node: NodeRow) -> list[str]:
    lines = [f"### {_plain(node.name)}: {_plain(node.verdict)} at {_plain(node.link or '-')}", "", _plain(node.reason), ""]
    if node.evidence:
        head = ("Where", "Field", "Is", "Should be")
        lines += table(head, [(one.subject, one.field, one.value, one.expected or "-") for one in node.evidence])
    lines += [f"What to do: {_plain(node.remedy)}", ""] if node.remedy else []
    return lines


def _findings(findings: Iterable[FindingRow]) -> list[str]:
    lines = []
    for found in findings:
        subject = f" ({_plain(found.subject)})" if found.subject else ""
        lines.append(f"- {_plain(found.severity)} [{_plain(found.code)}](<{_address(found.url)}>){subject}: {_plain(found.message)}. {_plain(found.remedy)}")
    return [*lines, ""]


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """The lines of a table; what the cells hold is shown as it is."""
    names = list(head)
    lines = [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]
    lines += [f"| {' | '.join(_plain(str(cell)) for cell in row)} |" for row in rows]
    return [*lines, ""]


def _fenced(before: str, after: str) -> list[str]:
    """A diff in a fence longer than any run of backticks inside."""
    removed = [f"- {line}" for line in before.splitlines()]
    added = [f"+ {line}" for line in after.splitlines()]
    fence = "```"
    while any(fence in line for line in (*removed, *added)):
        fence += "`"
    return [f"{fence}diff", *removed, *added, fence, ""]


def _plain(text: str) -> str:
    """Text that Markdown shows as it is: nothing in it becomes a heading, a link, a cell or a tag."""
    flat = " ".join(text.split())
    if flat == "-":
        return flat
    start = _LINE_START.match(flat)
    signs = start.group() if start and not start.group().isdigit() else ""
    escaped = "".join(f"\\{sign}" for sign in signs) or (f"{start.group()}\\" if start else "")
    rest = flat[start.end() :] if start else flat
    return escaped + "".join(f"\\{character}" if character in _ACTIVE else character for character in rest)


def _address(url: str) -> str:
    return "".join(character for character in url if character not in "<> \n\t\\")
