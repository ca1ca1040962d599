# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped roles as data: their single rights, accounts that have them, and roles from which one right was taken."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.integration.ansible_runs import REPOSITORY
from tests.testbed.audit import AuditEvent
from tests.testbed.bed import TestBed

NAMESPACE = "gpuops-rights"
OPERATOR_NAMESPACE = "gpu-operator"
FILES = ("reader", "operator", "installer")
_READER = (["gpuops-mps-reader"], [(OPERATOR_NAMESPACE, "gpuops-mps-reader-namespace")])
_OPERATOR = (
    [*_READER[0], "gpuops-mps-operator"],
    [*_READER[1], (OPERATOR_NAMESPACE, "gpuops-mps-operator-namespace"), ("default", "gpuops-mps-proof-namespace")],
)
_INSTALLER = ([*_OPERATOR[0], "gpuops-mps-installer"], [*_OPERATOR[1], (OPERATOR_NAMESPACE, "gpuops-mps-installer-namespace")])
# Name of the account -> cluster-wide roles, and roles in one namespace.
ACCOUNTS: dict[str, tuple[list[str], list[tuple[str, str]]]] = {"reader": _READER, "operator": _OPERATOR, "installer": _INSTALLER}


@dataclass(frozen=True)
class Right:
    """One verb on one resource in one role."""

    role: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.role}: {self.verb} {self.resource}"


def roles(file: str) -> list[dict[str, Any]]:
    """The ClusterRoles in a file of docs/rbac."""
    content = yaml.safe_load((REPOSITORY / "docs" / "rbac" / f"{file}.yaml").read_text(encoding="utf-8"))
    return content["items"]


def rights(file: str) -> Iterator[Right]:
    """Every single right in a file."""
    for role in roles(file):
        for rule in role["rules"]:
            yield from (Right(role["metadata"]["name"], resource, verb) for resource in rule["resources"] for verb in rule["verbs"])


def without(role: dict[str, Any], right: Right) -> dict[str, Any]:
    """The role, with each rule split so that the one right is missing."""
    changed = copy.deepcopy(role)
    rules = []
    for rule in changed["rules"]:
        for resource in rule["resources"]:
            verbs = [verb for verb in rule["verbs"] if (resource, verb) != (right.resource, right.verb)]
            rules += [{**rule, "resources": [resource], "verbs": verbs}] if verbs else []
    return {**changed, "rules": rules}


def apply(bed: TestBed, objects: Iterable[dict[str, Any]]) -> None:
    """Put objects onto the cluster as they are."""
    bed.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


def bind_all(bed: TestBed, accounts: Iterable[str] = tuple(ACCOUNTS)) -> None:
    """Create the accounts and bind the shipped roles to them as the files say."""
    objects: list[dict[str, Any]] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}]
    objects += [role for file in FILES for role in roles(file)]
    for account in accounts:
        cluster_roles, namespaced = ACCOUNTS[account]
        objects.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": NAMESPACE}})
        objects += [_binding(account, role, None) for role in cluster_roles]
        objects += [_binding(account, role, namespace) for namespace, role in namespaced]
    apply(bed, objects)


def _binding(account: str, role: str, namespace: str | None) -> dict[str, Any]:
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
    path.chmod(0o600)
    return path


def forbidden(bed: TestBed, since: int, account: str) -> list[AuditEvent]:
    """The account's requests that were refused."""
    return [event for event in bed.audit(since) if event.user.endswith(f":{account}") and event.code == 403]


def used(bed: TestBed, since: int, account: str) -> set[tuple[str, str]]:
    """(resource, verb) of what the account asked for."""
    own = [event for event in bed.audit(since) if event.user.endswith(f":{account}")]
    return {(f"{event.resource}/{event.subresource}" if event.subresource else event.resource, event.verb) for event in own}
