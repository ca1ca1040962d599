# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the integration tests: test beds, and Ansible runs against them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.ansible_runs import COLLECTIONS
from tests.integration.ansible_runs import run_module as _run_module
from tests.integration.ansible_runs import run_playbook as _run_playbook
from tests.testbed.bed import TestBed

# Tests that hold the product's core against a bed import the collection from the tree that `make venv` makes.
sys.path.insert(0, str(COLLECTIONS))


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
    bed = TestBed.start(kept or f"lab-{worker}")
    try:
        bed.install_operator_objects()
        bed.wait_until_settled()
        yield bed
    finally:
        if not kept:
            bed.stop()


@pytest.fixture
def clean_lab(lab: TestBed) -> Iterator[TestBed]:
    """The shared bed for a test that changes much: afterwards it is brought back to its first state."""
    yield lab
    lab.reset()


@pytest.fixture(scope="session")
def empty_lab(worker: str) -> Iterator[TestBed]:
    """A shared bed with node set lab on which nothing is installed."""
    bed = TestBed.start(f"empty-{worker}")
    yield bed
    bed.stop()


@pytest.fixture
def bed_factory(worker: str) -> Iterator[Callable[..., TestBed]]:
    """Start beds of your own: `bed_factory("name", nodes=..., plugin_version=..., operator=..., instant=...)`."""
    beds: list[TestBed] = []

    def start(name: str, **settings: Any) -> TestBed:
        bed = TestBed.start(f"{name}-{worker}", **settings)
        beds.append(bed)
        return bed

    yield start
    for bed in beds:
        bed.stop()


@pytest.fixture
def run_module(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """`run_module(bed, "mps_config", {...}, check=False, diff=False) -> dict`: one module's result."""
    return partial(_run_module, directory=tmp_path)


@pytest.fixture
def run_ansible(tmp_path: Path) -> Callable[..., Any]:
    """`run_ansible("gpuops.mps.site" or plays, bed, variables={...}) -> AnsibleRun`: one playbook run."""
    return partial(_run_playbook, directory=tmp_path)
