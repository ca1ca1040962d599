# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what a running MPS control daemon answers about its limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

# The answers carry a unit; the daemon is told MiB with the suffix M (k8s-device-plugin v0.20.0, mps/daemon.go), and
# nvidia-cuda-mps-control may answer in whole G.
_MEMORY = re.compile(r"^\s*(\d+)\s*([KMG])?B?\s*$", re.IGNORECASE)
_MIB_OF_UNIT = {"K": 1 / 1024, "M": 1.0, "G": 1024.0}


@dataclass(frozen=True)
class DaemonLimits:
    """The limits that a daemon applies to a client process.

    C(alive) is False when no daemon answered behind the pipe; C(answer) is then what was said. C(memory_mib) is the
    limit in MiB as far as the answer tells, with C(memory_text) as it was given: an answer in whole G has lost precision.
    """

    alive: bool
    thread_percentage: float | None = None
    memory_mib: int | None = None
    memory_text: str = ""
    answer: str = ""


def limits_command(resource: str) -> str:
    """A shell command for the daemon's container that asks for both limits and ends well whatever the answers are."""
    control = f"CUDA_MPS_PIPE_DIRECTORY=/mps/{resource}/pipe nvidia-cuda-mps-control 2>&1"
    return (
        f'echo "percentage=$(echo get_default_active_thread_percentage | {control})"; '
        f'echo "memory=$(echo get_default_device_pinned_mem_limit | {control})"'
    )


def limits_answers(output: str) -> tuple[str, str]:
    """The two answers in the output of that command."""
    found = dict(line.partition("=")[::2] for line in output.splitlines() if "=" in line)
    return found.get("percentage", "").strip(), found.get("memory", "").strip()


def read_limits(percentage_answer: str, memory_answer: str) -> DaemonLimits:
    """The limits from the answers to get_default_active_thread_percentage and get_default_device_pinned_mem_limit.

    An answer that is no number comes from a control program that finds no daemon. That there is no control program at all
    says nothing about the daemon.
    """
    percentage = read_percentage(percentage_answer)
    if percentage is None:
        return DaemonLimits(alive="not found" in percentage_answer, answer=percentage_answer or memory_answer)
    return DaemonLimits(True, percentage, read_memory(memory_answer), memory_answer, percentage_answer)


def read_percentage(answer: str) -> float | None:
    """The thread percentage of an answer such as C(25.0), or None."""
    try:
        return float(answer.strip())
    except ValueError:
        return None


def read_memory(answer: str) -> int | None:
    """The MiB of an answer such as C(3840M) or C(3G), or None."""
    found = _MEMORY.match(answer)
    return int(int(found[1]) * _MIB_OF_UNIT[(found[2] or "M").upper()]) if found else None


def limits_differ(limits: DaemonLimits, thread_percentage: int | None, memory_mib: int | None) -> Mapping[str, tuple[str, str]]:
    """Which limits are not as predicted: name of the limit -> (is, should be). Empty when they agree."""
    differing: dict[str, tuple[str, str]] = {}
    if thread_percentage is not None and limits.thread_percentage is not None and limits.thread_percentage != thread_percentage:
        differing["default_active_thread_percentage"] = (f"{limits.thread_percentage:g}", str(thread_percentage))
    if memory_mib is not None and limits.memory_mib is not None and not _same_memory(limits, memory_mib):
        differing["default_device_pinned_mem_limit"] = (limits.memory_text, f"{memory_mib}M")
    return differing


def _same_memory(limits: DaemonLimits, memory_mib: int) -> bool:
    """Equal, or equal after rounding down to the whole G in which the daemon answered."""
    if limits.memory_text.upper().rstrip("B").endswith("G"):
        return limits.memory_mib == memory_mib // 1024 * 1024
    return limits.memory_mib == memory_mib
