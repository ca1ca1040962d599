# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong outside of MPS: each ends in one message that says what, where and what to do, and never in a traceback."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.ansible_runs import AnsibleRun
from tests.integration.operator_variables import operator_variables
from tests.integration.rights import requests_of_accounts, signed_in
from tests.testbed.bed import TestBed
from tests.testbed.layout import kubeconfig_text

DECLARED = {"mps_configs": {"mps-two": {"replicas": 2}}, "mps_default": "mps-two"}


def expect(run: AnsibleRun, *patterns: str) -> None:
    """Check that the run failed with one message in which every pattern is found."""
    assert run.status != 0, run.output
    assert "Traceback" not in run.output + run.complaints
    message = run.failure()
    for pattern in patterns:
        assert re.search(pattern, message, re.IGNORECASE), f"nothing like {pattern!r} in: {message}"


def read(bed: TestBed | None, run_ansible: Callable[..., AnsibleRun], python: str = sys.executable, **settings: Any) -> AnsibleRun:
    """Run the module that only reads."""
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": python},
        "tasks": [{"name": "read", "gpuops.mps.mps_info": {}}],
    }
    return run_ansible([play], bed, **settings)


def changed_kubeconfig(bed: TestBed, directory: Path, change: Mapping[str, str]) -> Path:
    """Write the bed's kubeconfig with some texts replaced."""
    text = signed_in(bed, "reader").read_text()
    for former, present in change.items():
        assert former in text
        text = text.replace(former, present)
    path = directory / "kubeconfig"
    path.write_text(text)
    return path


def test_no_cluster(empty_lab: TestBed, run_ansible: Callable[..., AnsibleRun], tmp_path: Path) -> None:
    kubeconfig = changed_kubeconfig(empty_lab, tmp_path, {empty_lab.layout.server: "https://127.0.0.1:1"})
    expect(read(None, run_ansible, kubeconfig=kubeconfig), "port=1|127.0.0.1:1", "refused", re.escape(str(kubeconfig)))


def test_a_kubeconfig_that_is_not_there(run_ansible: Callable[..., AnsibleRun], tmp_path: Path) -> None:
    expect(read(None, run_ansible, kubeconfig=tmp_path / "nowhere"), "nowhere")


def test_a_kubeconfig_that_is_none(run_ansible: Callable[..., AnsibleRun], tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("clusters: [")
    expect(read(None, run_ansible, kubeconfig=tmp_path / "broken"), "kubeconfig")


def test_a_token_nobody_knows(empty_lab: TestBed, run_ansible: Callable[..., AnsibleRun], tmp_path: Path) -> None:
    kubeconfig = changed_kubeconfig(empty_lab, tmp_path, {empty_lab.layout.tokens()["reader"]: "nobody"})
    expect(read(None, run_ansible, kubeconfig=kubeconfig), "unauthorized", re.escape(str(kubeconfig)))


def test_no_permission(lab: TestBed, run_ansible: Callable[..., AnsibleRun], tmp_path: Path) -> None:
    lab.kubectl("create", "serviceaccount", "powerless")
    token = lab.kubectl("create", "token", "powerless").strip()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(kubeconfig_text(lab.layout.server, lab.layout.certificates / "ca.crt", "powerless", token))
    expect(read(None, run_ansible, kubeconfig=kubeconfig), "403|forbidden|may not", "powerless", "list|get")
    lab.kubectl("delete", "serviceaccount", "powerless")


def test_no_python_client(lab: TestBed, run_ansible: Callable[..., AnsibleRun], tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    expect(read(lab, run_ansible, python=str(tmp_path / "bare" / "bin" / "python")), "kubernetes", re.escape(str(tmp_path / "bare")), "pip install")


def test_no_operator(empty_lab: TestBed, run_ansible: Callable[..., AnsibleRun]) -> None:
    expect(run_ansible("gpuops.mps.configure", empty_lab, variables=DECLARED, account="admin"), "ClusterPolicy|GPU Operator", "install")


def test_no_helm(empty_lab: TestBed, run_ansible: Callable[..., AnsibleRun]) -> None:
    variables = {**DECLARED, **operator_variables(empty_lab), "gpu_operator_helm": "/nonexistent/helm"}
    expect(run_ansible("gpuops.mps.site", empty_lab, variables=variables), "/nonexistent/helm", "Install Helm", "gpu_operator_helm")


def test_helm_fails(empty_lab: TestBed, run_ansible: Callable[..., AnsibleRun]) -> None:
    variables = {**DECLARED, **operator_variables(empty_lab), "gpu_operator_chart_ref": "/nonexistent/chart"}
    expect(run_ansible("gpuops.mps.site", empty_lab, variables=variables), "/nonexistent/chart", "Helm", "gpu-operator")


def test_the_operator_never_gets_ready(bed_factory: Callable[..., TestBed], run_ansible: Callable[..., AnsibleRun]) -> None:
    bed = bed_factory("never", operator=False)
    variables = {**DECLARED, **operator_variables(bed), "gpu_operator_wait_timeout": 10, "gpu_operator_wait_sleep": 1}
    expect(run_ansible("gpuops.mps.site", bed, variables=variables), "10 s", "ready", "gpu-operator")


@pytest.mark.parametrize("playbook", ["site", "configure", "plan"])
def test_a_declaration_that_cannot_be(playbook: str, empty_lab: TestBed, run_ansible: Callable[..., AnsibleRun]) -> None:
    variables = {**operator_variables(empty_lab), "mps_configs": {"Mps Two": {"replicas": 1}}, "mps_default": "other"}
    since = empty_lab.mark()
    expect(run_ansible(f"gpuops.mps.{playbook}", empty_lab, variables=variables), "Mps Two", "replicas")
    assert not [event for event in requests_of_accounts(empty_lab, since) if event.mutating], "written in spite of an error"
