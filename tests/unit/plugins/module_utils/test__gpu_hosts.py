# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventory hosts from a snapshot."""

from __future__ import annotations

import json

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._gpu_hosts import gpu_hosts, group_name
from tests.unit.clusters import SHARED_BY_FOUR, T4, gpu_node, snapshot


def test_a_shared_node_stays_in_the_group_of_its_product() -> None:
    """Sharing appends -SHARED to the product's label; whoever targets the group must not lose the host."""
    plain, shared = gpu_node("gpu-1", labels=T4), gpu_node("gpu-2", labels={**T4, **SHARED_BY_FOUR, "nvidia.com/device-plugin.config": "mps-four"})
    hosts = {host["name"]: host for host in gpu_hosts(snapshot(nodes=(plain, shared)))}
    assert "product_tesla_t4" in hosts["gpu-1"]["groups"]
    assert "product_tesla_t4" in hosts["gpu-2"]["groups"]
    assert "sharing_none" in hosts["gpu-1"]["groups"]
    assert {"sharing_mps", "config_mps_four"} <= set(hosts["gpu-2"]["groups"])


def test_a_changed_label_is_drift() -> None:
    """The record on the node says what it was verified with."""
    record = {"config": "mps-two", "content": "0123456789", "pods": {}, "rollout": "r", "at": "2026-11-30T20:00:00Z"}
    labels = {**T4, "nvidia.com/device-plugin.config": "mps-four"}
    node = gpu_node("gpu-1", labels=labels, annotations={"gpuops.mps/applied": json.dumps(record)}, label_owner="kubectl-label")
    (host,) = gpu_hosts(snapshot(nodes=(node,)))
    assert "drift" in host["groups"]
    assert host["facts"]["drift"]


def test_facts_can_be_cached() -> None:
    """The cache stores JSON."""
    hosts = gpu_hosts(snapshot())
    assert json.loads(json.dumps(hosts)) == hosts


@pytest.mark.parametrize(("text", "expected"), [("product_Tesla-T4", "product_tesla_t4"), ("config_mps.four", "config_mps_four")])
def test_group_names_are_ansibles(text: str, expected: str) -> None:
    """Ansible warns about hyphens and dots in names of groups."""
    assert group_name(text) == expected
