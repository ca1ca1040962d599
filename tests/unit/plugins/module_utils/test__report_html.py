# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._report import make_report
from ansible_collections.gpuops.mps.plugins.module_utils._report_html import write_html
from tests.unit.reports import PROOF, RESULTS, ROLLOUT, VERIFICATION

PAGE = write_html(make_report(VERIFICATION, ROLLOUT, PROOF))
VOID = {"meta", "br"}
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "section", "article", "h1", "h2", "h3", "p", "b", "em", "small", "q", "code", "span"),
    *("dl", "div", "dt", "dd", "ul", "li", "a", "br", "details", "summary", "pre", "del", "ins", "table", "thead", "tbody", "tr", "th", "td"),
}


class Reader(HTMLParser):
    """Collects tags, attributes and text, and holds that every element is closed in its order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def test_the_page_shows_everything() -> None:
    text = read(PAGE).text
    for words in ("gpu-1", "gpu-2", "2 → 8", "49 > 48", "What to do:", "'helm' put it back", "+ replicas: 4", "daemon-ready", "Not right".lower()):
        assert words in text


def test_the_page_needs_nothing_else() -> None:
    reader = read(PAGE)
    assert {"script", "img", "link", "iframe"} & reader.tags == set()
    assert "url(" not in PAGE and "@import" not in PAGE
    assert "prefers-color-scheme: dark" in PAGE and "width=device-width" in PAGE
    assert all(value.startswith(("https://", "#")) for name, value in reader.attributes if name == "href")


def test_links_inside_the_page_lead_somewhere() -> None:
    attributes = read(PAGE).attributes
    anchors = {value for name, value in attributes if name == "id"}
    assert {value[1:] for name, value in attributes if name == "href" and value.startswith("#")} <= anchors


HOSTILE = st.text(alphabet=st.sampled_from("<>\"&/' ascriptxml=-!#()"), max_size=20)


@given(st.fixed_dictionaries(dict.fromkeys(("node", "verdict", "reason", "remedy", "code", "link", "config", "group", "source", "resource"), HOSTILE)), HOSTILE)
def test_nothing_in_a_value_becomes_markup(node: dict[str, Any], title: str) -> None:
    verification = {
        "nodes": [{**node, "evidence": [{"subject": title, "field": title, "value": title, "expected": title}]}],
        "server": title,
        "findings": [node],
    }
    changes = {"plan_diff": [{"before_header": title, "before": title, "after": node["reason"]}]}
    reader = read(write_html(make_report(verification, changes, title=title, findings_url="javascript:alert(1)//")))
    assert reader.tags <= ALLOWED
    assert not any(name.startswith("on") or value.startswith("javascript") for name, value in reader.attributes)


@given(RESULTS, RESULTS, RESULTS)
def test_any_results_make_a_page(verification: object, rollout: object, proof: object) -> None:
    read(write_html(make_report(verification, rollout, proof)))
