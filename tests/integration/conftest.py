# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the integration tests: test beds, and Ansible runs against them."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.ansible_runs import COLLECTIONS
from tests.integration.ansible_runs import run_playbook as _run_playbook
from tests.integration.chart_mirror import ChartMirror, chart_mirror
from tests.integration.module_runs import run_module as _run_module
from tests.integration.quiet_bed import start_quiet, wipe
from tests.reliability import quiet as two_quiet_nodes
from tests.testbed.bed import TestBed, take_down
from tests.testbed.build import build
from tests.testbed.layout import Layout, state_home

# Tests that hold the product's core against a bed import the collection from the tree that `make venv` makes.
sys.path.insert(0, str(COLLECTIONS))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Take down the beds of test processes that were killed before they could do so themselves."""
    if hasattr(session.config, "workerinput") or not state_home().is_dir():
        return
    for directory in state_home().iterdir():
        owner = re.search(r"-(?:main|gw\d+)-(\d+)$", directory.name)
        if owner and not Path("/proc", owner[1]).exists():
            take_down(Layout(directory))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take long, slow tests first and then many of them: a worker gets whole files, and waits for the other one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    count = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in slow, -count[item.path], item.path))


@pytest.fixture(scope="session")
def worker(request: pytest.FixtureRequest) -> str:
    """The name of this test process; beds of different processes have different names."""
    return f"{getattr(request.config, 'workerinput', {}).get('workerid', 'main')}-{os.getpid()}"


@pytest.fixture(scope="session")
def lab(worker: str) -> Iterator[TestBed]:
    """The shared bed: node set lab, GPU Operator installed and ready, plugin 0.17.4. Clean up what you change.

    With TESTBED_LAB=name in the environment the bed of that name is used, and left running for the next time.
    """
    kept = os.environ.get("TESTBED_LAB")
    name = kept or f"lab-{worker}"
    try:
        bed = TestBed.start(name)
        bed.install_operator_objects()
        bed.wait_until_settled()
        yield bed
    finally:
        if not kept:
            take_down(Layout.of(name))


@pytest.fixture
def clean_lab(lab: TestBed) -> Iterator[TestBed]:
    """The shared bed for a test that changes much: afterwards it is brought back to its first state."""
    yield lab
    lab.reset()


@pytest.fixture(scope="session")
def empty_lab(worker: str) -> Iterator[TestBed]:
    """A shared bed with node set lab on which nothing is installed."""
    try:
        yield TestBed.start(f"empty-{worker}")
    finally:
        take_down(Layout.of(f"empty-{worker}"))


@pytest.fixture(scope="session")
def quiet_lab(worker: str) -> Iterator[TestBed]:
    """The lab's nodes and the chart's objects, and nobody who works on them."""
    try:
        yield start_quiet(f"quiet-{worker}")
    finally:
        take_down(Layout.of(f"quiet-{worker}"))


@pytest.fixture
def quiet(quiet_lab: TestBed) -> Iterator[TestBed]:
    """The quiet lab without map, labels and references, before and after the test."""
    wipe(quiet_lab)
    yield quiet_lab
    wipe(quiet_lab)


@pytest.fixture(scope="session")
def two_nodes(worker: str) -> Iterator[TestBed]:
    """A shared bed with two GPU nodes and the operator's objects, on which nothing moves by itself. `quiet.reset` cleans up."""
    try:
        yield two_quiet_nodes.start(f"two-{worker}")
    finally:
        take_down(Layout.of(f"two-{worker}"))


@pytest.fixture
def bed_factory(worker: str) -> Iterator[Callable[..., TestBed]]:
    """Start beds of your own: `bed_factory("name", nodes=..., plugin_version=..., operator=..., instant=...)`."""
    started: list[str] = []

    def start(name: str, **settings: Any) -> TestBed:
        started.append(f"{name}-{worker}")
        return TestBed.start(started[-1], **settings)

    yield start
    for name in started:
        take_down(Layout.of(name))


@pytest.fixture
def run_module(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """`run_module(bed, "mps_config", {...}, check=False, diff=False) -> dict`: one module's result."""
    return partial(_run_module, directory=tmp_path)


@pytest.fixture
def run_ansible(tmp_path: Path) -> Callable[..., Any]:
    """`run_ansible("gpuops.mps.site" or plays, bed, variables={...}) -> AnsibleRun`: one playbook run."""
    return partial(_run_playbook, directory=tmp_path)


@pytest.fixture(scope="session")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChartMirror]:
    """Two versions of the operator's chart in an HTTP repository and in an OCI registry."""
    with chart_mirror(build(), tmp_path_factory.mktemp("mirror")) as started:
        yield started
