# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a config makes of a node, against the executed nodes and by properties.

`tests/unit/node_vectors.py` says where the executed nodes come from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import read_config
from ansible_collections.gpuops.mps.plugins.module_utils._gpu import Gpus, gpus_from_labels
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._prediction import Disagreement, Prediction, disagreements, predict
from tests.unit.node_vectors import DATA, PREFIX, PlainNode, plain_nodes, product_label, vectors

OLD, NEW = PluginVersion(0, 17, 4), PluginVersion(0, 20, 0)
VECTORS = vectors()
CASES = json.loads((DATA / "node-cases.json").read_text(encoding="utf-8"))["cases"]

T4 = Gpus(product="Tesla-T4", count=2, total=2, memory_mib=15360, compute=(7, 5), family="turing", replicas=1, mode="compute", mig_capable=False)
A100 = Gpus(
    product="NVIDIA-A100-SXM4-40GB",
    count=4,
    total=4,
    memory_mib=40960,
    compute=(8, 0),
    family="ampere",
    replicas=1,
    mode="compute",
    mig_capable=True,
    mig_config="all-disabled",
)
MIXED = replace(T4, total=3, count=1, mixed=True)


def mps(replicas: int, **fields: Any) -> SharingConfig:
    return SharingConfig("shared", Strategy.MPS, replicas, **fields)


NO_SHARING = SharingConfig("none", Strategy.NONE)
SLICES = SharingConfig("slices", Strategy.TIME_SLICING, 10)


def judge(config: SharingConfig, gpus: Gpus, *, mig_strategy: str | None = None, version: PluginVersion | None = NEW) -> Prediction:
    return predict(config, gpus, mig_strategy=mig_strategy, plugin_version=version, node="gpu-01")


def codes(prediction: Prediction, severity: str | None = None) -> set[str]:
    return {found.code for found in prediction.findings if severity in (None, found.severity)}


def short(labels: Mapping[str, str | None]) -> dict[str, str]:
    """The labels that are there, without the prefix."""
    return {key.removeprefix(PREFIX): value for key, value in labels.items() if value is not None}


def on_the_node(vector: Mapping[str, Any], node: PlainNode, version: PluginVersion, config: SharingConfig) -> tuple[Gpus, Prediction]:
    gpus = gpus_from_labels(node.labels, allocatable=node.allocatable)
    return gpus, predict(config, gpus, mig_strategy=vector["mig_env"], plugin_version=version)


# --- the executed nodes ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_the_real_code_does_as_predicted(vector: dict[str, Any]) -> None:
    reading = read_config("key", vector["config"])
    if reading.config is None or any(found.severity == "error" for found in reading.findings):
        return  # refused already; test_enough_nodes_are_compared_and_not_refused counts the others
    advertised = vector.get("resources_settled", vector.get("resources", {}))
    for version in (OLD, NEW):
        executed = vector | (vector.get("differs_v0.17.4", {}) if version == OLD else {})
        for mig_manager in (True, False):
            for node in plain_nodes(vector["gpus"], vector["mig_env"], mig_manager=mig_manager):
                gpus, prediction = on_the_node(vector, node, version, reading.config)
                assert_agreement(executed, advertised, gpus, prediction, mig_manager=mig_manager)


def assert_agreement(executed: Mapping[str, Any], advertised: dict[str, int], gpus: Gpus, prediction: Prediction, *, mig_manager: bool) -> None:
    errors = codes(prediction, "error")
    if not advertised:
        # Without the MIG manager's label nothing shows that only some GPUs of a product are in MIG mode.
        assert errors or (not mig_manager and "mig-state-not-visible" in codes(prediction, "warning"))
        return
    if not prediction.labels:
        assert errors == {"mig-not-predicted"}
        return
    assert errors <= {"gpu-before-volta", "replicas-above-cap-unseen"}  # refused for reasons that the real code does not have
    assert prediction.resources == advertised
    wanted = executed.get("labels_one_of") or [executed["labels"]]
    for labels in wanted:
        assert {key: labels.get(key.removeprefix(PREFIX)) for key in prediction.labels} == dict(prediction.labels)
        assert disagreements(prediction, {PREFIX + key: value for key, value in labels.items()}, advertised) == ()
    if prediction.exact:
        of_mig_devices = {key for key in wanted[0] if key.startswith(("gpu.slices", "gpu.engines", "gpu.multiprocessors", "mig-"))}
        assert set(short(prediction.labels)) == set(wanted[0]) - of_mig_devices
    else:
        assert_one_of(prediction, wanted, memory=all(gpu["memory_mib"] for gpu in executed["gpus"]))
    if executed["mps"]:
        assert str(prediction.thread_percentage) == executed["mps"]["threads"]
        assert_memory(executed, gpus, prediction)
    else:
        assert (prediction.thread_percentage, prediction.memory_mib, prediction.daemon) == (None, None, False)


def assert_one_of(prediction: Prediction, wanted: list[dict[str, str]], *, memory: bool) -> None:
    """One of the sets was seen; a product without memory may be given the memory of another one."""
    known = [short(labels) for labels in prediction.labels_one_of]
    if not memory:
        known = [{key: value for key, value in labels.items() if key != "gpu.memory"} for labels in known]
        wanted = [{key: value for key, value in labels.items() if key != "gpu.memory"} for labels in wanted]
    assert [labels for labels in known if labels in wanted] == known != []


def assert_memory(executed: Mapping[str, Any], gpus: Gpus, prediction: Prediction) -> None:
    labelled = [str(index) for index, gpu in enumerate(executed["gpus"]) if product_label(gpu["product"]) == gpus.product]
    limits = {executed["mps"]["memory"].get(index) for index in labelled}
    if prediction.exact or all(gpu["memory_mib"] for gpu in executed["gpus"]):
        assert limits == {f"{prediction.memory_mib}M" if prediction.memory_mib is not None else None}
    assert prediction.daemon is True


@pytest.mark.parametrize("kind", ["none", "mps", "mps-rename", "mps-mig", "ts", "ts-rename"])
def test_enough_nodes_are_compared_and_not_refused(kind: str) -> None:
    """Guards the test above against a reader that refuses everything."""
    accepted = [vector for vector in VECTORS if vector["kind"] == kind and read_config("key", vector["config"]).config is not None]
    assert len(accepted) >= 40


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_cases_written_down_by_hand(case: dict[str, Any]) -> None:
    reading = read_config("key", case["config"])
    if case["id"] in REFUSED_BY_THE_READER:
        assert any(found.severity == "error" for found in reading.findings)
        return
    assert reading.config is not None
    for node in plain_nodes(case["gpus"], case["mig_env"]) if case["gpus"] else [PlainNode({}, {})]:
        gpus, prediction = on_the_node(case, node, NEW, reading.config)
        if ends_badly(case):
            assert codes(prediction, "error") or codes(prediction, "warning") == {"gpu-facts-missing"}
            continue
        if any(gpu["mig_enabled"] for gpu in case["gpus"]):
            assert_mig_case(case, prediction)
            continue
        assert not codes(prediction, "error")
        assert prediction.resources == case.get("res", prediction.resources)
        for labels in case.get("labelsOneOf", [case.get("labels", {})]):
            assert short({key: value for key, value in prediction.labels.items() if key.removeprefix(PREFIX) in labels}).items() <= labels.items()
        for limits in case.get("mpsd", {}).values():
            assert str(prediction.thread_percentage) == limits["pct"]
            assert f"{prediction.memory_mib}M" in limits["mem"].values()


def ends_badly(case: Mapping[str, Any]) -> bool:
    """Whether an agent ends in an error, or nothing is advertised."""
    return "gfd" in case or "dp" in case or isinstance(case.get("mpsd"), str) or case.get("res") == {}


REFUSED_BY_THE_READER = {"custom-rename", "devices-subset", "both", "unknown-name", "dup-4-6", "mps49-T4"}


def assert_mig_case(case: Mapping[str, Any], prediction: Prediction) -> None:
    if case["id"] == "single-invalid":
        assert codes(prediction, "error") == {"mig-layout-unusable"}
    else:
        assert not prediction.findings
        assert case["labels"].items() <= short(prediction.labels).items()


# --- labels and resources -------------------------------------------------------------------------------------------------------------------


def test_the_whole_prediction_of_a_shared_node() -> None:
    prediction = judge(mps(4), T4, mig_strategy="single")
    assert prediction == Prediction(
        labels={
            "nvidia.com/gpu.product": "Tesla-T4-SHARED",
            "nvidia.com/gpu.count": "2",
            "nvidia.com/gpu.replicas": "4",
            "nvidia.com/gpu.sharing-strategy": "mps",
            "nvidia.com/gpu.memory": "15360",
            "nvidia.com/gpu.compute.major": "7",
            "nvidia.com/gpu.compute.minor": "5",
            "nvidia.com/gpu.family": "turing",
            "nvidia.com/gpu.mode": "compute",
            "nvidia.com/mig.capable": "false",
            "nvidia.com/mig.strategy": "single",
            "nvidia.com/mps.capable": "true",
        },
        resources={"nvidia.com/gpu": 8},
        thread_percentage=25,
        memory_mib=3840,
        daemon=True,
    )


@pytest.mark.parametrize(
    ("config", "product", "replicas", "strategy", "capable", "resources"),
    [
        (NO_SHARING, "Tesla-T4", "1", "none", "false", {"nvidia.com/gpu": 2}),
        (replace(NO_SHARING, rename_by_default=True), "Tesla-T4", "1", "none", "false", {"nvidia.com/gpu": 2}),
        (mps(4, rename_by_default=True), "Tesla-T4", "4", "mps", "true", {"nvidia.com/gpu.shared": 8}),
        (SLICES, "Tesla-T4-SHARED", "10", "time-slicing", "false", {"nvidia.com/gpu": 20}),
        (replace(SLICES, rename_by_default=True), "Tesla-T4", "10", "time-slicing", "false", {"nvidia.com/gpu.shared": 20}),
    ],
)
def test_each_strategy_with_and_without_a_rename(
    config: SharingConfig, product: str, replicas: str, strategy: str, capable: str, resources: dict[str, int]
) -> None:
    prediction = judge(config, T4)
    shown = short(prediction.labels)
    assert (shown["gpu.product"], shown["gpu.replicas"], shown["gpu.sharing-strategy"]) == (product, replicas, strategy)
    assert shown["mps.capable"] == capable
    assert prediction.resources == resources
    assert prediction.labels["nvidia.com/mig.strategy"] is None
    assert prediction.exact and prediction.labels_one_of == ()


def test_facts_that_are_not_known_are_predicted_to_be_absent() -> None:
    bare = Gpus(product="Tesla-T4", count=2)
    prediction = judge(mps(4), bare)
    assert {key.removeprefix(PREFIX) for key, value in prediction.labels.items() if value is None} == {
        "gpu.memory",
        "gpu.compute.major",
        "gpu.compute.minor",
        "gpu.family",
        "gpu.mode",
        "mig.capable",
        "mig.strategy",
    }
    assert prediction.resources == {"nvidia.com/gpu": 8}
    assert prediction.memory_mib is None


@pytest.mark.parametrize(("version", "family"), [(PluginVersion(0, 17, 0), "ampere"), (NEW, "ada-lovelace"), (None, "as-labelled")])
def test_the_family_follows_the_version_that_will_write_it(version: PluginVersion | None, family: str) -> None:
    l4 = replace(T4, product="NVIDIA-L4", compute=(8, 9), family="as-labelled")
    assert judge(NO_SHARING, l4, version=version).labels["nvidia.com/gpu.family"] == family


def test_a_node_without_gpus_of_its_label_advertises_nothing() -> None:
    assert judge(NO_SHARING, replace(T4, count=0, total=0)).resources == {}


def test_several_products_leave_what_holds_for_all_of_them() -> None:
    prediction = judge(mps(4), MIXED)
    assert short(prediction.labels) == {
        "gpu.replicas": "4",
        "gpu.sharing-strategy": "mps",
        "gpu.mode": "compute",
        "mig.capable": "false",
        "mps.capable": "true",
    }
    assert "nvidia.com/mig.strategy" in prediction.labels
    assert prediction.resources == {"nvidia.com/gpu": 12}
    assert not prediction.exact
    assert [labels["nvidia.com/gpu.product"] for labels in prediction.labels_one_of] == ["Tesla-T4-SHARED"]
    assert codes(prediction) == {"mixed-products"}


# --- findings -------------------------------------------------------------------------------------------------------------------------------


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
    assert "advertises 3 GPUs, but its labels describe 1 of the product Tesla-T4" in found.message
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


def test_findings_are_told_apart_by_path_and_node() -> None:
    prediction = predict(mps(3), replace(T4, tegra=True), mig_strategy=None, plugin_version=NEW, path="mps_configs.shared")
    assert [(found.path, found.subject) for found in prediction.findings] == [("mps_configs.shared.replicas", ""), ("mps_configs.shared", "")]


# --- comparing a node with its prediction ---------------------------------------------------------------------------------------------------


def settled(prediction: Prediction) -> dict[str, str]:
    labels = prediction.labels_one_of[0] if prediction.labels_one_of else prediction.labels
    return {key: value for key, value in labels.items() if value is not None}


def test_a_node_as_predicted_has_no_disagreements() -> None:
    prediction = judge(mps(4), T4)
    assert disagreements(prediction, settled(prediction), {"nvidia.com/gpu": 8}) == ()
    assert disagreements(prediction, settled(prediction) | {"other": "label"}, {"nvidia.com/gpu": 8, "nvidia.com/gpu.shared": 0, "cpu": 4}) == ()


@pytest.mark.parametrize(
    ("labels", "allocatable", "expected"),
    [
        ({"nvidia.com/gpu.replicas": "2"}, {"nvidia.com/gpu": 8}, Disagreement("nvidia.com/gpu.replicas", "4", "2")),
        ({"nvidia.com/mps.capable": None}, {"nvidia.com/gpu": 8}, Disagreement("nvidia.com/mps.capable", "true", None)),
        ({"nvidia.com/mig.strategy": "single"}, {"nvidia.com/gpu": 8}, Disagreement("nvidia.com/mig.strategy", "absent", "single")),
        ({}, {"nvidia.com/gpu": 2}, Disagreement("nvidia.com/gpu", "8", "2")),
        ({}, {}, Disagreement("nvidia.com/gpu", "8", None)),
        ({}, {"nvidia.com/gpu": 8, "nvidia.com/gpu.shared": 8}, Disagreement("nvidia.com/gpu.shared", "0", "8")),
    ],
)
def test_each_difference_is_named(labels: dict[str, str | None], allocatable: dict[str, int], expected: Disagreement) -> None:
    prediction = judge(mps(4), T4)
    actual = {key: value for key, value in {**settled(prediction), **labels}.items() if value is not None}
    assert disagreements(prediction, actual, allocatable) == (expected,)


@pytest.mark.parametrize(
    ("labels", "allocatable", "expected"),
    [
        ({}, {"nvidia.com/gpu": 12}, []),
        ({"nvidia.com/gpu.product": "NVIDIA-L4-SHARED", "nvidia.com/gpu.count": "2"}, {"nvidia.com/gpu": 12}, []),
        ({"nvidia.com/gpu.count": "2"}, {"nvidia.com/gpu": 8}, []),
        ({"nvidia.com/gpu.count": "3"}, {"nvidia.com/gpu": 8}, [Disagreement("nvidia.com/gpu", "a multiple of 4, at least 12", "8")]),
        ({"nvidia.com/gpu.count": "many"}, {"nvidia.com/gpu": 4}, []),
        ({"nvidia.com/gpu.count": None}, {"nvidia.com/gpu": 3}, [Disagreement("nvidia.com/gpu", "a multiple of 4, at least 4", "3")]),
        ({}, {"nvidia.com/gpu": 11}, [Disagreement("nvidia.com/gpu", "a multiple of 4, at least 4", "11")]),
        ({}, {}, [Disagreement("nvidia.com/gpu", "a multiple of 4, at least 4", None)]),
        ({}, {"nvidia.com/gpu": 12, "nvidia.com/gpu.shared": 12}, [Disagreement("nvidia.com/gpu.shared", "0", "12")]),
        (
            {"nvidia.com/gpu.product": "NVIDIA-L4"},
            {"nvidia.com/gpu": 12},
            [Disagreement("nvidia.com/gpu.product", "a product with -SHARED", "NVIDIA-L4")],
        ),
        ({"nvidia.com/gpu.product": None}, {"nvidia.com/gpu": 12}, [Disagreement("nvidia.com/gpu.product", "a product with -SHARED", None)]),
        ({"nvidia.com/gpu.replicas": "1"}, {"nvidia.com/gpu": 12}, [Disagreement("nvidia.com/gpu.replicas", "4", "1")]),
    ],
)
def test_a_node_of_several_products_is_judged_by_what_holds_for_all(
    labels: dict[str, str | None], allocatable: dict[str, int], expected: list[Disagreement]
) -> None:
    prediction = judge(mps(4), MIXED)
    actual = {key: value for key, value in {**settled(prediction), **labels}.items() if value is not None}
    assert list(disagreements(prediction, actual, allocatable)) == expected


def test_a_renamed_node_of_several_products_keeps_the_plain_names() -> None:
    prediction = judge(mps(4, rename_by_default=True), MIXED)
    assert disagreements(prediction, settled(prediction), {"nvidia.com/gpu.shared": 12}) == ()
    wrong = settled(prediction) | {"nvidia.com/gpu.product": "Tesla-T4-SHARED"}
    assert disagreements(prediction, wrong, {"nvidia.com/gpu.shared": 12}) == (
        Disagreement("nvidia.com/gpu.product", "a product without -SHARED", "Tesla-T4-SHARED"),
    )


def test_a_node_of_several_products_that_is_not_served_must_advertise_nothing() -> None:
    prediction = judge(mps(49), MIXED)
    assert disagreements(prediction, settled(prediction), {}) == ()
    assert disagreements(prediction, settled(prediction), {"nvidia.com/gpu": 147}) == (Disagreement("nvidia.com/gpu", "0", "147"),)


def test_a_prediction_that_says_nothing_is_never_contradicted() -> None:
    assert disagreements(judge(mps(4), Gpus()), {"nvidia.com/gpu.replicas": "7"}, {"nvidia.com/gpu": 5}) == ()


# --- properties -----------------------------------------------------------------------------------------------------------------------------

OPTIONAL_COMPUTE = st.none() | st.tuples(st.integers(1, 14), st.integers(0, 9))
NODES = st.builds(
    Gpus,
    product=st.none() | st.sampled_from(["Tesla-T4", "NVIDIA-A16", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "X-MIG-INVALID"]),
    count=st.none() | st.integers(0, 16),
    total=st.none() | st.integers(0, 32),
    memory_mib=st.none() | st.integers(1, 400_000),
    compute=OPTIONAL_COMPUTE,
    replicas=st.none() | st.integers(0, 48),
    mig_capable=st.none() | st.booleans(),
    mig_enabled=st.booleans(),
    mig_pending=st.booleans(),
    mig_config=st.none() | st.sampled_from(["all-disabled", "all-1g.5gb"]),
    tegra=st.booleans(),
    wsl=st.booleans(),
    mixed=st.booleans(),
)
REPLICAS = st.integers(2, 64)
CONFIGS = st.just(NO_SHARING) | st.builds(
    SharingConfig,
    name=st.just("key"),
    strategy=st.sampled_from([Strategy.MPS, Strategy.TIME_SLICING]),
    replicas=REPLICAS,
    rename_by_default=st.booleans(),
    mig_strategy=st.none() | st.sampled_from(["none", "single", "mixed"]),
    fail_requests_greater_than_one=st.none() | st.booleans(),
)
VERSIONS = st.none() | st.builds(PluginVersion, st.just(0), st.integers(15, 20), st.integers(0, 4))
MIG_STRATEGIES = st.none() | st.sampled_from(["", "none", "single", "mixed"])


@given(CONFIGS, NODES, MIG_STRATEGIES, VERSIONS)
@settings(max_examples=20_000)
def test_everything_has_a_prediction_and_it_is_consistent(config: SharingConfig, gpus: Gpus, mig_strategy: str | None, version: PluginVersion | None) -> None:
    prediction = judge(config, gpus, mig_strategy=mig_strategy, version=version)
    assert all(count > 0 for count in prediction.resources.values())
    assert len(prediction.resources) <= 1
    assert prediction.daemon <= (config.strategy is Strategy.MPS)
    assert all(key.startswith(PREFIX) for key in prediction.labels)
    assert prediction.exact or not prediction.labels or gpus.mixed
    if prediction.exact:
        assert disagreements(prediction, settled(prediction), prediction.resources) == ()
    if prediction.memory_mib is not None:
        assert 0 <= prediction.memory_mib * (config.replicas or 1) <= (gpus.memory_mib or 0)


@given(REPLICAS, REPLICAS, NODES)
@settings(max_examples=20_000)
def test_fewer_replicas_are_never_refused_where_more_are_accepted(one: int, other: int, gpus: Gpus) -> None:
    fewer, more = sorted((one, other))
    refused_fewer, refused_more = codes(judge(mps(fewer), gpus), "error"), codes(judge(mps(more), gpus), "error")
    assert not refused_fewer or refused_more
    assert "replicas-above-cap" not in refused_fewer - refused_more
    assert (judge(mps(fewer), gpus).memory_mib or 0) >= (judge(mps(more), gpus).memory_mib or 0)


@given(CONFIGS, CONFIGS, st.integers(1, 16), st.integers(1, 400_000))
@settings(max_examples=20_000)
def test_the_prediction_does_not_depend_on_the_config_before(now: SharingConfig, then: SharingConfig, count: int, memory_mib: int) -> None:
    """Sharing changes the labels the facts are read from; the facts must come out the same."""
    bare = replace(T4, count=count, total=count, memory_mib=memory_mib)
    before = judge(now, bare)
    if before.resources:
        seen = gpus_from_labels(settled(before), allocatable=before.resources)
        assert judge(then, seen) == judge(then, bare)
