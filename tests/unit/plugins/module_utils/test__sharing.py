# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a snapshot says about sharing, as plain data."""

from __future__ import annotations

import json

from ansible_collections.gpuops.mps.plugins.module_utils._sharing import sharing_data
from tests.unit.clusters import MPS_FOUR, NONE, T4, clock, config_map, gpu_node, snapshot

NFD = {"feature.node.kubernetes.io/pci-10de.present": "true"}
EXCLUSIVE = gpu_node("gpu-2", labels={**T4, **NFD}, allocatable={"nvidia.com/gpu": 2}, label_owner=None)


def test_the_summary_counts_nodes_gpus_and_configs() -> None:
    data = sharing_data(snapshot(nodes=(gpu_node(), EXCLUSIVE)))
    assert data["summary"] == {
        "nodes": 2,
        "gpus": 4,
        "by_config": {"mps-four": 1, "none": 1},
        "by_product": {"Tesla-T4": 2},
        "gpu_pods": 0,
        "stale": [],
        "stale_resources": {},
    }
    assert json.loads(json.dumps(data)) == data


def test_a_node_tells_its_gpus_its_config_and_its_agents() -> None:
    first, second = sharing_data(snapshot(nodes=(gpu_node(), EXCLUSIVE)))["nodes"]
    assert (first["config"], first["source"], first["label"], first["running"]) == ("mps-four", "label", "mps-four", "current")
    assert first["gpus"]["product"] == "Tesla-T4" and first["gpus"]["compute"] == "7.5" and first["gpus"]["memory_mib"] == 15360
    assert first["agents"]["mps-control-daemon"] == {"name": "nvidia-device-plugin-mps-control-daemon-gpu-1", "ready": True, "created": clock(10)}
    assert (second["config"], second["source"], second["label"], second["running"]) == ("none", "default", None, "none")
    assert second["agents"]["device-plugin"] is None
    assert not set(NFD) & set(second["labels"])


def test_a_node_whose_daemon_is_behind_is_in_the_summary() -> None:
    data = sharing_data(snapshot(nodes=(gpu_node(label_changed=clock(15)),)))
    assert data["summary"]["stale"] == ["gpu-1"]


def test_a_resource_that_nothing_offers_any_more_is_in_the_summary() -> None:
    renamed = gpu_node(capacity={"nvidia.com/gpu": 2, "nvidia.com/gpu.shared": 0})
    assert sharing_data(snapshot(nodes=(renamed, EXCLUSIVE)))["summary"]["stale_resources"] == {"gpu-1": ["nvidia.com/gpu.shared"]}


def test_the_map_tells_what_each_key_means_and_what_is_wrong_with_it() -> None:
    found = config_map(data={"none": NONE, "mps-four": MPS_FOUR, "bad": "sharing: ["}, annotations={"gpuops.mps/managed-keys": '["mps-four"]'})
    configs = sharing_data(snapshot(config_map=found, referred_map=found))["config_map"]["configs"]
    assert configs["mps-four"] == {"strategy": "mps", "replicas": 4, "rename_by_default": False, "managed": True, "findings": []}
    assert (configs["none"]["strategy"], configs["none"]["managed"]) == ("none", False)
    assert configs["bad"]["strategy"] is None and configs["bad"]["findings"]


def test_a_bare_cluster_has_neither_policy_nor_map() -> None:
    data = sharing_data(snapshot(policies=(), config_map=None, referred_map=None, nodes=()))
    assert (data["policy"], data["config_map"], data["nodes"]) == (None, None, [])
    assert data["cluster"]["device_plugin"] is None
