# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the work of mps_info and mps_plan_info."""

from __future__ import annotations

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_snapshot import GPU_PRESENT, POLICIES, read_snapshot
from ansible_collections.gpuops.mps.plugins.module_utils._compute_mode import left_exclusive, read_compute_modes
from ansible_collections.gpuops.mps.plugins.module_utils._declaration import parse_declaration
from ansible_collections.gpuops.mps.plugins.module_utils._findings import check_accept
from ansible_collections.gpuops.mps.plugins.module_utils._plan_build import make_plan
from ansible_collections.gpuops.mps.plugins.module_utils._plan_report import findings_data, plan_data, plan_diff, refusal
from ansible_collections.gpuops.mps.plugins.module_utils._sharing import sharing_data
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import Snapshot
from ansible_collections.gpuops.mps.plugins.module_utils._writers import warn

Result = dict[str, t.Any]


def read_plan(module: AnsibleModule, cluster: Cluster) -> Result:
    """mps_plan_info: the plan of a declaration; fails when the declaration cannot be understood, or on errors if asked to."""
    options = module.params
    place = {name: options[name] for name in ("namespace", "config_map", "policy")}
    snapshot = read_snapshot(cluster, workloads=options["workloads"], **place)
    existing = set(snapshot.config_map.data) if snapshot.config_map else set()
    declaration, noticed = parse_declaration(options["configs"], options["default"], options["node_groups"], existing=existing)
    noticed = (*noticed, *check_accept(options["accept"]))
    if declaration is None:
        return {"failed": True, "msg": refusal(noticed), "findings": findings_data(noticed)}
    plan = make_plan(
        declaration,
        snapshot,
        accept=options["accept"],
        on_left_group=options["on_left_group"],
        update_strategy=options["update_strategy"],
        policy=options["policy"],
        noticed=noticed,
    )
    warn(module, plan.findings)
    result: Result = {
        "changed": False,
        "plan": plan_data(plan),
        "plan_changed": plan.changed,
        "admitted": plan.admitted,
        "plan_diff": plan_diff(plan),
        "findings": findings_data(plan.findings),
    }
    if options["fail_on_error"] and not plan.admitted:
        result.update(failed=True, msg=refusal(plan.findings))
    return result


def read_sharing(module: AnsibleModule, cluster: Cluster) -> Result:
    """mps_info: what every GPU node has now."""
    options = module.params
    snapshot = read_snapshot(cluster, namespace=options["namespace"], config_map=options["config_map"], policy=options["policy"])
    result: Result = {"changed": False, **sharing_data(snapshot)}
    if options["compute_modes"]:
        modes = read_compute_modes(cluster, snapshot)
        result["compute_modes"] = {node: None if found is None else list(found) for node, found in modes.items()}
        result["left_exclusive"] = left_exclusive(modes, snapshot)
    if options["raw"]:
        result["raw"] = _raw(cluster, snapshot)
    return result


def _raw(cluster: Cluster, snapshot: Snapshot) -> Result:
    name = snapshot.config_map.name if snapshot.config_map else None
    return {
        "nodes": list(cluster.list("/api/v1/nodes", label_selector=GPU_PRESENT).items),
        "policies": list(cluster.list(POLICIES).items) if snapshot.policies else [],
        "config_map": cluster.get(f"/api/v1/namespaces/{snapshot.namespace}/configmaps/{name}") if name else None,
    }
