# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The built artefact holds what a user needs and nothing else, and works from an empty collections path."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lint.tree import ROOT, collection_files, find_kubernetes_core

SCRIPTS = Path(sys.executable).parent


def run(*command: str, **environment: str) -> str:
    """Run a program of this environment; what it printed is the assertion's message when it fails."""
    path = f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"
    answer = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": path, **environment}, check=False)
    assert answer.returncode == 0, f"{' '.join(command)}\n{answer.stdout}{answer.stderr}"
    return answer.stdout


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The archive, built from what git knows of, so that a developer's caches are not walked through."""
    folder = tmp_path_factory.mktemp("artefact")
    source = folder / "source"
    for name in collection_files():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name)
    (source / "tests" / "output").mkdir(exist_ok=True)
    (source / ".cache").mkdir()
    (source / ".cache" / "junk").write_text("junk")
    run("ansible-galaxy", "collection", "build", str(source), "--output-path", str(folder))
    (built,) = folder.glob("gpuops-mps-*.tar.gz")
    yield built


def test_the_artefact_holds_no_tests_and_no_caches(artefact: Path) -> None:
    with tarfile.open(artefact) as archive:
        names = archive.getnames()
    top = {name.split("/")[0] for name in names}
    assert top == {
        "CHANGELOG.md", "CONTRIBUTING.md", "FILES.json", "LICENSE", "LICENSES", "MANIFEST.json", "README.md",
        "changelogs", "docs", "meta", "playbooks", "plugins", "roles",
    }  # fmt: skip
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


def test_the_artefact_installs_into_an_empty_path_and_its_playbooks_are_found(artefact: Path, tmp_path: Path) -> None:
    run("ansible-galaxy", "collection", "install", str(artefact), "--no-deps", "--collections-path", str(tmp_path), ANSIBLE_COLLECTIONS_PATH=str(tmp_path))
    neighbour = tmp_path / "ansible_collections" / "kubernetes"
    neighbour.mkdir()
    (neighbour / "core").symlink_to(find_kubernetes_core(), target_is_directory=True)
    path = {"ANSIBLE_COLLECTIONS_PATH": str(tmp_path)}
    playbooks = sorted(found.stem for found in (ROOT / "playbooks").glob("*.yml"))
    for name in playbooks:
        assert f"{tmp_path}/ansible_collections/gpuops/mps/playbooks/{name}.yml" in run("ansible-playbook", f"gpuops.mps.{name}", "--syntax-check", **path)
    assert "mps_rollout" in run("ansible-doc", "--list", "gpuops.mps", **path)
