# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the MPS control daemon gives each client, and what depends on the device plugin's version."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._limits import (
    REPLICAS_BEFORE_TURING,
    REPLICAS_FROM_TURING,
    PluginVersion,
    honours_fail_requests,
    is_before_volta,
    label_must_equal_default,
    memory_limit_mib,
    replica_cap,
    smallest_start_mib,
    stale_labels_after_failure,
    thread_loss,
    thread_percentage,
)

COMPUTES = st.tuples(st.integers(1, 20), st.integers(0, 9))
REPLICAS = st.integers(1, 1000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v0.17.4", (0, 17, 4)),
        ("0.20.0", (0, 20, 0)),
        ("v0.17.4-ubi9", (0, 17, 4)),
        ("v0.20.0-rc.1", (0, 20, 0)),
        ("v10.200.3000", (10, 200, 3000)),
        ("v0.17", None),
        ("v0.17.4.1", None),
        ("vv0.17.4", None),
        ("1-v0.17.4", None),
        ("latest", None),
        ("sha256:0e1a", None),
        ("", None),
    ],
)
def test_a_version_is_read_from_an_image_tag(text: str, expected: tuple[int, int, int] | None) -> None:
    assert PluginVersion.parse(text) == (PluginVersion(*expected) if expected else None)


def test_versions_are_ordered_by_number_and_print_as_such() -> None:
    assert PluginVersion(0, 9, 0) < PluginVersion(0, 17, 4) < PluginVersion(0, 18, 0) < PluginVersion(1, 0, 0)
    assert str(PluginVersion(0, 17, 4)) == "0.17.4"


@given(st.tuples(*[st.integers(0, 999)] * 3))
@settings(max_examples=2_000)
def test_a_printed_version_reads_back(numbers: tuple[int, int, int]) -> None:
    version = PluginVersion(*numbers)
    assert PluginVersion.parse(str(version)) == version
    assert PluginVersion.parse(f"v{version}-ubi9") == version


@pytest.mark.parametrize(
    ("compute", "cap"),
    [((6, 0), 16), ((7, 0), 16), ((7, 2), 16), ((7, 4), 16), ((7, 5), 48), ((8, 0), 48), ((9, 0), 48), ((12, 1), 48), (None, None)],
)
def test_the_cap_is_48_from_compute_capability_7_5_on(compute: tuple[int, int] | None, cap: int | None) -> None:
    assert replica_cap(compute) == cap


def test_the_caps_are_those_of_the_daemon() -> None:
    assert (REPLICAS_FROM_TURING, REPLICAS_BEFORE_TURING) == (48, 16)


@given(COMPUTES, COMPUTES)
@settings(max_examples=2_000)
def test_a_newer_gpu_never_takes_fewer_replicas(one: tuple[int, int], other: tuple[int, int]) -> None:
    older, newer = sorted((one, other))
    assert (replica_cap(older) or 0) <= (replica_cap(newer) or 0)


@pytest.mark.parametrize(("compute", "before"), [((6, 1), True), ((6, 9), True), ((7, 0), False), ((7, 5), False)])
def test_volta_is_compute_capability_7_0(compute: tuple[int, int], before: bool) -> None:
    assert is_before_volta(compute) is before


# Executed: k8s-device-plugin v0.17.4 and v0.20.0, the commands the daemon was started with on a T4 of 15360 MiB.
ON_A_T4 = [
    (2, 50, 7680),
    (3, 33, 5120),
    (4, 25, 3840),
    (5, 20, 3072),
    (6, 16, 2560),
    (7, 14, 2194),
    (8, 12, 1920),
    (10, 10, 1536),
    (12, 8, 1280),
    (16, 6, 960),
    (17, 5, 903),
    (20, 5, 768),
    (24, 4, 640),
    (48, 2, 320),
]


@pytest.mark.parametrize(("replicas", "percentage", "memory"), ON_A_T4)
def test_each_client_of_a_t4_gets_what_the_daemon_was_told(replicas: int, percentage: int, memory: int) -> None:
    assert thread_percentage(replicas) == percentage
    assert memory_limit_mib(15360, replicas) == memory


@pytest.mark.parametrize(
    ("memory_mib", "replicas", "limit"),
    [
        (40960, 3, 13653),
        (40960, 7, 5851),
        (40960, 48, 853),
        (81559, 2, 40779),
        (81559, 3, 27186),
        (81559, 7, 11651),
        (81559, 48, 1699),
        (183359, 48, 3819),
        (15843721216 // 2**20, 3, 5036),
    ],
)
def test_memory_limits_of_larger_gpus(memory_mib: int, replicas: int, limit: int) -> None:
    assert memory_limit_mib(memory_mib, replicas) == limit


@given(st.integers(1, 2**40), REPLICAS)
@settings(max_examples=2_000)
def test_dividing_whole_mib_gives_what_the_daemon_gets_by_dividing_bytes(memory_bytes: int, replicas: int) -> None:
    assert memory_limit_mib(memory_bytes // 2**20, replicas) == memory_bytes // replicas // 1024 // 1024


@pytest.mark.parametrize(("replicas", "loss"), [(2, 0), (3, 1), (4, 0), (6, 4), (15, 10), (17, 15), (25, 0), (34, 32), (48, 4), (101, 100)])
def test_the_loss_is_what_the_shares_leave_of_100(replicas: int, loss: int) -> None:
    assert thread_loss(replicas) == loss


@given(REPLICAS, st.integers(0, 400_000))
@settings(max_examples=2_000)
def test_all_shares_together_never_exceed_the_gpu(replicas: int, memory_mib: int) -> None:
    assert 0 <= thread_loss(replicas) <= 100
    assert replicas * thread_percentage(replicas) + thread_loss(replicas) == 100
    assert 0 <= memory_mib - replicas * memory_limit_mib(memory_mib, replicas) < replicas


@pytest.mark.parametrize(
    ("product", "memory_mib", "works"),
    [("Tesla-T4", 15360, 21), ("NVIDIA-A30", 24576, 30), ("NVIDIA-A16", 15356, 5)],
)
def test_the_smallest_share_reported_to_start_is_the_bound(product: str, memory_mib: int, works: int) -> None:
    assert memory_limit_mib(memory_mib, works + 1) < smallest_start_mib(product) == memory_limit_mib(memory_mib, works)


@pytest.mark.parametrize("product", ["NVIDIA-L4", "Tesla-T4-SHARED", "", None])
def test_another_product_has_the_general_bound(product: str | None) -> None:
    assert smallest_start_mib(product) == 800


@pytest.mark.parametrize(
    ("function", "first"),
    [(honours_fail_requests, (0, 20, 0)), (label_must_equal_default, (0, 18, 2)), (stale_labels_after_failure, (0, 19, 0))],
)
def test_what_changed_with_a_version(function: object, first: tuple[int, int, int]) -> None:
    since = PluginVersion(*first)
    before = {(0, 20, 0): (0, 19, 3), (0, 18, 2): (0, 18, 1), (0, 19, 0): (0, 18, 9)}[first]
    assert callable(function)
    assert function(since) is True
    assert function(PluginVersion(1, 0, 0)) is True
    assert function(PluginVersion(*before)) is False
