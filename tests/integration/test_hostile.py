# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What anybody can write into variables and onto objects neither runs, nor breaks a run, nor reaches a terminal as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.ansible_runs import AnsibleRun
from tests.reliability import quiet
from tests.reliability.direct import call
from tests.reliability.operations import MAP, MAP_PATH, NAMESPACE, OPERATIONS, config_labels, config_texts, write_map
from tests.testbed.bed import TestBed

NODE = "/api/v1/nodes/gpu-1"
TERMINAL = "\x1b[2J\x1b]0;owned\x07"


@pytest.fixture
def bed(two_nodes: TestBed) -> TestBed:
    """The bed on which nothing moves by itself, as it was in the beginning."""
    quiet.reset(two_nodes)
    return two_nodes


def write(bed: TestBed, directory: Path, module: str = "mps_config", **arguments: Any) -> dict[str, Any]:
    """One module's result with the usual place."""
    place = {"namespace": NAMESPACE, "config_map": MAP}
    result = call(module, {**place, **arguments}, kubeconfig=bed.kubeconfig, directory=directory)
    assert "Traceback" not in result["stderr"]
    return result


@pytest.mark.parametrize("name", ["config", "my.config", "x" * 64, "\u0430scii", "a\nb"])
def test_a_map_name_that_breaks_the_operators_daemon_sets_is_refused_before_the_write(bed: TestBed, tmp_path: Path, name: str) -> None:
    since = bed.mark()
    result = write(bed, tmp_path, config_map=name, configs={"none": {}})
    assert result["failed"] and "config-map-name-unusable" in str(result["findings"]), result
    assert not [event for event in bed.audit(since) if event.mutating]


@pytest.mark.parametrize(("name", "good"), [("a" * 63, True), ("a" * 64, False), ("m\u0440s", False)])
def test_a_config_name_is_a_key_and_a_label_at_once(bed: TestBed, tmp_path: Path, name: str, good: bool) -> None:
    result = write(bed, tmp_path, configs={name: {"replicas": 4}})
    assert bool(result.get("failed")) != good, result
    assert config_texts(bed).keys() == ({name} if good else set())
    if good:
        groups = [{"name": "all", "config": name, "nodes": ["gpu-1"]}]
        assert not write(bed, tmp_path, "mps_nodes", node_groups=groups).get("failed")
        assert config_labels(bed)["gpu-1"] == name


def test_a_map_that_would_become_too_large_is_refused_before_the_write(bed: TestBed, tmp_path: Path) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MAP}, "data": {"theirs": "#" * (1024 * 1024 - 40)}}
    bed.api.post(MAP_PATH.rpartition("/")[0], body)
    since = bed.mark()
    result = write(bed, tmp_path, configs={"mps-four": {"replicas": 4}})
    assert result["failed"] and "config-map-too-large" in str(result["findings"])
    assert not [event for event in bed.audit(since) if event.mutating]


@pytest.mark.parametrize("text", ["[" * 60_000, '{"config": 7, "content": []}', f'{{"config": "{TERMINAL}"}}'], ids=range(3))
def test_an_annotation_that_anybody_may_write_breaks_nothing(bed: TestBed, tmp_path: Path, text: str) -> None:
    names = ("gpuops.mps/applied", "gpuops.mps/rollout", "gpuops.mps/managed-keys", "gpuops.mps/former")
    write_map(bed)
    for path in (NODE, MAP_PATH):
        bed.api.patch(path, {"metadata": {"annotations": dict.fromkeys(names, text)}})
    try:
        for module in ("mps_info", "mps_verify_info"):
            result = call(module, {}, kubeconfig=bed.kubeconfig, directory=tmp_path)
            assert not result.get("failed") and "Traceback" not in result["stderr"], result
        planned = call("mps_plan_info", OPERATIONS["plan"].arguments, kubeconfig=bed.kubeconfig, directory=tmp_path)
        assert "Traceback" not in planned["stderr"] and "findings" in planned, planned
        assert not write(bed, tmp_path, configs={"mps-four": {"replicas": 4}}).get("failed")
    finally:
        bed.api.patch(NODE, {"metadata": {"annotations": dict.fromkeys(names)}})


def test_jinja_in_objects_and_variables_stays_what_it_is(bed: TestBed, run_ansible: Callable[..., AnsibleRun], tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    jinja = f"{{{{ lookup('ansible.builtin.pipe', 'touch {trap}') }}}}"
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": MAP, "annotations": {"example.com/note": jinja}},
        "data": {"evil": f"# {jinja}\nversion: v1\n"},
    }
    bed.api.post(MAP_PATH.rpartition("/")[0], body)
    tasks: list[dict[str, Any]] = [
        {"name": "read", "gpuops.mps.mps_info": {"namespace": NAMESPACE, "config_map": MAP}, "register": "seen"},
        {"name": "plan", "gpuops.mps.mps_plan_info": {"config_map": MAP, "configs": {"none": {}}}, "register": "planned", "ignore_errors": True},
        {
            "name": "validate",
            "gpuops.mps.mps_validate": {"config_map_data": {"evil": "{{ lookup('ansible.builtin.file', 'evil.yaml') }}"}},
            "ignore_errors": True,
        },
        {"name": "verify", "gpuops.mps.mps_verify_info": {"namespace": NAMESPACE}, "register": "verified", "ignore_errors": True},
        {"name": "report", "gpuops.mps.mps_report": {"verification": "{{ verified }}", "folder": str(tmp_path), "title": "{{ seen | to_json }}"}},
        {"name": "show", "ansible.builtin.debug": {"msg": "{{ [seen, planned, verified] }}"}},
    ]
    (tmp_path / "evil.yaml").write_text(f"sharing: {jinja}\n{TERMINAL}\n", encoding="utf-8")
    run = run_ansible([{"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}], bed, arguments=("-vvv", "--diff"))
    assert run.status == 0, run.output
    assert not trap.exists(), "a template from the cluster was run"
    assert "\x1b" not in run.output and "\x1b" not in run.complaints
    assert "unrendered-template" in str(run.result("validate")["findings"])
