# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run of a proof says about its own objects; its forms are tested on the test bed."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils import _cluster_proof, _cluster_proof_run
from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._findings import CATALOGUE
from ansible_collections.gpuops.mps.plugins.module_utils._interruption import Interrupted
from ansible_collections.gpuops.mps.plugins.module_utils._proof import IMAGE, PROOF_LABEL
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
    monkeypatch.setattr(_cluster_proof, "_REMOVE_SECONDS", 0.5)
    monkeypatch.setattr(_cluster_proof, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(_cluster_proof_run, "read_snapshot", lambda *_cluster, **_names: snapshot())


def run(cluster: ProofCluster) -> dict[str, Any]:
    return _cluster_proof_run.prove_cluster(cast(Cluster, cluster), OPTIONS, check_mode=False)


def test_a_run_that_removes_its_clients_passes() -> None:
    cluster = ProofCluster()
    result = run(cluster)
    assert (result["passed"], result["findings"], cluster.objects) == (True, [], {})


def test_a_run_that_cannot_remove_its_clients_fails_though_every_node_passed() -> None:
    result = run(ProofCluster(keeping=""))
    (found,) = result["findings"]
    assert (found["code"], found["subject"]) == ("proof-not-removed", "namespace/default")
    assert "is forbidden" in found["message"]
    assert [node["passed"] for node in result["nodes"]] == [True]
    assert (result["passed"], result["failed"]) == (False, True)
    assert found["message"] in result["msg"]


def left_by_an_earlier_run(cluster: ProofCluster, *names: str) -> ProofCluster:
    for name in names:
        metadata = {"name": name, "namespace": "default", "labels": {PROOF_LABEL: "older"}, "resourceVersion": "1"}
        cluster.objects[f"/api/v1/namespaces/default/pods/{name}"] = {"metadata": metadata}
    return cluster


def test_leftovers_that_are_gone_and_those_that_stay_are_told_apart() -> None:
    result = run(left_by_an_earlier_run(ProofCluster(keeping="stuck"), "left", "stuck"))
    removed, stayed = result["findings"]
    assert (removed["code"], stayed["code"]) == ("proof-leftovers", "proof-not-removed")
    assert removed["message"].endswith("in default: pod/left")
    assert "pod/stuck (" in stayed["message"] and "is forbidden" in stayed["message"]
    assert result["failed"] and stayed["message"] in result["msg"]


def test_a_run_that_is_stopped_says_what_it_could_not_remove(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_arguments: object) -> None:
        raise Interrupted("stopped by SIGINT")

    monkeypatch.setattr(_cluster_proof, "judge_client", stop)
    assert run(ProofCluster())["msg"] == "The proof was stopped by SIGINT; its clients were removed"
    stopped = run(ProofCluster(keeping=""))
    assert stopped["msg"].startswith("The proof was stopped by SIGINT; still there in default: pod/mps-proof-")


def test_a_run_that_loses_the_cluster_says_what_it_could_not_remove(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*_arguments: object) -> None:
        raise ClusterError("no answer", code="cluster-unreachable", remedy="Look.")

    monkeypatch.setattr(_cluster_proof, "judge_client", lose)
    with pytest.raises(ClusterError) as lost:
        run(ProofCluster(keeping=""))
    assert lost.value.message.startswith("no answer; and still there in default: pod/mps-proof-")
    cluster = ProofCluster()
    with pytest.raises(ClusterError) as cleared:
        run(cluster)
    assert (cleared.value.message, cluster.objects) == ("no answer", {})


ADMISSION = CATALOGUE["proof-refused"].remedy


@pytest.mark.parametrize(("status", "remedy"), [(503, "Run again."), (None, "Run again."), (422, ADMISSION), (403, ADMISSION)])
def test_what_to_do_depends_on_who_refused_a_client(monkeypatch: pytest.MonkeyPatch, status: int | None, remedy: str) -> None:
    def refuse(*_arguments: object) -> None:
        raise ClusterError("no", code="cluster-failed", remedy="Run again.", status=status)

    monkeypatch.setattr(ProofCluster, "create", refuse)
    result = run(ProofCluster())
    assert {(found["code"], found["remedy"]) for found in result["findings"]} == {("proof-refused", remedy)}
