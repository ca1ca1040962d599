# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what happens to spec.devicePlugin.config of the active ClusterPolicy, and what stands against it. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, finding
from ansible_collections.gpuops.mps.plugins.module_utils._groups import listed
from ansible_collections.gpuops.mps.plugins.module_utils._plan import PolicyPlan
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import ClusterPolicy, Snapshot

FIELD = "spec.devicePlugin.config"


def plan_policy(snapshot: Snapshot, *, name: str, default: str | None, wanted_policy: str | None = None) -> tuple[PolicyPlan | None, tuple[Finding, ...]]:
    """Refer the active policy to the map ``name``, with ``default`` (None leaves the default as it is, "" clears it).

    The plan is None, with an error, when there is no policy to change. ``wanted_policy`` is the name that the user gave.
    """
    findings = [*check_policies(snapshot, wanted_policy)]
    policy = snapshot.policy
    if policy is None:
        return None, tuple(findings)
    plan = PolicyPlan(
        name=policy.name,
        resource_version=policy.resource_version,
        name_before=policy.config_name,
        name_after=name,
        default_before=policy.config_default,
        default_after=policy.config_default if default is None else default,
    )
    if plan.changed:
        findings += _owners(policy, plan)
        if not snapshot.policy_schema_has_config:
            findings.append(
                finding(
                    "policy-schema-without-config",
                    FIELD,
                    f"the installed ClusterPolicy CRD does not know {FIELD}: the API server would drop it and answer with success",
                    subject=subject_of(policy),
                )
            )
    return plan, tuple(findings)


def check_policies(snapshot: Snapshot, wanted_policy: str | None) -> t.Iterator[Finding]:
    """Which policy the operator follows, and whether that is the one the user means."""
    for name in snapshot.gpu_clusters:
        yield finding(
            "policy-replaced-by-gpu-cluster", "policy", f"the GPUCluster '{name}' runs this cluster's GPUs, not a ClusterPolicy", subject=f"gpucluster/{name}"
        )
    active = snapshot.policy
    if active is None:
        yield finding("policy-absent", "policy", f"no ClusterPolicy is active in the cluster {snapshot.server}")
        return
    others = [policy.name for policy in snapshot.policies if not policy.active]
    mistaken = policy_not_active(snapshot.policies, wanted_policy)
    if mistaken is not None:
        yield mistaken
    elif others:
        yield finding(
            "policies-several",
            "policy",
            f"the operator follows the oldest ClusterPolicy, '{active.name}', and ignores {listed(others)}",
            subject=subject_of(active),
        )


def policy_not_active(policies: t.Iterable[ClusterPolicy], wanted: str | None) -> Finding | None:
    """The error when the user names a policy that the operator does not follow; None otherwise, also without any policy."""
    state = {policy.name: policy.active for policy in policies}
    active = next((name for name in state if state[name]), None)
    if not wanted or active is None or wanted == active:
        return None
    what = "is ignored by the operator" if wanted in state else "does not exist"
    message = f"the ClusterPolicy '{wanted}' {what}; the operator follows '{active}'"
    return finding("policy-not-active", "policy", message, subject=f"clusterpolicy/{wanted}")


def policy_patch(plan: PolicyPlan) -> dict[str, t.Any]:
    """The merge patch: the two fields and nothing else; null removes a field that is to be unset."""
    return {"spec": {"devicePlugin": {"config": {"name": plan.name_after or None, "default": plan.default_after or None}}}}


def pruned(plan: PolicyPlan, stored: t.Mapping[str, t.Any]) -> bool:
    """Whether the stored policy is not what was written: an old CRD prunes the field and answers 200."""
    config = ((stored.get("spec") or {}).get("devicePlugin") or {}).get("config") or {}
    return (config.get("name") or "", config.get("default") or "") != (plan.name_after, plan.default_after)


def subject_of(policy: ClusterPolicy) -> str:
    """The policy as a finding's subject."""
    return f"clusterpolicy/{policy.name}"


def values_snippet(plan: PolicyPlan) -> str:
    """The Helm values that keep a release from putting the fields back."""
    return f'devicePlugin: {{config: {{create: false, name: "{plan.name_after}", default: "{plan.default_after}"}}}}'


def _owners(policy: ClusterPolicy, plan: PolicyPlan) -> t.Iterator[Finding]:
    """Who may put the fields back, and what to commit there."""
    for owner in policy.owners:
        if owner.kind == "olm":
            continue  # OLM installs the operator but leaves the ClusterPolicy to the user
        where = f" in {owner.namespace}" if owner.namespace else ""
        yield finding(
            "policy-owned-elsewhere",
            FIELD,
            f"{_OWNER_WORDS[owner.kind].format(name=owner.name, where=where)}, and will put {FIELD} back",
            remedy=_OWNER_REMEDIES[owner.kind].format(snippet=values_snippet(plan)),
            subject=subject_of(policy),
        )
    if policy.config_owner and not policy.owners:
        yield finding(
            "policy-owned-elsewhere",
            FIELD,
            f"the field manager '{policy.config_owner}' wrote {FIELD} and may write it again",
            subject=subject_of(policy),
        )


_OWNER_WORDS: t.Mapping[str, str] = {
    "helm": "the ClusterPolicy belongs to the Helm release '{name}'{where}, whose next upgrade renders its own values",
    "argocd": "the ClusterPolicy is kept by the Argo CD application '{name}', which heals differences by itself",
    "flux": "the ClusterPolicy is kept by Flux ('{name}'{where})",
}
_OWNER_REMEDIES: t.Mapping[str, str] = {
    "helm": "Put these values into the release: {snippet}",
    "argocd": "Commit the same to the application's source ({snippet} for the chart), or list /spec/devicePlugin/config under ignoreDifferences.",
    "flux": "Commit the same to the source that Flux applies ({snippet} for the chart).",
}
