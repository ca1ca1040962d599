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

from tests.integration.ansible_runs import ACCOUNT_OF, environment
from tests.integration.operator_variables import operator_variables
from tests.integration.rights import REPOSITORY, requests_of_accounts, signed_in
from tests.testbed.bed import TestBed, take_down
from tests.testbed.layout import Layout
from tests.testbed.node_sets import READY_MADE

GUIDES = sorted(path for path in (REPOSITORY / "docs" / "docsite" / "rst").glob("*.rst") if "code-block:: shell" in path.read_text(encoding="utf-8"))
COMMAND_SECONDS = 600
PROGRAMS = {"ansible-playbook", "ansible-inventory"}
NODES = {"gpu-t4-1", "gpu-v100-1", "gpu-h100-1", "cpu-1"}


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
def guides_bed(worker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBed]:
    """A bed of its own, because the guides change everything, with one node of each kind that they speak of."""
    lab = yaml.safe_load((READY_MADE / "lab.yml").read_text(encoding="utf-8"))
    nodes = tmp_path_factory.mktemp("nodes") / "guides.yml"
    nodes.write_text(yaml.safe_dump({"nodes": [node for node in lab["nodes"] if node["name"] in NODES]}), encoding="utf-8")
    try:
        bed = TestBed.start(f"guides-{worker}", nodes=str(nodes), instant=True)
        bed.install_operator_objects()
        bed.wait_until_settled()
        yield bed
    finally:
        take_down(Layout.of(f"guides-{worker}"))


@pytest.fixture
def guided(guides_bed: TestBed) -> Iterator[TestBed]:
    """The bed as after the operator's installation: a guide does not know what another one has declared."""
    since = guides_bed.mark()
    yield guides_bed
    if [event for event in requests_of_accounts(guides_bed, since) if event.mutating]:
        guides_bed.reset()


def account_for(words: list[str]) -> str:
    """The account that a command of a guide is meant for."""
    if words[0] == "ansible-inventory":
        return "reader"
    return next((ACCOUNT_OF[word] for word in words if word in ACCOUNT_OF), "operator")


def run_command(words: list[str], bed: TestBed, directory: Path, **environ: str) -> None:
    """Run a command as it stands in the documentation; what it said is the assertion's message when it fails."""
    env = environment(signed_in(bed, account_for(words)), **environ)
    answer = subprocess.run(words, cwd=directory, env=env, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
    assert answer.returncode == 0, f"{' '.join(words)}\n{answer.stdout[-4000:]}{answer.stderr[-2000:]}"


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_a_guide_can_be_followed(path: Path, guided: TestBed, tmp_path: Path) -> None:
    extra = tmp_path / "bed.yml"
    # The README's commands prove sharing with clients; once is enough.
    extra.write_text(yaml.safe_dump({**operator_variables(guided), "mps_prove": "never"}), encoding="utf-8")
    ran = 0
    for block in blocks(path.read_text(encoding="utf-8")):
        if block.caption:
            (tmp_path / block.caption).write_text(block.text, encoding="utf-8")
        for words in commands(block) if block.language == "shell" else []:
            assert words[0] in PROGRAMS, f"{path.name}: a block that this test cannot run must be a console block: {words}"
            more = ["-e", f"@{extra}"] if words[0] == "ansible-playbook" else []
            run_command([*words, *more], guided, tmp_path)
            ran += 1
    assert ran, f"{path.name} has no command"


def test_the_readmes_commands(guided: TestBed, tmp_path: Path) -> None:
    """What the README tells a newcomer to write and to run, in an empty home directory."""
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    (declaration,) = re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL)
    (tmp_path / "mps.yml").write_text(declaration, encoding="utf-8")
    (tmp_path / "bed.yml").write_text(yaml.safe_dump(operator_variables(guided)), encoding="utf-8")
    lines = [line.partition("#")[0].strip() for line in readme.splitlines() if line.startswith("ansible-playbook ")]
    assert [line.split()[1] for line in lines] == ["gpuops.mps.plan", "gpuops.mps.configure", "gpuops.mps.site"]
    for line in lines:
        run_command([*shlex.split(line), "-e", "@bed.yml"], guided, tmp_path, HOME=str(tmp_path))
