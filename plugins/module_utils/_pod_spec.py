# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: where a Kubernetes object holds a pod's spec, and what that spec asks of GPUs and of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpuops.mps.plugins.module_utils._gpu import GPU, GPU_SHARED
from ansible_collections.gpuops.mps.plugins.module_utils._shown import named

# No amount that the API takes is so large (a quantity is a 64-bit number).
_BEYOND = 10**18

# The way to the pod's spec in each kind that has one.
_WAY_TO_SPEC: Mapping[str, tuple[str, ...]] = {
    "Pod": ("spec",),
    "PodTemplate": ("template", "spec"),
    "Deployment": ("spec", "template", "spec"),
    "StatefulSet": ("spec", "template", "spec"),
    "DaemonSet": ("spec", "template", "spec"),
    "ReplicaSet": ("spec", "template", "spec"),
    "ReplicationController": ("spec", "template", "spec"),
    "Job": ("spec", "template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
}
_CONTAINER_LISTS = ("initContainers", "containers")


@dataclass(frozen=True)
class PodSpec:
    """A pod's spec and where it stands in its object: ``path`` is dotted, ``spec`` as the API has it."""

    path: str
    spec: Mapping[str, Any]


@dataclass(frozen=True)
class Container:
    """One container, ``path`` dotted with its index in the list."""

    path: str
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Request:
    """What one container asks of one extended resource; ``count`` is None when it is no whole number."""

    path: str
    resource: str
    count: int | None


def objects_in(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The object itself, or the items of a List; an item without a kind takes the one the list is named after."""
    kind = named(document.get("kind"))
    if not kind.endswith("List"):
        yield document
        return
    for item in sequence(document.get("items")):
        if isinstance(item, Mapping):
            yield {"kind": kind.removesuffix("List"), **item}


def pod_spec(document: Mapping[str, Any]) -> PodSpec | None:
    """The spec of the pods that this object is or makes; None for kinds that make none and for objects that lack it."""
    way = _WAY_TO_SPEC.get(named(document.get("kind")))
    if way is None:
        return None
    found: Any = document
    for step in way:
        found = mapping(found).get(step)
    return PodSpec(".".join(way), found) if isinstance(found, Mapping) else None


def containers(spec: PodSpec) -> Iterator[Container]:
    """All containers, init containers first."""
    for name in _CONTAINER_LISTS:
        for index, content in enumerate(sequence(spec.spec.get(name))):
            yield Container(f"{spec.path}.{name}[{index}]", mapping(content))


def requests(container: Container) -> Iterator[Request]:
    """What the container asks of every resource: limits, or requests where limits do not name it.

    For extended resources Kubernetes takes the limit as the request.
    """
    resources = mapping(container.content.get("resources"))
    limits, asked = mapping(resources.get("limits")), mapping(resources.get("requests"))
    for resource, amount in {**asked, **limits}.items():
        section = "limits" if resource in limits else "requests"
        yield Request(f"{container.path}.resources.{section}", named(resource), whole_number(amount))


def gpu_requests(spec: PodSpec) -> dict[str, int]:
    """For each of the GPU resources that the pod asks for, the most that one container asks."""
    largest: dict[str, int] = {}
    for container in containers(spec):
        for request in requests(container):
            if request.resource in (GPU, GPU_SHARED) and request.count:
                largest[request.resource] = max(request.count, largest.get(request.resource, request.count))
    return largest


def selects(spec: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether the pod's node selector and its required node affinity fit a node with these labels.

    Terms by field (``matchFields``) name a node and not a label; they count as fitting.
    """
    if any(labels.get(key) != value for key, value in mapping(spec.get("nodeSelector")).items()):
        return False
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not isinstance(required, Mapping):
        return True
    return any(
        all(_fits(mapping(expression), labels) for expression in sequence(mapping(term).get("matchExpressions")))
        for term in sequence(required.get("nodeSelectorTerms"))
    )


def label_keys(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The node labels that the pod's placement depends on, sorted."""
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    expressions = [expression for term in sequence(required.get("nodeSelectorTerms")) for expression in sequence(mapping(term).get("matchExpressions"))]
    return tuple(sorted({*mapping(spec.get("nodeSelector")), *(named(mapping(expression).get("key")) for expression in expressions)}))


def whole_number(amount: object) -> int | None:
    """An amount of an extended resource as the API takes it: a whole number, as a number or as text."""
    if isinstance(amount, bool):
        return None
    if isinstance(amount, int):
        return amount if abs(amount) < _BEYOND else None
    text = named(amount).strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < len(str(_BEYOND)) else None


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one: manifests come from people."""
    return value if isinstance(value, Mapping) else {}


def sequence(value: object) -> Sequence[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, (list, tuple)) else ()


def _fits(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """One node selector requirement; Gt and Lt compare whole numbers as the scheduler does."""
    key, operator = named(expression.get("key")), expression.get("operator")
    values, actual = sequence(expression.get("values")), labels.get(named(expression.get("key")))
    if operator == "DoesNotExist":
        return key not in labels
    if operator == "NotIn":
        return actual not in values
    if operator == "Exists":
        return key in labels
    if operator == "In":
        return actual in values
    number, bound = whole_number(actual), whole_number(values[0] if values else None)
    if number is None or bound is None:
        return False
    return number > bound if operator == "Gt" else operator == "Lt" and number < bound
