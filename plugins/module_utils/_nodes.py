# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: which config label every GPU node gets. Pure."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import NodeGroup
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, finding
from ansible_collections.gpuops.mps.plugins.module_utils._groups import PATH, Membership, listed, membership
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import read_applied
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import CONFIG_LABEL, Node, Snapshot

FIELD_MANAGER = "gpuops.mps"


@dataclass(frozen=True)
class LabelChange:
    """The label of one node, now and wanted (None: no label). ``left_group`` says that it once belonged to a group and no longer does."""

    node: str
    group: str | None
    before: str | None
    after: str | None
    left_group: bool = False

    @property
    def changed(self) -> bool:
        """Whether the label is written."""
        return self.before != self.after


@dataclass(frozen=True)
class LabelPlan:
    """The label of every GPU node, and the members of every group."""

    nodes: tuple[LabelChange, ...]
    groups: t.Mapping[str, tuple[str, ...]]
    findings: tuple[Finding, ...]


def plan_labels(groups: t.Sequence[NodeGroup], snapshot: Snapshot, *, keys: t.Mapping[str, str], available: t.Collection[str], on_left_group: str) -> LabelPlan:
    """The label of every GPU node.

    ``keys`` maps a config's name to its key where they differ; ``available`` are the keys the map will have. A node that
    is in no group keeps its label, unless ``on_left_group`` is ``remove`` and the label was written by this collection.
    """
    members = membership(groups, snapshot.nodes)
    changes = tuple(_change(node, members, keys, on_left_group) for node in snapshot.nodes)
    unknown = (group for group in groups if keys.get(group.config, group.config) not in available)
    findings = [*members.findings, *(_no_key(group, snapshot, available) for group in unknown), *_kept_labels(changes, available, snapshot)]
    left = [change.node for change in changes if change.left_group]
    if left:
        verb = "keep" if on_left_group == "keep" else "lose"
        what = (
            f"1 node is in no group any more and {verb}s its label" if len(left) == 1 else f"{len(left)} nodes are in no group any more and {verb} their labels"
        )
        findings.append(finding("node-left-group", PATH, f"{what}: {listed(left)}", subject=f"node/{left[0]}"))
    return LabelPlan(changes, members.nodes_of, tuple(findings))


def label_operations(change: LabelChange, uid: str) -> list[dict[str, t.Any]]:
    """The JSON patch for a node: this label and nothing else, while the node is the same one and the label as it was seen.

    A node's version changes with every heartbeat, so it is the label itself that guards the write. The API server takes
    a test for null as passed where the label is absent (Kubernetes, apimachinery with json-patch v4 and v5).
    """
    path = "/metadata/labels/" + CONFIG_LABEL.replace("/", "~1")
    guards = [{"op": "test", "path": path, "value": change.before}]
    if uid:
        guards.append({"op": "test", "path": "/metadata/uid", "value": uid})
    if change.after is None:
        return [*guards, {"op": "remove", "path": path}]
    return [*guards, {"op": "add", "path": path, "value": change.after}]


def _change(node: Node, members: Membership, keys: t.Mapping[str, str], on_left_group: str) -> LabelChange:
    before = node.labels.get(CONFIG_LABEL)
    group = members.group_of.get(node.name)
    if group is not None:
        return LabelChange(node.name, group.name, before, keys.get(group.config, group.config))
    aside, former = _put_aside(node, before)
    if aside:
        return LabelChange(node.name, None, before, former)
    in_dispute = any(node.name in names for names in members.nodes_of.values())
    left = before is not None and node.label_owner == FIELD_MANAGER and not in_dispute
    return LabelChange(node.name, None, before, None if left and on_left_group == "remove" else before, left)


def _put_aside(node: Node, label: str | None) -> tuple[bool, str | None]:
    """Whether a rollout that failed has put the node under a name that only keeps its former content, and the label it had before.

    That name is nobody's wish: the next plan leads from the label that the node had.
    """
    applied = read_applied(node.annotations)
    if applied is None or applied.former is None or not applied.returned:
        return False, None
    return label is not None and applied.config == label != applied.former.label, applied.former.label


def _no_key(group: NodeGroup, snapshot: Snapshot, available: t.Collection[str]) -> Finding:
    known = ", ".join(sorted(available)) or "none"
    return finding(
        "key-of-label-absent",
        f"{PATH}.{group.name}.config",
        f"the group '{group.name}' wants the config '{group.config}', which is not one of the keys of the ConfigMap '{snapshot.map_name}': {known}",
        subject=f"configmap/{snapshot.namespace}/{snapshot.map_name}",
    )


def _kept_labels(changes: t.Sequence[LabelChange], available: t.Collection[str], snapshot: Snapshot) -> t.Iterator[Finding]:
    """Labels that stay as they are although they name no key: they break at the node's next restart, not now."""
    broken: dict[str, list[str]] = {}
    for change in changes:
        if change.group is None and change.after and change.after not in available:
            broken.setdefault(change.after, []).append(change.node)
    known = ", ".join(sorted(available)) or "none"
    for value, names in broken.items():
        yield finding(
            "key-of-label-absent",
            f"{CONFIG_LABEL}={value}",
            f"the label of {listed(names)} names the config '{value}', which is not one of the keys of the ConfigMap '{snapshot.map_name}': {known}",
            subject=f"node/{names[0]}",
        )
