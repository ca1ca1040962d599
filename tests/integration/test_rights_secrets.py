# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Credentials are nowhere but where they belong: in no output however verbose, no diff, no report, no file, no process's arguments."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.ansible_runs import AnsibleRun
from tests.integration.rights import signed_in
from tests.reliability import quiet
from tests.reliability.operations import CONFIGS, GROUPS, MAP, NAMESPACE
from tests.testbed.bed import TestBed

PULL_SECRET = "hunter2-of-the-registry"
WRONG = "wrong-token-that-nobody-may-see"


@pytest.fixture
def bed(two_nodes: TestBed) -> Iterator[TestBed]:
    """The quiet bed, with a pull secret of somebody's."""
    quiet.reset(two_nodes)
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets"
    encoded = base64.b64encode(json.dumps({"auths": {"registry.example.com": {"password": PULL_SECRET}}}).encode()).decode()
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pull"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": encoded},
    }
    two_nodes.api.post(path, body)
    yield two_nodes
    two_nodes.api.delete(f"{path}/pull")


class Arguments(threading.Thread):
    """Looks at the arguments of all processes again and again, and keeps those in which a secret stands."""

    def __init__(self, secrets: list[str]) -> None:
        super().__init__(daemon=True)
        self.secrets = [secret.encode() for secret in secrets]
        self.found: list[bytes] = []
        self.looks = 0
        self._enough = threading.Event()

    def run(self) -> None:
        while not self._enough.wait(0.02):
            self.looks += 1
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    line = path.read_bytes()
                except OSError:  # it has ended
                    continue
                if any(secret in line for secret in self.secrets):
                    self.found.append(line)

    def stop(self) -> None:
        self._enough.set()
        self.join()


def tasks(credentials: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Every module that talks to a cluster, and the report."""
    place = {"namespace": NAMESPACE, "config_map": MAP, **credentials}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("mps_operator_info", dict(credentials)),
        ("mps_info", place),
        ("mps_plan_info", {**place, "configs": CONFIGS, "node_groups": GROUPS}),
        ("mps_config", {**place, "configs": CONFIGS}),
        ("mps_policy", {**place, "default": "none"}),
        ("mps_nodes", {**place, "node_groups": GROUPS}),
        ("mps_proof", {**credentials, "namespace": NAMESPACE, "pull_secrets": ["pull"], "wait_timeout": 5}),
        ("mps_rollout", {**place, "configs": CONFIGS, "node_groups": GROUPS, "wait_timeout": 5, "lease_duration": 5}),
        ("mps_verify_info", {**place, "fail_on": []}),
    ]
    named = [{"name": module, f"gpuops.mps.{module}": arguments, "register": f"_{module}", "ignore_errors": True} for module, arguments in calls]
    return [*named, {"name": "report", "gpuops.mps.mps_report": {"verification": "{{ _mps_verify_info }}", "folder": str(folder)}}]


def ways_in(bed: TestBed) -> dict[str, tuple[dict[str, Any], dict[str, str]]]:
    """Name -> the options that hold credentials, and the environment they come from: a playbook must not be searched for its own text."""
    content = yaml.safe_load(signed_in(bed, "operator").read_text(encoding="utf-8"))
    token = content["users"][0]["user"]["token"]
    environ = {"SECRET_TOKEN": token, "SECRET_KUBECONFIG": json.dumps(content)}
    address = {"host": bed.layout.server, "ca_cert": str(bed.layout.certificates / "ca.crt")}
    variable = "{{ lookup('ansible.builtin.env', '%s') }}"
    return {
        "token": ({**address, "api_key": variable % "SECRET_TOKEN"}, environ),
        "wrong token": ({**address, "api_key": variable % "SECRET_TOKEN"}, {"SECRET_TOKEN": WRONG}),
        "kubeconfig as a mapping": ({"kubeconfig": "{{ lookup('ansible.builtin.env', 'SECRET_KUBECONFIG') | from_json }}"}, environ),
        "environment": (address, {"K8S_AUTH_API_KEY": token}),
        "wrong option": ({"kubeconfig": "{{ lookup('ansible.builtin.env', 'SECRET_KUBECONFIG') | from_json }}", "misspelt": True}, environ),
    }


LONG = pytest.mark.reliability


@pytest.mark.parametrize(
    "way", ["kubeconfig as a mapping", *(pytest.param(way, marks=LONG) for way in ("token", "wrong token", "environment", "wrong option"))]
)
def test_credentials_are_nowhere_to_be_seen(bed: TestBed, run_ansible: Callable[..., AnsibleRun], tmp_path: Path, way: str) -> None:
    credentials, environ = ways_in(bed)[way]
    token = bed.layout.tokens()["operator"]
    secrets = [token, WRONG, PULL_SECRET]
    folder, temporary = tmp_path / "reports", tmp_path / "temporary"
    temporary.mkdir()
    watcher = Arguments(secrets)
    watcher.start()
    try:
        play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks(credentials, folder)}
        environ = {**environ, "TMPDIR": str(temporary), "ANSIBLE_LOCAL_TEMP": str(temporary), "ANSIBLE_REMOTE_TEMP": str(temporary)}
        nowhere = tmp_path / "no-kubeconfig"
        run = run_ansible([play], None, arguments=("-vvvv", "--diff"), environ=environ, kubeconfig=nowhere if way == "environment" else None)
    finally:
        watcher.stop()
    assert run.status == 0, run.output + run.complaints
    assert watcher.looks > 20 and not watcher.found
    assert_written = [run.result("mps_config"), run.result("mps_nodes")]
    assert all(bool(result.get("failed")) is way.startswith("wrong") for result in assert_written)
    for text in (run.output, run.complaints, json.dumps(run.document)):
        assert not [secret for secret in secrets if secret in text], "a secret is in the output"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert folder / "gpu-sharing.html" in files
    for path in files:
        content = path.read_bytes()
        assert not [secret for secret in secrets if secret.encode() in content], f"a secret is in {path}"
