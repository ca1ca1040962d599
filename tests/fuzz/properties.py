# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold for every hostile input. Each property is a function of one input; PROPERTIES pairs it with where its inputs come from."""

from __future__ import annotations

import html.parser
import json
import re
from collections.abc import Callable, Iterable
from typing import Any
from xml.etree import ElementTree

from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._annotations import annotated
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_answer import Answer, error_of
from ansible_collections.gpuops.mps.plugins.module_utils._config_map import (
    FORMER_ANNOTATION,
    MANAGED_ANNOTATION,
    check_name,
    config_map_patch,
    keys_of,
    plan_config_map,
    users_now,
)
from ansible_collections.gpuops.mps.plugins.module_utils._declaration import parse_declaration
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import read_config, read_config_map
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_case import Evidence, LogKey
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_logs import explain, failed_start, last_line, waits_for_daemon
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, is_final
from ansible_collections.gpuops.mps.plugins.module_utils._report import make_report
from ansible_collections.gpuops.mps.plugins.module_utils._report_files import write_json
from ansible_collections.gpuops.mps.plugins.module_utils._report_html import write_html
from ansible_collections.gpuops.mps.plugins.module_utils._report_junit import write_junit
from ansible_collections.gpuops.mps.plugins.module_utils._report_markdown import write_markdown
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import read_mark
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_record import ROLLOUT_ANNOTATION, read_record
from ansible_collections.gpuops.mps.plugins.module_utils._validation import Request, report, validate
from tests.fuzz import hostile
from tests.unit.clusters import with_map

HTML_TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "section", "article", "h1", "h2", "h3", "p", "b", "em", "small", "q", "code", "span"),
    *("dl", "div", "dt", "dd", "ul", "li", "a", "br", "details", "summary", "pre", "del", "ins", "table", "thead", "tbody", "tr", "th", "td"),
}
VOID = {"meta", "br"}


def are_harmless(findings: Iterable[Finding]) -> None:
    """Findings that can be printed on a terminal, and encoded."""
    for found in findings:
        for text in (found.path, found.message, found.remedy, found.subject):
            is_harmless(text)


def is_harmless(text: str) -> None:
    """Nothing in the text acts on a terminal, and it can be written to a file."""
    assert text.replace("\n", "").replace("\t", "").isprintable()
    assert len(text) < 20_000
    text.encode("utf-8")


def a_config_text_is_read_or_refused(text: str) -> None:
    """The strict reader answers with findings."""
    reading = read_config("key", text)
    are_harmless(reading.findings)
    assert (reading.config is None) == any(is_final(found) for found in reading.findings)


def a_map_is_read_or_refused(data: dict[str, str]) -> None:
    """The same for all keys."""
    readings, findings = read_config_map(data)
    assert len(readings) == len(data)
    are_harmless([*findings, *(found for reading in readings for found in reading.findings)])


def a_declaration_is_parsed_or_refused(given: tuple[Any, Any, Any]) -> None:
    """The parser answers with findings, and never with half a declaration."""
    declaration, findings = parse_declaration(*given)
    are_harmless(findings)
    assert (declaration is None) == any(is_final(found) for found in findings)


def a_validation_answers(given: dict[str, Any]) -> None:
    """Everything that mps_validate takes at once."""
    validation = validate(Request(**given))
    are_harmless(validation.findings)
    report(validation.errors)


def a_map_is_planned(given: tuple[Any, dict[str, str], dict[str, str]]) -> None:
    """Whatever others wrote into map and annotations: the plan touches declared keys and own ones only."""
    configs, data, annotations = given
    declaration, _findings = parse_declaration(configs)
    wanted = declaration.configs if declaration else ()
    snapshot = with_map(data=data, annotations=annotations)
    plan, findings = plan_config_map(wanted, snapshot, keys=keys_of(wanted, "in_place"), users=users_now(snapshot))
    are_harmless(findings)
    owned = {str(key) for key in annotated(annotations, MANAGED_ANNOTATION, list)}
    assert {change.key for change in plan.keys} <= {config.name for config in wanted} | owned
    patch = config_map_patch(plan, snapshot.config_map)
    assert set(patch) == {"metadata", "data"} and set(patch["metadata"]) == {"annotations"}
    assert all(name.startswith("gpuops.mps/") for name in patch["metadata"]["annotations"])
    json.dumps(patch)


def a_map_name_is_mounted_or_refused(name: str) -> None:
    """Only names that can be a volume's in the operator's DaemonSets pass (semantics of gpu-operator v25.3.4)."""
    findings = list(check_name(name))
    are_harmless(findings)
    if not findings:
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) and len(name) <= 63


class _Page(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in HTML_TAGS
        for name, value in attrs:
            assert name in ("lang", "charset", "name", "content", "class", "id", "href", "scope", "open", "data-name", "aria-label"), name
            assert name != "href" or (value or "").startswith(("https://", "http://", "#"))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment that nobody wrote")


def a_report_is_inert(given: tuple[Any, Any, Any, str, str]) -> None:
    """HTML stays well formed and without script, XML can be parsed, Markdown keeps its tables, nothing reaches the terminal."""
    verification, rollout, proof, title, url = given
    found = make_report(verification, rollout, proof, title=title, findings_url=url)
    page = write_html(found)
    reader = _Page()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    ElementTree.fromstring(write_junit(found).encode("utf-8"))
    markdown, data = write_markdown(found), write_json(found)
    json.loads(data)
    for text in (page, markdown, data):
        assert text.replace("\n", "").replace("\t", "").isprintable()
        text.encode("utf-8")
    for line in markdown.splitlines():
        assert not line.startswith("|") or line.endswith("|")


def a_log_is_explained_or_not(text: str) -> None:
    """Known lines are found however long and strange the others are."""
    logs = [(LogKey("gpu-operator", "pod", "container"), text)]
    for reason in (explain(logs), waits_for_daemon(logs), failed_start(logs)):
        if reason is not None:
            is_harmless(Evidence("pod/x", "log", reason.line).value)
    last_line(logs)


def an_annotation_is_read_or_absent(text: str) -> None:
    """A rollout goes on from annotations that anybody may have written."""
    annotations = {ROLLOUT_ANNOTATION: text}
    read_mark(annotations)
    read_record({"metadata": {"annotations": annotations}})


def an_answer_becomes_an_error(given: tuple[int, bytes]) -> None:
    """Whatever a proxy or a broken server sends."""
    status, body = given
    error = error_of("GET", "/api/v1/nodes", Answer(status, {}, body), "")
    is_harmless(error.message)
    assert error.code and error.remedy


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value)
    except (ValueError, RecursionError):
        return "[" * 50_000


_TEXT_OF_JSON = hostile.ANYTHING.map(_as_json) | hostile.TEXT | st.sampled_from(["[" * 50_000, '{"a":' * 50_000])
_MARK = hostile.fields("state", "rollout", "direction", "former", "reason", "id", "batch", "started", "former_hashes", "reasons").map(_as_json)
_LOG = st.lists(
    st.sampled_from(
        [
            "unable to parse config file" + ": a" * 5_000,
            "E1130 failed to start MPS daemons: " + "x" * 30_000,
            "mig" + "." * 20_000,
            "mps" + " " * 20_000 + "mig",
            "specified config \x1b[31m does not exist",
            "specified config {what} does not exist",
            "maximum allowed replicas exceeded: 49 > 48",
        ]
    )
    | hostile.TEXT,
    max_size=5,
).map("\n".join)

PROPERTIES: dict[str, tuple[Callable[[Any], None], st.SearchStrategy[Any], int]] = {
    # name: the property, its inputs, and how often it is tried out of a hundred
    "config text": (a_config_text_is_read_or_refused, hostile.CONFIG_TEXT, 25),
    "config map": (a_map_is_read_or_refused, hostile.CONFIG_MAP, 5),
    "declaration": (a_declaration_is_parsed_or_refused, st.tuples(hostile.CONFIGS, hostile.ANYTHING, hostile.GROUPS), 20),
    "validation": (
        a_validation_answers,
        st.fixed_dictionaries(
            {},
            optional={
                "configs": hostile.CONFIGS,
                "default": hostile.ANYTHING,
                "groups": hostile.GROUPS,
                "nodes": hostile.ANYTHING | st.lists(hostile.NODE, max_size=3),
                "config_map_data": hostile.ANYTHING | hostile.CONFIG_MAP,
                "manifests": hostile.ANYTHING | st.lists(hostile.MANIFEST, max_size=3),
                "accept": st.lists(hostile.TEXT, max_size=2),
            },
        ),
        15,
    ),
    "map plan": (
        a_map_is_planned,
        st.tuples(hostile.CONFIGS, hostile.CONFIG_MAP, st.dictionaries(st.sampled_from([MANAGED_ANNOTATION, FORMER_ANNOTATION, "other"]), _TEXT_OF_JSON)),
        5,
    ),
    "map name": (a_map_name_is_mounted_or_refused, hostile.TEXT | st.from_regex(r"[a-z0-9.-]{1,70}", fullmatch=True), 5),
    "report": (a_report_is_inert, st.tuples(hostile.RESULT, hostile.RESULT, hostile.RESULT, hostile.TEXT, hostile.TEXT), 10),
    "log": (a_log_is_explained_or_not, _LOG, 5),
    "annotation": (an_annotation_is_read_or_absent, _TEXT_OF_JSON | _MARK, 5),
    "answer": (
        an_answer_becomes_an_error,
        st.tuples(st.integers(400, 599), st.binary(max_size=200) | _TEXT_OF_JSON.map(lambda text: text.encode("utf-8", "replace"))),
        5,
    ),
}
