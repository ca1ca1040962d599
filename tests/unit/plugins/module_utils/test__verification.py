# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._expectation import Expected, expected_by_cluster
from ansible_collections.gpuops.mps.plugins.module_utils._findings import CATALOGUE, finding
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENTS, Container, Node, Pod
from ansible_collections.gpuops.mps.plugins.module_utils._verification import BROKEN, STALE, VERIFIED, WAITING, all_findings, summarise, verify_node
from tests.unit import clusters
from tests.unit.clusters import MAIN_CONTAINERS, agent_pod, gpu_node, policy, snapshot

WANTED = expected_by_cluster(snapshot())[0]
TIMES = st.sampled_from([None, "", "yesterday", *(clusters.clock(minute) for minute in (0, 5, 20, 39))])
LABELS = {**clusters.T4, **clusters.SHARED_BY_FOUR, "nvidia.com/device-plugin.config": "mps-four"}


def containers(name: str) -> st.SearchStrategy[Container]:
    return st.builds(
        Container,
        name=st.sampled_from([name, "config-manager", "config-manager-init", "toolkit-validation"]),
        init=st.booleans(),
        ready=st.booleans(),
        restarts=st.integers(0, 9),
        state=st.sampled_from(["waiting", "running", "terminated"]),
        reason=st.sampled_from(["", "CrashLoopBackOff", "ImagePullBackOff", "Completed"]),
        last_exit_code=st.sampled_from([None, 0, 1]),
        started=TIMES,
    )


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    component = draw(st.sampled_from(AGENTS))
    return replace(
        agent_pod(component),
        uid=draw(st.text(max_size=3)),
        ready=draw(st.booleans()),
        terminating=draw(st.booleans()),
        started=draw(TIMES),
        containers=tuple(draw(st.lists(containers(MAIN_CONTAINERS[component]), max_size=3))),
    )


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    dropped = draw(st.sets(st.sampled_from(sorted(LABELS))))
    changed = draw(st.dictionaries(st.sampled_from(sorted(LABELS)), st.text(max_size=4), max_size=3))
    annotations = draw(st.dictionaries(st.just("gpuops.mps/applied"), st.text() | st.sampled_from(["[]", "{}", '{"pods": 3}', '{"config": 1}'])))
    return gpu_node(
        labels={key: value for key, value in {**LABELS, **changed}.items() if key not in dropped},
        allocatable=draw(st.dictionaries(st.sampled_from(["nvidia.com/gpu", "nvidia.com/gpu.shared"]), st.integers(0, 40))),
        annotations=annotations,
        ready=draw(st.booleans()),
        label_changed=draw(TIMES),
    )


@given(nodes(), st.lists(pods(), max_size=6), st.sampled_from(["", "none", "mps-four", "other"]), TIMES)
def test_every_cluster_gets_a_verdict(node: Node, found: list[Pod], default: str, since: str | None) -> None:
    broken = snapshot(nodes=(node,), agent_pods=tuple(found), policies=(policy(config_default=default),))
    for expected in (WANTED, *expected_by_cluster(broken)):
        verdict = verify_node(broken, expected, since=since)
        assert verdict.verdict in (VERIFIED, WAITING, STALE, BROKEN)
        assert verdict.verified == (verdict.link is None)
        assert all(one.code in CATALOGUE for one in verdict.findings)
        if not verdict.verified:
            assert verdict.reason and verdict.remedy


@given(st.text(), st.text())
def test_expectations_of_other_nodes_do_not_matter(name: str, config: str) -> None:
    other = Expected(name, config, WANTED.selection, None, None)
    assert verify_node(snapshot(), WANTED).verified
    assert verify_node(snapshot(), other).verdict in (VERIFIED, WAITING, STALE, BROKEN)


def test_the_summary_counts_verdicts_and_clients() -> None:
    good = verify_node(snapshot(), WANTED)
    bad = verify_node(snapshot(agent_pods=()), WANTED)
    assert summarise([good, bad]) == {"nodes": 2, "verified": 1, "waiting": 0, "stale": 0, "broken": 1, "sharing": 2, "clients": 16}


def test_what_many_nodes_have_in_common_is_told_once() -> None:
    broken = snapshot(nodes=(gpu_node("gpu-1"), gpu_node("gpu-2")), policies=())
    verdicts = [verify_node(broken, replace(WANTED, node=name)) for name in ("gpu-1", "gpu-2")]
    found = all_findings(verdicts, [finding("policy-put-back", "spec", subject="clusterpolicy/x")])
    assert [(one.code, one.subject) for one in found] == [("policy-absent", "node/gpu-1, node/gpu-2"), ("policy-put-back", "clusterpolicy/x")]
