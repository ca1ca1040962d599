# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a module runs: what comes out as success, as failure, and never as a traceback."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpuops.mps.plugins.module_utils import _options
from ansible_collections.gpuops.mps.plugins.module_utils._cluster import ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._options import run


@pytest.fixture
def outcome(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """Run a function as a module with the given arguments: (exit status, printed result)."""
    connections: list[dict[str, Any]] = []

    class Connected:
        @classmethod
        def connect(cls, parameters: dict[str, Any], *, dry_run: bool) -> str:
            connections.append({"kubeconfig": parameters["kubeconfig"], "dry_run": dry_run})
            return "cluster"

    monkeypatch.setattr(_options, "Cluster", Connected)

    def call(function: Any, **arguments: Any) -> tuple[int, dict[str, Any], list[dict[str, Any]]]:
        with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
            run(function, {"name": {"type": "str"}})
        return int(ended.value.code or 0), json.loads(capfd.readouterr().out), connections

    return call


def test_a_result_is_a_success(outcome: Any) -> None:
    code, result, connections = outcome(lambda module, cluster: {"changed": True, "said": [module.params["name"], cluster]}, name="a")
    assert (code, result["changed"], result["said"]) == (0, True, ["a", "cluster"])
    assert connections == [{"kubeconfig": None, "dry_run": False}]


def test_check_mode_makes_every_write_a_dry_run(outcome: Any) -> None:
    _code, _result, connections = outcome(lambda module, cluster: {"changed": False}, _ansible_check_mode=True)
    assert connections[0]["dry_run"]


def test_a_failed_result_keeps_all_its_values(outcome: Any) -> None:
    code, result, _connections = outcome(lambda module, cluster: {"failed": True, "msg": "no", "changed": True, "findings": [1]})
    assert (code, result["failed"], result["msg"], result["changed"], result["findings"]) == (1, True, "no", True, [1])


def test_a_cluster_error_is_a_failure_with_code_and_remedy(outcome: Any) -> None:
    def fail(_module: Any, _cluster: Any) -> dict[str, Any]:
        raise ClusterError("it broke", code="cluster-failed", remedy="Repair it.", subject="/version")

    code, result, _connections = outcome(fail)
    assert (code, result["msg"], result["code"], result["remedy"], result["subject"]) == (1, "it broke. Repair it.", "cluster-failed", "Repair it.", "/version")


def test_secrets_of_a_kubeconfig_given_as_data_are_not_printed(outcome: Any) -> None:
    kubeconfig = {"apiVersion": "v1", "users": [{"name": "u", "user": {"token": "very-secret-token"}}]}
    _code, result, _connections = outcome(lambda module, cluster: {"changed": False, "echo": "very-secret-token"}, kubeconfig=kubeconfig)
    assert "very-secret-token" not in json.dumps(result)


@pytest.mark.parametrize("form", [dict, str])
def test_nor_are_they_when_an_option_is_wrong(outcome: Any, form: type) -> None:
    kubeconfig: Any = {"apiVersion": "v1", "users": [{"name": "u", "user": {"token": "very-secret-token"}}]}
    given = kubeconfig if form is dict else json.dumps(kubeconfig)
    code, result, _connections = outcome(lambda module, cluster: {"changed": False}, kubeconfig=given, misspelt=True)
    assert code == 1 and "misspelt" in result["msg"]
    assert "very-secret-token" not in json.dumps(result) and "module_args" in json.dumps(result)
