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
from functools import cache
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
from tests.unit.samples import MIXED, NEW, NO_SHARING, OLD, SLICES, T4, codes, judge, mps, short

VECTORS = vectors()
CASES = json.loads((DATA / "node-cases.json").read_text(encoding="utf-8"))["cases"]


@cache
def accepted_config(text: str) -> SharingConfig | None:
    """What the strict reader makes of a config file; None where it refuses."""
    reading = read_config("key", text)
    return None if any(found.severity == "error" for found in reading.findings) else reading.config


def on_the_node(vector: Mapping[str, Any], node: PlainNode, version: PluginVersion, config: SharingConfig) -> tuple[Gpus, Prediction]:
    gpus = gpus_from_labels(node.labels, allocatable=node.allocatable)
    return gpus, predict(config, gpus, mig_strategy=vector["mig_env"], plugin_version=version)


# --- the executed nodes ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted({vector["kind"] for vector in VECTORS}))
def test_the_real_code_does_as_predicted(kind: str) -> None:
    for vector in (vector for vector in VECTORS if vector["kind"] == kind):
        config = accepted_config(vector["config"])
        if config is None:
            continue  # refused already; test_enough_nodes_are_compared_and_not_refused counts the others
        try:
            assert_vector(vector, config)
        except AssertionError as error:
            raise AssertionError(f"node {vector['id']}") from error


def assert_vector(vector: dict[str, Any], config: SharingConfig) -> None:
    advertised = vector.get("resources_settled", vector.get("resources", {}))
    for version in (OLD, NEW):
        executed = vector | (vector.get("differs_v0.17.4", {}) if version == OLD else {})
        for mig_manager in (True, False):
            for node in plain_nodes(vector["gpus"], vector["mig_env"], mig_manager=mig_manager):
                gpus, prediction = on_the_node(vector, node, version, config)
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
    accepted = [vector for vector in VECTORS if vector["kind"] == kind and accepted_config(vector["config"]) is not None]
    assert len(accepted) >= 40


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_cases_written_down_by_hand(case: dict[str, Any]) -> None:
    config = accepted_config(case["config"])
    assert (config is None) is (case["id"] in REFUSED_BY_THE_READER)
    if config is None:
        return
    for node in plain_nodes(case["gpus"], case["mig_env"]) if case["gpus"] else [PlainNode({}, {})]:
        gpus, prediction = on_the_node(case, node, NEW, config)
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


@pytest.mark.parametrize(("path", "begin"), [("", "shared."), ("mps_configs.shared", "mps_configs.shared.")])
def test_paths_begin_as_the_caller_says_or_with_the_configs_name(path: str, begin: str) -> None:
    found = predict(mps(49), T4, mig_strategy=None, plugin_version=NEW, path=path).findings
    assert found
    assert all(one.path.startswith(begin) for one in found)


def test_findings_about_a_node_have_it_as_their_subject() -> None:
    refused = [mps(17), replace(T4, compute=(7, 0))]
    named = predict(*refused, mig_strategy=None, plugin_version=NEW, node="gpu-01").findings
    alone = predict(*refused, mig_strategy=None, plugin_version=NEW).findings
    assert [one.subject for one in named if one.code == "replicas-above-cap"] == ["node/gpu-01"]
    assert [one.subject for one in alone if one.code == "replicas-above-cap"] == [""]


def test_a_daemon_runs_only_where_the_config_is_served() -> None:
    assert judge(mps(16), replace(T4, compute=(7, 0))).daemon
    assert not judge(mps(17), replace(T4, compute=(7, 0))).daemon
    assert not judge(NO_SHARING, T4).daemon


@pytest.mark.parametrize(
    ("config", "gpus", "exact"),
    [
        (mps(4), replace(T4, product=None), False),
        (mps(4), replace(T4, count=None), False),
        (mps(4), replace(T4, product="NVIDIA-A100-SXM4-40GB-MIG-INVALID"), False),
        (mps(4), replace(T4, mig_enabled=True), False),
        (NO_SHARING, replace(T4, mig_enabled=True), True),
        (mps(4), T4, True),
    ],
)
def test_what_is_not_known_is_not_predicted(config: SharingConfig, gpus: Gpus, exact: bool) -> None:
    assert judge(config, gpus).exact is exact


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


def test_a_node_of_several_products_without_sharing() -> None:
    prediction = judge(NO_SHARING, MIXED)
    assert disagreements(prediction, settled(prediction), {"nvidia.com/gpu": 3}) == ()
    assert disagreements(prediction, settled(prediction), {"nvidia.com/gpu": 0}) == (Disagreement("nvidia.com/gpu", "a multiple of 1, at least 1", "0"),)
    in_mig_mode = judge(SLICES, replace(MIXED, replicas=0))
    assert disagreements(in_mig_mode, settled(in_mig_mode), {"nvidia.com/gpu": 30}) == ()


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
@settings(max_examples=5_000)
def test_fewer_replicas_are_never_refused_where_more_are_accepted(one: int, other: int, gpus: Gpus) -> None:
    fewer, more = sorted((one, other))
    refused_fewer, refused_more = codes(judge(mps(fewer), gpus), "error"), codes(judge(mps(more), gpus), "error")
    assert not refused_fewer or refused_more
    assert "replicas-above-cap" not in refused_fewer - refused_more
    assert (judge(mps(fewer), gpus).memory_mib or 0) >= (judge(mps(more), gpus).memory_mib or 0)


@given(CONFIGS, CONFIGS, st.integers(1, 16), st.integers(1, 400_000))
@settings(max_examples=5_000)
def test_the_prediction_does_not_depend_on_the_config_before(now: SharingConfig, then: SharingConfig, count: int, memory_mib: int) -> None:
    """Sharing changes the labels the facts are read from; the facts must come out the same."""
    bare = replace(T4, count=count, total=count, memory_mib=memory_mib)
    before = judge(now, bare)
    if before.resources:
        seen = gpus_from_labels(settled(before), allocatable=before.resources)
        assert judge(then, seen) == judge(then, bare)
