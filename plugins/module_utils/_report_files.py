# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: report files on the controller: which change, and how they are written."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ansible_collections.gpuops.mps.plugins.module_utils._report import Report
from ansible_collections.gpuops.mps.plugins.module_utils._report_html import write_html
from ansible_collections.gpuops.mps.plugins.module_utils._report_junit import write_junit
from ansible_collections.gpuops.mps.plugins.module_utils._report_markdown import write_markdown


def write_json(report: Report) -> str:
    """The report as JSON for machines."""
    return json.dumps(report.as_dict(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


# Form -> ending of the file's name and writer.
FORMS: Mapping[str, tuple[str, Callable[[Report], str]]] = {
    "json": ("json", write_json),
    "markdown": ("md", write_markdown),
    "html": ("html", write_html),
    "junit": ("xml", write_junit),
}

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(?:Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True)
class ReportFile:
    """One file: its text now, None where it does not exist or is no text, and the text that it gets."""

    path: Path
    before: str | None
    after: str
    changed: bool


def plan_files(report: Report, folder: Path, name: str, forms: Collection[str]) -> tuple[ReportFile, ...]:
    """The files of a report and which of them change.

    A file that differs in nothing but the time at which the cluster was read is left as it is: the same state is the same report.
    """
    files = []
    for form in FORMS:
        if form in forms:
            ending, write = FORMS[form]
            path = folder / f"{name}.{ending}"
            before, after = _read(path), write(report)
            files.append(ReportFile(path, before, after, changed=not _same(before, after, report, write)))
    return tuple(files)


def _same(before: str | None, after: str, report: Report, write: Callable[[Report], str]) -> bool:
    """Whether the old text is this report, read at the same time or at any other time that the old text speaks of."""
    if before is None or before == after:
        return before == after
    return any(write(replace(report, read_at=time)) == before for time in dict.fromkeys(_TIME.findall(before)))


def write_file(path: Path, text: str) -> None:
    """Replace a file in one step, so that a reader sees the old report or the new one. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        mode = path.stat().st_mode & 0o7777 if path.exists() else 0o644
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
