# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action as a user calls it, with ansible on localhost and no cluster anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar

from ansible_collections.gpuops.mps.plugins.action.mps_validate import ActionModule

BIN = Path(sys.executable).parent
GOOD = "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"


def run(arguments: dict[str, Any], *, check: bool = False) -> dict[str, Any]:
    """The result of an ad-hoc run in a process of its own, far from any kubeconfig."""
    environment = {
        **os.environ,
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "0",
        "KUBECONFIG": "/nonexistent",
    }
    command = [str(BIN / "ansible"), "localhost", "-m", "gpuops.mps.mps_validate", "-a", json.dumps(arguments), *(["--check"] if check else [])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    head, _arrow, body = done.stdout.partition(" => ")
    assert body, done.stdout + done.stderr
    return {**json.loads(body), "ok": "SUCCESS" in head, "stderr": done.stderr}


def act(**arguments: Any) -> dict[str, Any]:
    """The result of the action within this process, which is what most tests need and takes no second."""
    task = Task()
    task.action, task.args = "gpuops.mps.mps_validate", arguments
    loader = DataLoader()
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))  # the action makes no use of it, its base class looks at it
    plugin = ActionModule(task=task, connection=connection, play_context=None, loader=loader, templar=Templar(loader), shared_loader_obj=None)
    return plugin.run(task_vars={})


def test_a_bad_declaration_fails_with_everything_a_tired_person_needs() -> None:
    result = run({"configs": {"mps-four": {"replica": 4}, "none": {}}, "default": "mps-for"})
    assert not result["ok"]
    assert [(found["code"], found["severity"], found["path"]) for found in result["findings"]] == [
        ("unknown-option", "error", "mps_configs.mps-four.replica"),
        ("config-unknown", "error", "mps_default"),
    ]
    assert set(result["findings"][0]) >= {"code", "severity", "path", "message", "remedy"}
    assert result["configs"]["none"]["strategy"] == "none"
    for words in ("2 errors:", "ERROR unknown-option", "where mps_configs.mps-four.replica", "do    Did you mean 'replicas'?"):
        assert words in result["msg"]


def test_check_mode_makes_no_difference() -> None:
    arguments = {"config_map_data": {"a": GOOD.replace("version: v1\n", "")}}
    result, checked = run(arguments), run(arguments, check=True)
    assert result["ok"] and checked["ok"]
    assert result == checked
    assert result["changed"] is False
    assert "version-missing at a.version" in result["stderr"]


def test_configs_are_returned_as_understood() -> None:
    result = act(config_map_data={"a": GOOD, "b": "version: v2\n"}, configs={"c": {"replicas": 2, "rename_by_default": True}})
    assert result["failed"]
    wanted = ("strategy", "replicas", "rename_by_default", "mig_strategy")
    assert {name: tuple(config[key] for key in wanted) for name, config in result["configs"].items()} == {
        "a": ("mps", 4, False, None),
        "c": ("mps", 2, True, None),
    }


def test_the_variables_of_the_roles_are_taken_too() -> None:
    result = act(mps_configs={"a": {"replicas": 4}}, mps_default="b", mps_node_groups=[{"name": "g", "config": "c", "nodes": ["x"]}])
    assert [found["path"] for found in result["findings"]] == ["mps_default", "mps_node_groups[0].config"]


def test_warnings_are_warnings() -> None:
    result = act(config_map_data={"a": "x: 1\n" + GOOD}, accept=["unknown-key"])
    assert not result["failed"]
    assert [warning.split(":")[0] for warning in result["warnings"]] == ["unknown-key at a.x"]
    assert result["msg"] == "nothing stands against going on"


def test_nodes_policy_and_version_reach_the_checks() -> None:
    labels = {"nvidia.com/gpu.product": "Tesla-P100", "nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": "16384"}
    labels |= {"nvidia.com/gpu.compute.major": "6", "nvidia.com/gpu.compute.minor": "0"}
    result = act(
        configs={"a": {"replicas": 17, "fail_requests_greater_than_one": False}},
        default="a",
        nodes=[{"name": "old", "labels": labels}],
        policy_mig_strategy="mixed",
        plugin_version="v0.20.0-ubi9",
    )
    codes = {found["code"] for found in result["findings"]}
    assert {"replicas-above-cap", "mig-strategy-mixed", "fail-requests-off"} <= codes


def test_manifests_are_linted() -> None:
    container = {"name": "a", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    assert [found["code"] for found in act(manifests=[pod])["findings"]] == ["workload-requests-several"]


def test_an_empty_policy_strategy_is_none_at_all() -> None:
    assert act(configs={"a": {"replicas": 4}}, policy_mig_strategy="", plugin_version="")["findings"] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"configs": {}, "plugin_version": "latest"}, "'latest' is no version"),
        ({"configs": {}, "policy_mig_strategy": "all"}, "value of policy_mig_strategy must be one of"),
        ({"config": {}}, "Unsupported parameters"),
    ],
)
def test_options_of_the_action_itself(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(Exception, match=words):
        act(**arguments)
