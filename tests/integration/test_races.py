# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Somebody edits between the plan and the write: their edit stays, and what has nothing to do with it is no hindrance.

The edit is made by the proxy at the very moment at which the write arrives there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.reliability import quiet
from tests.reliability.direct import begin, call, end
from tests.reliability.fault_proxy import FAULTS, WRITES, FaultProxy, Rule
from tests.reliability.operations import CONFIGS, LABEL, MAP, MAP_PATH, NAMESPACE, OPERATIONS, POLICY_PATH, config_labels, config_texts, policy_config
from tests.testbed.bed import TestBed

NODE = "/api/v1/nodes/gpu-1"
THEIRS = "version: v1\nsharing:\n  mps:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 7\n"
EIGHT = {"configs": {**CONFIGS, "mps-four": {"replicas": 8}}, "namespace": NAMESPACE, "config_map": MAP}
Edit = Callable[[TestBed], None]


@pytest.fixture(scope="module")
def bed(two_nodes: TestBed) -> TestBed:
    """The bed on which nothing moves by itself."""
    return two_nodes


def raced(bed: TestBed, operation: str, edit: Edit, directory: Path, path: str = "") -> dict[str, Any]:
    """The module's result when the edit is made just before its first write (to a path that ends so) passes."""
    quiet.reset(bed)
    wanted = OPERATIONS[operation]
    wanted.prepare(bed)
    with FaultProxy(bed.kubeconfig, bed.layout.certificates, directory) as proxy:
        rule = Rule(FAULTS["none"], methods=WRITES, path=path, before=lambda: edit(bed))
        proxy.rules.append(rule)
        result = call(wanted.module, wanted.arguments, kubeconfig=proxy.kubeconfig, directory=directory)
    assert rule.hits == 1 and "Traceback" not in result["stderr"]
    return result


def is_left_alone(result: dict[str, Any]) -> None:
    """The module says that somebody else was faster, and what to do."""
    assert result["failed"] and result["code"] == "changed-meanwhile", result
    assert "somebody else" in result["msg"] or "already exists" in result["msg"]
    assert "Run again" in result["msg"]


def patch(path: str, body: dict[str, Any]) -> Edit:
    return lambda bed: bed.api.patch(path, body) and None


def delete_map(bed: TestBed) -> None:
    bed.api.delete(MAP_PATH)


def test_a_map_that_somebody_creates_first_stays_theirs(bed: TestBed, tmp_path: Path) -> None:
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MAP}, "data": {"mps-four": THEIRS}}
    is_left_alone(raced(bed, "config", lambda bed: bed.api.post(MAP_PATH.rpartition("/")[0], theirs) and None, tmp_path))
    assert config_texts(bed) == {"mps-four": THEIRS}


def edit_existing(bed: TestBed, edit: Edit, directory: Path) -> dict[str, Any]:
    """Change a key of a map that is there while somebody edits."""
    quiet.reset(bed)
    OPERATIONS["policy"].prepare(bed)  # the map, written by somebody
    with FaultProxy(bed.kubeconfig, bed.layout.certificates, directory) as proxy:
        proxy.rules.append(Rule(FAULTS["none"], methods=WRITES, before=lambda: edit(bed)))
        return call("mps_config", EIGHT, kubeconfig=proxy.kubeconfig, directory=directory)


def test_a_key_that_somebody_edits_stays_theirs(bed: TestBed, tmp_path: Path) -> None:
    is_left_alone(edit_existing(bed, patch(MAP_PATH, {"data": {"mps-four": THEIRS}}), tmp_path))
    assert config_texts(bed)["mps-four"] == THEIRS


def test_another_key_and_a_label_are_no_hindrance(bed: TestBed, tmp_path: Path) -> None:
    result = edit_existing(bed, patch(MAP_PATH, {"data": {"theirs": THEIRS}, "metadata": {"labels": {"example.com/by": "them"}}}), tmp_path)
    assert not result.get("failed"), result
    texts = config_texts(bed)
    assert "replicas: 8" in texts["mps-four"] and texts["theirs"] == THEIRS
    assert bed.api.get(MAP_PATH)["metadata"]["labels"]["example.com/by"] == "them"


def test_a_map_that_is_replaced_or_deleted_is_not_written_over(bed: TestBed, tmp_path: Path) -> None:
    def replace(bed: TestBed) -> None:
        delete_map(bed)
        bed.api.post(MAP_PATH.rpartition("/")[0], {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MAP}, "data": {"theirs": THEIRS}})

    is_left_alone(edit_existing(bed, replace, tmp_path))
    assert config_texts(bed) == {"theirs": THEIRS}
    result = edit_existing(bed, delete_map, tmp_path)
    assert result["failed"] and result["code"] in ("changed-meanwhile", "object-missing")
    assert bed.api.find(MAP_PATH) is None


def test_a_policy_field_that_somebody_edits_stays_theirs(bed: TestBed, tmp_path: Path) -> None:
    is_left_alone(raced(bed, "policy", patch(POLICY_PATH, {"spec": {"devicePlugin": {"config": {"name": "their-map"}}}}), tmp_path))
    assert policy_config(bed) == {"name": "their-map"}


def test_another_field_of_the_policy_is_no_hindrance(bed: TestBed, tmp_path: Path) -> None:
    result = raced(bed, "policy", patch(POLICY_PATH, {"spec": {"gfd": {"version": "v0.17.3"}}}), tmp_path)
    assert not result.get("failed"), result
    assert policy_config(bed) == {"name": MAP, "default": "none"}
    assert bed.api.get(POLICY_PATH)["spec"]["gfd"]["version"] == "v0.17.3"


def test_a_label_that_somebody_edits_stays_theirs_and_the_others_are_written(bed: TestBed, tmp_path: Path) -> None:
    result = raced(bed, "nodes", patch(NODE, {"metadata": {"labels": {LABEL: "none"}}}), tmp_path, NODE)
    assert result["failed"] and result["code"] == "changed-meanwhile" and "gpu-1" in result["msg"]
    assert config_labels(bed) == {"gpu-1": "none", "gpu-2": "mps-four"}


def test_another_label_and_a_heartbeat_are_no_hindrance(bed: TestBed, tmp_path: Path) -> None:
    result = raced(bed, "nodes", patch(NODE, {"metadata": {"labels": {"example.com/rack": "7"}}, "spec": {"unschedulable": True}}), tmp_path, NODE)
    assert not result.get("failed"), result
    assert config_labels(bed) == {"gpu-1": "mps-four", "gpu-2": "mps-four"}
    node = bed.api.get(NODE)
    assert node["metadata"]["labels"]["example.com/rack"] == "7" and node["spec"]["unschedulable"]
    bed.api.patch(NODE, {"metadata": {"labels": {"example.com/rack": None}}, "spec": {"unschedulable": None}})


def test_a_node_that_is_replaced_by_another_of_its_name_is_left_alone(bed: TestBed, tmp_path: Path) -> None:
    quiet.reset(bed)
    before = bed.api.get(NODE)

    def replace(bed: TestBed) -> None:
        bed.api.delete(NODE)
        kept = {key: before["metadata"][key] for key in ("name", "labels", "annotations")}
        bed.api.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": kept, "spec": {}})

    result = raced(bed, "nodes", replace, tmp_path, NODE)
    assert result["failed"] and "gpu-1" in result["msg"] and "Run again" in result["msg"]
    assert config_labels(bed) == {"gpu-1": None, "gpu-2": "mps-four"}
    again = call("mps_nodes", OPERATIONS["nodes"].arguments, kubeconfig=bed.kubeconfig, directory=tmp_path)
    assert not again.get("failed") and config_labels(bed) == {"gpu-1": "mps-four", "gpu-2": "mps-four"}


def test_a_key_that_somebody_adds_saves_the_map_from_its_removal(bed: TestBed, tmp_path: Path) -> None:
    def ours_only(bed: TestBed) -> None:
        bed.api.patch(MAP_PATH, {"data": {"theirs": None}})

    quiet.reset(bed)
    OPERATIONS["config-absent"].prepare(bed)
    ours_only(bed)
    with FaultProxy(bed.kubeconfig, bed.layout.certificates, tmp_path) as proxy:
        proxy.rules.append(Rule(FAULTS["none"], methods=WRITES, before=lambda: patch(MAP_PATH, {"data": {"late": THEIRS}})(bed)))
        result = call("mps_config", OPERATIONS["config-absent"].arguments, kubeconfig=proxy.kubeconfig, directory=tmp_path)
    assert result["failed"] and result["code"] == "changed-meanwhile"
    assert config_texts(bed)["late"] == THEIRS
    again = call("mps_config", OPERATIONS["config-absent"].arguments, kubeconfig=bed.kubeconfig, directory=tmp_path)
    assert not again.get("failed") and config_texts(bed) == {"late": THEIRS}


@pytest.mark.parametrize("operation", ["config", "policy", "nodes"])
def test_two_runs_at_once_end_where_one_would(bed: TestBed, operation: str, tmp_path: Path) -> None:
    quiet.reset(bed)
    wanted = OPERATIONS[operation]
    wanted.prepare(bed)
    places = [tmp_path / name for name in ("one", "two")]
    for place in places:
        place.mkdir()
    processes = [begin(wanted.module, wanted.arguments, kubeconfig=bed.kubeconfig, directory=place) for place in places]
    results = [end(process) for process in processes]
    assert any(not result.get("failed") for result in results), results
    assert all(result.get("code") == "changed-meanwhile" for result in results if result.get("failed"))
    assert wanted.converged(bed, results[0])
