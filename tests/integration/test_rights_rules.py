# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped roles hold no right too many: without any one of them something fails, and says which verb on which resource is missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.ansible_runs import run_playbook
from tests.integration.observation import GPU_CLUSTERS
from tests.integration.rights import OPERATOR_NAMESPACE, Right, apply, is_allowed, rights, roles, signed_in, without
from tests.reliability import quiet
from tests.reliability.direct import call
from tests.reliability.fault_proxy import FAULTS, FaultProxy, Rule
from tests.reliability.operations import CONFIGS, FAULT, LABEL, LEASE, MAP, MAP_PATH, share, unstick
from tests.reliability.operations import DECLARATION as DECLARED
from tests.testbed.bed import TestBed, take_down
from tests.testbed.layout import Layout

DECLARATION: dict[str, Any] = {**DECLARED}
PLACE: dict[str, Any] = {"namespace": OPERATOR_NAMESPACE, "config_map": MAP}
PODS = f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods"
FOUR = [{"name": "all", "config": "mps-four", "nodes": ["gpu-1"]}]


class Account:
    """Runs modules as one account, and answers with all that they said."""

    def __init__(self, bed: TestBed, kubeconfig: Path, directory: Path) -> None:
        self.bed, self.kubeconfig, self.directory = bed, kubeconfig, directory

    def run(self, module: str, kubeconfig: Path | None = None, **arguments: Any) -> str:
        result = call(module, arguments, kubeconfig=kubeconfig or self.kubeconfig, directory=self.directory)
        assert "Traceback" not in result["stderr"], result["stderr"]
        return json.dumps(result)

    def run_through(self, rule: Rule, module: str, **arguments: Any) -> str:
        """The same with something in the way."""
        with FaultProxy(self.kubeconfig, self.bed.layout.certificates, self.directory) as proxy:
            proxy.rules.append(rule)
            return self.run(module, kubeconfig=proxy.kubeconfig, **arguments)


Probe = Callable[[Account], str]


def plan(account: Account) -> str:
    """Reads the whole cluster."""
    return account.run("mps_plan_info", **DECLARATION, workloads=True)


def rollout(account: Account, disruption: str = "allow") -> str:
    """A rollout to other replicas, whichever they are now."""
    replicas = 3 if "replicas: 2" in str(account.bed.api.get(MAP_PATH)["data"]) else 2
    options: dict[str, Any] = {"disruption": disruption, "drain_timeout": 5, "wait_timeout": 60, "lease_duration": 4}
    return account.run("mps_rollout", **{**DECLARATION, "configs": {"none": {}, "mps-four": {"replicas": replicas}}}, **options)


def rollout_with_a_client(account: Account) -> str:
    """The same while a pod uses a GPU."""
    container = {"name": "client", "image": "client", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"}, "spec": {"nodeName": "gpu-1", "containers": [container]}}
    account.bed.api.post("/api/v1/namespaces/default/pods", body)
    try:
        account.bed.wait_for("client", lambda: account.bed.api.get("/api/v1/namespaces/default/pods/client")["status"]["phase"] == "Running")
        return rollout(account, "drain")
    finally:
        account.bed.api.delete("/api/v1/namespaces/default/pods/client")


def first_rollout(account: Account) -> str:
    """A rollout in a cluster that has had none."""
    account.bed.api.delete(LEASE)
    return rollout(account)


def broken_agent(account: Account) -> str:
    """A verification that has a reason to read logs."""
    assert '"state": "' in rollout(account)  # to where a broken plugin is the only thing that is wrong
    account.bed.api.patch("/api/v1/nodes/gpu-2", {"metadata": {"annotations": {FAULT: "plugin-crash"}}})
    for pod in account.bed.api.list(PODS, labelSelector="app=nvidia-device-plugin-daemonset", fieldSelector="spec.nodeName=gpu-2"):
        account.bed.api.delete(f"{PODS}/{pod['metadata']['name']}")
    try:
        account.bed.wait_for("crash", lambda: account.bed.api.get("/api/v1/nodes/gpu-2")["status"]["allocatable"].get("nvidia.com/gpu", "0") == "0", 60)
        return account.run("mps_verify_info", fail_on=[], patience=0)
    finally:
        unstick(account.bed)


def removed_map(account: Account) -> str:
    """The removal of a map that nothing refers to."""
    account.run("mps_config", kubeconfig=account.bed.kubeconfig, namespace=OPERATOR_NAMESPACE, config_map="other", configs=CONFIGS)
    return account.run("mps_config", namespace=OPERATOR_NAMESPACE, config_map="other", state="absent")


def conflict(account: Account) -> str:
    """A policy that changes while it is written."""
    default = "none" if account.bed.api.get(quiet.POLICY_PATH)["spec"]["devicePlugin"]["config"].get("default") != "none" else ""
    rule = Rule(FAULTS["409"], methods=("PATCH",))
    return account.run_through(rule, "mps_policy", **PLACE, default=default)


def edited_label(account: Account) -> str:
    """A label that somebody edits while it is written."""
    account.bed.api.patch("/api/v1/nodes/gpu-1", {"metadata": {"labels": {LABEL: None}}})
    rule = Rule(FAULTS["none"], methods=("PATCH",), before=lambda: account.bed.api.patch("/api/v1/nodes/gpu-1", {"metadata": {"labels": {LABEL: "none"}}}))
    said = account.run_through(rule, "mps_nodes", **PLACE, node_groups=FOUR)
    account.bed.api.patch("/api/v1/nodes/gpu-1", {"metadata": {"labels": {LABEL: "mps-four"}}})
    return said


def proof(account: Account) -> str:
    """A proof where everything is as it should be: a rollout that another missing right has stopped is finished first."""
    rollout(Account(account.bed, account.bed.kubeconfig, account.directory))
    return account.run("mps_proof")


def full_namespace(account: Account) -> str:
    """A Deployment that gets no pods."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    quotas = "/api/v1/namespaces/default/resourcequotas"
    account.bed.api.post(quotas, quota)
    try:
        account.bed.wait_for("quota", lambda: account.bed.api.get(f"{quotas}/none").get("status", {}).get("hard"))
        return account.run("mps_proof", form="document", wait_timeout=10)
    finally:
        account.bed.api.delete(f"{quotas}/none")


def removal(account: Account) -> str:
    """Everything is taken away again by the playbook, the Lease last; then it is all brought back."""
    run = run_playbook("gpuops.mps.remove", variables={"mps_batch_size": "100%"}, directory=account.directory, kubeconfig=account.kubeconfig)
    account.run("mps_rollout", kubeconfig=account.bed.kubeconfig, **DECLARATION)
    assert account.bed.api.find(MAP_PATH)
    return run.failure()


# (resource, verb) -> what asks for it; what is not here is asked for by a plan.
PROBES: dict[tuple[str, str], Probe] = {
    **{(resource, "watch"): rollout for resource in ("nodes", "pods", "daemonsets")},
    **{("leases", verb): rollout for verb in ("get", "patch")},
    ("leases", "create"): first_rollout,
    ("leases", "delete"): removal,
    **{("pods/exec", verb): proof for verb in ("get", "create")},
    ("pods", "create"): proof,
    ("namespaces", "get"): lambda account: account.run("mps_operator_info", namespace=OPERATOR_NAMESPACE),
    ("pods", "delete"): rollout,
    ("pods/eviction", "create"): rollout_with_a_client,
    ("pods/log", "get"): broken_agent,
    ("nodes", "patch"): lambda account: account.run("mps_nodes", **PLACE, node_groups=[{**FOUR[0], "config": "none"}]),
    ("nodes", "get"): edited_label,
    ("configmaps", "create"): lambda account: account.run("mps_config", namespace=OPERATOR_NAMESPACE, config_map="other", configs=CONFIGS),
    ("configmaps", "patch"): lambda account: account.run("mps_config", **PLACE, configs={**CONFIGS, "more": {"replicas": 9}}),
    ("configmaps", "delete"): removed_map,
    ("clusterpolicies", "get"): conflict,
    ("clusterpolicies", "patch"): lambda account: account.run("mps_policy", **PLACE, default="none"),
    ("deployments", "create"): lambda account: account.run("mps_proof", form="document", wait_timeout=30),
    ("deployments", "delete"): lambda account: account.run("mps_proof", form="document", wait_timeout=30),
    ("deployments", "get"): full_namespace,
}
# Where the same verb on the same resource is asked for in two namespaces.
IN_ROLE: dict[tuple[str, str, str], Probe] = {
    ("gpuops-mps-proof-namespace", "pods", "delete"): proof,
    ("gpuops-mps-proof-namespace", "pods/log", "get"): proof,
}
ALL = [right for file in ("reader", "operator") for right in rights(file)]


@pytest.fixture(scope="module")
def account(worker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """An account with the roles of reader and operator on a bed of its own, on which every GPU is shared."""
    name = f"rules-{worker}"
    try:
        bed = TestBed.start(name, nodes=str(quiet.NODES), instant=True)
        bed.install_operator_objects()
        bed.wait_until_settled()
        share(bed)
        apply(bed, [GPU_CLUSTERS])
        yield Account(bed, signed_in(bed, "operator"), tmp_path_factory.mktemp("rules"))
    finally:
        take_down(Layout.of(name))


def takes_effect(bed: TestBed, right: Right, allowed: bool) -> None:
    """Wait until the API server knows of a changed role."""
    role = next(one for file in ("reader", "operator") for one in roles(file) if one["metadata"]["name"] == right.role)
    rule = next(one for one in role["rules"] if right.resource in one["resources"] and right.verb in one["verbs"])
    place = {"gpuops-mps-proof-namespace": "default"}.get(right.role, OPERATOR_NAMESPACE if right.role.endswith("namespace") else "")
    bed.wait_for(f"review of {right}", lambda: is_allowed(bed, "operator", rule, right.resource, right.verb, place) is allowed, 30)


def is_missed(account: Account, right: Right) -> None:
    """Take one right away, and see what is said about it."""
    probe = IN_ROLE.get((right.role, right.resource, right.verb)) or PROBES.get((right.resource, right.verb)) or plan
    role = next(one for file in ("reader", "operator") for one in roles(file) if one["metadata"]["name"] == right.role)
    apply(account.bed, [without(role, right)])
    try:
        takes_effect(account.bed, right, allowed=False)
        said = probe(account)
    finally:
        apply(account.bed, [role])
        takes_effect(account.bed, right, allowed=True)
    words = said.replace("\\", "")
    cordoned = [node["metadata"]["name"] for node in account.bed.api.list("/api/v1/nodes") if node["spec"].get("unschedulable")]
    assert not cordoned, f"without {right}: cordoned: {cordoned}"
    if right.resource == "pods/exec":  # the API server's own words leave the verb out
        assert "needs the verbs get and create on the resource pods/exec" in words, said[:3000]
        return
    assert f'cannot {right.verb} resource "{right.resource}"' in words, f"without {right}: {said[:3000]}"


@pytest.mark.reliability
@pytest.mark.parametrize("right", ALL, ids=str)
def test_every_right_is_needed_and_named_when_it_is_missing(account: Account, right: Right) -> None:
    is_missed(account, right)
