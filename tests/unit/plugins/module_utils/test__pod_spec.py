# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the pod's spec stands in each kind of object, and what it asks of GPUs and nodes."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._pod_spec import (
    PodSpec,
    Request,
    containers,
    gpu_requests,
    label_keys,
    objects_in,
    pod_spec,
    requests,
    selects,
    whole_number,
)

SPEC = {"containers": [{"name": "main"}]}


def spec_of(content: dict[str, Any]) -> PodSpec:
    return PodSpec("spec", content)


@pytest.mark.parametrize(
    ("kind", "document", "path"),
    [
        ("Pod", {"spec": SPEC}, "spec"),
        ("PodTemplate", {"template": {"spec": SPEC}}, "template.spec"),
        ("CronJob", {"spec": {"jobTemplate": {"spec": {"template": {"spec": SPEC}}}}}, "spec.jobTemplate.spec.template.spec"),
        *[
            (kind, {"spec": {"template": {"spec": SPEC}}}, "spec.template.spec")
            for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job")
        ],
    ],
)
def test_the_spec_of_each_kind(kind: str, document: dict[str, Any], path: str) -> None:
    assert pod_spec({"kind": kind, **document}) == PodSpec(path, SPEC)


@pytest.mark.parametrize(
    "document", [{}, {"kind": "Service", "spec": SPEC}, {"kind": "Pod"}, {"kind": "Pod", "spec": None}, {"kind": "Deployment", "spec": {"template": []}}]
)
def test_objects_that_make_no_pods(document: dict[str, Any]) -> None:
    assert pod_spec(document) is None


def test_a_list_is_its_items() -> None:
    items = [{"metadata": {"name": "a"}}, {"kind": "Job"}, None]
    assert list(objects_in({"kind": "PodList", "items": items})) == [{"kind": "Pod", "metadata": {"name": "a"}}, {"kind": "Job"}]
    assert list(objects_in({"kind": "List", "items": [{"kind": "Pod"}]})) == [{"kind": "Pod"}]
    assert list(objects_in({"kind": "PodList"})) == []
    assert list(objects_in({"kind": "Pod"})) == [{"kind": "Pod"}]


def test_init_containers_come_first_and_paths_have_their_index() -> None:
    found = list(containers(spec_of({"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "c"}]})))
    assert [(one.path, one.content["name"]) for one in found] == [
        ("spec.initContainers[0]", "c"),
        ("spec.containers[0]", "a"),
        ("spec.containers[1]", "b"),
    ]


def test_limits_stand_for_requests_and_both_are_read() -> None:
    content = {"resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "500m"}, "requests": {"nvidia.com/gpu": 1, "nvidia.com/gpu.shared": 3}}}
    (container,) = containers(spec_of({"containers": [content]}))
    assert set(requests(container)) == {
        Request("spec.containers[0].resources.limits", "nvidia.com/gpu", 2),
        Request("spec.containers[0].resources.limits", "cpu", None),
        Request("spec.containers[0].resources.requests", "nvidia.com/gpu.shared", 3),
    }


def asking(*limits: dict[str, object]) -> PodSpec:
    return spec_of({"containers": [{"resources": {"limits": one}} for one in limits]})


def test_the_most_that_one_container_asks() -> None:
    several = asking({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 3}, {"nvidia.com/gpu": 2, "cpu": 4})
    assert gpu_requests(several) == {"nvidia.com/gpu": 3}
    assert gpu_requests(asking({"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": "1"})) == {"nvidia.com/gpu.shared": 1}
    assert gpu_requests(asking({"nvidia.com/gpu": "many"})) == {}


@pytest.mark.parametrize(
    ("amount", "number"), [(2, 2), ("2", 2), (" 2 ", 2), (0, 0), ("2k", None), ("²", None), (True, None), (2.5, None), (None, None), (-1, -1)]
)
def test_whole_numbers(amount: object, number: int | None) -> None:
    assert whole_number(amount) == number


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}}


LABELS = {"product": "T4", "replicas": "4"}


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({}, True),
        ({"nodeSelector": {"product": "T4"}}, True),
        ({"nodeSelector": {"product": "T4", "replicas": "2"}}, False),
        ({"nodeSelector": {"absent": "x"}}, False),
        (required(term("product", "In", "L4", "T4")), True),
        (required(term("product", "In", "L4")), False),
        (required(term("product", "NotIn", "L4")), True),
        (required(term("product", "NotIn", "T4")), False),
        (required(term("absent", "NotIn", "T4")), True),
        (required(term("product", "Exists")), True),
        (required(term("absent", "Exists")), False),
        (required(term("absent", "DoesNotExist")), True),
        (required(term("product", "DoesNotExist")), False),
        (required(term("replicas", "Gt", "3")), True),
        (required(term("replicas", "Gt", "4")), False),
        (required(term("replicas", "Lt", "5")), True),
        (required(term("replicas", "Lt", "4")), False),
        (required(term("product", "Gt", "3")), False),
        (required(term("replicas", "Gt")), False),
        (required(term("replicas", "Like", "9")), False),
        (required(term("product", "In", "L4"), term("replicas", "Gt", "1")), True),
        (required({"matchExpressions": term("product", "In", "T4")["matchExpressions"] + term("replicas", "Gt", "9")["matchExpressions"]}), False),
        (required(), False),
        (required({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-01"]}]}), True),
        ({"nodeSelector": {"product": "L4"}, **required(term("product", "In", "T4"))}, False),
    ],
)
def test_which_nodes_a_spec_fits(spec: dict[str, Any], fits: bool) -> None:
    assert selects(spec, LABELS) is fits


def test_the_labels_a_placement_depends_on() -> None:
    spec = {"nodeSelector": {"b": "1", "a": "1"}, **required(term("c", "Exists"), term("a", "In", "1"))}
    assert label_keys(spec) == ("a", "b", "c")
    assert label_keys({}) == ()
