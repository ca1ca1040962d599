# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mps_nodes on a real API server: twelve steps, a thousand nodes, and others who write at the same time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_writes import apply_label
from ansible_collections.gpuops.mps.plugins.module_utils._nodes import LabelChange
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot_build import node_of
from tests.integration.quiet_bed import CONFIG_LABEL, MPS_TWO, NONE, Run, Step, label, set_label, twelve_steps, write_map, writes
from tests.integration.rights import signed_in
from tests.testbed.bed import TestBed

DATA = {"none": NONE, "mps-two": MPS_TWO}
NODES = 600  # a list of them comes in two pages


def labels(bed: TestBed) -> dict[str, str]:
    found = {node["metadata"]["name"]: node["metadata"]["labels"].get(CONFIG_LABEL) for node in bed.api.list("/api/v1/nodes")}
    return {name: value for name, value in found.items() if value is not None}


def group(config: str, *nodes: str, **more: Any) -> dict[str, Any]:
    return {"name": "t4", "config": config, "nodes": list(nodes), **more}


def test_create_modify_delete(quiet: TestBed, run_module: Run) -> None:
    write_map(quiet, DATA)
    both = ("gpu-t4-1", "gpu-t4-2")
    steps = (
        Step("create", {"node_groups": [group("mps-two", *both)]}, dict.fromkeys(both, "mps-two")),
        Step("modify", {"node_groups": [group("mps-two", both[0]), {**group("none", both[1]), "name": "lab"}]}, {both[0]: "mps-two", both[1]: "none"}),
        Step("delete", {"node_groups": [{"name": "all", "nodes": list(both)}], "state": "absent"}, {}),
    )
    mark = quiet.mark()
    twelve_steps(quiet, run_module, "mps_nodes", steps, lambda: labels(quiet))
    assert not any(event.dry_run for event in writes(quiet, mark)), "labels are foretold without any write"


def test_nothing_else_on_a_node_changes(quiet: TestBed, run_module: Run) -> None:
    write_map(quiet, DATA)
    before = quiet.api.get("/api/v1/nodes/gpu-t4-1")
    run_module(quiet, "mps_nodes", {"node_groups": [group("none", "gpu-t4-1")]})
    run_module(quiet, "mps_nodes", {"node_groups": [group("none", "gpu-t4-1")], "state": "absent"})
    after = quiet.api.get("/api/v1/nodes/gpu-t4-1")
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
    assert after["spec"] == before["spec"] and after["metadata"]["uid"] == before["metadata"]["uid"]


def test_a_node_that_left_its_group_keeps_or_loses_the_label(quiet: TestBed, run_module: Run) -> None:
    write_map(quiet, DATA)
    set_label(quiet, "gpu-a100-1", "none")
    run_module(quiet, "mps_nodes", {"node_groups": [group("none", "gpu-t4-1", "gpu-t4-2")]})
    kept = run_module(quiet, "mps_nodes", {"node_groups": [group("none", "gpu-t4-1")]})
    assert not kept["changed"]
    assert "1 node is in no group any more and keeps its label: 'gpu-t4-2'" in {found["message"] for found in kept["findings"]}
    removed = run_module(quiet, "mps_nodes", {"node_groups": [group("none", "gpu-t4-1")], "on_left_group": "remove"})
    assert [(node["node"], node["after"]) for node in removed["nodes"]] == [("gpu-t4-2", None)]
    assert labels(quiet) == {"gpu-t4-1": "none", "gpu-a100-1": "none"}, "somebody else's label stays"


@pytest.mark.parametrize(
    ("groups", "code", "words"),
    [
        ([group("mps-nine", "gpu-t4-1")], "key-of-label-absent", "which is not one of the keys of the ConfigMap 'mps-configs': mps-two, none"),
        (
            [group("none", "gpu-t4-1"), {**group("mps-two"), "name": "b", "selector": ["kubernetes.io/hostname=gpu-t4-1"]}],
            "group-overlap",
            "both contain 'gpu-t4-1'",
        ),
        ([{"name": "a", "config": "none", "selector": ["nvidia.com/gpu.replicas=1"]}], "group-unstable", "which changes when the group's config is applied"),
        ([{"name": "a", "config": "none"}], "group-selects-nothing", "neither nodes nor selector nor match"),
        ([{"name": "a", "config": "none", "selector": ["a in (b"]}], "selector-syntax", "cannot be read"),
    ],
)
def test_what_cannot_work_is_refused_and_nothing_is_written(quiet: TestBed, run_module: Run, groups: list[Any], code: str, words: str) -> None:
    write_map(quiet, DATA)
    mark = quiet.mark()
    result = run_module(quiet, "mps_nodes", {"node_groups": groups})
    assert result["failed"] and words in result["msg"]
    assert code in {found["code"] for found in result["findings"]}
    assert writes(quiet, mark) == []


def test_groups_without_nodes_and_unknown_names_are_warnings(quiet: TestBed, run_module: Run) -> None:
    write_map(quiet, DATA)
    result = run_module(quiet, "mps_nodes", {"node_groups": [group("none", "gpu-t4-1", "cpu-1"), {"name": "b", "config": "none", "match": {"product": "K80"}}]})
    assert result["changed"]
    assert any("the group 't4' lists 'cpu-1', which is not a GPU node" in text for text in result["warnings"])
    assert any("no GPU node belongs to the group 'b'" in text for text in result["warnings"])


# Others who write at the same time


def test_a_label_changed_meanwhile_is_seen_and_not_overwritten(quiet: TestBed) -> None:
    cluster = Cluster.connect({"kubeconfig": str(signed_in(quiet, "operator"))})
    seen = node_of(quiet.api.get("/api/v1/nodes/gpu-t4-1"))
    set_label(quiet, "gpu-t4-1", "theirs")
    with pytest.raises(ClusterError) as caught:
        apply_label(cluster, LabelChange("gpu-t4-1", "t4", None, "none"), seen)
    assert caught.value.code == "changed-meanwhile" and "was left alone" in caught.value.message
    assert label(quiet, "gpu-t4-1") == "theirs"


def test_any_other_change_of_the_node_meanwhile_does_not_matter(quiet: TestBed) -> None:
    cluster = Cluster.connect({"kubeconfig": str(signed_in(quiet, "operator"))})
    seen = node_of(quiet.api.get("/api/v1/nodes/gpu-t4-1"))
    quiet.api.patch("/api/v1/nodes/gpu-t4-1", {"metadata": {"annotations": {"unrelated": "change"}}})
    apply_label(cluster, LabelChange("gpu-t4-1", "t4", None, "none"), seen)
    assert label(quiet, "gpu-t4-1") == "none"
    quiet.api.patch("/api/v1/nodes/gpu-t4-1", {"metadata": {"annotations": {"unrelated": None}}})


def test_a_token_that_was_rotated_is_read_again(quiet: TestBed, tmp_path: Path) -> None:
    Cluster.connect({"kubeconfig": str(signed_in(quiet, "operator"))})  # leaves the discovery cache behind, so that connecting asks nothing
    config = yaml.safe_load(signed_in(quiet, "operator").read_text())
    user, token_file = config["users"][0]["user"], tmp_path / "token"
    good = user.pop("token")
    user["tokenFile"] = str(token_file)
    rotating = tmp_path / "kubeconfig"
    rotating.write_text(yaml.safe_dump(config))
    token_file.write_text("expired")
    cluster = Cluster.connect({"kubeconfig": str(rotating)})
    assert cluster._headers("*/*", None)["authorization"] == "Bearer expired"
    token_file.write_text(good)
    assert cluster.get("/api/v1/nodes/cpu-1") is not None
    assert cluster._headers("*/*", None)["authorization"] == f"Bearer {good}"


# Hundreds of nodes


@pytest.fixture(scope="module")
def fleet(worker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBed]:
    """Hundreds of GPU nodes of two models and their map, without operator and agents."""
    path: Path = tmp_path_factory.mktemp("fleet") / "fleet.yml"
    products = ("Tesla-T4", "NVIDIA-A100-SXM4-40GB")
    nodes = [
        {
            "name": f"gpu-{number:04d}",
            "gpus": [],
            "labels": {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": products[number % 2], "pool": f"rack-{number % 10}"},
        }
        for number in range(NODES)
    ]
    path.write_text(yaml.safe_dump({"nodes": nodes}))
    bed = TestBed.start(f"hundreds-{worker}", nodes=str(path), operator=False, agents=False)
    try:
        if not bed.api.find("/api/v1/namespaces/gpu-operator"):
            bed.api.post("/api/v1/namespaces", {"metadata": {"name": "gpu-operator"}})
        write_map(bed, DATA)
        yield bed
    finally:
        bed.stop()


def requests(bed: TestBed, mark: int) -> Counter[tuple[str, str]]:
    """What the collection asked of nodes since the mark."""
    return Counter((event.verb, event.resource) for event in bed.audit(mark) if event.user_agent == "gpuops.mps" and event.resource == "nodes")


LISTS = {("list", "nodes"): math.ceil(NODES / 500)}


def test_requests_follow_the_differences(fleet: TestBed, run_module: Run) -> None:
    everywhere = {"node_groups": [{"name": "all", "config": "mps-two", "selector": ["pool"]}], "writes_per_second": 0}
    mark = fleet.mark()
    foretold = run_module(fleet, "mps_nodes", everywhere, check=True)
    assert len(foretold["nodes"]) == NODES and requests(fleet, mark) == LISTS, "check mode"

    mark = fleet.mark()
    first = run_module(fleet, "mps_nodes", everywhere)
    assert first["changed"] and requests(fleet, mark) == {**LISTS, ("patch", "nodes"): NODES}, "first labelling"
    assert set(labels(fleet).values()) == {"mps-two"}

    mark = fleet.mark()
    again = run_module(fleet, "mps_nodes", everywhere)
    assert not again["changed"] and requests(fleet, mark) == LISTS, "again"

    tenth = {"node_groups": [{"name": "a", "config": "none", "selector": ["pool=rack-3"]}, {"name": "b", "config": "mps-two", "selector": ["pool!=rack-3"]}]}
    mark = fleet.mark()
    changed = run_module(fleet, "mps_nodes", {**tenth, "writes_per_second": 0})
    assert len(changed["nodes"]) == NODES // 10 and requests(fleet, mark) == {**LISTS, ("patch", "nodes"): NODES // 10}, "a tenth"


# Groups that do not move


@pytest.mark.parametrize("writing", ["Tesla-T4", "Tesla-T4-SHARED"])
def test_a_product_selects_the_same_nodes_before_and_after_mps(lab: TestBed, run_module: Run, writing: str) -> None:
    names = ["gpu-t4-1", "gpu-t4-2"]  # gpu-mixed-1 has a T4 too, and is labelled with either of its products
    by_selector = {"name": "selector", "config": "mps-two", "selector": [f"nvidia.com/gpu.product={writing}", "kubernetes.io/hostname!=gpu-mixed-1"]}
    by_match = {"name": "match", "config": "mps-two", "match": {"product": writing, "labels": {"kubernetes.io/os": "linux"}}}

    def members() -> tuple[list[str], list[str]]:
        groups = run_module(lab, "mps_nodes", {"node_groups": [by_selector, by_match]}, check=True)["groups"]
        return groups["selector"], [name for name in groups["match"] if name != "gpu-mixed-1"]

    try:
        run_module(lab, "mps_config", {"configs": {"none": {}, "mps-two": {"replicas": 2}}})
        assert members() == (names, names)
        run_module(lab, "mps_policy", {"config_map": "mps-configs", "default": "none"})
        run_module(lab, "mps_nodes", {"node_groups": [by_selector]})
        lab.wait_for("shared products", lambda: all(_product(lab, name) == "Tesla-T4-SHARED" for name in names))
        assert members() == (names, names)
        assert not run_module(lab, "mps_nodes", {"node_groups": [by_selector]})["changed"]
    finally:
        lab.reset()
    assert all(_product(lab, name) == "Tesla-T4" for name in names)


def _product(bed: TestBed, node: str) -> str:
    return str(bed.api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"].get("nvidia.com/gpu.product"))
