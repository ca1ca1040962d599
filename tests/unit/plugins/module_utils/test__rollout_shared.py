# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout writes for all nodes at once, and what it waits for afterwards."""

from __future__ import annotations

from typing import cast

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_shared import wait_for_operator
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENT_DAEMON_SETS
from tests.unit.memory_cluster import MemoryCluster
from tests.unit.plugins.module_utils.test__rollout_policy import daemon_set

NAMES = list(AGENT_DAEMON_SETS.values())
PATH = "/apis/apps/v1/namespaces/gpu-operator/daemonsets"


def operands(*, default: str = "two", updated: int = 2) -> MemoryCluster:
    """A cluster whose last DaemonSet has this default and this many pods of the current template, of two."""
    found = [daemon_set(name) for name in NAMES[:-1]] + [daemon_set(NAMES[-1], default=default, updated=updated)]
    return MemoryCluster({f"{PATH}/{one['metadata']['name']}": one for one in found})


def wait(memory: MemoryCluster, *, replaced: bool) -> list[str]:
    """Wait without any patience for the config name 'map' and the default 'two'; what was said while waiting."""
    said: list[str] = []
    wait_for_operator(cast(Cluster, memory), "gpu-operator", "map", "two", seconds=0, replaced=replaced, alive=said.append)
    return said


@pytest.mark.parametrize(
    ("memory", "replaced"),
    [(operands(default="four"), False), (operands(default="four"), True), (operands(updated=1), True)],
    ids=["other-default", "other-default-replaced", "pods-not-replaced"],
)
def test_an_operator_that_does_not_follow_ends_the_wait(memory: MemoryCluster, replaced: bool) -> None:
    """The failure names the DaemonSet that is behind, and no other."""
    with pytest.raises(ClusterError, match=f"has not brought {NAMES[-1]} up to the ClusterPolicy") as caught:
        wait(memory, replaced=replaced)
    assert caught.value.code == "operator-not-following"
    assert caught.value.subject == f"daemonset/gpu-operator/{NAMES[-1]}"


def test_an_operator_that_has_followed_needs_no_wait() -> None:
    """Pods that are still to be replaced matter only where the rollout does not replace them itself."""
    assert wait(operands(updated=1), replaced=False) == []
    assert wait(operands(), replaced=True) == []
