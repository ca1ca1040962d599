# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute modes as nvidia-smi tells them, and which of them a killed daemon left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import ClusterError, Execution
from ansible_collections.gpuops.mps.plugins.module_utils._compute_mode import left_exclusive, read_compute_modes
from tests.unit.clusters import gpu_node, snapshot


class AnsweringCluster:
    """A cluster in whose pods nvidia-smi gives one answer."""

    def __init__(self, answer: Execution | ClusterError) -> None:
        self.answer = answer

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        return [function(item) if isinstance(self.answer, Execution) else self.answer for item in items]

    def execute(self, *_place: str, **_options: Any) -> Execution | ClusterError:
        return self.answer


REFUSED = ClusterError("not allowed", code="forbidden", remedy="Ask.", subject="pods/exec")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Execution("Default\nExclusive_Process\n", "", 0), ("default", "exclusive_process")),
        (Execution("", "", 0), None),
        (Execution("sh: nvidia-smi: not found\n", "", 127), None),
        (REFUSED, None),
    ],
)
def test_a_node_that_can_be_asked(answer: Execution | ClusterError, expected: tuple[str, ...] | None) -> None:
    found: Any = AnsweringCluster(answer)
    assert read_compute_modes(found, snapshot(nodes=(gpu_node(),))) == {"gpu-1": expected}


def test_a_node_without_a_plugin_cannot_be_asked() -> None:
    found: Any = AnsweringCluster(Execution("Default\n", "", 0))
    assert read_compute_modes(found, snapshot(nodes=(gpu_node("gpu-2"),))) == {"gpu-2": None}


def test_exclusive_without_a_daemon_is_left_behind() -> None:
    cluster = snapshot(nodes=(gpu_node("gpu-1"), gpu_node("gpu-2"), gpu_node("gpu-3"), gpu_node("gpu-4")))
    modes = {"gpu-1": ("exclusive_process",), "gpu-2": ("default", "exclusive_process"), "gpu-3": ("default",), "gpu-4": None}
    assert left_exclusive(modes, cluster) == ["gpu-2"]
