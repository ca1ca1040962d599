# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Validation of declarations, texts and manifests together."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._findings import finding
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._validation import Request, Validation, as_data, report, validate

GOOD = "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
MIXED = "flags: {migStrategy: mixed}\n" + GOOD


def node(name: str, product: str = "Tesla-T4", compute: str = "7.5", **labels: str) -> dict[str, Any]:
    major, minor = compute.split(".")
    facts = {"gpu.present": "true", "gpu.product": product, "gpu.count": "1", "gpu.memory": "16384", "gpu.compute.major": major, "gpu.compute.minor": minor}
    return {"name": name, "labels": {**{f"nvidia.com/{key}": value for key, value in facts.items()}, **labels}}


def places(validation: Validation) -> list[tuple[str, str]]:
    return [(found.code, found.path) for found in validation.findings]


def test_a_good_declaration_has_no_findings() -> None:
    validation = validate(Request(configs={"none": {}, "mps-four": {"replicas": 4}}, default="none"))
    assert validation == Validation((), (SharingConfig("none", Strategy.NONE), SharingConfig("mps-four", Strategy.MPS, 4)))
    assert validation.errors == ()


@pytest.mark.parametrize(
    ("request_", "code", "path"),
    [
        (Request(), "nothing-to-validate", ""),
        (Request(configs={"a": {}}, accept=["no-such"]), "accept-unknown-code", "accept[0]"),
        (Request(configs={"a": {}}, accept=["yaml-syntax"]), "accept-impossible", "accept[0]"),
        (Request(config_map_data=[]), "declaration-shape", "config_map_data"),
        (Request(config_map_data={"a": {"version": "v1"}}), "option-type", "a"),
        (Request(config_map_data={4: GOOD}), "option-type", "4"),
        (Request(config_map_data={}), "config-map-empty", ""),
        (Request(config_map_data={"a": "version: v2"}), "version-unknown", "a.version"),
        (Request(config_map_data={"a": GOOD}, default="b"), "config-unknown", "mps_default"),
        (Request(configs={"a": {}}, nodes={}), "nodes-shape", "nodes"),
        (Request(configs={"a": {}}, nodes=["gpu-07"]), "nodes-shape", "nodes[0]"),
        (Request(configs={"a": {}}, nodes=[{"name": "gpu-07"}]), "nodes-shape", "nodes[0]"),
        (Request(configs={"a": {}}, nodes=[{"name": 7, "labels": {}}]), "nodes-shape", "nodes[0]"),
        (Request(configs={"a": {}}, nodes=[{"name": "a", "labels": {"b": 1}}]), "nodes-shape", "nodes[0]"),
        (Request(configs={"a": {}}, nodes=[{"metadata": [], "status": {}}]), "nodes-shape", "nodes[0]"),
        (Request(manifests={}), "declaration-shape", "manifests"),
        (Request(manifests=["kind: Pod"]), "declaration-shape", "manifests[0]"),
    ],
)
def test_what_cannot_be_validated(request_: Request, code: str, path: str) -> None:
    assert places(validate(request_)) == [(code, path)]


def test_configs_are_understood_one_by_one_when_the_whole_is_wrong() -> None:
    validation = validate(Request(configs={"a": {"replicas": 4}, "b": {"replicas": 1}}, default="c"))
    assert [config.name for config in validation.configs] == ["a"]


def test_texts_are_understood_one_by_one() -> None:
    validation = validate(Request(config_map_data={"a": GOOD, "b": "version: v2"}))
    assert [config.name for config in validation.configs] == ["a"]


def test_a_default_may_be_a_key_of_the_map() -> None:
    assert validate(Request(configs={"b": {}}, config_map_data={"a": GOOD}, default="a")).errors == ()


def test_the_worst_comes_first() -> None:
    validation = validate(Request(config_map_data={"a": GOOD.replace("version: v1\n", ""), "b": "version: v2", "c": GOOD.replace("4", "0x4")}))
    assert [found.severity for found in validation.findings] == ["error", "warning", "info"]


def test_accepted_errors_become_warnings() -> None:
    request = Request(config_map_data={"a": "x: 1\n" + GOOD}, accept=["unknown-key"])
    validation = validate(request)
    assert [(found.code, found.severity) for found in validation.findings] == [("unknown-key", "warning")]
    assert validation.configs == (SharingConfig("a", Strategy.MPS, 4),)


def test_the_policy_decides_on_mig() -> None:
    validation = validate(Request(configs={"a": {"replicas": 4}}, mig_strategy="mixed"))
    assert places(validation) == [("mig-strategy-mixed", "mps_configs.a.mig_strategy")]


def test_what_the_reader_says_is_not_said_again() -> None:
    assert places(validate(Request(config_map_data={"a": MIXED}))) == [("mig-mixed-with-mps", "a.flags.migStrategy")]
    fails = GOOD.replace("resources", "failRequestsGreaterThanOne: false, resources")
    assert places(validate(Request(config_map_data={"a": fails}))) == [("fail-requests-ignored", "a.sharing.mps.failRequestsGreaterThanOne")]
    assert places(validate(Request(configs={"a": {"replicas": 4, "mig_strategy": "mixed"}}))) == [("mig-mixed-with-mps", "mps_configs.a.mig_strategy")]


def test_what_one_config_has_is_said_of_the_others_too() -> None:
    validation = validate(Request(config_map_data={"a": MIXED, "b": GOOD}, mig_strategy="mixed"))
    assert sorted(places(validation)) == [("mig-mixed-with-mps", "a.flags.migStrategy"), ("mig-strategy-mixed", "b.mig_strategy")]


def test_the_version_counts() -> None:
    configs = {"a": {"replicas": 4, "fail_requests_greater_than_one": False}}
    codes = [validate(Request(configs=configs, plugin_version=version)).findings[0].code for version in (PluginVersion(0, 17, 4), PluginVersion(0, 20, 0))]
    assert codes == ["fail-requests-ignored", "fail-requests-off"]


@pytest.mark.parametrize(
    ("version", "config", "default", "found"),
    [
        (PluginVersion(0, 18, 2), "mps", "none", True),
        (PluginVersion(0, 18, 2), "mps", None, True),
        (PluginVersion(0, 18, 2), "mps", "mps", False),
        (PluginVersion(0, 18, 2), "none", "mps", False),
        (PluginVersion(0, 18, 1), "mps", "none", False),
        (None, "mps", "none", False),
    ],
)
def test_groups_that_the_mps_daemon_cannot_follow(version: PluginVersion | None, config: str, default: str | None, found: bool) -> None:
    groups = [{"name": "g", "config": config, "nodes": []}]
    validation = validate(Request(configs={"mps": {"replicas": 4}, "none": {}}, default=default, groups=groups, plugin_version=version))
    assert places(validation) == ([("label-against-default", "mps_node_groups[0].config")] if found else [])


# Nodes

SEVENTEEN: dict[str, Any] = {"mps": {"replicas": 17}, "none": {}}


def capped(validation: Validation) -> list[str]:
    return [found.subject for found in validation.findings if found.code == "replicas-above-cap"]


def test_nodes_are_checked_with_the_config_that_they_would_get() -> None:
    v100 = {"product": "Tesla-V100-SXM2-16GB", "compute": "7.0"}
    nodes = [
        node("by-default", **v100),
        node("by-group", **v100),
        node("labelled", **v100, **{"nvidia.com/device-plugin.config": "none"}),
        node("empty-label", **v100, **{"nvidia.com/device-plugin.config": ""}),
        node("turing"),
        {"name": "cpu", "labels": {"kubernetes.io/os": "linux"}},
    ]
    groups = [{"name": "g", "config": "none", "nodes": ["by-group"]}]
    assert capped(validate(Request(configs=SEVENTEEN, default="mps", groups=groups, nodes=nodes))) == ["node/by-default", "node/empty-label"]
    groups = [{"name": "g", "config": "mps", "nodes": ["by-group"]}]
    assert capped(validate(Request(configs=SEVENTEEN, default="none", groups=groups, nodes=nodes))) == ["node/by-group"]


def test_a_text_is_checked_on_its_nodes_too() -> None:
    text = GOOD.replace("4", "17")
    validation = validate(Request(config_map_data={"mps": text}, default="mps", nodes=[node("old", compute="7.0")]))
    assert capped(validation) == ["node/old"]


def test_node_objects_of_the_api_will_do() -> None:
    old = node("old", compute="7.0")
    status = {"allocatable": {"nvidia.com/gpu": "1"}, "nodeInfo": {"kernelVersion": "6.8"}}
    item = {"metadata": {"name": "old", "labels": old["labels"]}, "status": status}
    assert capped(validate(Request(configs=SEVENTEEN, default="mps", nodes=[item]))) == ["node/old"]


def test_allocatable_and_kernel_are_used_where_given() -> None:
    wsl = {**node("wsl"), "kernel": "5.15-microsoft-standard-WSL2"}
    mig = {**node("mig", **{"nvidia.com/mig.capable": "true"}), "allocatable": {"nvidia.com/mig-1g.5gb": "7"}}
    found = {found.code: found.subject for found in validate(Request(configs={"a": {"replicas": 4}}, default="a", nodes=[wsl, mig])).findings}
    assert found["wsl-unsupported"] == "node/wsl"
    assert found["mig-enabled"] == "node/mig"


def test_groups_are_matched_against_the_nodes() -> None:
    groups = [
        {"name": "a", "config": "mps", "match": {"product": "Tesla-T4"}},
        {"name": "b", "config": "none", "nodes": ["t4"]},
        {"name": "c", "config": "none", "selector": ["pool=x"]},
        {"name": "d", "config": "none", "nodes": ["gone"]},
    ]
    validation = validate(Request(configs={"mps": {"replicas": 4}, "none": {}}, groups=groups, nodes=[node("t4")]))
    assert {found.code for found in validation.findings} >= {"group-overlap", "group-empty", "node-unknown"}


def test_without_nodes_no_group_is_called_empty() -> None:
    groups = [{"name": "a", "config": "mps", "match": {"product": "Tesla-T4"}}]
    assert validate(Request(configs={"mps": {"replicas": 4}}, groups=groups)).findings == ()


# Workloads


def pod(count: int, resource: str = "nvidia.com/gpu") -> dict[str, Any]:
    container = {"name": "a", "resources": {"limits": {resource: count}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}


def test_manifests_are_linted() -> None:
    assert validate(Request(manifests=[pod(1)])).findings == ()
    validation = validate(Request(manifests=[pod(1), pod(2)]))
    assert [(found.code, found.path.split(".")[0]) for found in validation.findings] == [("workload-requests-several", "manifests[1]")]


def test_requests_for_several_depend_on_the_configs() -> None:
    allowed = {"a": {"replicas": 4, "fail_requests_greater_than_one": False}}
    codes = {found.code for found in validate(Request(configs=allowed, manifests=[pod(2)], plugin_version=PluginVersion(0, 20, 0))).findings}
    assert "workload-requests-several" not in codes
    codes = {found.code for found in validate(Request(configs=allowed, manifests=[pod(2)], plugin_version=PluginVersion(0, 17, 4))).findings}
    assert "workload-requests-several" in codes


# What people and programs see


def test_a_config_as_data() -> None:
    assert as_data(SharingConfig("a", Strategy.TIME_SLICING, 4, True, "none", False)) == {
        "strategy": "time-slicing",
        "replicas": 4,
        "rename_by_default": True,
        "mig_strategy": "none",
        "fail_requests_greater_than_one": False,
    }


def test_the_report_has_a_block_for_each_finding() -> None:
    findings = [
        finding("unknown-key", "key.x", "what it is", remedy="what to do", subject="node/a"),
        finding("yaml-syntax", "key", "what it is", remedy="what to do"),
        finding("version-missing", "key.version"),
        finding("value-spelling", "key.y"),
    ]
    lines = report(findings).splitlines()
    assert lines[0] == "2 errors and 1 warning:"
    assert lines[2:8] == [
        "ERROR unknown-key",
        "  where key.x on node/a",
        "  what  what it is",
        "  why   Unknown keys are ignored without an error. A misspelt sharing block means that nothing is shared.",
        "  do    what to do",
        "  or    go on in spite of it with accept: [unknown-key]",
    ]
    assert "  or    go on in spite of it with accept: [yaml-syntax]" not in lines
    assert [line for line in lines if line.isupper() or line.split()[:1] in (["ERROR"], ["WARNING"], ["INFO"])] == [
        "ERROR unknown-key",
        "ERROR yaml-syntax",
        "WARNING version-missing",
    ]
