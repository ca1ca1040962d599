# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: checks of workloads, alone as manifests and against what a change does to the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, finding
from ansible_collections.gpuops.mps.plugins.module_utils._gpu import GPU, GPU_SHARED
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion, honours_fail_requests
from ansible_collections.gpuops.mps.plugins.module_utils._pod_spec import (
    Container,
    PodSpec,
    containers,
    gpu_requests,
    label_keys,
    mapping,
    objects_in,
    pod_spec,
    requests,
    selects,
    sequence,
    whole_number,
)
from ansible_collections.gpuops.mps.plugins.module_utils._prediction import REPLICAS, Prediction
from ansible_collections.gpuops.mps.plugins.module_utils._shown import named

_MIG_PREFIX = "nvidia.com/mig-"
# A namespace's quota counts an extended resource under this prefix only.
_QUOTA_PREFIX = "requests."
_LIMIT_RANGE_FIELDS = ("default", "defaultRequest", "max", "min")


@dataclass(frozen=True)
class NodeChange:
    """One node before and after a change: all its labels, its allocatable resources, and the limit on requests after it."""

    node: str
    labels_now: Mapping[str, str]
    labels_after: Mapping[str, str]
    allocatable_now: Mapping[str, int]
    allocatable_after: Mapping[str, int]
    requests_above_one_fail: bool


def requests_above_one_fail(config: SharingConfig, plugin_version: PluginVersion | None) -> bool:
    """Whether a container that asks for more than one fails at admission with UnexpectedAdmissionError.

    k8s-device-plugin v0.20.0, rm/rm.go and plugin/server.go: under MPS it does unless the file says false, which versions before
    0.20 do not honour; under time-slicing only if the file says true. An unknown version counts as an old one.
    """
    if config.strategy is Strategy.MPS:
        honoured = plugin_version is not None and honours_fail_requests(plugin_version)
        return not honoured or config.fail_requests_greater_than_one is not False
    return config.strategy is Strategy.TIME_SLICING and config.fail_requests_greater_than_one is True


def node_change(
    node: str,
    labels: Mapping[str, str],
    allocatable: Mapping[str, int],
    prediction: Prediction | None,
    *,
    config: SharingConfig | None,
    plugin_version: PluginVersion | None,
) -> NodeChange:
    """The change that a prediction means for a node with these labels and resources now; without one the node stays as it is."""
    fails = config is not None and requests_above_one_fail(config, plugin_version)
    if prediction is None or not prediction.labels:
        return NodeChange(node, labels, labels, allocatable, allocatable, fails)
    predicted = prediction.labels_one_of[0] if prediction.labels_one_of else prediction.labels
    after = {**labels, **predicted}
    others = {name: count for name, count in allocatable.items() if name not in (GPU, GPU_SHARED)}
    return NodeChange(
        node=node,
        labels_now=labels,
        labels_after={key: value for key, value in after.items() if value is not None},
        allocatable_now=allocatable,
        allocatable_after={**others, **prediction.resources},
        requests_above_one_fail=fails,
    )


def lint_manifest(document: Mapping[str, Any], *, requests_above_one_fail: bool = True, path: str = "") -> tuple[Finding, ...]:
    """Findings about one manifest (an object that is a pod or makes pods, or a List of them) meant for nodes shared by MPS.

    ``requests_above_one_fail`` is what the function of that name says of the config and version in use. ``path`` begins the paths.
    Objects that make no pods have no findings. Never raises, whatever the manifest holds.
    """
    prefix = f"{path}." if path else ""
    found: list[Finding] = []
    for one in objects_in(document):
        spec = pod_spec(one)
        if spec is not None:
            found += _lint(PodSpec(prefix + spec.path, spec.spec), _subject(one), requests_above_one_fail)
    return tuple(found)


def scan_workloads(objects: Iterable[Mapping[str, Any]], changes: Sequence[NodeChange]) -> tuple[Finding, ...]:
    """Findings about workloads on the cluster that a change breaks, or that would never be placed after it.

    ``objects`` are API objects with their ``kind``: pods, the controllers that make pods, quotas and limit ranges. An object whose
    controller is among them is left to its controller, and one that has run to its end to history. ``changes`` are all GPU nodes.
    These are other people's objects, so nothing is worse than a warning. In the order of the objects.
    """
    objects = [one for document in objects for one in objects_in(document)]
    known = {(one.get("kind"), *_identity(one)) for one in objects}
    found: list[Finding] = []
    for one in objects:
        if _controller(one) in known or _is_over(one):
            continue
        spec = pod_spec(one)
        if spec is not None:
            found += _scan_pods(spec, _subject(one), changes)
        found += _scan_quota(one, changes)
        found += _scan_limit_range(one, changes)
    return tuple(replace(one, severity="warning") if one.severity == "error" else one for one in found)


def _lint(spec: PodSpec, subject: str, above_one_fails: bool) -> Iterator[Finding]:
    """The checks that need to know the spec alone."""
    uses_gpus = any(_means_gpu(request.resource) for container in containers(spec) for request in requests(container))
    for container in containers(spec):
        yield from _check_requests(container, subject, above_one_fails)
        yield from _check_bypass(container, subject, uses_gpus)
        if uses_gpus:
            yield from _check_shm(container, subject)
    if uses_gpus and spec.spec.get("hostIPC") is True:
        yield finding("workload-host-ipc", f"{spec.path}.hostIPC", subject=subject)


def _check_requests(container: Container, subject: str, above_one_fails: bool) -> Iterator[Finding]:
    for request in requests(container):
        where = f"{request.path}[{request.resource}]"
        if request.resource in (GPU, GPU_SHARED):
            if above_one_fails and request.count is not None and request.count > 1:
                message = f"the container asks for {request.count} of {request.resource}, and with sharing by MPS it may ask for one"
                yield finding("workload-requests-several", where, message, subject=subject)
        elif _means_gpu(request.resource):
            message = f"no device plugin of NVIDIA advertises {request.resource}; sharing is of {GPU}, or {GPU_SHARED} after a rename"
            yield finding("workload-unknown-resource", where, message, subject=subject)


def _means_gpu(resource: str) -> bool:
    """Whether a resource is, or is a misspelling of, NVIDIA's whole or shared GPU (``nvidia.com.gpu``, ``nvidia.com/gpus``)."""
    return not resource.startswith(_MIG_PREFIX) and ("nvidia" in resource.lower() or resource.lower() in ("gpu", "gpus", "gpu.shared"))


def _check_bypass(container: Container, subject: str, uses_gpus: bool) -> Iterator[Finding]:
    """A container that sees every GPU of its node, past the plugin and its limits (k8s-device-plugin, report 1299)."""
    if uses_gpus and mapping(container.content.get("securityContext")).get("privileged") is True:
        yield finding("workload-sees-all-gpus", f"{container.path}.securityContext.privileged", "a privileged container sees every GPU", subject=subject)
    for index, variable in enumerate(sequence(container.content.get("env"))):
        if mapping(variable).get("name") == "NVIDIA_VISIBLE_DEVICES" and mapping(variable).get("value") == "all":
            yield finding("workload-sees-all-gpus", f"{container.path}.env[{index}]", subject=subject)


def _check_shm(container: Container, subject: str) -> Iterator[Finding]:
    for index, mount in enumerate(sequence(container.content.get("volumeMounts"))):
        if named(mapping(mount).get("mountPath")).removesuffix("/") == "/dev/shm":
            yield finding("workload-own-shm", f"{container.path}.volumeMounts[{index}]", subject=subject)


def _scan_pods(spec: PodSpec, subject: str, changes: Sequence[NodeChange]) -> Iterator[Finding]:
    """One pod or pod template against the nodes it fits now and those it would fit after the change."""
    asked, after = gpu_requests(spec), []
    if asked or label_keys(spec.spec):  # most pods of a large cluster neither ask nor select, and fit every node before and after
        before = [change for change in changes if _places(spec, asked, change.labels_now, change.allocatable_now)]
        after = [change for change in changes if _places(spec, asked, change.labels_after, change.allocatable_after)]
        if before and not after:
            yield _cannot_be_placed(spec, asked, before, subject)
        elif len(after) < len(before):
            message = f"it fits {len(before)} GPU nodes now and {len(after)} after the change"
            yield finding("workload-fewer-nodes", spec.path, message, subject=subject)
    yield from _lint(spec, subject, any(change.requests_above_one_fail for change in after))


def _places(spec: PodSpec, asked: Mapping[str, int], labels: Mapping[str, str], allocatable: Mapping[str, int]) -> bool:
    return all(allocatable.get(name, 0) >= count for name, count in asked.items()) and selects(spec.spec, labels)


def _cannot_be_placed(spec: PodSpec, asked: Mapping[str, int], before: Sequence[NodeChange], subject: str) -> Finding:
    """Why no node is left: the labels it selects by change on every one of them, or the resource is no longer there."""
    keys = [
        key
        for key in label_keys(spec.spec)
        if any(change.labels_now.get(key) != change.labels_after.get(key) for change in before if not selects(spec.spec, change.labels_after))
    ]
    if keys:
        values = "; ".join(_values(key, before) for key in keys)
        return finding("workload-selector-stops-fitting", spec.path, f"no GPU node fits its node selection after the change: {values}", subject=subject)
    names = " and ".join(sorted(asked))
    offered = sorted({name for change in before for name in (GPU, GPU_SHARED) if change.allocatable_after.get(name, 0)})
    message = f"it asks for {names}, which no GPU node it fits will advertise enough of; they will advertise {' and '.join(offered) or 'no GPU'}"
    return finding("workload-resource-vanishes", spec.path, message, subject=subject)


def _values(key: str, changes: Sequence[NodeChange]) -> str:
    now = ", ".join(sorted({change.labels_now.get(key, "absent") for change in changes}))
    after = ", ".join(sorted({change.labels_after.get(key, "absent") for change in changes}))
    return f"{key} is {now} now and {after} then"


def _scan_quota(one: Mapping[str, Any], changes: Sequence[NodeChange]) -> Iterator[Finding]:
    if one.get("kind") != "ResourceQuota":
        return
    for key, amount in mapping(mapping(one.get("spec")).get("hard")).items():
        resource = named(key).removeprefix(_QUOTA_PREFIX)
        meaning = _meaning_change(resource, changes) if named(key).startswith(_QUOTA_PREFIX) else None
        if meaning:
            yield finding("quota-meaning-changes", f"spec.hard[{key}]", f"the quota of {amount} {resource} {meaning}", subject=_subject(one))


def _scan_limit_range(one: Mapping[str, Any], changes: Sequence[NodeChange]) -> Iterator[Finding]:
    if one.get("kind") != "LimitRange":
        return
    for index, limit in enumerate(sequence(mapping(one.get("spec")).get("limits"))):
        for field in _LIMIT_RANGE_FIELDS:
            for resource, amount in mapping(mapping(limit).get(field)).items():
                meaning = _meaning_change(named(resource), changes)
                if meaning:
                    message = f"the limit range's {field} of {amount} {resource} {meaning}"
                    yield finding("limit-range-meaning-changes", f"spec.limits[{index}].{field}[{resource}]", message, subject=_subject(one))


def _meaning_change(resource: str, changes: Sequence[NodeChange]) -> str | None:
    """How the unit of a resource changes over the nodes: what part of a GPU one of it is, or that it is no longer there."""
    if resource not in (GPU, GPU_SHARED):
        return None
    now = {_part(change.labels_now) for change in changes if change.allocatable_now.get(resource, 0)}
    after = {_part(change.labels_after) for change in changes if change.allocatable_after.get(resource, 0)}
    if now == after:
        return None
    if not after:
        return "limits nothing after the change: no GPU node advertises the resource then"
    if not now:
        return f"begins to limit: one is {' or '.join(sorted(after))} after the change, and no node advertises the resource now"
    return f"changes its meaning: one is {' or '.join(sorted(now))} now and {' or '.join(sorted(after))} after the change"


def _part(labels: Mapping[str, str]) -> str:
    replicas = whole_number(labels.get(REPLICAS)) or 1
    return "a whole GPU" if replicas == 1 else f"1/{replicas} of a GPU"


def _identity(one: Mapping[str, Any]) -> tuple[str, str]:
    metadata = mapping(one.get("metadata"))
    return named(metadata.get("namespace") or ""), named(metadata.get("name") or metadata.get("generateName") or "")


def _subject(one: Mapping[str, Any]) -> str:
    """``deployment/namespace/name``; a manifest may leave the namespace out."""
    namespace, name = _identity(one)
    return "/".join(part for part in (named(one.get("kind") or "").lower(), namespace, name) if part)


def _is_over(one: Mapping[str, Any]) -> bool:
    """Whether it is a pod or a Job that has ended and places no pod any more."""
    status = mapping(one.get("status"))
    if one.get("kind") == "Pod":
        return status.get("phase") in ("Succeeded", "Failed")
    ends = (mapping(condition) for condition in sequence(status.get("conditions")))
    return one.get("kind") == "Job" and any(end.get("type") in ("Complete", "Failed") and end.get("status") == "True" for end in ends)


def _controller(one: Mapping[str, Any]) -> tuple[object, str, str] | None:
    """Kind, namespace and name of the object's controller, or None."""
    for owner in sequence(mapping(one.get("metadata")).get("ownerReferences")):
        if mapping(owner).get("controller") is True:
            return owner.get("kind"), _identity(one)[0], named(owner.get("name"))
    return None
