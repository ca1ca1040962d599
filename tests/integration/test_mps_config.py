# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mps_config on a real API server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.quiet_bed import CONFIG_MAPS, MAP, MPS_TWO, NONE, Run, Step, refer, set_label, twelve_steps, write_map, writes
from tests.testbed.bed import TestBed

CONFIGS = {"none": {}, "mps-two": {"replicas": 2}}


def data(bed: TestBed) -> dict[str, str] | None:
    found = bed.api.find(MAP)
    return found["data"] if found else None


def test_create_modify_delete(quiet: TestBed, run_module: Run) -> None:
    three = MPS_TWO.replace("replicas: 2", "replicas: 3")
    steps = (
        Step("create", {"configs": CONFIGS}, {"none": NONE, "mps-two": MPS_TWO}),
        Step("modify", {"configs": {"mps-two": {"replicas": 3}, "mps-copy": {"replicas": 2}}}, {"mps-two": three, "mps-copy": MPS_TWO}),
        Step("delete", {"state": "absent"}, None),
    )
    twelve_steps(quiet, run_module, "mps_config", steps, lambda: data(quiet))


def test_what_is_foreign_stays(quiet: TestBed, run_module: Run) -> None:
    commented = f"# since May\n{MPS_TWO}flags: {{plugin: {{passDeviceSpecs: true}}}}\n"
    write_map(
        quiet,
        {"slices": "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n", "mps-two": commented},
        labels={"team": "a"},
        annotations={"note": "b"},
    )
    before = quiet.api.get(MAP)
    result = run_module(quiet, "mps_config", {"configs": CONFIGS}, diff=True)
    assert result["config_map"]["add"] == ["none"] and result["config_map"]["change"] == []
    after = quiet.api.get(MAP)
    assert after["data"] == {**before["data"], "none": NONE}
    assert after["metadata"]["labels"] == {"team": "a"} and after["metadata"]["annotations"]["note"] == "b"
    assert json.loads(after["metadata"]["annotations"]["gpuops.mps/managed-keys"]) == ["none"]
    managers = {entry["manager"] for entry in after["metadata"]["managedFields"]}
    assert "gpuops.mps" in managers
    run_module(quiet, "mps_config", {"state": "absent"})
    assert set(data(quiet) or {}) == {"slices", "mps-two"}


def test_a_former_text_is_kept(quiet: TestBed, run_module: Run) -> None:
    run_module(quiet, "mps_config", {"configs": CONFIGS})
    run_module(quiet, "mps_config", {"configs": {**CONFIGS, "mps-two": {"replicas": 4}}})
    assert json.loads(quiet.api.get(MAP)["metadata"]["annotations"]["gpuops.mps/former"]) == {"mps-two": MPS_TWO}


def test_a_key_in_use_is_not_removed(quiet: TestBed, run_module: Run) -> None:
    run_module(quiet, "mps_config", {"configs": {**CONFIGS, "mps-four": {"replicas": 4}}})
    refer(quiet, "mps-configs", "none")
    set_label(quiet, "gpu-t4-1", "mps-two")
    set_label(quiet, "gpu-t4-2", "mps-two")
    result = run_module(quiet, "mps_config", {"configs": {"mps-four": {"replicas": 4}}})
    assert result["failed"] and not result["changed"]
    assert "the key 'mps-two' of the ConfigMap 'mps-configs' cannot be removed: it is used by the label of 'gpu-t4-1', 'gpu-t4-2'" in result["msg"]
    assert "the key 'none' of the ConfigMap 'mps-configs' cannot be removed: it is used by the default of the ClusterPolicy" in result["msg"]
    assert set(data(quiet) or {}) == {"none", "mps-two", "mps-four"}
    gone = run_module(quiet, "mps_config", {"state": "absent"})
    assert "cannot be deleted: the ClusterPolicy 'cluster-policy' refers to it" in gone["msg"]
    assert {found["code"] for found in gone["findings"]} == {"config-map-in-use", "key-in-use"}


def test_a_map_that_helm_keeps_is_said(quiet: TestBed, run_module: Run) -> None:
    write_map(quiet, {"none": NONE}, annotations={"meta.helm.sh/release-name": "gpu-operator", "meta.helm.sh/release-namespace": "gpu-operator"})
    result = run_module(quiet, "mps_config", {"configs": CONFIGS}, check=True)
    assert any("config-map-owned-elsewhere" in warning for warning in result["warnings"])


def test_an_immutable_map_is_refused_before_the_write(quiet: TestBed, run_module: Run) -> None:
    quiet.api.post(CONFIG_MAPS, {"metadata": {"name": "mps-configs"}, "data": {"none": NONE}, "immutable": True})
    result = run_module(quiet, "mps_config", {"configs": CONFIGS})
    assert [found["code"] for found in result["findings"]] == ["config-map-immutable"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ({"configs": {"mps-two": {"replicas": 1}}}, "replicas-below-two", "1 replicas"),
        ({"configs": {"mps-two": {"replica": 2}}}, "unknown-option", "'replica'"),
        ({"configs": CONFIGS, "config_map": "mps.configs"}, "config-map-name-unusable", "cannot mount a ConfigMap named 'mps.configs'"),
        ({"configs": CONFIGS, "accept": ["nonsense"]}, "accept-unknown-code", "'nonsense'"),
    ],
)
def test_what_cannot_work_is_refused_and_nothing_is_written(quiet: TestBed, run_module: Run, arguments: dict[str, Any], code: str, words: str) -> None:
    mark = quiet.mark()
    result = run_module(quiet, "mps_config", arguments)
    assert result["failed"] and words in result["msg"]
    assert code in {found["code"] for found in result["findings"]}
    assert writes(quiet, mark) == []


def test_a_namespace_that_does_not_exist_is_an_error_without_a_traceback(quiet: TestBed, run_module: Run) -> None:
    result = run_module(quiet, "mps_config", {"configs": CONFIGS, "namespace": "nowhere"}, account="admin")
    assert result["failed"] and result["code"] == "object-missing"
    assert 'namespaces "nowhere" not found' in result["msg"]
    assert "Traceback" not in json.dumps(result)


def test_what_the_api_server_would_refuse_is_refused_in_check_mode_too(quiet: TestBed, run_module: Run) -> None:
    result = run_module(quiet, "mps_config", {"configs": CONFIGS, "namespace": "nowhere"}, check=True, account="admin")
    assert result["failed"] and result["code"] == "object-missing"
