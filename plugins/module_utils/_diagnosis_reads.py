# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: which logs and which daemons are worth reading to make a verdict more exact. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_case import (
    LINK_DAEMON,
    LINK_DISCOVERY,
    LINK_LABELS,
    LINK_LIMITS,
    LINK_PLUGIN,
    LINK_RESOURCE,
    LINK_SELECTION,
    LINK_TOOLKIT,
    LogKey,
)
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENTS, CONTROL_DAEMON, DEVICE_PLUGIN, FEATURE_DISCOVERY, Container, Pod, Snapshot
from ansible_collections.gpuops.mps.plugins.module_utils._verification import BROKEN, STALE, Verdict

# The agents that can say something about a link, the most telling first.
_AGENTS_OF_LINK: Mapping[str, tuple[str, ...]] = {
    LINK_SELECTION: (CONTROL_DAEMON,),
    LINK_TOOLKIT: AGENTS,
    LINK_DISCOVERY: (FEATURE_DISCOVERY,),
    LINK_LABELS: (FEATURE_DISCOVERY,),
    LINK_DAEMON: (CONTROL_DAEMON,),
    LINK_LIMITS: (CONTROL_DAEMON,),
    LINK_PLUGIN: (CONTROL_DAEMON, DEVICE_PLUGIN),
    LINK_RESOURCE: (CONTROL_DAEMON, DEVICE_PLUGIN),
}
# The names of the agents' own containers (gpu-operator v25.3.4, assets/*/daemonset.yaml).
MAIN_CONTAINERS: Mapping[str, str] = {
    FEATURE_DISCOVERY: "gpu-feature-discovery",
    CONTROL_DAEMON: "mps-control-daemon-ctr",
    DEVICE_PLUGIN: "nvidia-device-plugin",
}
MOST_NODES = 20
MOST_LOGS_PER_NODE = 4


def logs_wanted(snapshot: Snapshot, verdicts: Iterable[Verdict]) -> tuple[LogKey, ...]:
    """The logs that can tell why nodes are broken: of at most 20 nodes, at most 4 each, so that a broken cluster costs no more than a node."""
    broken = [verdict for verdict in verdicts if verdict.verdict != STALE and not verdict.verified and verdict.link in _AGENTS_OF_LINK]
    broken.sort(key=lambda verdict: verdict.verdict != BROKEN)
    return tuple(key for verdict in broken[:MOST_NODES] for key in _logs_of(snapshot, verdict))


def _logs_of(snapshot: Snapshot, verdict: Verdict) -> tuple[LogKey, ...]:
    keys: list[LogKey] = []
    for component in _AGENTS_OF_LINK[verdict.link or ""]:
        pods = [pod for pod in snapshot.pods_of(verdict.node, component) if not pod.terminating]
        if pods:
            keys.extend(_logs_of_pod(pods[-1], MAIN_CONTAINERS[component]))
    return tuple(keys[:MOST_LOGS_PER_NODE])


def _logs_of_pod(pod: Pod, main: str) -> list[LogKey]:
    """The runs that failed, then what runs now: the containers that are not well, or else the agent's own."""
    unwell = [one for one in pod.containers if _has_log(one) and not one.ready and not (one.init and one.last_exit_code is None and one.state == "terminated")]
    chosen = unwell or [one for one in pod.containers if one.name == main and _has_log(one)]
    previous = [LogKey(pod.namespace, pod.name, one.name, previous=True) for one in chosen if one.restarts > 0]
    return previous + [LogKey(pod.namespace, pod.name, one.name) for one in chosen]


def _has_log(container: Container) -> bool:
    """A container that never started has none."""
    return container.state != "waiting" or container.restarts > 0


def limits_wanted(snapshot: Snapshot, verdicts: Iterable[Verdict], *, every: bool) -> tuple[tuple[Verdict, Pod], ...]:
    """The daemons whose limits to read: those in doubt, or C(every) one on a node that is right otherwise."""
    wanted: list[tuple[Verdict, Pod]] = []
    for verdict in verdicts:
        doubtful = any(found.code == "daemon-limits-unproven" for found in verdict.findings)
        if not verdict.verified or not (doubtful or every):
            continue
        daemons = [pod for pod in snapshot.pods_of(verdict.node, CONTROL_DAEMON) if not pod.terminating]
        wanted.extend((verdict, daemon) for daemon in daemons[-1:])
    return tuple(wanted)
