# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the collection's archive and install it into an empty collections path, as a user would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.lint.tree import ROOT, collection_files, find_kubernetes_core

SCRIPTS = Path(sys.executable).parent


def run(*command: str, **environment: str) -> str:
    """Run a program of this environment and return what it printed, which is the assertion's message when it fails."""
    path = f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"
    answer = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": path, **environment}, check=False)
    assert answer.returncode == 0, f"{' '.join(command)}\n{answer.stdout}{answer.stderr}"
    return answer.stdout


def build_artefact(folder: Path) -> Path:
    """Build the archive in `folder` from what git knows of, so that a developer's caches are not walked through, and return its path."""
    source = folder / "source"
    for name in collection_files():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name)
    # What a developer has besides, and what must not get in.
    for junk in ("tests/output/junk", ".cache/junk", ".hypothesis/junk", "plugins/__pycache__/junk.pyc"):
        (source / junk).parent.mkdir(parents=True, exist_ok=True)
        (source / junk).write_text("junk", encoding="utf-8")
    run("ansible-galaxy", "collection", "build", str(source), "--output-path", str(folder))
    (built,) = folder.glob("gpuops-mps-*.tar.gz")
    return built


def install_artefact(artefact: Path, collections: Path) -> None:
    """Install the archive below `collections`, with the kubernetes.core of this environment beside it."""
    path = str(collections)
    run("ansible-galaxy", "collection", "install", str(artefact), "--no-deps", "--collections-path", path, ANSIBLE_COLLECTIONS_PATH=path)
    neighbour = collections / "ansible_collections" / "kubernetes"
    neighbour.mkdir()
    (neighbour / "core").symlink_to(find_kubernetes_core(), target_is_directory=True)
