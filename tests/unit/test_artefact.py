# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The built artefact holds what a user needs and nothing else, and works from an empty collections path."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.artefact import build_artefact, install_artefact, run
from tests.lint.tree import ROOT


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive."""
    return build_artefact(tmp_path_factory.mktemp("artefact"))


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
    install_artefact(artefact, tmp_path)
    path = {"ANSIBLE_COLLECTIONS_PATH": str(tmp_path)}
    playbooks = sorted(found.stem for found in (ROOT / "playbooks").glob("*.yml"))
    checked = run("ansible-playbook", *(f"gpuops.mps.{name}" for name in playbooks), "--syntax-check", **path)
    for name in playbooks:
        assert f"{tmp_path}/ansible_collections/gpuops/mps/playbooks/{name}.yml" in checked
    assert "mps_rollout" in run("ansible-doc", "--list", "gpuops.mps", **path)
