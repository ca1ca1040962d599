# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped roles as data: the accounts that everything in these tests signs in as, single rights, and roles from which one was taken."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.testbed.audit import AuditEvent
from tests.testbed.bed import TestBed

REPOSITORY = Path(__file__).resolve().parents[2]
OPERATOR_NAMESPACE = "gpu-operator"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
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


def signed_in(bed: TestBed, account: str, *, everywhere: bool = False) -> Path:
    """The kubeconfig of an account, to which the shipped roles are bound as their files say.

    The account ``admin`` may do everything. An installer finds the operator's namespace made for it; with `everywhere` the
    roles for one namespace hold in all of them, so that the installer makes and removes namespaces itself.
    """
    if account == "admin":
        return bed.kubeconfig
    if account == "installer" and not everywhere and bed.api.find(f"/api/v1/namespaces/{OPERATOR_NAMESPACE}") is None:
        bed.api.post("/api/v1/namespaces", {"metadata": {"name": OPERATOR_NAMESPACE}})
    bind(bed, account, everywhere=everywhere)
    return bed.layout.component_kubeconfig(account)


def bind(bed: TestBed, account: str, *, everywhere: bool = False) -> None:
    """Bind the roles of an account wherever their namespaces are, and wait until that holds. What is there already stays as it is."""
    cluster_roles, namespaced = ACCOUNTS[account]
    namespaces = {one["metadata"]["name"] for one in bed.api.list("/api/v1/namespaces")}
    wanted: list[tuple[str, str | None]] = [(role, None) for role in cluster_roles]
    wanted += [(role, None if everywhere else namespace) for namespace, role in namespaced if everywhere or namespace in namespaces]
    bindings = [*bed.api.list(f"{RBAC}/clusterrolebindings"), *bed.api.list(f"{RBAC}/rolebindings")]
    bound = {(one["roleRef"]["name"], one["metadata"].get("namespace")) for one in bindings if one["metadata"]["name"].startswith(f"{account}-")}
    missing = [one for one in wanted if one not in bound]
    if not missing:
        return
    shipped = {role["metadata"]["name"]: role for file in FILES for role in roles(file)}
    for name, namespace in missing:
        if bed.api.find(f"{RBAC}/clusterroles/{name}") is None:
            bed.api.post(f"{RBAC}/clusterroles", shipped[name])
        bind_role(bed, account, name, namespace)
    for name, namespace in missing:
        rule = shipped[name]["rules"][0]
        bed.wait_for(f"rights of {name}", partial(is_allowed, bed, account, rule, rule["resources"][0], rule["verbs"][0], namespace or ""), 30)


def bind_role(bed: TestBed, account: str, role: str, namespace: str | None) -> None:
    """Bind one role to an account: in a namespace, or everywhere."""
    place = f"{RBAC}/namespaces/{namespace}/rolebindings" if namespace else f"{RBAC}/clusterrolebindings"
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": account}
    bed.api.post(place, {"metadata": {"name": f"{account}-{role}"}, "roleRef": reference, "subjects": [subject]})


def is_allowed(bed: TestBed, account: str, rule: dict[str, Any], resource: str, verb: str, namespace: str) -> bool:
    """Whether the API server lets the account do what one verb on one resource of a rule says."""
    name, _slash, subresource = resource.partition("/")
    asked = {"group": rule["apiGroups"][0], "resource": name, "subresource": subresource, "verb": verb, "namespace": namespace}
    asked["name"] = rule.get("resourceNames", [""])[0]
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": account, "resourceAttributes": asked}}
    return bool(bed.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"])


def requests_of_accounts(bed: TestBed, since: int) -> list[AuditEvent]:
    """What the collection asked for since a mark, whichever account it was signed in as; the bed's own parts have users of their own."""
    return [event for event in bed.audit(since) if event.user in ACCOUNTS]


def forbidden(bed: TestBed, since: int, account: str) -> list[AuditEvent]:
    """The account's requests that were refused."""
    return [event for event in bed.audit(since) if event.user == account and event.code == 403]


def used(bed: TestBed, since: int, account: str) -> set[tuple[str, str]]:
    """(resource, verb) of what the account asked for."""
    own = [event for event in bed.audit(since) if event.user == account]
    return {(f"{event.resource}/{event.subresource}" if event.subresource else event.resource, event.verb) for event in own}
