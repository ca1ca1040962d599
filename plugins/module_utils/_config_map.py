# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what happens to the ConfigMap. Pure."""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import dataclass, replace

from ansible_collections.gpuops.mps.plugins.module_utils._annotations import annotated
from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import check_size, content_hash, read_config, write_config
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, finding
from ansible_collections.gpuops.mps.plugins.module_utils._groups import listed
from ansible_collections.gpuops.mps.plugins.module_utils._plan import ConfigMapPlan, KeyChange
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import ConfigMap, Snapshot

FORMER_ANNOTATION = "gpuops.mps/former"
MANAGED_ANNOTATION = "gpuops.mps/managed-keys"
# Annotations of one object hold 256 KiB together; what is kept of former texts stays well below.
FORMER_BYTES = 128 * 1024
LONGEST_LABEL_VALUE = 63

# The operator names a volume after the map, in three DaemonSets that have these volumes already
# (gpu-operator v25.3.4, object_controls.go, handleDevicePluginConfig, and the assets of the three states).
RESERVED_NAMES = frozenset(
    {
        "config",
        "nvidia-device-plugin-entrypoint",
        "device-plugin",
        "run-nvidia-validations",
        "driver-install-dir",
        "host-root",
        "cdi-root",
        "mps-root",
        "mps-shm",
        "run-nvidia",
        "output-dir",
        "host-sys",
    }
)
_VOLUME_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Users:
    """Who refers to keys of the map: key -> nodes by label, and the policy's default ("" when unset)."""

    nodes: t.Mapping[str, tuple[str, ...]]
    default: str = ""

    def of(self, key: str) -> str:
        """The users of a key for a sentence; "" when there are none."""
        nodes = self.nodes.get(key, ())
        found = [f"the label of {listed(nodes)}"] if nodes else []
        if key == self.default:
            found.append("the default of the ClusterPolicy")
        return " and ".join(found)


def users_now(snapshot: Snapshot) -> Users:
    """Who refers to the planned map's keys as the cluster is."""
    policy = snapshot.policy
    if policy is None or policy.config_name != snapshot.map_name:
        return Users({})
    return users_of(((node.name, node.config_label) for node in snapshot.nodes), policy.config_default)


def users_of(labels: t.Iterable[tuple[str, str | None]], default: str) -> Users:
    """The users of keys, from the name and the config label of each node."""
    nodes: dict[str, list[str]] = {}
    for name, key in labels:
        if key:
            nodes.setdefault(key, []).append(name)
    return Users({key: tuple(names) for key, names in nodes.items()}, default)


def keys_of(configs: t.Iterable[SharingConfig], update_strategy: str) -> dict[str, str]:
    """Config name -> key. ``versioned`` puts a hash of the content into the key, so that an edit never changes what a label means."""
    if update_strategy != "versioned":
        return {config.name: config.name for config in configs}
    return {config.name: versioned_key(config) for config in configs}


def versioned_key(config: SharingConfig) -> str:
    """The config's name, cut so that name and hash fit a label value."""
    digest = content_hash(write_config(config))
    return f"{config.name[: LONGEST_LABEL_VALUE - len(digest) - 1]}-{digest}"


def plan_config_map(
    configs: t.Sequence[SharingConfig], snapshot: Snapshot, *, keys: t.Mapping[str, str], users: Users
) -> tuple[ConfigMapPlan, tuple[Finding, ...]]:
    """The key changes that give every config its text, and remove keys of ours that are no longer declared.

    A text that is there already and means the same is left as it is, comments and other settings included. Keys that
    somebody else wrote and that are not declared stay. A key of ours that is still in use is not removed: that is an error.
    """
    found = snapshot.config_map
    data = dict(found.data) if found else {}
    changes = [*_declared_changes(configs, keys, data, snapshot)]
    findings = [*check_name(snapshot.map_name), *_immutable(found, changes)]
    for key in sorted(managed_keys(found) - set(keys.values())):
        if key not in data:
            continue
        if users.of(key):
            findings.append(key_in_use(snapshot, key, users))
        else:
            changes.append(KeyChange(key, "remove", data[key], None))
    findings += [_taken_over(snapshot, change) for change in changes if change.action == "change" and change.key not in managed_keys(found)]
    plan = _plan(snapshot, tuple(changes))
    if any(change.action != "remove" for change in changes):
        findings += check_size(data_after(found, plan), subject=f"configmap/{plan.namespace}/{plan.name}")
    return plan, tuple(findings)


def plan_absent(snapshot: Snapshot, *, users: Users) -> tuple[ConfigMapPlan, tuple[Finding, ...]]:
    """Remove every key of ours, and the map once it has no other; what is still referred to is an error."""
    found = snapshot.config_map
    if found is None:
        return replace(_plan(snapshot, ()), exists=True), ()
    ours = sorted(managed_keys(found) & set(found.data))
    deletes = not set(found.data) - set(ours) and not found.binary_keys
    findings = [key_in_use(snapshot, key, users) for key in ours if users.of(key)]
    policy = snapshot.policy
    if deletes and policy is not None and policy.config_name == found.name:
        findings.append(
            finding(
                "config-map-in-use",
                found.name,
                f"the ConfigMap '{found.name}' cannot be deleted: the ClusterPolicy '{policy.name}' refers to it",
                subject=f"configmap/{found.namespace}/{found.name}",
            )
        )
    changes = tuple(KeyChange(key, "remove", found.data[key], None) for key in ours)
    return replace(_plan(snapshot, changes), deletes=deletes), tuple(findings)


def check_owners(snapshot: Snapshot, plan: ConfigMapPlan) -> t.Iterator[Finding]:
    """Who may put the map's texts back."""
    found = snapshot.config_map
    for owner in found.owners if found is not None and plan.changed else ():
        yield finding(
            "config-map-owned-elsewhere",
            plan.name,
            f"the ConfigMap '{plan.name}' is kept by {owner.kind} ('{owner.name}'), which may put its own texts back",
            subject=f"configmap/{plan.namespace}/{plan.name}",
        )


def data_after(found: ConfigMap | None, plan: ConfigMapPlan) -> dict[str, str]:
    """The map's texts once the plan is carried out."""
    data = dict(found.data) if found else {}
    for change in plan.keys:
        if change.after is None:
            data.pop(change.key, None)
        else:
            data[change.key] = change.after
    return data


def without_removals(plan: ConfigMapPlan) -> ConfigMapPlan:
    """The part that may be written before the nodes have moved: a key must not go while a label may still name it."""
    return replace(plan, keys=tuple(change for change in plan.keys if change.action != "remove"))


def only_removals(plan: ConfigMapPlan) -> ConfigMapPlan:
    """The part that is left for the end."""
    return replace(plan, exists=True, keys=tuple(change for change in plan.keys if change.action == "remove"))


def managed_keys(found: ConfigMap | None) -> frozenset[str]:
    """Keys that this collection wrote, by its annotation on the map."""
    return frozenset(str(key) for key in annotated(found.annotations if found else {}, MANAGED_ANNOTATION, list))


def former_texts(found: ConfigMap | None) -> dict[str, str]:
    """Texts that keys had before they were last changed or removed, by the annotation on the map."""
    return {str(key): str(text) for key, text in annotated(found.annotations if found else {}, FORMER_ANNOTATION, dict).items()}


def config_map_patch(plan: ConfigMapPlan, found: ConfigMap | None, *, former: t.Mapping[str, str] | None = None) -> dict[str, t.Any]:
    """The merge patch for the map: only our keys and our annotations. ``former`` goes before the texts that the plan replaces."""
    removed = {change.key for change in plan.keys if change.action == "remove"}
    written = {change.key for change in plan.keys if change.action != "remove"}
    managed = (managed_keys(found) | written) - removed
    replaced = {change.key: change.before for change in plan.keys if change.before is not None}
    kept = former_texts(found) | replaced | dict(former or {})
    while kept and len(json.dumps(kept)) > FORMER_BYTES:
        kept.pop(next(iter(kept)))
    annotations = {MANAGED_ANNOTATION: json.dumps(sorted(managed)), FORMER_ANNOTATION: json.dumps(kept, sort_keys=True) if kept else None}
    return {"metadata": {"annotations": annotations}, "data": {change.key: change.after for change in plan.keys}}


def check_name(name: str) -> t.Iterator[Finding]:
    """A name that the operator cannot use as a volume name makes the API server refuse its DaemonSets."""
    if not _VOLUME_NAME.fullmatch(name):
        why = "it is not a DNS label of at most 63 lower-case letters, digits and hyphens"
    elif name in RESERVED_NAMES:
        why = "one of the operator's DaemonSets has a volume of that name"
    else:
        return
    yield finding("config-map-name-unusable", "config_map", f"the operator cannot mount a ConfigMap named '{name}': {why}", subject=f"configmap/{name}")


def key_in_use(snapshot: Snapshot, key: str, users: Users) -> Finding:
    """The error that names who still uses a key."""
    return finding(
        "key-in-use",
        f"{snapshot.map_name}.{key}",
        f"the key '{key}' of the ConfigMap '{snapshot.map_name}' cannot be removed: it is used by {users.of(key)}",
        subject=f"configmap/{snapshot.namespace}/{snapshot.map_name}",
    )


def _declared_changes(configs: t.Iterable[SharingConfig], keys: t.Mapping[str, str], data: t.Mapping[str, str], snapshot: Snapshot) -> t.Iterator[KeyChange]:
    for config in configs:
        key = keys[config.name]
        before = data.get(key)
        if before is None:
            yield KeyChange(key, "add", None, write_config(config))
        elif not _means(key, before, config, snapshot):
            yield KeyChange(key, "change", before, write_config(config))


def _means(key: str, text: str, config: SharingConfig, snapshot: Snapshot) -> bool:
    reading = read_config(key, text, plugin_version=snapshot.plugin_version)
    return reading.config is not None and replace(reading.config, name=config.name) == config


def _plan(snapshot: Snapshot, changes: tuple[KeyChange, ...]) -> ConfigMapPlan:
    found = snapshot.config_map
    return ConfigMapPlan(
        namespace=snapshot.namespace,
        name=snapshot.map_name,
        exists=found is not None,
        resource_version=found.resource_version if found else None,
        keys=tuple(sorted(changes, key=lambda change: change.key)),
    )


def _immutable(found: ConfigMap | None, changes: t.Sequence[KeyChange]) -> t.Iterator[Finding]:
    if found is not None and found.immutable and changes:
        yield finding(
            "config-map-immutable",
            f"{found.name}",
            f"the ConfigMap '{found.name}' is immutable, so its keys cannot be changed",
            subject=f"configmap/{found.namespace}/{found.name}",
        )


def _taken_over(snapshot: Snapshot, change: KeyChange) -> Finding:
    return finding(
        "key-taken-over",
        f"{snapshot.map_name}.{change.key}",
        f"the key '{change.key}' was not written by this collection and means something else; its text is replaced and kept in an annotation",
        subject=f"configmap/{snapshot.namespace}/{snapshot.map_name}",
    )
