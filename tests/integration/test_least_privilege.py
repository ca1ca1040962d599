# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped roles are enough for what they are meant for, and the reader's allows nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.ansible_runs import REPOSITORY
from tests.integration.operator_variables import LAB_DECLARATION
from tests.testbed.bed import TestBed

NAMESPACE = "gpuops-rights"
# Name of the account -> cluster-wide roles, and roles in one namespace.
ACCOUNTS: dict[str, tuple[list[str], dict[str, str]]] = {
    "reader": (["gpuops-mps-reader"], {}),
    "operator": (
        ["gpuops-mps-reader", "gpuops-mps-operator"],
        {"gpu-operator": "gpuops-mps-operator-namespace", "default": "gpuops-mps-proof-namespace"},
    ),
}


def role_binding(account: str, role: str, namespace: str | None) -> dict[str, Any]:
    """Bind a ClusterRole to an account, in one namespace or everywhere."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": f"{account}-{role}", **({"namespace": namespace} if namespace else {})},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    }


def kubeconfig_of(bed: TestBed, account: str, directory: Path) -> Path:
    """A kubeconfig that signs in as the account."""
    content = yaml.safe_load(bed.kubeconfig.read_text(encoding="utf-8"))
    token = bed.kubectl("create", "token", account, f"--namespace={NAMESPACE}").strip()
    for user in content["users"]:
        user["user"] = {"token": token}
    path = directory / f"{account}.kubeconfig"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def forbidden(bed: TestBed, since: int, account: str) -> list[Any]:
    """The account's requests that were refused."""
    return [event for event in bed.audit(since) if event.user.endswith(f":{account}") and event.code == 403]


@pytest.mark.slow
def test_the_operation_role_operates_and_the_readers_role_reads(
    bed_factory: Callable[..., TestBed], run_ansible: Callable[..., Any], tmp_path: Path
) -> None:
    bed = bed_factory("rights", instant=True)
    bed.install_operator_objects()
    bed.wait_until_settled()
    objects: list[dict[str, Any]] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}]
    for file in ("reader", "operator"):
        content = yaml.safe_load((REPOSITORY / "docs" / "rbac" / f"{file}.yaml").read_text(encoding="utf-8"))
        objects += content.get("items", [content])
    for account, (cluster_roles, roles) in ACCOUNTS.items():
        objects.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": NAMESPACE}})
        objects += [role_binding(account, role, None) for role in cluster_roles]
        objects += [role_binding(account, role, namespace) for namespace, role in roles.items()]
    bed.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    since = bed.mark()
    operator = kubeconfig_of(bed, "operator", tmp_path)
    configured = run_ansible("gpuops.mps.configure", bed, variables=LAB_DECLARATION, kubeconfig=operator)
    assert configured.status == 0, configured.failure()
    verified = run_ansible("gpuops.mps.verify", bed, variables=LAB_DECLARATION, kubeconfig=operator)
    assert verified.status == 0, verified.failure()
    assert not forbidden(bed, since, "operator")

    reader = kubeconfig_of(bed, "reader", tmp_path)
    for playbook in ("gpuops.mps.plan", "gpuops.mps.drift"):
        read = run_ansible(playbook, bed, variables=LAB_DECLARATION, kubeconfig=reader)
        assert read.status == 0, read.failure()
    refused = run_ansible("gpuops.mps.configure", bed, variables={**LAB_DECLARATION, "mps_default": "none"}, kubeconfig=reader)
    assert refused.status != 0
    assert "forbidden" in refused.failure()
    writes = [event for event in bed.audit(since) if event.user.endswith(":reader") and event.mutating and event.code < 300]
    assert not writes
