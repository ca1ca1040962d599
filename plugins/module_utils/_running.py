# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: whether a node's agents run what the ConfigMap says now. Pure.

Nobody reports which text an agent has read, so it is concluded: from what a rollout has verified and written down, from
when pods were made and texts changed, and from the labels and resources that the agents produce.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.gpuops.mps.plugins.module_utils._plan import Selection
from ansible_collections.gpuops.mps.plugins.module_utils._prediction import Prediction, disagreements
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import Applied, read_applied
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENTS, CONTROL_DAEMON, DEVICE_PLUGIN, FEATURE_DISCOVERY, Node, Pod, Snapshot

CURRENT, STALE, UNKNOWN, NONE = "current", "stale", "unknown", "none"


@dataclass(frozen=True)
class Running:
    """``state`` is current, stale, unknown or none (no agents there); ``stale`` names the agents that run something else."""

    state: str
    stale: tuple[str, ...] = ()


def running(node: Node, snapshot: Snapshot, selection: Selection, content: str | None, prediction: Prediction | None) -> Running:
    """What the agents of a node run, against the text that its selected key holds in the map as it is.

    ``content`` is the hash of that text, ``prediction`` what it would lead to.
    """
    pods = {agent: newest(snapshot, node.name, agent) for agent in AGENTS}
    present = {agent: pod for agent, pod in pods.items() if pod is not None}
    if not present:
        return Running(NONE)
    applied = read_applied(node.annotations)
    changed = snapshot.referred_map.changed if snapshot.referred_map else None
    wrong = _contradicted(node, prediction)
    states = {}
    for agent, pod in present.items():
        states[agent] = _agent_state(agent, pod, node, applied, selection, content, changed)
        if states[agent] == UNKNOWN and agent in wrong:
            states[agent] = STALE
    stale = tuple(agent for agent in AGENTS if states.get(agent) == STALE)
    if stale:
        return Running(STALE, stale)
    return Running(UNKNOWN if UNKNOWN in states.values() else CURRENT)


def newest(snapshot: Snapshot, node: str, agent: str) -> Pod | None:
    """The agent's pod on a node, the newest one that is not on its way out."""
    return next((pod for pod in reversed(snapshot.pods_of(node, agent)) if not pod.terminating), None)


def _agent_state(agent: str, pod: Pod, node: Node, applied: Applied | None, selection: Selection, content: str | None, changed: str | None) -> str:
    verified = applied is not None and applied.pods.get(agent) == pod.uid
    if applied is not None and verified:
        if applied.content == content and (applied.config == selection.config or agent != CONTROL_DAEMON):
            return CURRENT
        if applied.content != content and applied.config == selection.config:
            return STALE
    # The daemon never hears of a new label (k8s-device-plugin v0.15 to v0.20.0: its sidecar signals a name no process has).
    if agent == CONTROL_DAEMON and selection.source == "label" and node.label_changed and pod.created < node.label_changed:
        return STALE
    if selection.config is None:
        return CURRENT
    if changed is None:
        return UNKNOWN
    # A new pod reads the map as it is; a process that is only restarted may still see kubelet's older copy. Times are whole seconds.
    return CURRENT if pod.created > changed else UNKNOWN


def _contradicted(node: Node, prediction: Prediction | None) -> t.Collection[str]:
    """Agents whose product on the node is not what the text leads to."""
    if prediction is None:
        return ()
    wrong: set[str] = set()
    for difference in disagreements(prediction, node.labels, node.allocatable):
        if difference.name in prediction.labels:
            wrong.update((FEATURE_DISCOVERY, CONTROL_DAEMON))
        else:
            wrong.add(DEVICE_PLUGIN)
    return wrong
