# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: a node and its agents' pods as the rollout looks at them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import read_applied, read_mark
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_node import AgentPod, Seen
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENT_DAEMON_SETS, Container, Node, Pod

# The labels that tell which sharing is in effect. On the way back they must show what they showed before; the others may
# have changed for reasons of their own, and on a node of several GPU models they flap.
SHARING_LABELS = ("nvidia.com/gpu.replicas", "nvidia.com/gpu.sharing-strategy", "nvidia.com/mps.capable")

_COMPONENTS = {app: component for component, app in AGENT_DAEMON_SETS.items()}


def see(
    node: Node,
    pods: Iterable[Pod],
    *,
    gpu_pods: tuple[tuple[str, str], ...] | None = None,
    limits: tuple[str, int] | None = None,
    templates: Mapping[str, str] | None = None,
) -> Seen:
    """What a rollout sees of a node. C(pods) are the node's pods in the operator's namespace, in any order.

    C(templates) has the generation of each agent's pod template, as its DaemonSet counts it.
    """
    agents: dict[str, tuple[AgentPod, ...]] = {}
    for pod in sorted(pods, key=lambda pod: (pod.created, pod.name)):
        component = _COMPONENTS.get(pod.app)
        if component:
            agents[component] = (*agents.get(component, ()), _agent_pod(pod, (templates or {}).get(component, "")))
    return Seen(
        name=node.name,
        label=node.config_label,
        features={key: value for key, value in node.labels.items() if key.startswith("nvidia.com/")},
        allocatable=gpu_resources(node.allocatable),
        agents=agents,
        ready=node.ready,
        unschedulable=node.unschedulable,
        mark=read_mark(node.annotations),
        applied=read_applied(node.annotations),
        gpu_pods=gpu_pods,
        limits=limits,
    )


def gpu_resources(allocatable: Mapping[str, int]) -> dict[str, int]:
    """The GPU resources that are really offered; kubelet keeps a name that is gone at 0 until the node is made anew."""
    return {name: count for name, count in allocatable.items() if name in ("nvidia.com/gpu", "nvidia.com/gpu.shared") and count}


def sharing_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that tell which sharing is in effect."""
    return {key: labels[key] for key in SHARING_LABELS if key in labels}


def is_outdated(pod: Pod, template: str) -> bool:
    """Whether a pod was made from another template than its DaemonSet's present one (label pod-template-generation)."""
    return bool(pod.generation and template) and pod.generation != template


def _agent_pod(pod: Pod, template: str) -> AgentPod:
    trouble = "" if pod.ready else _trouble(pod)
    return AgentPod(pod.namespace, pod.name, pod.uid, pod.ready, pod.terminating, trouble, is_outdated(pod, template))


def _trouble(pod: Pod) -> str:
    """What keeps a pod from being ready, from the first container that says something."""
    for container in pod.containers:
        if container.ready or (container.init and container.state == "terminated" and container.reason == "Completed"):
            continue
        words = _words(container)
        if words:
            return f"container {container.name}: {words}"
    return pod.message or pod.reason or pod.phase.lower()


def _words(container: Container) -> str:
    parts = [container.reason, container.message, container.last_message or container.last_reason]
    return ": ".join(dict.fromkeys(part for part in parts if part))
