# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_limits import (
    DaemonLimits,
    limits_answers,
    limits_command,
    limits_differ,
    read_limits,
    read_memory,
    read_percentage,
)


@pytest.mark.parametrize(("answer", "wanted"), [("25.0", 25.0), (" 12\n", 12.0), ("", None), ("Cannot find MPS control daemon process", None)])
def test_a_percentage_is_a_number_or_nothing(answer: str, wanted: float | None) -> None:
    assert read_percentage(answer) == wanted


@pytest.mark.parametrize(("answer", "wanted"), [("3840M", 3840), ("3G", 3072), ("3GB", 3072), ("2048K", 2), ("17", 17), ("", None), ("not set", None)])
def test_memory_has_a_unit(answer: str, wanted: int | None) -> None:
    assert read_memory(answer) == wanted


def test_a_daemon_that_answers_is_alive() -> None:
    assert read_limits("25.0", "3840M") == DaemonLimits(True, 25.0, 3840, "3840M", "25.0")


def test_a_control_program_without_a_daemon_is_a_dead_daemon() -> None:
    assert not read_limits("Cannot find MPS control daemon process", "").alive


def test_no_control_program_proves_nothing() -> None:
    assert read_limits("sh: 1: nvidia-cuda-mps-control: not found", "").alive


@pytest.mark.parametrize(
    ("limits", "percentage", "memory", "wanted"),
    [
        (DaemonLimits(True, 25.0, 3840, "3840M"), 25, 3840, set()),
        (DaemonLimits(True, 25.0, 3072, "3G"), 25, 3840, set()),  # the daemon answers in whole G
        (DaemonLimits(True, 25.0, 2048, "2G"), 25, 3840, {"default_device_pinned_mem_limit"}),
        (DaemonLimits(True, 50.0, 7680, "7680M"), 25, 3840, {"default_active_thread_percentage", "default_device_pinned_mem_limit"}),
        (DaemonLimits(True, 25.0, None, ""), 25, 3840, set()),
        (DaemonLimits(True, 25.0, 3840, "3840M"), None, None, set()),
    ],
)
def test_only_what_is_known_and_different_differs(limits: DaemonLimits, percentage: int | None, memory: int | None, wanted: set[str]) -> None:
    assert set(limits_differ(limits, percentage, memory)) == wanted


def test_the_answers_come_out_of_the_commands_output() -> None:
    assert "/mps/nvidia.com/gpu.shared/pipe" in limits_command("nvidia.com/gpu.shared")
    assert limits_answers("percentage=12.0\nmemory=5G\n") == ("12.0", "5G")


@given(st.text(), st.text())
def test_any_answer_can_be_read(percentage: str, memory: str) -> None:
    limits = read_limits(*limits_answers(f"percentage={percentage}\nmemory={memory}"))
    limits_differ(limits, 25, 3840)
