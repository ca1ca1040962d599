# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of mps_rollout, and what the rollout itself says about a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import Declaration
from ansible_collections.gpuops.mps.plugins.module_utils._options import DECLARATION_OPTIONS
from ansible_collections.gpuops.mps.plugins.module_utils._plan import PodName, PolicyPlan
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_build import forward_state
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import FAILED, FORWARD, ROLLOUT_ANNOTATION, Former, Mark, write_annotation
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_module import ROLLOUT_OPTIONS, ended_result, rollout, rollout_findings, wish_of
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_record import SCOPE_WHOLE
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_run import Report
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import Owner
from tests.unit.plugins.module_utils.rollout_model import policy
from tests.unit.plugins.module_utils.test__rollout_build import context_of, make_cluster

DEFAULTS: dict[str, Any] = {name: spec.get("default") for name, spec in {**DECLARATION_OPTIONS, **ROLLOUT_OPTIONS}.items()}


class NoCluster:
    """Nothing may be asked of the cluster while the options are wrong."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the cluster was asked for {name}")


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"batch_size": "0"}, "batch_size"),
        ({"batch_size": "many"}, "batch_size"),
        ({"canary": ["0"]}, "canary"),
        ({"canary": ["101%"]}, "canary"),
        ({"max_failures": -1}, "max_failures"),
        ({"pause": -1}, "pause"),
        ({"wait_timeout": 0}, "wait_timeout"),
        ({"lease_duration": 0}, "lease_duration"),
    ],
)
def test_sizes_and_times_are_checked_before_anything_is_read(options: dict[str, Any], path: str) -> None:
    """The option is named, and nothing is written."""
    result = rollout(NoCluster(), {**DEFAULTS, "configs": {"none": {}}, **options}, check_mode=False)  # type: ignore[arg-type]
    assert (result["failed"], result["changed"], result["state"]) == (True, False, "refused")
    assert [(found["code"], found["path"]) for found in result["findings"]] == [("rollout-option", path)]


def test_a_declaration_that_cannot_be_read_is_refused() -> None:
    """Its findings are the result."""
    result = rollout(NoCluster(), {**DEFAULTS, "configs": {"two": {"replica": 2}}}, check_mode=False)  # type: ignore[arg-type]
    assert result["state"] == "refused" and "replica" in result["msg"]


def test_only_the_first_slice_takes_the_lease_over() -> None:
    """Later slices hold it already; taking it over again would hide that it was lost."""
    parameters = {**DEFAULTS, "takeover": True}
    assert wish_of({**parameters, "slice": {"seconds": 15, "holder": "me", "number": 0}}, Declaration(())).takeover
    later = wish_of({**parameters, "slice": {"seconds": 15, "holder": "me", "number": 1}}, Declaration(()))
    assert (later.takeover, later.continued, later.holder, later.slice_seconds) == (False, True, "me", 15)
    assert not wish_of({**parameters, "slice": None}, Declaration(())).continued


def said(**changes: Any) -> set[tuple[str, str]]:
    """Code and severity of what the rollout says about a content edit with these changes to plan, policy and options."""
    cluster = make_cluster("n1")
    context = context_of(cluster)
    plan = cluster.plan()
    if changes.get("pods"):
        plan = replace(plan, nodes=tuple(replace(node, gpu_pods=(PodName("default", "training"),)) for node in plan.nodes))
    if changes.get("owner"):
        plan = replace(plan, policy=PolicyPlan("cluster-policy", "1", "map", "map", "a", "b"))
        owned = replace(policy("a"), owners=(Owner(changes["owner"], "gpu"),))
        context = replace(context, snapshot=replace(context.snapshot, policies=(owned,)))
    if changes.get("whole"):
        context = replace(context, way_back=replace(context.way_back, scope=SCOPE_WHOLE))
    wish = wish_of({**DEFAULTS, **changes.get("options", {})}, Declaration(()))
    return {(one.code, one.severity) for one in rollout_findings(plan, context, forward_state(plan, context), wish)}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, set()),
        ({"pods": True}, {("rollout-breaks-gpu-pods", "error")}),
        ({"pods": True, "options": {"disruption": "drain"}}, set()),
        ({"owner": "helm"}, {("rollout-held", "info")}),
        ({"owner": "argocd"}, {("rollout-not-paced", "warning")}),
        ({"owner": "argocd", "pods": True, "options": {"disruption": "drain"}}, {("rollout-not-paced", "warning"), ("rollout-breaks-gpu-pods", "error")}),
        ({"owner": "argocd", "pods": True, "options": {"disruption": "allow"}}, {("rollout-not-paced", "warning")}),
        ({"owner": "helm", "pods": True, "options": {"disruption": "drain"}}, {("rollout-held", "info")}),
        ({"whole": True}, {("rollout-returns-whole", "info")}),
        ({"options": {"canary": ["nobody"]}}, {("rollout-option", "error")}),
        ({"options": {"order": ["nothing"]}}, {("rollout-option", "error")}),
        ({"options": {"canary": ["n1"]}}, set()),
    ],
)
def test_what_is_said_before_the_first_write(changes: dict[str, Any], found: set[tuple[str, str]]) -> None:
    """Pods that break, how the operator is dealt with, how far a failure reaches, names that mean nothing."""
    assert said(**changes) == found


@pytest.mark.parametrize(
    ("outcome", "state", "failed", "words"),
    [
        ("verified", "changing", True, "its change was left half done, and it is not ready"),
        ("verified", "failed", True, "kubelet does not answer"),
        ("in_progress", "changing", False, ""),
        ("failed", "failed", True, "kubelet does not answer"),
    ],
)
def test_a_node_that_is_left_half_done_makes_an_end_a_failure_that_names_it(outcome: str, state: str, failed: bool, words: str) -> None:
    """Somebody has to look at it, although every node that could be worked on is verified."""
    cluster = make_cluster("n1")
    former = Former("a", "a", "label", "old", True, {}, {})
    mark = Mark("r1", FORWARD, state, "a", "a", "new", former, touched=True, reason="kubelet does not answer" if state == FAILED else "")
    cluster.nodes["n1"].annotations[ROLLOUT_ANNOTATION] = write_annotation(mark)
    result = ended_result(Report(changed=True), outcome, cluster.plan(), cluster.snapshot(), context_of(cluster).record, {"findings": []})
    assert (result.get("failed", False), result["state"], result["changed"]) == (failed, outcome, True)
    assert not failed or [(found["code"], found["subject"]) for found in result["findings"]] == [("rollout-node-lost", "node/n1")]
    assert words in result.get("msg", "")
