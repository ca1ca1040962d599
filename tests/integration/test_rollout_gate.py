# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gates between the batches of role mps: clients on the canary, and tasks of the user's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.operations import allocatable, config_labels
from tests.testbed.bed import TestBed

NODES = Path(__file__).parents[1] / "reliability" / "nodes.yml"
VARIABLES: dict[str, Any] = {
    "mps_configs": {"none": {}, "mps-four": {"replicas": 4}},
    "mps_node_groups": [{"name": "t4", "config": "mps-four", "match": {"product": "Tesla-T4"}}],
    "mps_canary": ["gpu-1"],
    "mps_prove": "never",
}


@pytest.fixture(scope="module")
def pair(worker: str) -> Iterator[TestBed]:
    """A bed with two GPU nodes and an operator that is ready."""
    bed = TestBed.start(f"gate-{worker}", nodes=str(NODES), instant=True)
    bed.install_operator_objects()
    bed.wait_until_settled()
    yield bed
    bed.stop()


@pytest.fixture
def clean(pair: TestBed) -> TestBed:
    """The bed in its first state."""
    pair.reset()
    return pair


def gate(directory: Path, *tasks: dict[str, Any]) -> str:
    """Write a task file and return its path."""
    path = directory / "gate.json"  # JSON is YAML
    path.write_text(json.dumps(list(tasks)))
    return str(path)


def test_the_gate_runs_after_each_batch(clean: TestBed, run_ansible: Callable[..., Any], tmp_path: Path) -> None:
    log = tmp_path / "passed"
    line = "{{ _mps_rollout.nodes | selectattr('verdict', 'equalto', 'verified') | map(attribute='name') | sort | join(' ') }}"
    note = {
        "name": "Note the batch",
        "ansible.builtin.lineinfile": {"path": str(log), "line": line, "create": True, "mode": "0600"},
    }
    run = run_ansible("gpuops.mps.configure", clean, variables={**VARIABLES, "mps_prove_canary": True, "mps_gate_tasks": gate(tmp_path, note)})
    assert run.status == 0, run.output + run.complaints
    assert log.read_text().splitlines()[:2] == ["gpu-1", "gpu-1 gpu-2"]
    proofs = [result for name, result in run.results() if "Prove MPS on the nodes of the first batch" in name]
    assert [result.get("passed", "skipped") for result in proofs] == [True, "skipped"]
    assert allocatable(clean) == {"gpu-1": 8, "gpu-2": 8}


def test_a_refusing_gate_takes_the_rollout_back(clean: TestBed, run_ansible: Callable[..., Any], tmp_path: Path) -> None:
    refuse = {"name": "Look at the error rate", "ansible.builtin.fail": {"msg": "too many errors"}}
    run = run_ansible("gpuops.mps.configure", clean, variables={**VARIABLES, "mps_gate_tasks": gate(tmp_path, refuse)})
    assert run.status != 0
    assert "Look at the error rate" in run.failure() and "too many errors" in run.failure()
    clean.wait_for("whole GPUs", lambda: allocatable(clean) == {"gpu-1": 2, "gpu-2": 2}, 60)
    assert set(config_labels(clean).values()) == {None}


def test_a_proof_that_fails_on_the_canary_takes_the_rollout_back(clean: TestBed, run_ansible: Callable[..., Any]) -> None:
    clean.api.patch("/api/v1/nodes/gpu-1", {"metadata": {"annotations": {"testbed.gpuops.example/fault": "vectoradd-fails"}}})
    run = run_ansible("gpuops.mps.configure", clean, variables={**VARIABLES, "mps_prove_canary": True, "mps_proof_timeout": 40})
    assert run.status != 0
    assert "Prove MPS on the nodes of the first batch" in run.failure()
    assert allocatable(clean) == {"gpu-1": 2, "gpu-2": 2}
