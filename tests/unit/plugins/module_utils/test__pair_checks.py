# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a config can work on a node's GPUs: every finding, with its reason, and when it is not there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._gpu import Gpus
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._prediction import predict
from tests.unit.samples import A100, MIXED, NEW, NO_SHARING, OLD, SLICES, T4, codes, judge, mps, short


@pytest.mark.parametrize(
    ("gpus", "missing"),
    [
        (replace(T4, product=None), "gpu.product"),
        (replace(T4, count=None), "gpu.count"),
        (Gpus(), "gpu.product, nvidia.com/gpu.count, nvidia.com/gpu.compute.major and gpu.compute.minor"),
    ],
)
def test_missing_facts_are_said_and_nothing_is_guessed(gpus: Gpus, missing: str) -> None:
    prediction = judge(mps(4), gpus)
    assert (prediction.labels, prediction.resources, prediction.exact) == ({}, {}, False)
    found = next(found for found in prediction.findings if found.code == "gpu-facts-missing")
    assert f"no label nvidia.com/{missing}: its labels and resources after the change cannot be predicted" in found.message
    assert (found.severity, found.subject, found.path) == ("warning", "node/gpu-01", "shared")


def test_a_missing_compute_capability_is_said_where_the_cap_depends_on_it() -> None:
    without = replace(T4, compute=None)
    found = next(found for found in judge(mps(40), without).findings if found.code == "gpu-facts-missing")
    assert "nvidia.com/gpu.compute.major" in found.message and "cannot be checked against the GPU's limit" in found.message
    assert "gpu-facts-missing" not in codes(judge(SLICES, without)) | codes(judge(NO_SHARING, without))


@pytest.mark.parametrize(
    ("compute", "replicas", "refused"),
    [((7, 0), 16, False), ((7, 0), 17, True), ((7, 2), 48, True), ((7, 5), 48, False), ((7, 5), 49, True), ((9, 0), 48, False), ((9, 0), 49, True)],
)
def test_the_cap_of_the_gpu_is_an_error_with_the_reason(compute: tuple[int, int], replicas: int, refused: bool) -> None:
    prediction = judge(mps(replicas), replace(T4, product="Tesla-V100-SXM2-16GB", compute=compute))
    errors = [found for found in prediction.findings if found.severity == "error"]
    assert [found.code for found in errors] == (["replicas-above-cap"] if refused else [])
    assert prediction.daemon is not refused
    assert (prediction.resources == {}) is refused
    assert prediction.labels["nvidia.com/gpu.replicas"] == str(replicas)  # GFD does not check it
    for found in errors:
        cap = 48 if compute >= (7, 5) else 16
        assert f"{replicas} replicas are more than the {cap} that" in found.message
        assert f"Tesla-V100-SXM2-16GB (compute capability {compute[0]}.{compute[1]})" in found.message
        assert f"at most {cap} replicas" in found.remedy
        assert (found.path, found.subject) == ("shared.replicas", "node/gpu-01")


def test_time_slicing_has_no_cap() -> None:
    assert codes(judge(replace(SLICES, replicas=100), replace(T4, compute=(7, 0)))) == set()


@pytest.mark.parametrize(("compute", "refused"), [((6, 1), True), ((7, 0), False)])
def test_gpus_before_volta_are_refused_though_the_real_code_serves_them(compute: tuple[int, int], refused: bool) -> None:
    prediction = judge(mps(4), replace(T4, product="Tesla-P4", compute=compute))
    assert codes(prediction, "error") == ({"gpu-before-volta"} if refused else set())
    assert prediction.resources == {"nvidia.com/gpu": 8}
    for found in prediction.findings:
        assert "Tesla-P4 has compute capability 6.1" in found.message
        assert (found.path, found.subject) == ("shared.replicas", "node/gpu-01")


def test_before_volta_and_above_the_cap_are_both_said() -> None:
    assert codes(judge(mps(17), replace(T4, compute=(6, 1))), "error") == {"gpu-before-volta", "replicas-above-cap"}


@pytest.mark.parametrize(("replicas", "errors"), [(16, set()), (17, {"replicas-above-cap-unseen"}), (49, {"replicas-above-cap"})])
def test_gpus_the_labels_do_not_describe_may_have_the_lower_cap(replicas: int, errors: set[str]) -> None:
    prediction = judge(mps(replicas), MIXED)
    assert codes(prediction, "error") == errors
    assert "mixed-products" in codes(prediction, "warning")
    found = next(found for found in prediction.findings if found.code == "mixed-products")
    assert "advertises what 3 GPUs would with 1 replicas, but its labels describe 1 of the product Tesla-T4" in found.message
    assert found.subject == "node/gpu-01"


@pytest.mark.parametrize(
    ("product", "memory_mib", "replicas", "said"),
    [
        ("Tesla-T4", 15360, 21, None),
        ("Tesla-T4", 15360, 22, "698 MiB of 15360 MiB; below 731 MiB"),
        ("NVIDIA-A30", 24576, 31, "792 MiB of 24576 MiB; below 819 MiB"),
        ("NVIDIA-A16", 15356, 6, "2559 MiB of 15356 MiB; below 3071 MiB"),
        ("NVIDIA-L4", 23034, 28, None),
        ("NVIDIA-L4", 23034, 29, "794 MiB of 23034 MiB; below 800 MiB"),
    ],
)
def test_small_shares_of_memory_are_worth_a_warning(product: str, memory_mib: int, replicas: int, said: str | None) -> None:
    prediction = judge(mps(replicas), replace(T4, product=product, memory_mib=memory_mib, compute=(8, 6)))
    found = [found for found in prediction.findings if found.code == "memory-per-client-small"]
    assert bool(found) is (said is not None)
    for one in found:
        assert said is not None and said in one.message and product in one.message
        assert (one.severity, one.path, one.subject) == ("warning", "shared.replicas", "node/gpu-01")


def test_a_gpu_without_memory_limits_nobody() -> None:
    prediction = judge(mps(4), replace(T4, product="NVIDIA-GB10", memory_mib=None))
    assert codes(prediction) == {"memory-not-limited"}
    assert (prediction.memory_mib, prediction.thread_percentage) == (None, 25)
    assert prediction.findings[0].path == "shared.replicas" and prediction.findings[0].subject == "node/gpu-01"
    assert codes(judge(SLICES, replace(T4, memory_mib=None))) == set()
    assert "memory-not-limited" not in codes(judge(mps(4), replace(T4, product=None, memory_mib=None)))


@pytest.mark.parametrize(
    ("replicas", "code", "said"),
    [
        (2, None, ""),
        (3, "thread-share-rounded", "3 clients get 33 % of the threads each, 99 % together: 1 % stay unused"),
        (13, "thread-share-rounded", "13 clients get 7 % of the threads each, 91 % together: 9 % stay unused"),
        (15, "thread-share-wasted", "15 clients get 6 % of the threads each, 90 % together: 10 % stay unused"),
    ],
)
def test_threads_lost_to_whole_percent(replicas: int, code: str | None, said: str) -> None:
    found = judge(mps(replicas), A100).findings
    assert [one.code for one in found] == ([code] if code else [])
    for one in found:
        assert (one.message, one.path, one.subject) == (said, "shared.replicas", "")


@pytest.mark.parametrize(
    ("file", "policy", "code", "said"),
    [
        (None, None, None, ""),
        ("none", "", None, ""),
        ("single", None, None, ""),
        ("single", "single", None, ""),
        (None, "single", None, ""),
        ("none", "single", "mig-strategy-overridden", "the config says none, but the ClusterPolicy's spec.mig.strategy single is what the agents run"),
        ("mixed", "single", "mig-strategy-overridden", "the config says mixed, but the ClusterPolicy's spec.mig.strategy single is what the agents run"),
        ("mixed", None, "mig-strategy-mixed", "the config's MIG strategy is mixed, and the device plugin does not start with MPS then"),
        (None, "mixed", "mig-strategy-mixed", "the ClusterPolicy's spec.mig.strategy is mixed, and the device plugin does not start with MPS then"),
        (
            "none",
            "mixed",
            "mig-strategy-mixed",
            "the ClusterPolicy's spec.mig.strategy is mixed, and the device plugin does not start with MPS then; "
            "the config says none, but the ClusterPolicy wins",
        ),
    ],
)
def test_the_policy_beats_the_file_on_the_mig_strategy(file: str | None, policy: str | None, code: str | None, said: str) -> None:
    prediction = judge(mps(4, mig_strategy=file), T4, mig_strategy=policy)
    assert [(found.code, found.message, found.path, found.subject) for found in prediction.findings] == (
        [(code, said, "shared.mig_strategy", "")] if code else []
    )
    effective = policy or file
    assert prediction.labels["nvidia.com/mig.strategy"] == (effective if effective in ("single", "mixed") else None)
    assert (prediction.resources == {}) is (effective == "mixed")


def test_the_mig_strategy_mixed_is_fine_without_mps() -> None:
    assert codes(judge(SLICES, T4, mig_strategy="mixed")) | codes(judge(NO_SHARING, A100, mig_strategy="mixed")) == set()


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"mig_enabled": True, "mig_config": None}, "mig-enabled", "a GPU of the node is in MIG mode, and MPS does not work there"),
        ({"mig_enabled": True, "mig_config": "all-1g.5gb"}, "mig-enabled", "in MIG mode (nvidia.com/mig.config is all-1g.5gb), and"),
        ({"mig_pending": True}, "mig-pending", "has not finished"),
        ({"mig_enabled": True, "mig_pending": True}, "mig-pending", "has not finished"),
    ],
)
def test_mig_excludes_mps(changes: dict[str, Any], code: str, said: str) -> None:
    prediction = judge(mps(4), replace(A100, **changes))
    assert codes(prediction, "error") == {code}
    assert said in prediction.findings[0].message
    assert (prediction.findings[0].path, prediction.findings[0].subject) == ("shared", "node/gpu-01")
    assert prediction.resources == {} and not prediction.daemon
    assert codes(judge(SLICES, replace(A100, **changes))) == set()


def test_gfd_stops_where_mps_meets_mig_so_that_no_labels_are_predicted() -> None:
    prediction = judge(mps(4), replace(A100, mig_enabled=True))
    assert (prediction.labels, prediction.exact, prediction.labels_one_of) == ({}, False, ())


@pytest.mark.parametrize(
    ("config", "mig_strategy", "changes", "said"),
    [
        (mps(4), None, {}, True),
        (SLICES, "single", {}, True),
        (NO_SHARING, None, {}, False),
        (SLICES, "mixed", {}, False),
        (mps(4), None, {"mig_config": "all-disabled"}, False),
        (mps(4), None, {"mig_capable": False}, False),
        (mps(4), None, {"mig_capable": None}, False),
        (mps(4), None, {"total": 1, "count": 1}, False),
        (mps(4), None, {"total": 0, "count": 0}, False),
        (mps(4), None, {"total": None}, False),
        (mps(4), None, {"total": 2}, True),
    ],
)
def test_some_gpus_in_mig_mode_would_not_be_seen(config: SharingConfig, mig_strategy: str | None, changes: dict[str, Any], said: bool) -> None:
    prediction = judge(config, replace(A100, mig_config=None) if not changes else replace(A100, **{"mig_config": None, **changes}), mig_strategy=mig_strategy)
    found = [found for found in prediction.findings if found.code == "mig-state-not-visible"]
    assert bool(found) is said
    assert all((one.severity, one.path, one.subject) == ("warning", config.name, "node/gpu-01") for one in found)


MIG_FULL = replace(A100, mig_enabled=True, replicas=0)
MIG_DEVICE = replace(A100, mig_enabled=True, product="NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", memory_mib=4864)
MIG_INVALID = replace(A100, mig_enabled=True, product="NVIDIA-A100-SXM4-40GB-MIG-INVALID", count=0, total=0, replicas=0, memory_mib=None)


@pytest.mark.parametrize(
    ("gpus", "mig_strategy", "code", "labels"),
    [
        (MIG_FULL, None, None, ("NVIDIA-A100-SXM4-40GB", "0", "none")),
        (replace(MIG_FULL, replicas=1), None, None, ("NVIDIA-A100-SXM4-40GB-SHARED", "10", "time-slicing")),
        (MIG_FULL, "single", "mig-layout-unusable", ("NVIDIA-A100-SXM4-40GB-SHARED", "10", "time-slicing")),
        (MIG_FULL, "mixed", "mig-not-predicted", None),
        (MIG_DEVICE, "single", None, ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED", "10", "time-slicing")),
        (MIG_DEVICE, None, "mig-not-predicted", None),
        (MIG_DEVICE, "mixed", "mig-not-predicted", None),
        (MIG_INVALID, "single", "mig-layout-unusable", None),
        (MIG_INVALID, None, "mig-not-predicted", None),
    ],
)
def test_mig_without_mps(gpus: Gpus, mig_strategy: str | None, code: str | None, labels: tuple[str, str, str] | None) -> None:
    prediction = judge(SLICES, gpus, mig_strategy=mig_strategy)
    assert [(found.code, found.path, found.subject) for found in prediction.findings] == ([(code, "slices", "node/gpu-01")] if code else [])
    shown = short(prediction.labels)
    if labels is None or code:
        assert (shown, prediction.resources, prediction.exact) == ({}, {}, False)
    else:
        assert (shown["gpu.product"], shown["gpu.replicas"], shown["gpu.sharing-strategy"]) == labels
        assert prediction.resources == {"nvidia.com/gpu": 40}


def test_mig_without_labels_of_the_product_is_not_predicted() -> None:
    without = replace(MIG_FULL, product=None)
    assert codes(judge(SLICES, without, mig_strategy="single")) == {"mig-layout-unusable", "gpu-facts-missing"}
    assert codes(judge(SLICES, without, mig_strategy="mixed")) == {"mig-not-predicted", "gpu-facts-missing"}


@pytest.mark.parametrize(("changes", "code"), [({"tegra": True}, "tegra-unsupported"), ({"wsl": True}, "wsl-unsupported")])
def test_platforms_where_mps_does_not_work(changes: dict[str, Any], code: str) -> None:
    prediction = judge(mps(4), replace(T4, **changes))
    assert [(found.code, found.severity, found.path, found.subject) for found in prediction.findings] == [(code, "error", "shared", "node/gpu-01")]
    assert codes(judge(SLICES, replace(T4, **changes))) == set()


@pytest.mark.parametrize(
    ("asked", "version", "code", "said"),
    [
        (None, NEW, None, ""),
        (True, OLD, None, ""),
        (False, NEW, "fail-requests-off", "may request several replicas"),
        (False, PluginVersion(0, 19, 3), "fail-requests-ignored", "device plugin 0.19.3 ignores"),
        (False, None, "fail-requests-ignored", "the version in use is not known"),
    ],
)
def test_requests_above_one_depend_on_the_version(asked: bool | None, version: PluginVersion | None, code: str | None, said: str) -> None:
    found = judge(mps(4, fail_requests_greater_than_one=asked), T4, version=version).findings
    assert [one.code for one in found] == ([code] if code else [])
    for one in found:
        assert said in one.message
        assert (one.severity, one.path, one.subject) == ("warning", "shared.fail_requests_greater_than_one", "")
    assert judge(replace(SLICES, fail_requests_greater_than_one=asked), T4, version=version).findings == ()


def test_a_strategy_without_replicas_shares_nothing_and_has_nothing_to_check() -> None:
    prediction = judge(SharingConfig("odd", Strategy.MPS, mig_strategy="mixed", fail_requests_greater_than_one=False), replace(T4, tegra=True))
    assert prediction.findings == ()
    assert prediction.resources == {"nvidia.com/gpu": 2}
    assert (prediction.thread_percentage, prediction.memory_mib, prediction.daemon) == (None, None, False)


def test_findings_are_told_apart_by_path_and_node() -> None:
    prediction = predict(mps(3), replace(T4, tegra=True), mig_strategy=None, plugin_version=NEW, path="mps_configs.shared")
    assert [(found.path, found.subject) for found in prediction.findings] == [("mps_configs.shared.replicas", ""), ("mps_configs.shared", "")]
