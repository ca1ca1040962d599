# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: which nodes belong to which group, the same before, during and after sharing is on. Pure."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import Match, NodeGroup
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, finding
from ansible_collections.gpuops.mps.plugins.module_utils._gpu import plain_product
from ansible_collections.gpuops.mps.plugins.module_utils._selectors import Requirement, Selector, parse_selector
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import CONFIG_LABEL, Node

PATH = "mps_node_groups"
PRODUCT_LABEL = "nvidia.com/gpu.product"
# Labels that follow from the config itself (k8s-device-plugin v0.20.0, internal/lm/resource.go and nvml.go).
FOLLOWING_LABELS = frozenset({CONFIG_LABEL, "nvidia.com/gpu.replicas", "nvidia.com/gpu.sharing-strategy", "nvidia.com/mps.capable"})


@dataclass(frozen=True)
class Membership:
    """Which nodes each group has, and which group each node has; a node of two groups with different configs has a finding and no group."""

    nodes_of: t.Mapping[str, tuple[str, ...]]
    group_of: t.Mapping[str, NodeGroup]
    findings: tuple[Finding, ...] = ()


def membership(groups: t.Sequence[NodeGroup], nodes: t.Sequence[Node]) -> Membership:
    """The members of every group among the GPU nodes."""
    nodes_of = {group.name: _members(group, nodes) for group in groups}
    by_node: dict[str, list[NodeGroup]] = {}
    for group in groups:
        for name in nodes_of[group.name]:
            by_node.setdefault(name, []).append(group)
    findings = [*_overlaps(by_node), *_unstable(groups), *_strangers(groups, {node.name for node in nodes}), *_empty(groups, nodes_of)]
    agreed = {name: found[0] for name, found in by_node.items() if len({group.config for group in found}) == 1}
    return Membership(nodes_of, agreed, tuple(findings))


def _members(group: NodeGroup, nodes: t.Iterable[Node]) -> tuple[str, ...]:
    """Names of the nodes that are listed, or that fit every selector and the match that the group has."""
    selectors = tuple(stable_selector(parse_selector(text)) for text in group.selectors)
    by_facts = bool(selectors) or group.match is not None
    return tuple(node.name for node in nodes if node.name in group.nodes or (by_facts and _fits(node, selectors, group.match)))


def stable_selector(selector: Selector) -> Selector:
    """The selector with products written without ``-SHARED``, so that it means the same whether sharing is on or off."""
    return replace(selector, requirements=tuple(_stable_requirement(one) for one in selector.requirements))


def _stable_requirement(requirement: Requirement) -> Requirement:
    if requirement.key != PRODUCT_LABEL:
        return requirement
    return replace(requirement, values=tuple(plain_product(value) for value in requirement.values))


def stable_labels(labels: t.Mapping[str, str]) -> t.Mapping[str, str]:
    """A node's labels with the product as it is without sharing."""
    product = labels.get(PRODUCT_LABEL)
    return labels if product is None else {**labels, PRODUCT_LABEL: plain_product(product)}


def _fits(node: Node, selectors: t.Sequence[Selector], match: Match | None) -> bool:
    labels = stable_labels(node.labels)
    return all(selector.matches(labels) for selector in selectors) and (match is None or _has_facts(node, match, labels))


def _has_facts(node: Node, match: Match, labels: t.Mapping[str, str]) -> bool:
    gpus = node.gpus
    memory = gpus.memory_mib
    return all(
        (
            match.product is None or gpus.product == plain_product(match.product),
            match.memory_at_least is None or (memory is not None and memory >= match.memory_at_least),
            match.memory_at_most is None or (memory is not None and memory <= match.memory_at_most),
            match.architecture is None or gpus.family == match.architecture,
            match.count is None or gpus.count == match.count,
            all(labels.get(key) == (plain_product(value) if key == PRODUCT_LABEL else value) for key, value in match.labels),
        )
    )


def _overlaps(by_node: t.Mapping[str, t.Sequence[NodeGroup]]) -> t.Iterator[Finding]:
    """One finding for each pair of groups that give the same nodes different configs."""
    shared: dict[tuple[NodeGroup, NodeGroup], list[str]] = {}
    for name, groups in by_node.items():
        for index, first in enumerate(groups):
            for second in groups[index + 1 :]:
                if first.config != second.config:
                    shared.setdefault((first, second), []).append(name)
    for (first, second), names in shared.items():
        yield finding(
            "group-overlap",
            f"{PATH}.{first.name}",
            f"the groups '{first.name}' (config '{first.config}') and '{second.name}' (config '{second.config}') both contain {listed(names)}",
            subject=f"node/{names[0]}",
        )


def _unstable(groups: t.Iterable[NodeGroup]) -> t.Iterator[Finding]:
    for group in groups:
        requirements = (one.key for text in group.selectors for one in parse_selector(text).requirements)
        wanted = (key for key, _value in (group.match.labels if group.match else ()))
        for key in sorted(FOLLOWING_LABELS & {*requirements, *wanted}):
            message = f"the group '{group.name}' selects by the label {key}, which changes when the group's config is applied"
            yield finding("group-unstable", f"{PATH}.{group.name}", message)


def _strangers(groups: t.Iterable[NodeGroup], known: t.Collection[str]) -> t.Iterator[Finding]:
    for group in groups:
        for name in group.nodes:
            if name not in known:
                yield finding(
                    "node-unknown", f"{PATH}.{group.name}.nodes", f"the group '{group.name}' lists '{name}', which is not a GPU node", subject=f"node/{name}"
                )


def _empty(groups: t.Iterable[NodeGroup], nodes_of: t.Mapping[str, t.Sequence[str]]) -> t.Iterator[Finding]:
    for group in groups:
        if not nodes_of[group.name]:
            yield finding("group-empty", f"{PATH}.{group.name}", f"no GPU node belongs to the group '{group.name}'")


def listed(names: t.Sequence[str], most: int = 5) -> str:
    """Names for a sentence: the first few, and how many more there are."""
    rest = len(names) - most
    return ", ".join(f"'{name}'" for name in names[:most]) + (f" and {rest} more" if rest > 0 else "")
