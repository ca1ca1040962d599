# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kills and restarts where agents are at work: the proof, the removal of everything, the API server, the operator."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.ansible_runs import SCRIPTS, AnsibleRun, environment
from tests.integration.conftest import take_down
from tests.integration.test_faults import finish_after_kills
from tests.reliability.direct import call
from tests.reliability.fault_proxy import FAULTS, WRITES, FaultProxy, Rule
from tests.reliability.kills import AFTER, BEFORE, MOST_WRITES, SIGNALS, left_behind
from tests.reliability.operations import (
    DECLARATION,
    allocatable,
    config_labels,
    policy_config,
    share,
    shared_everywhere,
)
from tests.reliability.quiet import NODES
from tests.testbed.bed import TestBed
from tests.testbed.layout import Layout

pytestmark = pytest.mark.reliability
RUN_SECONDS = 300


@pytest.fixture(scope="module")
def bed(worker: str) -> Iterator[TestBed]:
    """A bed with operator and agents of its own."""
    name = f"agents-{worker}"
    try:
        bed = TestBed.start(name, nodes=str(NODES), instant=True)
        bed.install_operator_objects()
        bed.wait_until_settled()
        yield bed
    finally:
        take_down(Layout.of(name))


@pytest.mark.parametrize("how", SIGNALS, ids=lambda one: one.name)
@pytest.mark.parametrize("when", [BEFORE, AFTER])
def test_a_proof_killed_at_any_write_leaves_nothing_after_the_next(bed: TestBed, when: str, how: signal.Signals) -> None:
    assert finish_after_kills(bed, "proof", when, how, reset=TestBed.reset) >= 2


def removal(kubeconfig: Path, directory: Path) -> subprocess.Popen[str]:
    """The remove playbook, in a process group of its own."""
    command = [str(SCRIPTS / "ansible-playbook"), "gpuops.mps.remove", "--extra-vars", "{mps_batch_size: 100%, mps_config_map: mps-configs}"]
    return subprocess.Popen(
        command, env=environment(kubeconfig), cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def _kill_first(started: list[subprocess.Popen[str]]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(started[0].pid, signal.SIGKILL)


@pytest.mark.parametrize("when", [BEFORE, AFTER])
def test_a_removal_killed_at_any_write_is_finished_by_the_next(bed: TestBed, run_ansible: Callable[..., AnsibleRun], when: str) -> None:
    for number in range(1, MOST_WRITES):
        bed.reset()
        share(bed)
        with tempfile.TemporaryDirectory() as name, FaultProxy(bed.kubeconfig, bed.layout.certificates, Path(name)) as proxy:
            started: list[subprocess.Popen[str]] = []
            kill = functools.partial(_kill_first, started)
            fault = FAULTS["reset-before" if when == BEFORE else "reset-after"]
            rule = Rule(fault, methods=WRITES, skip=number - 1, before=kill if when == BEFORE else None, after=kill if when == AFTER else None)
            proxy.rules.append(rule)
            started.append(removal(proxy.kubeconfig, Path(name)))
            started[0].communicate(timeout=RUN_SECONDS)
        again = run_ansible("gpuops.mps.remove", bed, variables={"mps_batch_size": "100%"})
        assert again.status == 0, f"after a kill {when} write {number}: {again.failure()}"
        assert not left_behind(bed) and set(config_labels(bed).values()) == {None} and policy_config(bed) == {}
        assert all(count == 2 for count in allocatable(bed).values())
        if not rule.hits:
            return
    raise AssertionError(f"more than {MOST_WRITES} writes")


def restarted_during_a_rollout(bed: TestBed, process: str, directory: Path) -> dict[str, Any]:
    """A rollout during which a process of the bed is killed at the third write, and started again a moment later."""
    bed.reset()

    def restart() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(bed.processes()[process], signal.SIGKILL)
        threading.Timer(2.0, start_again).start()

    def start_again() -> None:
        settings = bed.settings
        TestBed.start(bed.name, nodes=settings.nodes, instant=settings.instant)

    with FaultProxy(bed.kubeconfig, bed.layout.certificates, directory) as proxy:
        rule = Rule(FAULTS["none"], methods=WRITES, skip=2, after=restart)
        proxy.rules.append(rule)
        result = call("mps_rollout", {**DECLARATION, "wait_timeout": 180}, kubeconfig=proxy.kubeconfig, directory=directory)
    assert rule.hits and "Traceback" not in result["stderr"]
    return result


@pytest.mark.parametrize("process", ["kube-apiserver", "operator-runner", "kube-controller-manager", "agents"])
def test_a_rollout_survives_the_restart_of(bed: TestBed, process: str, tmp_path: Path) -> None:
    assert process in bed.processes()
    result = restarted_during_a_rollout(bed, process, tmp_path)
    bed.wait_for("the process", lambda: process in bed.processes(), 60)
    if result.get("failed"):
        assert result.get("state") or result.get("code"), result
    again = call("mps_rollout", {**DECLARATION, "wait_timeout": 180}, kubeconfig=bed.kubeconfig, directory=tmp_path)
    assert not again.get("failed"), again
    assert shared_everywhere(bed, again) and not left_behind(bed)
