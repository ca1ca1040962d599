# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the page of all findings from the catalogue: ``python -m tests.findings_page`` writes docs/docsite/rst/findings.rst.

``make venv`` must have run, so that the collection can be imported by its full name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "docsite" / "rst" / "findings.rst"
COLLECTIONS = ROOT / ".cache" / "collections"

HEADER = """\
..
  Copyright: (c) 2026, gpuops.mps contributors
  GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
  SPDX-License-Identifier: GPL-3.0-or-later
  Generated from the catalogue in plugins/module_utils by tests/findings_page.py; do not edit.

.. _ansible_collections.gpuops.mps.docsite.findings:

Findings
========

Whatever this collection has to say about a declaration, a cluster or a run is a finding with a stable code. An error stops a run
before anything is written. Where an entry says so, ``accept: [CODE]`` goes on in spite of the error, which is then shown as a
warning; there is no switch that accepts everything.

.. contents::
   :local:
   :depth: 1
"""


def page(entries: Iterable[Any]) -> str:
    """The whole page, the entries sorted by code."""
    return "\n".join([HEADER, *(section(entry) for entry in sorted(entries, key=lambda entry: entry.code))])


def section(entry: Any) -> str:
    """One entry of the catalogue."""
    accept = "can be accepted by its code" if entry.acceptable else "cannot be accepted"
    severity = f"{entry.severity}, {accept}" if entry.severity == "error" else entry.severity
    example = "\n".join(f"   {line}".rstrip() for line in entry.example.splitlines())
    parts = [
        f".. _ansible_collections.gpuops.mps.docsite.findings.{entry.code}:",
        f"{entry.code}\n{'-' * len(entry.code)}",
        f"**{literal(entry.title)}** ({severity})",
        literal(entry.meaning),
        f"Example::\n\n{example}",
        f"Why: {literal(entry.why)}",
        f"What to do: {literal(entry.remedy)}",
        f"Source: {literal(entry.source)}",
    ]
    return "\n\n".join(parts) + "\n"


def literal(text: str) -> str:
    """Plain text as reStructuredText: characters with a meaning of their own are escaped."""
    return "".join(f"\\{letter}" if letter in "\\*`|_<>" else letter for letter in text)


def main() -> int:
    """Write the page; 1 when the collection cannot be imported."""
    sys.path.insert(0, str(COLLECTIONS))
    try:
        from ansible_collections.gpuops.mps.plugins.module_utils._findings import CATALOGUE
    except ImportError as error:
        print(f"the collection cannot be imported ({error}); run `make venv` first", file=sys.stderr)
        return 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(CATALOGUE.values()), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(CATALOGUE)} findings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
