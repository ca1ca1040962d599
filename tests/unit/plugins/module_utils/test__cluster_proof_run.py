# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run of a proof says about its own objects; its forms are tested on the test bed."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils import _cluster_proof, _cluster_proof_run
from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster
from ansible_collections.gpuops.mps.plugins.module_utils._proof import IMAGE
from tests.unit.clusters import snapshot
from tests.unit.proof_cluster import ProofCluster

OPTIONS: dict[str, Any] = {
    "form": "thorough",
    "per": "group",
    "nodes": None,
    "namespace": "gpu-operator",
    "config_map": None,
    "policy": None,
    "workload_namespace": "default",
    "image": IMAGE,
    "pull_secrets": [],
    "tolerations": [],
    "node_selector": {},
    "run_as_user": 1000,
    "wait_timeout": 60,
}


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cluster_proof, "_REMOVE_SECONDS", 0.0)
    monkeypatch.setattr(_cluster_proof, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(_cluster_proof_run, "read_snapshot", lambda *_cluster, **_names: snapshot())


def run(cluster: ProofCluster) -> dict[str, Any]:
    return _cluster_proof_run.prove_cluster(cast(Cluster, cluster), OPTIONS, check_mode=False)


def test_a_run_that_removes_its_clients_passes() -> None:
    cluster = ProofCluster()
    result = run(cluster)
    assert (result["passed"], result["findings"], cluster.objects) == (True, [], {})


def test_a_run_that_cannot_remove_its_clients_fails_though_every_node_passed() -> None:
    result = run(ProofCluster(keeping=True))
    (found,) = result["findings"]
    assert (found["code"], found["subject"]) == ("proof-not-removed", "namespace/default")
    assert "is forbidden" in found["message"]
    assert [node["passed"] for node in result["nodes"]] == [True]
    assert (result["passed"], result["failed"]) == (False, True)
    assert found["message"] in result["msg"]
