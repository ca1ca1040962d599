# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import replace

from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_case import LogKey
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_reads import MOST_LOGS_PER_NODE, MOST_NODES, limits_wanted, logs_wanted
from ansible_collections.gpuops.mps.plugins.module_utils._expectation import expected_by_cluster
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENTS, CONTROL_DAEMON, FEATURE_DISCOVERY, Snapshot
from ansible_collections.gpuops.mps.plugins.module_utils._verification import Verdict, verify_node
from tests.unit.clusters import NAMESPACE, agent_pod, clock, container, gpu_node, snapshot, with_pods


def judged(found: Snapshot) -> list[Verdict]:
    return [verify_node(found, one) for one in expected_by_cluster(found)]


def test_a_healthy_cluster_needs_no_logs_and_no_limits() -> None:
    found = snapshot()
    assert logs_wanted(found, judged(found)) == ()
    assert limits_wanted(found, judged(found), every=False) == ()


def test_a_crashed_containers_former_run_is_read_first() -> None:
    crashed = container("gpu-feature-discovery", ready=False, restarts=4, state="waiting", reason="CrashLoopBackOff", last_exit_code=1)
    found = with_pods(gfd=agent_pod(FEATURE_DISCOVERY, ready=False, containers=(crashed, container("config-manager"))))
    name = agent_pod(FEATURE_DISCOVERY).name
    wanted = logs_wanted(found, judged(found))
    assert wanted == (LogKey(NAMESPACE, name, "gpu-feature-discovery", True), LogKey(NAMESPACE, name, "gpu-feature-discovery"))


def test_a_container_that_never_started_has_no_log() -> None:
    waiting = container("gpu-feature-discovery", ready=False, state="waiting", reason="ImagePullBackOff")
    found = with_pods(gfd=agent_pod(FEATURE_DISCOVERY, ready=False, containers=(waiting,)))
    assert logs_wanted(found, judged(found)) == ()


def test_a_large_broken_cluster_costs_no_more_than_its_bound() -> None:
    names = [f"gpu-{number:03d}" for number in range(100)]
    crashed = container("gpu-feature-discovery", ready=False, restarts=4, state="waiting", reason="CrashLoopBackOff", last_exit_code=1)
    pods = [replace(agent_pod(one, name), containers=(crashed,), ready=False) for name in names for one in AGENTS]
    found = snapshot(nodes=tuple(gpu_node(name) for name in names), agent_pods=tuple(pods))
    wanted = logs_wanted(found, judged(found))
    assert 0 < len(wanted) <= MOST_NODES * MOST_LOGS_PER_NODE


def test_limits_are_read_in_doubt_or_everywhere() -> None:
    found = snapshot(nodes=(gpu_node(label_changed=clock(20)),))
    daemon = agent_pod(CONTROL_DAEMON)
    for every in (False, True):
        assert [pod for _verdict, pod in limits_wanted(found, judged(found), every=every)] == [daemon]
    healthy = snapshot()
    assert [pod for _verdict, pod in limits_wanted(healthy, judged(healthy), every=True)] == [daemon]


def test_a_broken_nodes_daemon_is_not_asked() -> None:
    found = with_pods(gfd=None)
    assert limits_wanted(found, judged(found), every=True) == ()
