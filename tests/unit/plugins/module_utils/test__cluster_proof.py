# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a proof says where it could not look; that it runs on a real API server is tested on the test bed."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils import _cluster_proof
from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_proof import NodeProof, Stage, prove_subjects
from ansible_collections.gpuops.mps.plugins.module_utils._expectation import expected_by_cluster
from ansible_collections.gpuops.mps.plugins.module_utils._interruption import Interrupted, Interruption
from ansible_collections.gpuops.mps.plugins.module_utils._proof import PROOF_LABEL, Subject, Workload
from tests.unit.clusters import snapshot
from tests.unit.proof_cluster import ProofCluster

EXPECTED = expected_by_cluster(snapshot())[0]


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cluster_proof, "_PAUSE_SECONDS", 0.0)


def proven(cluster: ProofCluster, *, clients: int = 3, together: bool = True) -> NodeProof:
    (proof,) = prove_subjects(Stage(cast(Cluster, cluster), Workload("default"), Interruption()), snapshot(), [Subject("gpu-1", EXPECTED, clients, together)])
    return proof


def test_a_node_whose_clients_and_daemon_answer_well_is_proven() -> None:
    cluster = ProofCluster()
    proof = proven(cluster)
    assert (proof.passed, proof.findings, proof.clients) == (True, (), 3)
    assert proof.limits == {"thread_percentage": "25.0", "memory": "3840M", "pipe_directory": "/mps/nvidia.com/gpu/pipe"}
    assert cluster.objects == {}


@pytest.mark.parametrize(
    ("silent", "path", "words"),
    [
        ("mps-proof-", "clients", "mps-proof-0 could not be looked into: mps-proof-0 is forbidden (and 2 more)"),
        ("nvidia-device-plugin-mps-control-daemon", "daemon", "the MPS control daemon's pod on gpu-1 could not be looked into"),
    ],
)
def test_a_pod_that_cannot_be_looked_into_proves_nothing(silent: str, path: str, words: str) -> None:
    cluster = ProofCluster(silent=silent)
    proof = proven(cluster)
    assert [(found.code, found.path, found.subject) for found in proof.findings] == [("proof-not-examined", path, "node/gpu-1")]
    assert words in proof.findings[0].message
    assert not proof.passed
    assert cluster.objects == {}, "the clients are removed all the same"


def test_a_client_alone_passes_with_a_warning_that_sharing_is_not_shown() -> None:
    proof = proven(ProofCluster(), clients=1, together=False)
    assert [(found.code, found.severity) for found in proof.findings] == [("proof-not-concurrent", "warning")]
    assert proof.passed


def test_a_client_alone_with_a_worse_trouble_is_told_the_trouble_only() -> None:
    proof = proven(ProofCluster(silent="mps-proof-"), clients=1, together=False)
    assert [found.code for found in proof.findings] == ["proof-not-examined"]


class SlowCluster(ProofCluster):
    """Its answer to the creation of a client comes when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answering = threading.Event(), threading.Event()

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.set()
        assert self.answering.wait(10)
        name = "mps-proof-late"
        self.objects[f"{path}/{name}"] = {"metadata": {**body["metadata"], "name": name, "resourceVersion": "1"}}
        return self.objects[f"{path}/{name}"]


def test_removing_waits_for_clients_that_another_thread_is_creating_and_admits_no_more() -> None:
    cluster = SlowCluster()
    stage = Stage(cast(Cluster, cluster), Workload("default"), Interruption())
    client = {"metadata": {"labels": {PROOF_LABEL: stage.run}}}
    creating = threading.Thread(target=stage.create_pod, args=(client,))
    with stage:
        creating.start()
        assert cluster.asked.wait(10)
        threading.Timer(0.2, cluster.answering.set).start()
    creating.join(10)
    assert (cluster.objects, stage.left) == ({}, ())
    with pytest.raises(Interrupted):
        stage.create_pod(client)
    assert not cluster.objects
