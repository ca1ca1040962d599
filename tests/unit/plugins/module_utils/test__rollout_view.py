# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node and its agents' pods as the rollout looks at them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._rollout_view import gpu_resources, see, sharing_labels
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import Container, Node, Pod

NODE = Node("gpu-1", "u", "1", {"nvidia.com/gpu.replicas": "4", "other": "x"}, {}, {}, {"nvidia.com/gpu": 8, "nvidia.com/gpu.shared": 0}, True, False, "")
POD = Pod("gpu-operator", "plugin", "p1", "gpu-1", "Running", False, "2", None, False, app="nvidia-device-plugin-daemonset")


def test_pods_are_sorted_by_agent_and_age() -> None:
    """The newest pod is the last one; pods of other operands do not count."""
    pods = [POD, replace(POD, name="older", uid="p0", created="1", terminating=True), replace(POD, app="nvidia-operator-validator")]
    found = see(NODE, pods)
    assert [(pod.uid, pod.terminating) for pod in found.agents["device-plugin"]] == [("p0", True), ("p1", False)]
    assert set(found.agents) == {"device-plugin"}
    assert found.features == {"nvidia.com/gpu.replicas": "4"} and found.label is None


@pytest.mark.parametrize(
    ("containers", "trouble"),
    [
        ((), "running"),
        (
            (Container("a", True, True, 0, "terminated", "Completed"), Container("b", False, False, 3, "waiting", "CrashLoopBackOff", last_reason="Error")),
            "container b: CrashLoopBackOff: Error",
        ),
        (
            (Container("a", True, False, 0, "terminated", "Completed"), Container("b", False, False, 0, "waiting", "ImagePullBackOff", "no such image")),
            "container b: ImagePullBackOff: no such image",
        ),
        ((Container("b", False, False, 1, "waiting", "CrashLoopBackOff", "back-off", "Error", "49 > 48"),), "container b: CrashLoopBackOff: back-off: 49 > 48"),
    ],
)
def test_what_keeps_a_pod_from_being_ready(containers: tuple[Container, ...], trouble: str) -> None:
    """The first container that says something."""
    assert see(NODE, [replace(POD, containers=containers)]).agents["device-plugin"][0].trouble == trouble
    assert see(NODE, [replace(POD, containers=containers, ready=True)]).agents["device-plugin"][0].trouble == ""


def test_resources_that_are_gone_do_not_count() -> None:
    """kubelet keeps a name at 0 until the node is made anew."""
    assert gpu_resources({"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 8, "nvidia.com/mig-1g.5gb": 2}) == {"nvidia.com/gpu.shared": 8}
    assert sharing_labels(NODE.labels) == {"nvidia.com/gpu.replicas": "4"}
