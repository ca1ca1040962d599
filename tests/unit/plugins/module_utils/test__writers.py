# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The writing modules: check mode foretells the real run, a second run has nothing to do, foreign things stay."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from ansible.module_utils.basic import AnsibleModule
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import CONFIG_LABEL
from ansible_collections.gpuops.mps.plugins.module_utils._writers import write_config_map, write_labels, write_policy
from tests.unit.clusters import MPS_EIGHT, MPS_FOUR, NONE, SLICED, T4
from tests.unit.memory_cluster import MemoryCluster

MAP = "/api/v1/namespaces/gpu-operator/configmaps/mps-configs"
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
PLACE: dict[str, Any] = {"namespace": None, "config_map": None, "policy": None, "accept": []}
KEYS = ("none", "mps-four", "mps-eight", "foreign")

Writer = Callable[[Any, Any], dict[str, Any]]


class Module:
    """What the writers use of AnsibleModule."""

    def __init__(self, params: dict[str, Any], *, check_mode: bool) -> None:
        self.params = {**PLACE, **params}
        self.check_mode = check_mode
        self._diff = True
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def objects(data: dict[str, str] | None, ours: set[str], labels: list[tuple[str | None, bool]], config: dict[str, str] | None) -> dict[str, Any]:
    """A cluster's objects: the map (None: absent), one node for each (label, written by us), and the policy's two fields (None: no policy)."""
    found: dict[str, Any] = {}
    if data is not None:
        annotations = {"gpuops.mps/managed-keys": json.dumps(sorted(ours)), "team": "a"}
        found[MAP] = {"metadata": {"name": "mps-configs", "namespace": "gpu-operator", "resourceVersion": "1", "annotations": annotations}, "data": data}
    for number, (label, by_us) in enumerate(labels):
        manager: dict[str, Any] = {"manager": "gpuops.mps" if by_us else "kubectl", "fieldsV1": {"f:metadata": {"f:labels": {f"f:{CONFIG_LABEL}": {}}}}}
        metadata = {
            "name": f"gpu-{number}",
            "resourceVersion": "1",
            "labels": {**T4, "pool": "a", **({} if label is None else {CONFIG_LABEL: label})},
            "managedFields": [] if label is None else [manager],
        }
        found[f"/api/v1/nodes/gpu-{number}"] = {"metadata": metadata}
    if config is not None:
        spec = {"devicePlugin": {"config": config, "enabled": True}, "mig": {"strategy": "single"}}
        found[POLICY] = {"metadata": {"name": "cluster-policy", "resourceVersion": "1"}, "spec": spec, "status": {"namespace": "gpu-operator"}}
    return found


TEXTS = st.sampled_from([NONE, MPS_FOUR, MPS_EIGHT, SLICED, "sharing: ["])
CLUSTERS = st.builds(
    objects,
    st.none() | st.dictionaries(st.sampled_from(KEYS), TEXTS),
    st.sets(st.sampled_from(KEYS[:3])),
    st.lists(st.tuples(st.sampled_from([None, *KEYS]), st.booleans()), max_size=4),
    st.none() | st.fixed_dictionaries({}, optional={"name": st.sampled_from(["mps-configs", "other"]), "default": st.sampled_from(KEYS)}),
)
CONFIGS = st.dictionaries(
    st.sampled_from(KEYS[:3]),
    st.fixed_dictionaries({}, optional={"replicas": st.integers(1, 50), "rename_by_default": st.booleans(), "replica": st.just(2)}),
)
GROUPS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("ab"), "config": st.sampled_from([*KEYS, "gone"])},
        optional={"nodes": st.lists(st.sampled_from(["gpu-0", "gpu-1", "gpu-9"])), "selector": st.just(["pool=a"]), "match": st.just({"product": "Tesla-T4"})},
    ),
    max_size=2,
)
STATES = st.sampled_from(["present", "absent"])
CALLS = st.one_of(
    st.tuples(st.just(write_config_map), st.fixed_dictionaries({"configs": CONFIGS, "state": STATES})),
    st.tuples(
        st.just(write_policy),
        st.fixed_dictionaries({"default": st.sampled_from([None, "", *KEYS]), "state": STATES, "wait": st.just(False)}),
    ),
    st.tuples(
        st.just(write_labels),
        st.fixed_dictionaries({"node_groups": GROUPS, "state": STATES, "on_left_group": st.sampled_from(["keep", "remove"]), "writes_per_second": st.just(0)}),
    ),
)


def run(writer: Writer, params: dict[str, Any], found: dict[str, Any], *, check: bool) -> tuple[dict[str, Any], MemoryCluster]:
    cluster = MemoryCluster(found, dry_run=check)
    return writer(Module(params, check_mode=check), cluster), cluster


@given(found=CLUSTERS, call=CALLS)
def test_check_mode_foretells_the_real_run_and_writes_nothing(found: dict[str, Any], call: tuple[Writer, dict[str, Any]]) -> None:
    writer, params = call
    before = copy.deepcopy(found)
    foretold, checked = run(writer, params, found, check=True)
    assert found == before and checked.writes == 0
    done, real = run(writer, params, found, check=False)
    assert done == foretold
    assert (real.writes > 0) == done["changed"]


@given(found=CLUSTERS, call=CALLS)
def test_a_second_run_has_nothing_to_do(found: dict[str, Any], call: tuple[Writer, dict[str, Any]]) -> None:
    writer, params = call
    first, _cluster = run(writer, params, found, check=False)
    second, cluster = run(writer, params, found, check=False)
    if not first.get("failed"):
        assert not second["changed"] and cluster.writes == 0
        assert second.get("diff", {}).get("before") == second.get("diff", {}).get("after")


@given(found=CLUSTERS, call=CALLS)
def test_nothing_foreign_is_touched(found: dict[str, Any], call: tuple[Writer, dict[str, Any]]) -> None:
    writer, params = call
    before = copy.deepcopy(found)
    run(writer, params, found, check=False)
    assert set(before) - set(found) <= {MAP}
    for path, item in found.items():
        former = before.get(path, item)
        if path == MAP:
            assert {key: item.get("data", {}).get(key) for key in ("foreign",)} == {key: former.get("data", {}).get(key) for key in ("foreign",)}
            assert item["metadata"]["annotations"].get("team") == former["metadata"]["annotations"].get("team")
        else:
            assert _without_ours(item) == _without_ours(former)


def _without_ours(item: dict[str, Any]) -> dict[str, Any]:
    """An object without the fields that a writer may write."""
    rest = copy.deepcopy(item)
    rest["metadata"].pop("resourceVersion")
    rest["metadata"].get("labels", {}).pop(CONFIG_LABEL, None)
    rest.get("spec", {}).get("devicePlugin", {}).pop("config", None)
    return rest


HEALTHY = objects({"none": NONE, "mps-four": MPS_FOUR}, {"none", "mps-four"}, [("mps-four", True), (None, False)], {"name": "mps-configs", "default": "none"})


@pytest.mark.parametrize(
    ("writer", "params", "words"),
    [
        (
            write_config_map,
            {"configs": {"mps-four": {"replicas": 4}}, "state": "present"},
            "used by the default of the ClusterPolicy [key-in-use, mps-configs.none]",
        ),
        (write_config_map, {"configs": {"mps-four": {"replicas": 1}, "none": {}}, "state": "present"}, "replicas-below-two"),
        (write_config_map, {"configs": {"x": {}}, "state": "present", "config_map": "mps-root"}, "config-map-name-unusable"),
        (write_config_map, {"configs": None, "state": "absent"}, "config-map-in-use"),
        (
            write_policy,
            {"default": "mps-4", "state": "present", "wait": False},
            "the default 'mps-4' is not one of the keys of the ConfigMap 'mps-configs': mps-four, none",
        ),
        (
            write_policy,
            {"default": None, "state": "present", "wait": False, "config_map": "gone"},
            "the ConfigMap 'gone' does not exist in the operator's namespace 'gpu-operator'",
        ),
        (
            write_labels,
            {"node_groups": [{"name": "a", "config": "gone", "nodes": ["gpu-0"]}], "state": "present", "on_left_group": "keep", "writes_per_second": 0},
            "the group 'a' wants the config 'gone'",
        ),
        (
            write_config_map,
            {"configs": {"none": {}, "mps-four": {"replicas": 4}}, "state": "present", "accept": ["nonsense"]},
            "'nonsense' is not the code of any finding",
        ),
    ],
)
def test_a_refusal_says_what_is_wrong_and_writes_nothing(writer: Writer, params: dict[str, Any], words: str) -> None:
    result, cluster = run(writer, params, copy.deepcopy(HEALTHY), check=False)
    assert result["failed"] and not result["changed"] and cluster.writes == 0
    assert words in result["msg"]
    assert result["msg"].startswith("Nothing was written, because of")


def test_many_warnings_are_cut_but_all_are_in_the_result() -> None:
    groups = [{"name": f"g{number}", "config": "none", "nodes": [f"absent-{number}"]} for number in range(15)]
    module = Module({"node_groups": groups, "state": "present", "on_left_group": "keep", "writes_per_second": 0}, check_mode=True)
    result = write_labels(cast(AnsibleModule, module), cast(Cluster, MemoryCluster(copy.deepcopy(HEALTHY))))
    assert len(module.warnings) == 21 and "10 more warnings" in module.warnings[-1]
    assert sum(found["severity"] == "warning" for found in result["findings"]) == 30
