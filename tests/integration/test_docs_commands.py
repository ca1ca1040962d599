# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every command of the guides runs as it stands there.

A guide is followed from top to bottom: a block with a caption is written to a file of that name, and each line of a
``shell`` block is run. Blocks of the language ``console`` show commands that need what a test bed has not.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.integration.ansible_runs import REPOSITORY, environment
from tests.integration.operator_variables import operator_variables
from tests.testbed.bed import TestBed

GUIDES = sorted(path for path in (REPOSITORY / "docs" / "docsite" / "rst").glob("*.rst") if "code-block:: shell" in path.read_text(encoding="utf-8"))
COMMAND_SECONDS = 600
PROGRAMS = {"ansible-playbook", "ansible-inventory"}


@dataclass(frozen=True)
class Block:
    """One code block of a guide."""

    language: str
    caption: str
    text: str


def blocks(guide: str) -> Iterator[Block]:
    """The code blocks of a guide in their order."""
    pattern = re.compile(r"^\.\. code-block:: (\w+)\n((?:   :\w+:.*\n)*)\n((?:   .*\n|\n)+)", re.MULTILINE)
    for language, options, body in pattern.findall(guide + "\n"):
        caption = re.search(r":caption: (\S+)", options)
        yield Block(language, caption[1] if caption else "", re.sub(r"^   ", "", body, flags=re.MULTILINE).strip() + "\n")


def commands(block: Block) -> list[list[str]]:
    """The command lines of a shell block as argument lists, comments left out."""
    return [words for line in block.text.splitlines() if (words := shlex.split(line, comments=True))]


@pytest.fixture(scope="module")
def guides_bed(worker: str) -> Iterator[TestBed]:
    """A bed of its own, because the guides change everything."""
    bed = TestBed.start(f"guides-{worker}", instant=True)
    bed.install_operator_objects()
    bed.wait_until_settled()
    yield bed
    bed.stop()


@pytest.fixture
def guided(guides_bed: TestBed) -> Iterator[TestBed]:
    """The bed as after the operator's installation: a guide does not know what another one has declared."""
    yield guides_bed
    guides_bed.reset()


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_a_guide_can_be_followed(path: Path, guided: TestBed, tmp_path: Path) -> None:
    extra = tmp_path / "bed.yml"
    extra.write_text(yaml.safe_dump(operator_variables(guided)), encoding="utf-8")
    ran = 0
    for block in blocks(path.read_text(encoding="utf-8")):
        if block.caption:
            (tmp_path / block.caption).write_text(block.text, encoding="utf-8")
        for words in commands(block) if block.language == "shell" else []:
            assert words[0] in PROGRAMS, f"{path.name}: a block that this test cannot run must be a console block: {words}"
            more = ["-e", f"@{extra}"] if words[0] == "ansible-playbook" else []
            answer = subprocess.run(
                [*words, *more], cwd=tmp_path, env=environment(guided.kubeconfig), capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
            )
            assert answer.returncode == 0, f"{path.name}: {' '.join(words)}\n{answer.stdout[-4000:]}{answer.stderr[-2000:]}"
            ran += 1
    assert ran, f"{path.name} has no command"


def test_the_readmes_declaration_is_valid(guided: TestBed, tmp_path: Path) -> None:
    """The variables that the README shows, planned on the lab."""
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    (declaration,) = re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL)
    (tmp_path / "mps.yml").write_text(declaration, encoding="utf-8")
    (plan,) = [line.partition("#")[0].strip() for line in readme.splitlines() if line.startswith("ansible-playbook gpuops.mps.plan")]
    answer = subprocess.run(shlex.split(plan), cwd=tmp_path, env=environment(guided.kubeconfig), capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
