# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: a report as one HTML file: no script, no other file, readable on a phone, light and dark. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from ansible_collections.gpuops.mps.plugins.module_utils._report import CLEAN, ChangeRow, FindingRow, NodeRow, Report
from ansible_collections.gpuops.mps.plugins.module_utils._report_style import STYLE

_SENTENCES = {
    "clean": "Every GPU node is as it should be.",
    "drifted": "Every GPU node works, but something is not as declared any more.",
    "not right": "Some GPU nodes are not as they should be.",
    "not proven": "The nodes look right, but the proof with a workload failed.",
    "unknown": "No GPU node was verified.",
}
_TILES = (
    ("nodes", "GPU nodes", ""),
    ("verified", "verified", "good"),
    ("broken", "broken", "bad"),
    ("stale", "stale", "warn"),
    ("waiting", "waiting", "warn"),
    ("sharing", "share by MPS", ""),
    ("clients", "clients at once", ""),
)
_DASH = "–"
_WORD_FIRST = re.compile(r"[a-z]+ ")
_NUMBERS = ("Nodes", "Verified", "Replicas", "Allocatable", "Threads %", "MiB per client")
_WORDS = ("Config", "Resource")


def write_html(report: Report) -> str:
    """The report as a page of its own."""
    sections = [
        _head(report),
        _tiles(report),
        _trouble(report.nodes),
        _groups(report),
        _nodes(report.nodes),
        _findings("Drift", report.drift),
        _changes(report.changes),
        _findings("Findings", report.findings),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(report.title)}: {escape(report.state)}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(section for section in sections if section)
        + "\n</main>\n</body>\n</html>\n"
    )


def _head(report: Report) -> str:
    facts = (("Cluster", report.server), ("Namespace", report.namespace), ("Read at", report.read_at), ("Proof", report.proof or "not run"))
    shown = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in facts if value)
    kind = "good" if report.state == CLEAN else "warn" if report.state in ("drifted", "unknown") else "bad"
    return (
        f'<header class="{kind}">\n<h1>{escape(report.title)}</h1>\n'
        f'<p class="state"><b>{escape(report.state)}</b> {escape(_SENTENCES.get(report.state, ""))}</p>\n<dl>{shown}</dl>\n</header>'
    )


def _tiles(report: Report) -> str:
    tiles = "".join(_tile(report.counts.get(key, 0), name, kind) for key, name, kind in _TILES)
    return f'<ul class="tiles" aria-label="Summary">{tiles}</ul>'


def _tile(count: int, name: str, kind: str) -> str:
    return f'<li class="{kind if count else "none"}"><b>{count}</b><span>{name}</span></li>'


def _trouble(nodes: Iterable[NodeRow]) -> str:
    cards = [_trouble_card(node) for node in nodes if node.verdict != "verified"]
    return _section("What is not right", "".join(cards)) if cards else ""


def _trouble_card(node: NodeRow) -> str:
    kind = "bad" if node.verdict == "broken" else "warn"
    code = f' <a class="code" href="{_address(node.url)}">{escape(node.code)}</a>' if node.code else ""
    link = f'<p class="link">First broken link: <b>{escape(node.link)}</b>{code}</p>' if node.link else ""
    evidence = "".join(
        f"<li><code>{escape(one.subject)}</code> <span>{escape(one.field)}</span><br>is <q>{escape(one.value)}</q>"
        + (f", should be <q>{escape(one.expected)}</q>" if one.expected else "")
        + "</li>"
        for one in node.evidence
    )
    seen = f"<details open><summary>Evidence</summary><ul>{evidence}</ul></details>" if evidence else ""
    remedy = f'<p class="remedy"><b>What to do:</b> {escape(node.remedy)}</p>' if node.remedy else ""
    return (
        f'<article class="card {kind}" id="{_anchor(node.name)}"><h3>{escape(node.name)} <em class="{kind}">{escape(node.verdict)}</em></h3>'
        f"{link}<p>{escape(_sentence(node.reason))}</p>"
        f"{seen}{remedy}</article>"
    )


def _groups(report: Report) -> str:
    head = ("Group", "Config", "From", "Nodes", "Verified", "Allocatable", "Threads %", "MiB per client")
    rows = [
        (one.group or "no group", one.config, one.source, one.nodes, one.verified, one.allocatable, one.thread_percentage, one.memory_mib)
        for one in report.groups
    ]
    return _section("Groups", _table(head, [[_cell(value) for value in row] for row in rows])) if rows else ""


def _nodes(nodes: Iterable[NodeRow]) -> str:
    head = ("Node", "Verdict", "GPU", "Config", "Replicas", "Resource", "Allocatable", "Threads %", "MiB per client", "Proof")
    rows = [_node_cells(node) for node in nodes]
    return _section("Nodes", _table(head, rows)) if rows else ""


def _node_cells(node: NodeRow) -> list[str]:
    good = node.verdict == "verified"
    kind = "good" if good else "bad" if node.verdict == "broken" else "warn"
    name = escape(node.name) if good else f'<a href="#{_anchor(node.name)}">{escape(node.name)}</a>'
    before = f"{node.allocatable_before} → " if node.allocatable_before not in (None, node.allocatable) else ""
    config = escape(node.config) + (f" <small>({escape(node.source)})</small>" if node.source == "default" else "") if node.config else _DASH
    return [
        name,
        f'<em class="{kind}">{escape(node.verdict)}</em>',
        _cell(node.product),
        config,
        _cell(node.replicas),
        _cell(node.resource),
        before + _cell(node.allocatable),
        _cell(node.thread_percentage),
        _cell(node.memory_mib),
        _cell(node.proof),
    ]


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table whose cells carry their column's name, so that it can become a list of cards on a narrow screen."""
    names = list(head)
    heading = "".join(f'<th scope="col"{_classes(name, "")}>{name}</th>' for name in names)
    body = "".join("<tr>" + "".join(_data_cell(name, cell) for name, cell in zip(names, row, strict=True)) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table></div>'


def _data_cell(name: str, cell: str) -> str:
    return f'<td data-name="{name}"{_classes(name, cell)}><span>{cell}</span></td>'


def _classes(name: str, cell: str) -> str:
    """How a cell is set: numbers to the right, short words in one line, and what is empty not at all on a phone."""
    words = [word for word, columns in (("number", _NUMBERS), ("word", _WORDS)) if name in columns]
    words += ["empty"] if cell == _DASH else []
    return f' class="{" ".join(words)}"' if words else ""


def _findings(title: str, findings: Iterable[FindingRow]) -> str:
    items = []
    for found in findings:
        kind = {"error": "bad", "warning": "warn"}.get(found.severity, "none")
        subject = f'<p class="subject">{escape(found.subject)}</p>' if found.subject else ""
        remedy = f'<p class="remedy"><b>What to do:</b> {escape(found.remedy)}</p>' if found.remedy else ""
        items.append(
            f'<article class="card {kind}"><p><em class="{kind}">{escape(found.severity)}</em> '
            f'<a class="code" href="{_address(found.url)}">{escape(found.code)}</a></p>{subject}<p>{escape(_sentence(found.message))}</p>{remedy}</article>'
        )
    return _section(title, "".join(items)) if items else ""


def _changes(changes: Iterable[ChangeRow]) -> str:
    items = []
    for change in changes:
        removed = "".join(f"<del>- {escape(line)}</del>" for line in change.before.splitlines() if line not in change.after.splitlines())
        added = "".join(f"<ins>+ {escape(line)}</ins>" for line in change.after.splitlines() if line not in change.before.splitlines())
        items.append(f"<details open><summary>{escape(change.title or 'change')}</summary><pre>{removed}{added}</pre></details>")
    return _section("What changed", "".join(items)) if items else ""


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n{body}\n</section>"


def _cell(value: object) -> str:
    return _DASH if value is None or value == "" else escape(str(value))


def _sentence(text: str) -> str:
    """A message with a capital letter at its start, unless it begins with a name."""
    return text[:1].upper() + text[1:] if _WORD_FIRST.match(text) else text


def _anchor(name: str) -> str:
    return "node-" + "".join(character if character.isascii() and character.isalnum() else "-" for character in name)


def _address(url: str) -> str:
    """Only addresses that a browser opens as a page; anything else (a script, say) becomes an address in this page."""
    return escape(url) if url.startswith(("https://", "http://")) else f"#{escape(url.rpartition('#')[2])}"
