# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter as a template uses it: what it takes, and what it says about what it does not."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpuops.mps.plugins.filter.replica_advice import FilterModule

advise = FilterModule().filters()["replica_advice"]
T4 = {"product": "Tesla-T4", "memory_mib": 15360, "compute": "7.5", "count": 2}


def test_a_memory_need() -> None:
    advice = advise(T4, memory_per_client=3000, config="mps-five")
    assert (advice["replicas"], advice["memory_mib"], advice["capacity"]) == (5, 3072, {"nvidia.com/gpu": 10})
    assert advice["labels"] == {"nvidia.com/device-plugin.config": "mps-five"}


def test_a_number_of_clients_with_a_rename() -> None:
    advice = advise(T4, clients=20, rename_by_default=True)
    assert (advice["replicas"], advice["capacity"]) == (10, {"nvidia.com/gpu.shared": 20})
    assert advice["labels"] == {"nvidia.com/device-plugin.config": "mps"}
    assert advise(T4, memory_per_client=3000, rename_by_default=True)["capacity"] == {"nvidia.com/gpu.shared": 10}


@pytest.mark.parametrize("compute", ["7.5", 7.5, [7, 5], (7, 5)])
def test_ways_to_write_a_compute_capability(compute: object) -> None:
    assert advise({**T4, "compute": compute}, clients=2)["cap"] == 48


def test_text_from_a_template_counts_as_a_number_and_a_node_has_one_gpu_by_default() -> None:
    advice = advise({"memory_mib": "15360", "compute": "7.5"}, clients="4")
    assert (advice["replicas"], advice["memory_mib"]) == (4, 3840)


def test_what_mps_info_tells_of_a_node_is_taken_as_it_is() -> None:
    told = {**T4, "architecture": "turing", "driver": "570.133.20", "mig_enabled": False, "mixed": False}
    assert advise(told, clients=8) == advise(T4, clients=8)


@pytest.mark.parametrize("memory", [None, 0])
def test_a_gpu_that_reports_no_memory(memory: int | None) -> None:
    assert advise({**T4, "memory_mib": memory}, clients=4)["memory_mib"] is None


@pytest.mark.parametrize(
    ("gpu", "arguments", "said"),
    [
        (T4, {}, "either memory_per_client"),
        (T4, {"clients": 2, "memory_per_client": 2}, "either memory_per_client"),
        ("Tesla-T4", {"clients": 2}, "mapping with memory_mib, compute and count, not str"),
        ({**T4, "memory": 1, "cores": 2}, {"clients": 2}, "unknown field cores, memory; there are compute, count, memory_mib, product"),
        ({"memory_mib": 1}, {"clients": 2}, "such as '7.5', not None"),
        ({**T4, "compute": "turing"}, {"clients": 2}, "such as '7.5', not 'turing'"),
        ({**T4, "count": 0}, {"clients": 2}, "count is a whole number of at least 1, not 0"),
        ({**T4, "memory_mib": "15 GiB"}, {"clients": 2}, "memory_mib is a whole number"),
        (T4, {"clients": True}, "clients is a whole number"),
        (T4, {"memory_per_client": -1}, "memory_per_client is a whole number of at least 0, not -1"),
        (T4, {"clients": 97}, "at most 96 clients"),
        (T4, {"memory_per_client": 9000}, "only 1 clients of 9000 MiB"),
    ],
)
def test_what_is_not_understood_or_cannot_be_met(gpu: object, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(AnsibleFilterError, match=said):
        advise(gpu, **arguments)
