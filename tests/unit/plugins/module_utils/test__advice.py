# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many replicas fit a need."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._advice import Advice, AdviceError, GpuModel, advise_clients, advise_declared, advise_memory
from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._gpu import Gpus
from ansible_collections.gpuops.mps.plugins.module_utils._prediction import predict

A100 = GpuModel(memory_mib=40960, compute=(8, 0), count=4, product="NVIDIA-A100-SXM4-40GB")
T4 = GpuModel(memory_mib=15360, compute=(7, 5), count=2, product="Tesla-T4")
V100 = GpuModel(memory_mib=16384, compute=(7, 0))
GB10 = GpuModel(memory_mib=None, compute=(12, 1))


def test_the_whole_advice_for_a_memory_need() -> None:
    assert advise_memory(A100, 5800, config="mps-seven") == Advice(
        replicas=7,
        cap=48,
        memory_mib=5851,
        memory_unused_mib=3,
        thread_percentage=14,
        threads_unused=2,
        better_replicas=5,
        clients=28,
        labels={"nvidia.com/device-plugin.config": "mps-seven"},
        capacity={"nvidia.com/gpu": 28},
        autoscaler_tags={
            "k8s.io/cluster-autoscaler/node-template/label/nvidia.com/device-plugin.config": "mps-seven",
            "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu": "28",
        },
    )


@pytest.mark.parametrize(
    ("gpu", "need", "replicas", "better"),
    [
        (A100, 20480, 2, None),
        (A100, 13653, 3, 2),
        (A100, 10240, 4, None),
        (A100, 8193, 4, None),
        (A100, 8192, 5, None),
        (A100, 1, 48, 33),
        (A100, 1205, 33, 25),
        (V100, 1, 16, 14),
    ],
)
def test_the_most_replicas_that_leave_enough_memory(gpu: GpuModel, need: int, replicas: int, better: int | None) -> None:
    advice = advise_memory(gpu, need, config="key")
    assert (advice.replicas, advice.better_replicas) == (replicas, better)


@pytest.mark.parametrize(
    ("gpu", "clients", "replicas", "better"),
    [(A100, 1, 2, None), (A100, 8, 2, None), (A100, 9, 3, 4), (T4, 20, 10, None), (T4, 21, 11, 20), (T4, 96, 48, None), (V100, 15, 15, 16)],
)
def test_the_fewest_replicas_for_a_number_of_clients(gpu: GpuModel, clients: int, replicas: int, better: int | None) -> None:
    advice = advise_clients(gpu, clients, config="key")
    assert (advice.replicas, advice.better_replicas) == (replicas, better)
    assert advice.clients == replicas * gpu.count >= clients


def test_a_rename_changes_the_promised_resource() -> None:
    for advice in (
        advise_clients(T4, 8, config="four", rename_by_default=True),
        advise_memory(T4, 3840, config="four", rename_by_default=True),
    ):
        assert advice.capacity == {"nvidia.com/gpu.shared": 8}
        assert advice.autoscaler_tags["k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu.shared"] == "8"


@pytest.mark.parametrize(
    ("gpu", "need", "said"),
    [
        (A100, 20481, "only 1 clients of 20481 MiB fit into 40960 MiB, and sharing begins with 2"),
        (A100, 50000, "only 0 clients"),
        (A100, 0, "at least 1 MiB, not 0"),
        (GB10, 1000, "reports no memory size"),
        (GpuModel(memory_mib=7611, compute=(6, 1)), 1000, "GPUs before Volta"),
    ],
)
def test_a_memory_need_that_cannot_be_met_says_why(gpu: GpuModel, need: int, said: str) -> None:
    with pytest.raises(AdviceError, match=said):
        advise_memory(gpu, need, config="key")


@pytest.mark.parametrize(
    ("gpu", "clients", "said"),
    [
        (T4, 97, "97 clients on 2 GPUs need 49 replicas, and the MPS daemon takes 48 on compute capability 7.5: at most 96 clients"),
        (V100, 17, "need 17 replicas, and the MPS daemon takes 16 on compute capability 7.0: at most 16"),
        (V100, 0, "at least 1, not 0"),
        (GpuModel(memory_mib=7611, compute=(6, 1)), 2, "compute capability 6.1: GPUs before Volta"),
    ],
)
def test_too_many_clients_say_how_many_there_may_be(gpu: GpuModel, clients: int, said: str) -> None:
    with pytest.raises(AdviceError, match=said):
        advise_clients(gpu, clients, config="key")


@pytest.mark.parametrize(("replicas", "better"), [(2, None), (3, 2), (6, 5), (7, 5), (34, 33), (48, 33), (47, 48), (17, 16), (100, None)])
def test_a_declared_number_has_a_better_neighbour_in_either_direction(replicas: int, better: int | None) -> None:
    advice = advise_declared(A100, replicas, config="key", rename_by_default=True)
    assert (advice.replicas, advice.better_replicas) == (replicas, better)
    assert advice.capacity == {"nvidia.com/gpu.shared": 4 * replicas}
    assert advise_declared(A100, replicas, config="key").capacity == {"nvidia.com/gpu": 4 * replicas}


def test_what_to_know_before_declaring_it() -> None:
    assert advise_clients(T4, 42, config="key").warnings == ()
    assert "698 MiB; below 731 MiB" in advise_clients(T4, 44, config="key").warnings[0]
    assert "limits no client's memory" in advise_clients(GB10, 4, config="key").warnings[0]
    advice = advise_clients(GB10, 4, config="key")
    assert (advice.memory_mib, advice.memory_unused_mib) == (None, None)


def test_plain_data_has_every_field() -> None:
    data = advise_clients(T4, 8, config="four").as_dict()
    assert data["warnings"] == [] and data["replicas"] == 4
    assert set(data) == set(Advice.__dataclass_fields__)


GPUS = st.builds(GpuModel, memory_mib=st.integers(100, 400_000), compute=st.tuples(st.integers(7, 13), st.integers(0, 9)), count=st.integers(1, 16))


@given(GPUS, st.integers(1, 200_000))
@settings(max_examples=2_000)
def test_the_advice_meets_the_memory_need_and_one_more_replica_would_not(gpu: GpuModel, need: int) -> None:
    try:
        advice = advise_memory(gpu, need, config="key")
    except AdviceError:
        assert (gpu.memory_mib or 0) // 2 < need
        return
    assert need <= (advice.memory_mib or 0)
    assert advice.replicas == advice.cap or (gpu.memory_mib or 0) // (advice.replicas + 1) < need


@given(GPUS, st.integers(1, 1000))
@settings(max_examples=2_000)
def test_what_is_advised_is_predicted_without_an_error(gpu: GpuModel, clients: int) -> None:
    try:
        advice = advise_clients(gpu, clients, config="key")
    except AdviceError:
        return
    facts = Gpus(product="X", count=gpu.count, total=gpu.count, memory_mib=gpu.memory_mib, compute=gpu.compute)
    for replicas in (advice.replicas, advice.better_replicas or advice.replicas):
        prediction = predict(SharingConfig("key", Strategy.MPS, replicas), facts, mig_strategy=None, plugin_version=None)
        assert not [found for found in prediction.findings if found.severity == "error"]
        assert sum(prediction.resources.values()) >= clients
    assert predict(SharingConfig("key", Strategy.MPS, advice.replicas), facts, mig_strategy=None, plugin_version=None).resources == advice.capacity
