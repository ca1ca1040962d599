# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of a real API server, as mps_info returns them, reach mps_validate unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.testbed.bed import TestBed


def subjects(result: dict[str, Any], code: str) -> list[str]:
    return sorted(found["subject"] for found in result["findings"] if found["code"] == code)


def test_a_declaration_is_validated_against_the_nodes_of_a_cluster(lab: TestBed, run_module: Callable[..., dict[str, Any]]) -> None:
    nodes = run_module(lab, "mps_info")["nodes"]
    before = lab.mark()
    result = run_module(
        lab,
        "mps_validate",
        {
            "configs": {"mps-seventeen": {"replicas": 17}, "none": {}},
            "default": "mps-seventeen",
            "node_groups": [{"name": "t4", "config": "none", "match": {"product": "Tesla-T4"}}],
            "nodes": nodes,
            "plugin_version": "v0.17.4",
        },
    )
    assert result["failed"]
    assert subjects(result, "replicas-above-cap") == ["node/gpu-v100-1"]
    assert subjects(result, "mig-enabled") == ["node/gpu-mig-1"]
    assert subjects(result, "mixed-products") == ["node/gpu-mixed-1"]
    assert not [event for event in lab.audit(since=before) if "gpuops.mps" in event.user_agent]
