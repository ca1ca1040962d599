# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which source files lack the licence header."""

from __future__ import annotations

from pathlib import Path

from tests.lint.tree import ROOT, collection_files

MARK = "SPDX-License-Identifier: GPL-3.0-or-later"
SUFFIXES = {".py", ".yml", ".rst"}
# Changelog files are written by antsibull-changelog, which keeps no comments.
EXEMPT = ("changelogs/",)
HEADER_LINES = 12


def files_without_header(root: Path = ROOT) -> list[str]:
    """Return the names of all Python, YAML and reStructuredText files whose first lines do not name the licence."""
    names = [name for name in collection_files(root) if name.suffix in SUFFIXES and not str(name).startswith(EXEMPT)]
    return [str(name) for name in names if MARK not in first_lines(root / name)]


def first_lines(path: Path) -> str:
    """Return the lines in which the header has to stand."""
    return "\n".join(path.read_text(encoding="utf-8").splitlines()[:HEADER_LINES])
