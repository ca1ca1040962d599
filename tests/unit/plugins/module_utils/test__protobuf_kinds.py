# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists and refusals in protobuf. That nodes and pods read the same as from JSON is tested on a real API server."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._cluster_answer import PROTOBUF, Answer, error_of
from ansible_collections.gpuops.mps.plugins.module_utils._protobuf_kinds import MAGIC, object_of
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import CONFIG_LABEL
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot_build import node_of
from tests.unit.protobuf_encoder import Value, encoded

HEADERS = {"Content-Type": f"{PROTOBUF};type=watch"}


def answer(kind: str, *fields: tuple[int, Value]) -> bytes:
    return MAGIC + encoded([(1, [(1, "v1"), (2, kind)]), (2, encoded(fields))])


def manager(name: str, fields: object) -> tuple[int, Value]:
    return (17, [(1, name), (4, [(1, 1_796_103_475)]), (7, [(1, json.dumps(fields))])])


def test_a_node_and_who_owns_its_config_label() -> None:
    owned = {"f:metadata": {"f:labels": {f"f:{CONFIG_LABEL}": {}}}}
    metadata = [(1, "gpu-1"), (11, [(1, CONFIG_LABEL), (2, "four")]), manager("kubectl-label", owned), manager("kubelet", {"f:status": {}})]
    status = [(1, [(1, "nvidia.com/gpu"), (2, [(1, "8")])]), (4, [(1, "Ready"), (2, "True")])]
    found = object_of(answer("NodeList", (1, [(2, "77"), (3, "next")]), (2, [(1, metadata), (3, status)])))
    assert found["metadata"] == {"resourceVersion": "77", "continue": "next"}
    node = node_of(found["items"][0])
    assert (node.name, node.config_label, node.label_owner, node.label_changed) == ("gpu-1", "four", "kubectl-label", "2026-12-01T05:37:55Z")
    assert (node.capacity, node.ready) == ({"nvidia.com/gpu": 8}, True)


def test_an_empty_list_is_a_list() -> None:
    assert object_of(answer("PodList")) == {"items": []}


def test_a_refusal_keeps_its_words_and_its_causes() -> None:
    body = answer("Status", (2, "Failure"), (3, "no such thing"), (4, "Expired"), (5, [(4, [(1, "DisruptionBudget")])]), (6, 410))
    error = error_of("GET", "/api/v1/pods", Answer(410, HEADERS, body), "")
    assert (error.message, error.reason, error.status) == ("GET /api/v1/pods: no such thing", "Expired", 410)
    assert error_of("GET", "/", Answer(429, HEADERS, body), "").code == "disruption-budget"


@pytest.mark.parametrize("body", [b"", b"{}", MAGIC, answer("SecretList"), answer("PodList", (2, "x" * 40))[:-20], b"k8s\x00\x0a"])
def test_what_cannot_be_read_is_no_answer(body: bytes) -> None:
    assert Answer(200, HEADERS, body).content is None
    with pytest.raises(ValueError, match="protobuf|ends in the middle|behind the end"):
        object_of(body)


@given(st.binary())
def test_any_bytes_are_read_or_refused(noise: bytes) -> None:
    for body in (noise, MAGIC + noise, answer("PodList", (2, noise)), answer("NodeList", (2, noise))):
        assert isinstance(Answer(200, HEADERS, body).content, dict | None)
