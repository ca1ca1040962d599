# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the module mps_rollout: from its options to its result."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import replace

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._declaration import Declaration, parse_declaration
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, finding
from ansible_collections.gpuops.mps.plugins.module_utils._plan import Plan
from ansible_collections.gpuops.mps.plugins.module_utils._plan_build import settle
from ansible_collections.gpuops.mps.plugins.module_utils._plan_report import findings_data, plan_data, refusal
from ansible_collections.gpuops.mps.plugins.module_utils._rollout import RETURNED, VERIFIED, RolloutState, Rules
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_batches import batch_count
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_build import Context, Pacing, forward_state, pods_in_the_way_back
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import BACK, FAILED
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_policy import can_hold, is_held
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_record import SCOPE_WHOLE, Record
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_result import batches_data, nodes_data, nodes_planned, rollout_diff
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_run import IN_PROGRESS, Conductor, Report, Wish
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import Snapshot

REFUSED = "refused"
PLANNED = "planned"

ROLLOUT_OPTIONS: dict[str, t.Any] = {
    "canary": {"type": "list", "elements": "str", "default": []},
    "batch_size": {"type": "str", "default": "1"},
    "max_failures": {"type": "int", "default": 0},
    "pause": {"type": "int", "default": 0},
    "order": {"type": "list", "elements": "str", "default": []},
    "disruption": {"type": "str", "choices": ["refuse", "wait", "drain", "allow"], "default": "refuse"},
    "drain_timeout": {"type": "int", "default": 600},
    "update_strategy": {"type": "str", "choices": ["in_place", "versioned"], "default": "in_place"},
    "projection_timeout": {"type": "int", "default": 90},
    "wait_timeout": {"type": "int", "default": 600},
    "batches": {"type": "int", "default": 0},
    "rollback": {"type": "bool", "default": False},
    "takeover": {"type": "bool", "default": False},
    "lease_duration": {"type": "int", "default": 30},
    "slice": {"type": "dict", "options": {"seconds": {"type": "int", "default": 0}, "holder": {"type": "str"}, "number": {"type": "int", "default": 0}}},
}

Result = dict[str, t.Any]


def rollout(cluster: Cluster, parameters: Mapping[str, t.Any], *, check_mode: bool) -> Result:
    """Run the module. Raises ClusterError where nothing sensible can be reported in its place."""
    declaration, findings = _declaration(parameters)
    findings += _option_findings(parameters)
    if declaration is None or refusal(findings):
        return _refused(settle(findings, ()))
    conductor = Conductor(cluster, wish_of(parameters, declaration))
    snapshot = conductor.read()
    record = conductor.read_record(snapshot.namespace)
    if parameters["rollback"]:
        return _roll_back(conductor, snapshot, record, check_mode=check_mode)
    if record is not None and record.under_way and record.direction == BACK and not check_mode:
        return _finish_return(conductor, snapshot, record)
    return _roll_out(conductor, snapshot, record, findings, check_mode=check_mode)


def _declaration(parameters: Mapping[str, t.Any]) -> tuple[Declaration | None, tuple[Finding, ...]]:
    if parameters["rollback"]:
        return Declaration(()), ()
    declaration, findings = parse_declaration(parameters["configs"], parameters["default"], parameters["node_groups"])
    if declaration is not None and parameters["default"] == "":
        declaration = replace(declaration, default="")  # not the same as saying nothing: the policy's default is cleared
    return declaration, findings


def wish_of(parameters: Mapping[str, t.Any], declaration: Declaration) -> Wish:
    """The module's options as the conductor takes them."""
    part = parameters.get("slice") or {}
    rules = Rules(
        max_failures=parameters["max_failures"],
        pause=float(parameters["pause"]),
        node_timeout=float(parameters["wait_timeout"]),
        room_timeout=float(parameters["drain_timeout"]),
    )
    pacing = Pacing(tuple(parameters["canary"]), parameters["batch_size"], tuple(parameters["order"]), parameters["disruption"], rules)
    return Wish(
        declaration=declaration,
        pacing=pacing,
        accept=tuple(parameters["accept"]),
        on_left_group=parameters["on_left_group"],
        update_strategy=parameters["update_strategy"],
        namespace=parameters["namespace"],
        config_map=parameters["config_map"],
        policy=parameters["policy"],
        takeover=parameters["takeover"] and not part.get("number"),
        batches=parameters["batches"],
        slice_seconds=part.get("seconds") or 0,
        holder=part.get("holder") or "",
        continued=bool(part.get("number")),
        lease_seconds=parameters["lease_duration"],
        projection_seconds=parameters["projection_timeout"],
    )


def _option_findings(parameters: Mapping[str, t.Any]) -> tuple[Finding, ...]:
    """Sizes that cannot be understood, before anything is read."""
    found = []
    sizes = [("batch_size", parameters["batch_size"])]
    if len(parameters["canary"]) == 1 and parameters["canary"][0][:1].isdigit() and parameters["canary"][0].rstrip("%").isdigit():
        sizes.append(("canary", parameters["canary"][0]))
    for option, value in sizes:
        try:
            batch_count(value, 1)
        except ValueError as error:
            found.append(finding("rollout-option", option, str(error)))
    for option in ("max_failures", "pause", "batches", "drain_timeout", "projection_timeout"):
        if parameters[option] < 0:
            found.append(finding("rollout-option", option, f"{option} is {parameters[option]}, which is less than 0"))
    for option in ("wait_timeout", "lease_duration"):
        if parameters[option] < 1:
            found.append(finding("rollout-option", option, f"{option} is {parameters[option]} seconds; at least 1 is needed"))
    return tuple(found)


def _roll_out(conductor: Conductor, snapshot: Snapshot, record: Record | None, findings: tuple[Finding, ...], *, check_mode: bool) -> Result:
    plan = conductor.plan(snapshot)
    draft = conductor.new_record(snapshot, plan, record)
    context = conductor.context(snapshot, plan, draft)
    state = forward_state(plan, context)
    found = settle((*findings, *_of_the_plan(plan, snapshot), *rollout_findings(plan, context, state, conductor.wish)), conductor.wish.accept)
    batches = batches_data(state, plan, conductor.wish.pacing.rules.pause)
    result = {"plan": plan_data(plan), "batches": batches, "diff": rollout_diff(plan, batches)}
    if refusal(found):
        nodes = nodes_planned(plan, snapshot, record, state.runs, "waiting", "nothing was written, because the plan is refused")
        return {**_refused(found), **result, "nodes": nodes}
    under_way = record is not None and record.under_way
    if check_mode or not (plan.changed or state.runs or under_way):
        changes = plan.changed or bool(state.runs) or under_way
        outcome = PLANNED if changes else VERIFIED
        nodes = nodes_planned(plan, snapshot, record, state.runs, PLANNED, "")
        return {"changed": changes, "state": outcome, **result, "findings": findings_data(found), "nodes": nodes, "progress": []}
    outcome, after, ended = conductor.roll_out(snapshot, plan, record)
    return ended_result(conductor.report, outcome, plan, after, ended, {**result, "findings": findings_data(found)})


def _finish_return(conductor: Conductor, snapshot: Snapshot, record: Record) -> Result:
    """An earlier run has died on its way back: end that first, whatever is declared now."""
    outcome, after, ended = conductor.take_back(snapshot, record)
    plan = conductor.plan(after)
    note = finding("rollout-earlier-taken-back", "rollout", f"the rollout {record.id} was being taken back, which has been finished first")
    notes = [] if conductor.wish.continued else [note]  # a later slice of the same run needs no explanation
    data: Result = {"plan": plan_data(plan), "batches": [], "diff": [], "findings": findings_data(notes)}
    return ended_result(conductor.report, outcome, plan, after, ended, data)


def _roll_back(conductor: Conductor, snapshot: Snapshot, record: Record | None, *, check_mode: bool) -> Result:
    """Take the last rollout back as a whole, from what it has left on the objects."""
    wanted = record is not None and not (record.ended == RETURNED and record.direction == BACK)
    data: Result = {"plan": {}, "batches": [], "diff": [], "findings": [], "nodes": [], "progress": []}
    if record is None or not wanted:
        return {**data, "changed": False, "state": RETURNED, "rollout": record.id if record else None}
    begun = record.under_way and record.direction == BACK
    pods = () if begun or conductor.wish.pacing.disruption == "allow" else pods_in_the_way_back(snapshot, record)
    if pods:
        message = f"{len(pods)} running GPU pods would break, and a rollback neither waits nor drains: {', '.join(pods)}"
        return _refused((finding("rollout-breaks-gpu-pods", "disruption", message, remedy="Stop the pods, or choose disruption: allow."),))
    if check_mode:
        return {**data, "changed": True, "state": PLANNED, "rollout": record.id}
    going_back = replace(record, direction=BACK, scope=SCOPE_WHOLE, ended=None, batch=())
    outcome, after, ended = conductor.take_back(snapshot, going_back)
    plan = conductor.plan(after)
    result = ended_result(conductor.report, outcome, plan, after, ended, data)
    if outcome == RETURNED:
        result = {**result, "failed": False}
    return result


def rollout_findings(plan: Plan, context: Context, state: RolloutState, wish: Wish) -> tuple[Finding, ...]:
    """What the rollout itself has to say about a plan, before anything is written."""
    found = []
    breaking = [one for one in plan.nodes if one.node in state.runs and state.runs[one.node].work.breaks]
    pods = [f"{pod.namespace}/{pod.name} on {one.node}" for one in breaking for pod in one.gpu_pods]
    policy = context.snapshot.policy
    rolls = policy if plan.policy is not None and plan.policy.changed and policy is not None and not is_held(policy) else None
    unpaced = rolls is not None and not can_hold(rolls)
    if rolls is not None:
        found.append(finding("rollout-not-paced" if unpaced else "rollout-held", "spec.daemonsets.updateStrategy", subject=f"clusterpolicy/{rolls.name}"))
    if pods and (wish.pacing.disruption == "refuse" or (unpaced and wish.pacing.disruption != "allow")):
        found.append(_breaking(pods, unpaced))
    if context.way_back.scope == SCOPE_WHOLE and state.runs:
        found.append(finding("rollout-returns-whole", "update_strategy", f"if a batch fails, the whole rollout goes back: {context.way_back.reason}"))
    known = {node.name for node in context.snapshot.nodes}
    for name in wish.pacing.canary:
        if not name.rstrip("%").isdigit() and name not in known:
            found.append(finding("rollout-option", "canary", f"the canary '{name}' is not a GPU node of this cluster"))
    for group in wish.pacing.order:
        if group not in plan.groups:
            found.append(finding("rollout-option", "order", f"order names the group '{group}', which is not declared"))
    return tuple(found)


def _breaking(pods: list[str], unpaced: bool) -> Finding:
    """The running pods that do not survive. Nobody can wait for them or drain them where the operator replaces the daemons by itself."""
    message, remedy = f"{len(pods)} running GPU pods would break: {', '.join(pods)}", None
    if unpaced:
        message = f"{message}; the operator replaces the daemons by itself, so that there is no time to wait or drain"
        remedy = "Stop the pods, or choose disruption: allow."
    return finding("rollout-breaks-gpu-pods", "disruption", message, remedy=remedy)


def _of_the_plan(plan: Plan, snapshot: Snapshot) -> tuple[Finding, ...]:
    """The plan's findings without the one that the rollout's own way with the operator makes untrue."""
    held = snapshot.policy is not None and can_hold(snapshot.policy)
    return tuple(one for one in plan.findings if not (held and one.code == "operator-rolls-everything"))


def _refused(findings: tuple[Finding, ...]) -> Result:
    message = refusal(findings)
    data: Result = {"plan": {}, "batches": [], "diff": [], "nodes": [], "progress": []}
    return {**data, "failed": True, "changed": False, "state": REFUSED, "msg": message, "findings": findings_data(findings), "rollout": None}


def ended_result(report: Report, outcome: str, plan: Plan, snapshot: Snapshot, record: Record, data: Result) -> Result:
    """The result of a run that has written something: a failure unless every node is where it was to be."""
    nodes = nodes_data(plan, snapshot, record)
    findings = [*report.findings, *_node_findings(nodes, outcome)]
    result = {
        **data,
        "changed": report.changed,
        "state": outcome,
        "rollout": record.id,
        "nodes": nodes,
        "findings": [*data["findings"], *findings_data(findings)],
        "progress": report.progress,
        "batches_done": report.batches_done,
    }
    bad = any(one.code in ("rollout-disagreement", "rollout-node-lost") for one in findings)
    if outcome == IN_PROGRESS or (outcome == VERIFIED and not bad):
        return result
    return {**result, "failed": True, "msg": _message(outcome, record, findings)}


def _node_findings(nodes: list[dict[str, t.Any]], outcome: str) -> list[Finding]:
    """One finding for each node that is not where it was to be. At an end a half-done node is one that is not ready, so that nobody works on it."""
    codes = {"returned": "rollout-node-failed", FAILED: "rollout-node-lost"}
    words = {"returned": "was taken back with its batch"}
    if outcome != IN_PROGRESS:
        codes.update(changing="rollout-node-lost", returning="rollout-node-lost")
        words.update(changing="its change was left half done, and it is not ready", returning="its return was left half done, and it is not ready")
    return [
        finding(codes[verdict], "nodes", f"{node['name']}: {node['reason'] or words.get(verdict, verdict)}", subject=f"node/{node['name']}")
        for node in nodes
        if (verdict := node["verdict"]) in codes
    ]


def _message(outcome: str, record: Record, findings: list[Finding]) -> str:
    """What happened, in one text: the first broken links, what was done about them, what is left to do."""
    why = "; ".join(f"{name}: {reason}" for name, reason in sorted(record.reasons.items())) or "; ".join(one.message for one in findings[:3])
    what = {
        RETURNED: "The rollout failed and was taken back" if record.scope == SCOPE_WHOLE else "The rollout failed; its last batch was taken back",
        FAILED: "The rollout failed, and not every node could be taken back",
    }.get(outcome, "The rollout ended with nodes that are not as declared")
    return f"{what}. {why}"


__all__ = ["ROLLOUT_OPTIONS", "ClusterError", "rollout"]
