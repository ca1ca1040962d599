# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import Declaration, NodeGroup, SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._expectation import expected_by_cluster, expected_by_plan
from ansible_collections.gpuops.mps.plugins.module_utils._plan_build import make_plan
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import CONFIG_LABEL
from tests.unit import clusters
from tests.unit.clusters import gpu_node, policy, snapshot, with_map

UNLABELLED = {key: value for key, value in {**clusters.T4, **clusters.SHARED_BY_FOUR}.items() if key != CONFIG_LABEL}


def test_a_labelled_node_is_expected_to_follow_its_label() -> None:
    expected = expected_by_cluster(snapshot())[0]
    assert (expected.selection.config, expected.selection.source, expected.label) == ("mps-four", "label", "mps-four")
    assert (expected.strategy, expected.replicas, expected.resource, expected.daemon) == ("mps", 4, "nvidia.com/gpu", True)


def test_an_unlabelled_node_follows_the_default() -> None:
    expected = expected_by_cluster(snapshot(nodes=(gpu_node(labels=UNLABELLED),)))[0]
    assert (expected.selection.config, expected.selection.source, expected.label) == ("none", "default", None)
    assert (expected.strategy, expected.daemon) == ("none", False)


def test_without_label_and_default_nothing_is_shared() -> None:
    found = snapshot(nodes=(gpu_node(labels=UNLABELLED),), policies=(policy(config_default=""),))
    expected = expected_by_cluster(found)[0]
    assert (expected.selection.config, expected.content, expected.strategy) == (None, None, "none")


def test_a_key_that_is_missing_or_refused_predicts_nothing() -> None:
    for data in ({"none": clusters.NONE}, {"mps-four": "sharing: ["}):
        expected = expected_by_cluster(with_map(data=data))[0]
        assert expected.prediction is None
        assert (expected.strategy, expected.replicas, expected.daemon, expected.resource) == (None, None, False, "nvidia.com/gpu")


def test_a_renamed_resource_is_expected_under_its_name() -> None:
    renamed = clusters.MPS_FOUR.replace("  mps:\n", "  mps:\n    renameByDefault: true\n")
    assert expected_by_cluster(with_map(data={"mps-four": renamed}))[0].resource == "nvidia.com/gpu.shared"


def test_a_plan_expects_what_it_wants() -> None:
    configs = (SharingConfig("none", Strategy.NONE), SharingConfig("mps-four", Strategy.MPS, 4))
    plan = make_plan(Declaration(configs, "none", (NodeGroup("t4", "mps-four", ("gpu-1",)),)), snapshot())
    expected = expected_by_plan(plan.nodes[0], replaced=["uid"])
    assert (expected.node, expected.group, expected.selection.config, expected.replicas) == ("gpu-1", "t4", "mps-four", 4)
    assert expected.replaced == {"uid"}
