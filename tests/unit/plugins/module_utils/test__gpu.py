# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What labels say about a node's GPUs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._gpu import Gpus, architecture, gpus_from_labels, plain_product
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from tests.unit.node_vectors import plain_nodes, product_label, vectors

T4 = {
    "nvidia.com/cuda.driver-version.full": "570.133.20",
    "nvidia.com/cuda.driver-version.major": "570",
    "nvidia.com/cuda.driver-version.minor": "133",
    "nvidia.com/cuda.driver-version.revision": "20",
    "nvidia.com/gpu.compute.major": "7",
    "nvidia.com/gpu.compute.minor": "5",
    "nvidia.com/gpu.count": "2",
    "nvidia.com/gpu.family": "turing",
    "nvidia.com/gpu.machine": "PowerEdge-R740",
    "nvidia.com/gpu.memory": "15360",
    "nvidia.com/gpu.mode": "compute",
    "nvidia.com/gpu.product": "Tesla-T4-SHARED",
    "nvidia.com/gpu.replicas": "4",
    "nvidia.com/gpu.sharing-strategy": "mps",
    "nvidia.com/mig.capable": "false",
    "nvidia.com/mps.capable": "true",
    "kubernetes.io/arch": "amd64",
}
A100 = T4 | {"nvidia.com/mig.capable": "true", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.replicas": "1"}


def read(changes: dict[str, str | None] | None = None, **keywords: object) -> Gpus:
    """The facts of a T4 node with some labels changed (short keys), or taken away by None."""
    return read_from(T4, changes, **keywords)


def read_from(base: dict[str, str], changes: dict[str, str | None] | None, **keywords: object) -> Gpus:
    labels = {**base, **{f"nvidia.com/{key}": value for key, value in (changes or {}).items()}}
    return gpus_from_labels({key: value for key, value in labels.items() if value is not None}, **keywords)  # type: ignore[arg-type]


def test_every_fact_of_a_shared_node() -> None:
    assert read(allocatable={"nvidia.com/gpu": 8}) == Gpus(
        product="Tesla-T4",
        count=2,
        total=2,
        memory_mib=15360,
        compute=(7, 5),
        family="turing",
        replicas=4,
        strategy="mps",
        mps_capable=True,
        mig_capable=False,
        mode="compute",
        machine="PowerEdge-R740",
        driver=(570, 133, 20),
    )


def test_a_node_without_labels_has_no_facts() -> None:
    assert gpus_from_labels({"kubernetes.io/arch": "amd64"}, allocatable={"cpu": 4, "nvidia.com/gpu": 3}) == Gpus()


@pytest.mark.parametrize(
    ("label", "product"),
    [
        ("Tesla-T4-SHARED", "Tesla-T4"),
        ("Tesla-T4", "Tesla-T4"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"),
        ("-SHARED-T4", "-SHARED-T4"),
    ],
)
def test_only_the_suffix_of_sharing_is_dropped(label: str, product: str) -> None:
    assert plain_product(label) == product


@pytest.mark.parametrize("value", ["", "four", "-1", "1.0", "²", None])
@pytest.mark.parametrize(
    ("label", "fact"), [("gpu.count", "count"), ("gpu.memory", "memory_mib"), ("gpu.replicas", "replicas"), ("gpu.compute.minor", "compute")]
)
def test_a_value_that_gfd_does_not_write_is_not_known(label: str, fact: str, value: str | None) -> None:
    assert getattr(read({label: value}), fact) is None


def test_what_gfd_leaves_open_is_not_known() -> None:
    assert read({"gpu.memory": "0"}).memory_mib is None
    assert read({"gpu.compute.major": "0"}).compute is None
    assert read({"gpu.compute.minor": "0"}).compute == (7, 0)
    assert read({"gpu.product": ""}).product is None
    assert read({"mps.capable": "maybe"}).mps_capable is None
    assert read({"mig.capable": None}).mig_capable is None


@pytest.mark.parametrize(
    ("allocatable", "total", "mixed"),
    [
        ({"nvidia.com/gpu": 8}, 2, False),
        ({"nvidia.com/gpu.shared": 8}, 2, False),
        ({"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 8}, 2, False),
        ({"nvidia.com/gpu": 12}, 3, True),
        ({"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 12}, 3, True),
        ({"nvidia.com/gpu": 4}, 2, False),  # one GPU unhealthy
        ({"nvidia.com/gpu": 2}, 2, False),  # the plugin still advertises another config
        ({"nvidia.com/gpu": 14}, 2, False),
        ({}, 2, False),
        (None, 2, False),
    ],
)
def test_the_advertised_number_shows_gpus_the_labels_do_not_describe(allocatable: dict[str, int] | None, total: int, mixed: bool) -> None:
    gpus = read(allocatable=allocatable)
    assert (gpus.count, gpus.total, gpus.mixed) == (2, total, mixed)


def test_replicas_of_0_or_unknown_say_nothing_about_other_gpus() -> None:
    for replicas in ("0", None):
        gpus = read({"gpu.replicas": replicas}, allocatable={"nvidia.com/gpu": 12})
        assert (gpus.total, gpus.mixed) == (2, False)


def test_a_node_without_any_gpu_has_none_of_another_product() -> None:
    gpus = read({"gpu.count": "0", "gpu.replicas": "1"}, allocatable={"cpu": 4})
    assert (gpus.count, gpus.total, gpus.mixed) == (0, 0, False)


@pytest.mark.parametrize(
    ("labels", "allocatable", "enabled"),
    [
        ({}, {}, False),
        ({"gpu.replicas": "0"}, {}, True),
        ({"gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}, {}, True),
        ({"gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-INVALID"}, {}, True),
        ({"mig-1g.5gb.count": "2"}, {}, True),
        ({"mig.config": "all-1g.5gb"}, {}, True),
        ({"mig.config": "all-1g.5gb", "mig.capable": None}, {}, True),
        ({"mig.config": "all-1g.5gb", "mig.capable": "false"}, {}, False),
        ({"mig.config": "all-disabled"}, {}, False),
        ({"mig.config": ""}, {}, False),
        ({}, {"nvidia.com/mig-1g.5gb": 1}, True),
        ({}, {"nvidia.com/mig-1g.5gb": 0}, False),
        ({}, {"nvidia.com/gpu": 7, "example.com/mig-1g.5gb": 7}, False),
    ],
)
def test_every_sign_of_mig_counts(labels: dict[str, str | None], allocatable: dict[str, int], enabled: bool) -> None:
    gpus = read_from(A100, labels, allocatable=allocatable)
    assert gpus.mig_enabled is enabled
    assert gpus.mig_config == labels.get("mig.config")


@pytest.mark.parametrize(("state", "pending"), [("pending", True), ("rebooting", True), ("failed", True), ("success", False), (None, False)])
def test_the_mig_manager_is_done_when_it_says_success(state: str | None, pending: bool) -> None:
    assert read_from(A100, {"mig.config.state": state}).mig_pending is pending


@pytest.mark.parametrize(
    ("labels", "driver"),
    [
        ({"cuda.driver-version.revision": None}, (570, 133)),
        ({"cuda.driver-version.minor": None, "cuda.driver-version.revision": None}, None),
        (
            {
                "cuda.driver-version.major": None,
                "cuda.driver-version.minor": None,
                "cuda.driver-version.revision": None,
                "cuda.driver.major": "535",
                "cuda.driver.minor": "104",
                "cuda.driver.rev": "05",
            },
            (535, 104, 5),
        ),
    ],
)
def test_the_driver_is_read_from_either_set_of_labels(labels: dict[str, str | None], driver: tuple[int, ...] | None) -> None:
    assert read(labels).driver == driver


@pytest.mark.parametrize(
    ("labels", "kernel", "tegra"),
    [
        ({"gpu.machine": "NVIDIA-Jetson-AGX-Orin-Developer-Kit"}, "", True),
        ({}, "5.15.148-tegra", True),
        ({"gpu.product": "Orin-nvgpu"}, "", True),
        ({"gpu.product": "NVIDIA-Thor"}, "", True),
        ({"gpu.product": "NVIDIA-Thorough"}, "", False),
        ({"gpu.product": "NVIDIA-GH200-480GB"}, "6.8.0-1021-nvidia-64k", False),
        ({"gpu.machine": None}, "6.8.0", False),
    ],
)
def test_tegra_is_told_by_machine_kernel_or_product(labels: dict[str, str | None], kernel: str, tegra: bool) -> None:
    assert read(labels, kernel=kernel).tegra is tegra


@pytest.mark.parametrize(
    ("kernel", "label", "wsl"),
    [
        ("5.15.167.4-microsoft-standard-WSL2", None, True),
        ("5.15.0-WSL2", None, True),
        ("", "5.15.167.4-microsoft-standard-WSL2", True),
        ("6.8.0-generic", "5.15.167.4-microsoft-standard-WSL2", False),
        ("", None, False),
    ],
)
def test_wsl_is_told_by_the_kernel(kernel: str, label: str | None, wsl: bool) -> None:
    labels = T4 | ({"feature.node.kubernetes.io/kernel-version.full": label} if label else {})
    assert gpus_from_labels(labels, kernel=kernel).wsl is wsl


def test_a_virtual_gpu_is_told_by_its_label() -> None:
    assert read({"vgpu.present": "true"}).vgpu is True
    assert read({"vgpu.present": "false"}).vgpu is False


@pytest.mark.parametrize(
    ("compute", "version", "family"),
    [
        ((1, 3), None, "tesla"),
        ((2, 0), None, "fermi"),
        ((3, 7), None, "kepler"),
        ((4, 0), None, "undefined"),
        ((5, 2), None, "maxwell"),
        ((6, 1), None, "pascal"),
        ((7, 0), None, "volta"),
        ((7, 4), None, "volta"),
        ((7, 5), None, "turing"),
        ((8, 0), None, "ampere"),
        ((8, 8), None, "ampere"),
        ((8, 9), None, "ada-lovelace"),
        ((8, 9), (0, 17, 1), "ada-lovelace"),
        ((8, 9), (0, 17, 0), "ampere"),
        ((9, 0), None, "hopper"),
        ((10, 0), None, "blackwell"),
        ((12, 1), (0, 17, 2), "blackwell"),
        ((12, 1), (0, 17, 1), "undefined"),
        ((10, 0), (0, 17, 1), "undefined"),
        ((11, 0), None, "undefined"),
        ((13, 0), None, "rubin"),
        ((13, 0), (0, 20, 0), "rubin"),
        ((13, 0), (0, 19, 3), "undefined"),
        ((14, 0), None, "undefined"),
    ],
)
def test_the_family_of_a_compute_capability(compute: tuple[int, int], version: tuple[int, int, int] | None, family: str) -> None:
    assert architecture(compute, PluginVersion(*version) if version else None) == family


def test_the_hardware_of_every_executed_node_is_read_back_from_its_labels() -> None:
    for vector in vectors():
        gpus, by_product = vector["gpus"], {product_label(gpu["product"]): gpu for gpu in vector["gpus"]}
        for node in plain_nodes(gpus, vector["mig_env"]):
            facts = gpus_from_labels(node.labels, allocatable=node.allocatable)
            assert facts.mig_enabled is any(gpu["mig_enabled"] for gpu in gpus)
            if facts.mig_enabled:
                continue
            one = by_product[facts.product or ""]
            assert facts.mixed is (len(by_product) > 1)
            assert facts.total == len(gpus)
            assert facts.count == sum(gpu["product"] == one["product"] for gpu in gpus)
            assert facts.memory_mib == (one["memory_mib"] or None)
            assert facts.compute == tuple(int(part) for part in one["compute"].split("."))
            assert facts.mig_capable is any(gpu["mig_capable"] for gpu in gpus)


@given(
    st.dictionaries(st.sampled_from([*T4, "nvidia.com/mig.config", "nvidia.com/mig-1g.5gb.count", "nvidia.com/"]), st.text(max_size=20)),
    st.text(max_size=20),
    st.dictionaries(st.sampled_from(["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"]), st.integers(0, 10**9)),
)
@settings(max_examples=2_000)
def test_any_labels_are_read_and_numbers_are_never_negative(labels: dict[str, str], kernel: str, allocatable: dict[str, int]) -> None:
    facts = gpus_from_labels(labels, kernel=kernel, allocatable=allocatable)
    numbers = [facts.count, facts.total, facts.memory_mib, facts.replicas, *(facts.compute or ()), *(facts.driver or ())]
    assert all(number is None or number >= 0 for number in numbers)
    assert not facts.mixed or (facts.total or 0) > (facts.count or 0)
    assert not (facts.product or "").endswith("-SHARED") or labels["nvidia.com/gpu.product"].endswith("-SHARED-SHARED")
