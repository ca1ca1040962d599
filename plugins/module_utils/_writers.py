# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the work of the modules that write one thing: read, plan, refuse or carry out, report."""

from __future__ import annotations

import time
import typing as t
from dataclasses import replace

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_snapshot import read_daemon_sets, read_snapshot
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_writes import apply_config_map, apply_label, apply_policy, delete_config_map
from ansible_collections.gpuops.mps.plugins.module_utils._config_map import check_owners, keys_of, plan_absent, plan_config_map, users_now
from ansible_collections.gpuops.mps.plugins.module_utils._declaration import Declaration, parse_declaration
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, check_accept, finding
from ansible_collections.gpuops.mps.plugins.module_utils._nodes import LabelChange, LabelPlan, plan_labels
from ansible_collections.gpuops.mps.plugins.module_utils._plan import ConfigMapPlan, PolicyPlan
from ansible_collections.gpuops.mps.plugins.module_utils._plan_build import settle
from ansible_collections.gpuops.mps.plugins.module_utils._plan_checks import check_default
from ansible_collections.gpuops.mps.plugins.module_utils._plan_report import (
    config_map_data,
    config_map_diff,
    findings_data,
    label_diff,
    policy_data,
    policy_diff,
    refusal,
)
from ansible_collections.gpuops.mps.plugins.module_utils._policy import plan_policy
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import DaemonSet, Snapshot

Result = dict[str, t.Any]
# A sentence of Ansible's output for each warning is enough up to here; all of them are in the result.
MOST_WARNINGS = 20


def write_config_map(module: AnsibleModule, cluster: Cluster) -> Result:
    """mps_config: keys of the ConfigMap."""
    options = module.params
    snapshot = _place(cluster, options)
    if options["state"] == "absent":
        plan, findings = plan_absent(snapshot, users=users_now(snapshot))
    else:
        declaration, noticed = parse_declaration(options["configs"])
        configs = declaration.configs if declaration else ()
        plan, planned = plan_config_map(configs, snapshot, keys=keys_of(configs, "in_place"), users=users_now(snapshot))
        findings = (*noticed, *planned, *check_owners(snapshot, plan))
    result = _result(module, findings, changed=plan.changed, diff=config_map_diff(plan), config_map=config_map_data(plan))
    if not result.get("failed"):
        _store_config_map(cluster, snapshot, plan)
    return result


def _store_config_map(cluster: Cluster, snapshot: Snapshot, plan: ConfigMapPlan) -> None:
    if plan.deletes and snapshot.config_map is not None:
        delete_config_map(cluster, snapshot.config_map)
    else:
        apply_config_map(cluster, plan, snapshot.config_map)


def write_policy(module: AnsibleModule, cluster: Cluster) -> Result:
    """mps_policy: the two fields of the active ClusterPolicy."""
    options = module.params
    snapshot = _place(cluster, options, nodes=False)
    present = options["state"] == "present"
    name, default = (snapshot.map_name, options["default"]) if present else ("", "")
    plan, findings = plan_policy(snapshot, name=name, default=default, wanted_policy=options["policy"])
    if plan is not None and present:
        findings = (*findings, *_references(snapshot, plan))
    data = policy_data(plan) if plan else None
    result = _result(module, findings, changed=plan is not None and plan.changed, diff=policy_diff(plan) if plan else {}, policy=data)
    if plan is not None and not result.get("failed"):
        apply_policy(cluster, plan)
        if options["wait"] and not module.check_mode and snapshot.policy is not None:
            result.update(_waited(cluster, snapshot.namespace, plan, options["wait_timeout"], options["wait_sleep"]))
    return result


def _references(snapshot: Snapshot, plan: PolicyPlan) -> t.Iterator[Finding]:
    """The map and the default's key must be there before the policy refers to them."""
    found = snapshot.config_map
    if found is None:
        yield finding(
            "map-absent",
            "config_map",
            f"the ConfigMap '{plan.name_after}' does not exist in the operator's namespace '{snapshot.namespace}'",
            subject=f"configmap/{snapshot.namespace}/{plan.name_after}",
        )
        return
    yield from check_default(snapshot, plan.default_after, set(found.data))


def _waited(cluster: Cluster, namespace: str, plan: PolicyPlan, seconds: int, pause: int) -> Result:
    """Wait until the DaemonSets of the agents mount the map and every pod is the new one; a failure's values after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        behind = [one.name for one in read_daemon_sets(cluster, namespace) if not _rolled_out(one, plan)]
        if not behind:
            return {}
        if time.monotonic() + pause > deadline:
            return {
                "failed": True,
                "code": "operator-not-done",
                "msg": f"The ClusterPolicy is written, but after {seconds} seconds the operator has not finished with {', '.join(behind)}."
                f" Look at the pods in the namespace {namespace}; with updateStrategy OnDelete they must be deleted one by one.",
            }
        time.sleep(pause)


def _rolled_out(daemon_set: DaemonSet, plan: PolicyPlan) -> bool:
    mounts = (daemon_set.config_name or "") == plan.name_after and (daemon_set.default_config or "") == plan.default_after
    seen = daemon_set.observed_generation >= daemon_set.generation
    return mounts and seen and daemon_set.updated >= daemon_set.desired and daemon_set.available >= daemon_set.desired


def write_labels(module: AnsibleModule, cluster: Cluster) -> Result:
    """mps_nodes: the config label of many nodes."""
    options = module.params
    snapshot = _place(cluster, options)
    available = set(snapshot.config_map.data) if snapshot.config_map else set()
    absent = options["state"] == "absent"
    groups = [{"config": "none", **group} for group in options["node_groups"]] if absent else options["node_groups"]
    declaration, noticed = parse_declaration(None, None, groups)
    labels = _labels(declaration, snapshot, available, options["on_left_group"], absent)
    changes = tuple(change for change in labels.nodes if change.changed)
    result = _result(
        module,
        (*noticed, *labels.findings),
        changed=bool(changes),
        diff=label_diff(changes),
        nodes=[_label_data(change) for change in changes],
        groups={name: list(nodes) for name, nodes in labels.groups.items()},
    )
    if result.get("failed") or module.check_mode:
        return result
    return _store_labels(cluster, snapshot, changes, result, options["writes_per_second"])


def _labels(declaration: Declaration | None, snapshot: Snapshot, available: t.Collection[str], on_left_group: str, absent: bool) -> LabelPlan:
    groups = declaration.groups if declaration else ()
    if not absent:
        return plan_labels(groups, snapshot, keys={}, available=available, on_left_group=on_left_group)
    # Any text will do as a label that is removed: every group's config counts as known.
    plan = plan_labels(groups, snapshot, keys={}, available={*available, *(group.config for group in groups)}, on_left_group="keep")
    return replace(plan, nodes=tuple(replace(change, after=None) if change.group else change for change in plan.nodes))


def _store_labels(cluster: Cluster, snapshot: Snapshot, changes: t.Sequence[LabelChange], result: Result, per_second: int) -> Result:
    """Write the labels; nodes that could not be written have an error, and the module fails after all others are done."""

    def store(change: LabelChange) -> None:
        apply_label(cluster, change, snapshot.known_node(change.node))

    outcomes = cluster.each(store, changes, per_second=per_second or None)
    errors = {change.node: outcome for change, outcome in zip(changes, outcomes, strict=True) if isinstance(outcome, ClusterError)}
    for data in result["nodes"]:
        if data["node"] in errors:
            data.update(changed=False, error=errors[data["node"]].message)
    if errors:
        first = next(iter(errors.values()))
        result.update(
            failed=True,
            changed=len(errors) < len(changes),
            code=first.code,
            remedy=first.remedy,
            msg=f"{len(errors)} of {len(changes)} nodes could not be labelled, the first because: {first.message}. {first.remedy}",
        )
    return result


def _label_data(change: LabelChange) -> Result:
    return {"node": change.node, "group": change.group, "before": change.before, "after": change.after, "changed": True}


def _place(cluster: Cluster, options: t.Mapping[str, t.Any], *, nodes: bool = True) -> Snapshot:
    """The small snapshot that a writer needs: policies, map, and the nodes' metadata."""
    return read_snapshot(
        cluster,
        namespace=options["namespace"],
        config_map=options["config_map"],
        policy=options["policy"],
        gpu_pods=False,
        agents=False,
        nodes="metadata" if nodes else "none",
    )


def _result(module: AnsibleModule, findings: t.Iterable[Finding], *, changed: bool, diff: dict[str, str], **data: t.Any) -> Result:
    """The module's result; a failure without a change when a finding is an error. Warnings are shown as warnings."""
    accept = module.params["accept"]
    settled = settle((*findings, *check_accept(accept)), accept)
    warn(module, settled)
    result: Result = {"changed": changed, "findings": findings_data(settled), **data}
    if module._diff:
        result["diff"] = diff
    message = refusal(settled)
    if message:
        result.update(failed=True, changed=False, msg=message)
    return result


def warn(module: AnsibleModule, findings: t.Iterable[Finding]) -> None:
    """Show warnings as Ansible's warnings, the first ones when there are many."""
    warnings = [found for found in findings if found.severity == "warning"]
    for found in warnings[:MOST_WARNINGS]:
        module.warn(f"{found.message} [{found.code}]. {found.remedy}")
    if len(warnings) > MOST_WARNINGS:
        module.warn(f"{len(warnings) - MOST_WARNINGS} more warnings are in the result's findings")
