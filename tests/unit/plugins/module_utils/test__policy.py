# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ClusterPolicy's plan: two fields, and what stands against them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding
from ansible_collections.gpuops.mps.plugins.module_utils._plan import PolicyPlan
from ansible_collections.gpuops.mps.plugins.module_utils._policy import plan_policy, policy_patch, pruned
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import Owner, Snapshot
from tests.unit.clusters import clock, policy, snapshot


def planned(
    cluster: Snapshot, name: str = "mps-configs", default: str | None = "mps-four", wanted: str | None = None
) -> tuple[PolicyPlan | None, dict[str, Finding]]:
    plan, findings = plan_policy(cluster, name=name, default=default, wanted_policy=wanted)
    return plan, {found.code: found for found in findings}


def test_a_default_that_is_not_given_stays() -> None:
    plan, _findings = planned(snapshot(), default=None)
    assert plan is not None and (plan.default_after, plan.changed) == ("none", False)


def test_an_empty_default_is_cleared() -> None:
    plan, _findings = planned(snapshot(), default="")
    assert plan is not None and (plan.default_after, plan.changed) == ("", True)


def test_without_a_policy_nothing_is_planned_and_none_is_created() -> None:
    plan, found = planned(snapshot(policies=()))
    assert plan is None
    assert "no ClusterPolicy is active" in found["policy-absent"].message


def test_a_gpu_cluster_is_named() -> None:
    _plan, found = planned(snapshot(gpu_clusters=("gpu-cluster",)))
    assert "the GPUCluster 'gpu-cluster' runs this cluster's GPUs" in found["policy-replaced-by-gpu-cluster"].message


TWO = (policy(name="gpu-cluster-policy"), policy(name="cluster-policy", created=clock(9), active=False, state="ignored"))


def test_the_active_one_of_several_is_used_and_said() -> None:
    plan, found = planned(snapshot(policies=TWO))
    assert plan is not None and plan.name == "gpu-cluster-policy"
    assert found["policies-several"].message == "the operator follows the oldest ClusterPolicy, 'gpu-cluster-policy', and ignores 'cluster-policy'"


@pytest.mark.parametrize(("wanted", "state"), [("cluster-policy", "is ignored by the operator"), ("nobody", "does not exist")])
def test_a_named_policy_must_be_the_active_one(wanted: str, state: str) -> None:
    _plan, found = planned(snapshot(policies=TWO), wanted=wanted)
    assert found["policy-not-active"].message == f"the ClusterPolicy '{wanted}' {state}; the operator follows 'gpu-cluster-policy'"


def test_a_schema_without_the_field_is_an_error_only_for_a_change() -> None:
    old = snapshot(policy_schema_has_config=False)
    assert "policy-schema-without-config" in planned(old)[1]
    assert planned(old, default=None)[1] == {}


@pytest.mark.parametrize(
    ("owner", "words", "remedy"),
    [
        (
            Owner("helm", "gpu-operator", "gpus"),
            "the Helm release 'gpu-operator' in gpus",
            'devicePlugin: {config: {create: false, name: "mps-configs", default: "mps-four"}}',
        ),
        (Owner("argocd", "gpus"), "the Argo CD application 'gpus'", "ignoreDifferences"),
        (Owner("flux", "gpus", "flux-system"), "kept by Flux ('gpus' in flux-system)", "the source that Flux applies"),
    ],
)
def test_whoever_may_put_the_fields_back_is_named_with_what_to_commit(owner: Owner, words: str, remedy: str) -> None:
    _plan, found = planned(snapshot(policies=(policy(owners=(owner,)),)))
    assert words in found["policy-owned-elsewhere"].message
    assert remedy in found["policy-owned-elsewhere"].remedy
    assert found["policy-owned-elsewhere"].severity == "warning"


def test_an_unchanged_policy_has_no_owner_to_fear() -> None:
    assert planned(snapshot(policies=(policy(owners=(Owner("helm", "x"),)),)), default="none")[1] == {}


def test_olm_leaves_the_policy_to_the_user() -> None:
    assert planned(snapshot(policies=(policy(owners=(Owner("olm", "gpu-operator"),)),)))[1] == {}


def test_another_field_manager_is_named() -> None:
    _plan, found = planned(snapshot(policies=(policy(config_owner="kubectl-edit"),)))
    assert "the field manager 'kubectl-edit'" in found["policy-owned-elsewhere"].message


def test_our_own_field_manager_is_no_stranger() -> None:
    assert "policy-owned-elsewhere" not in planned(snapshot(policies=(policy(config_owner=None),)))[1]


@given(name=st.sampled_from(["", "mps-configs"]), default=st.sampled_from(["", "none"]))
def test_the_patch_sets_two_fields_or_removes_them(name: str, default: str) -> None:
    plan = PolicyPlan("cluster-policy", "5", "a", name, "b", default)
    patch = policy_patch(plan)
    assert patch == {"spec": {"devicePlugin": {"config": {"name": name or None, "default": default or None}}}}
    stored = {"spec": {"devicePlugin": {"config": {key: value for key, value in patch["spec"]["devicePlugin"]["config"].items() if value}}}}
    assert not pruned(plan, stored)


def test_a_dropped_field_is_seen() -> None:
    plan = PolicyPlan("cluster-policy", "5", "", "mps-configs", "", "none")
    assert pruned(plan, {"spec": {"devicePlugin": {}}})
    assert pruned(plan, {"spec": {"devicePlugin": {"config": {"name": "mps-configs"}}}})
