# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue of findings: every code is used, documented and tested, and no other code exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._findings import CATALOGUE, CatalogueEntry
from tests.findings_page import PAGE, page

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "plugins").rglob("*.py"))}
CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

# The second opinion on what a call's first text is: a code where the callee makes findings.
MAKERS = {"finding"}


def texts(node: ast.AST) -> Iterator[str]:
    """Every text constant in a node."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


def made_codes() -> Iterator[tuple[Path, int, str]]:
    """The codes of calls that make a finding with a literal code."""
    for path, source in SOURCES.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKERS and node.args:
                code = node.args[0]
                branches = (code.body, code.orelse) if isinstance(code, ast.IfExp) else (code,)
                for branch in branches:
                    if isinstance(branch, ast.Constant) and isinstance(branch.value, str):
                        yield path, node.lineno, branch.value


def test_no_finding_is_made_with_an_unknown_code() -> None:
    unknown = [f"{path.relative_to(ROOT)}:{line}: {code}" for path, line, code in made_codes() if code not in CATALOGUE]
    assert unknown == []


def test_calls_that_make_findings_are_seen() -> None:
    assert sum(1 for _call in made_codes()) > 20


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=list(CATALOGUE))
def test_an_entry_is_complete(entry: CatalogueEntry) -> None:
    assert CODE.fullmatch(entry.code)
    assert entry.severity in ("error", "warning", "info")
    assert not entry.title.endswith("."), "a title is followed by the path and the line"
    for text in (entry.title, entry.meaning, entry.example, entry.why, entry.source, entry.remedy):
        assert text.strip() == text and text


def test_every_code_is_used() -> None:
    used = {text for path, source in SOURCES.items() if not path.name.startswith("_catalogue") for text in texts(ast.parse(source))}
    assert [code for code in CATALOGUE if code not in used] == []


def test_every_code_is_tested() -> None:
    """A code counts as tested when a test names it; this file names none."""
    tests = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    named = {text for source in tests for text in texts(ast.parse(source))}
    assert [code for code in CATALOGUE if code not in named] == []


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(CATALOGUE.values()), "run: python -m tests.findings_page"


def test_every_code_has_its_place_on_the_page() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert [code for code in CATALOGUE if code not in lines] == []
