# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's documentation, "Changes to Node Labels", and the kinds of nodes it does not show."""

from __future__ import annotations

from tests.integration.observation import (
    DAEMON,
    DISCOVERY,
    MIG_NODE,
    allocatable,
    label_node,
    node_labels,
    patch_policy,
    pods,
    restarts,
    sharing_config,
    wait_for_allocatable,
    write_config_map,
)
from tests.testbed.bed import TestBed
from tests.testbed.chart import NAMESPACE

MAP = "mps-config-labels"


def test_labels_before_during_and_after_sharing(clean_lab: TestBed) -> None:
    before = node_labels(clean_lab, "gpu-a100-1")
    # The documentation adds the replicas label with MPS. It is there before, as 1.
    assert before["gpu.replicas"] == "1"
    assert before["gpu.product"] == "NVIDIA-A100-SXM4-40GB"
    assert before["gpu.sharing-strategy"] == "none"

    write_config_map(clean_lab, MAP, {"plain": sharing_config(8), "renamed": sharing_config(8, rename=True)})
    patch_policy(clean_lab, {"name": MAP})
    label_node(clean_lab, "gpu-a100-1", "plain")
    wait_for_allocatable(clean_lab, {"gpu-a100-1": 32})
    clean_lab.wait_for("the new labels", lambda: node_labels(clean_lab, "gpu-a100-1").get("gpu.replicas") == "8")
    during = node_labels(clean_lab, "gpu-a100-1")
    assert during["gpu.product"] == "NVIDIA-A100-SXM4-40GB-SHARED"
    assert during["mps.capable"] == "true"
    assert {key: during[key] for key in ("gpu.count", "gpu.memory", "gpu.family")} == {key: before[key] for key in ("gpu.count", "gpu.memory", "gpu.family")}

    label_node(clean_lab, "gpu-a100-1", "renamed")
    clean_lab.wait_for("former product label", lambda: node_labels(clean_lab, "gpu-a100-1").get("gpu.product") == before["gpu.product"])
    assert node_labels(clean_lab, "gpu-a100-1")["gpu.replicas"] == "8"
    # The labels say so, yet nothing is offered under the new name: the MPS daemon still serves the former one, until its pod is replaced.
    assert allocatable(clean_lab, "gpu.shared")["gpu-a100-1"] == 0
    clean_lab.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{pods(clean_lab, DAEMON)['gpu-a100-1']['metadata']['name']}")
    wait_for_allocatable(clean_lab, {"gpu-a100-1": 32}, "gpu.shared")

    label_node(clean_lab, "gpu-a100-1", None)
    wait_for_allocatable(clean_lab, {"gpu-a100-1": 4})
    # The device plugin and GPU Feature Discovery work independently: the resource may be back before the labels.
    former = {key: before[key] for key in ("gpu.replicas", "gpu.product", "gpu.sharing-strategy")}
    clean_lab.wait_for("the former labels", lambda: former.items() <= node_labels(clean_lab, "gpu-a100-1").items())


def test_mig_devices_never_get_the_shared_suffix_from_mps(clean_lab: TestBed) -> None:
    # The documentation shows A100-SXM4-40GB-MIG-1g.5gb-SHARED. Under MPS no node ever carries it: GPU Feature Discovery refuses
    # MPS on MIG devices and ends.
    before = node_labels(clean_lab, MIG_NODE)
    assert before["gpu.product"] == "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb"
    write_config_map(clean_lab, MAP, {"plain": sharing_config(2)})
    patch_policy(clean_lab, {"name": MAP})
    label_node(clean_lab, MIG_NODE, "plain")
    clean_lab.wait_for("crash loop", lambda: restarts(clean_lab, DISCOVERY, MIG_NODE) > 1)
    assert not node_labels(clean_lab, MIG_NODE).get("gpu.product", "").endswith("-SHARED")
    assert node_labels(clean_lab, MIG_NODE).get("mps.capable") != "true"
