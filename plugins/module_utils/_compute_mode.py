# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the compute modes of the GPUs, which outlive a daemon that was killed.

The MPS control daemon sets EXCLUSIVE_PROCESS at its start and DEFAULT at a clean end only (k8s-device-plugin v0.17.4, cmd/mps-control-daemon/mps).
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_reads import MAIN_CONTAINERS
from ansible_collections.gpuops.mps.plugins.module_utils._running import newest
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import CONTROL_DAEMON, DEVICE_PLUGIN, Pod, Snapshot

if t.TYPE_CHECKING:
    from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster

COMMAND = ("nvidia-smi", "--query-gpu=compute_mode", "--format=csv,noheader")
EXCLUSIVE = "exclusive_process"
_EXEC_SECONDS = 60.0


def read_compute_modes(cluster: Cluster, snapshot: Snapshot) -> dict[str, tuple[str, ...] | None]:
    """Node -> the compute mode of each of its GPUs in small letters, None where nobody could be asked. Raises nothing of its own."""
    pods = {node.name: newest(snapshot, node.name, DEVICE_PLUGIN) for node in snapshot.nodes}
    asked = [(node, pod) for node, pod in pods.items() if pod is not None]
    answers = cluster.each(lambda item: _ask(cluster, item[1]), asked)
    found = {node: None if isinstance(answer, ClusterError) else answer for (node, _pod), answer in zip(asked, answers, strict=True)}
    return {node: found.get(node) for node in pods}


def left_exclusive(modes: t.Mapping[str, tuple[str, ...] | None], snapshot: Snapshot) -> list[str]:
    """The nodes on which a GPU is exclusive though no MPS control daemon runs there: every client but the first fails on it."""
    return [node for node, found in modes.items() if EXCLUSIVE in (found or ()) and newest(snapshot, node, CONTROL_DAEMON) is None]


def _ask(cluster: Cluster, pod: Pod) -> tuple[str, ...] | None:
    answer = cluster.execute(pod.namespace, pod.name, container=MAIN_CONTAINERS[DEVICE_PLUGIN], command=COMMAND, timeout=_EXEC_SECONDS)
    modes = tuple(line.strip().lower() for line in answer.stdout.splitlines() if line.strip())
    return modes if answer.code == 0 and modes else None
