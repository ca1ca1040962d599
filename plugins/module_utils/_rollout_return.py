# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: where a node came from, and how it can go back there. Decided before the first write.

Label, content and what the agents run have to agree at every end. A content edit changes what a label means on all nodes
at once, so a node can only go back alone when its former content stays in the map under a name of its own and the
node's label may name it. From k8s-device-plugin v0.18.2 on, a label that differs from the policy's default breaks the
MPS pods (report 1645); then the map and the policy go back, and every node with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import content_hash, read_config, write_config
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion, label_must_equal_default, thread_percentage
from ansible_collections.gpuops.mps.plugins.module_utils._plan import ConfigMapPlan, KeyChange, Plan
from ansible_collections.gpuops.mps.plugins.module_utils._prediction import Prediction
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import Applied, Former, Mark, read_applied, read_mark
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_node import Target
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_record import SCOPE_NODE, SCOPE_WHOLE, Record
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_view import SHARING_LABELS, gpu_resources, sharing_labels
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENTS, Node

LABEL_LENGTH = 63
NO_SHARING_KEY = "none"


@dataclass(frozen=True)
class FormerConfigs:
    """What labels and default meant before the rollout: the policy's former values and the former text of every key."""

    config_name: str
    config_default: str
    texts: Mapping[str, str]

    def selection(self, label: str | None) -> tuple[str | None, str]:
        """Which config a node with this label ran, and why (k8s-device-plugin, cmd/config-manager: label, default, nothing)."""
        if not self.config_name:
            return None, "none"
        if label:
            return label, "label"
        return (self.config_default, "default") if self.config_default else (None, "none")

    def content(self, config: str | None) -> str | None:
        """The hash of a config's former text, None where there was none."""
        text = self.texts.get(config) if config else None
        return None if text is None else content_hash(text)


@dataclass(frozen=True)
class WayBack:
    """How nodes can go back: C(scope) is node or whole, C(reason) why, in words for the plan.

    C(preserved) are keys to add to the map before anything else, name -> former text. C(labels) maps each former config
    (None: no config) whose former label does not mean the same any more to the label by which a node gets that content
    back while map and policy stay new.
    """

    scope: str
    reason: str
    preserved: Mapping[str, str]
    labels: Mapping[str | None, str | None]


def former_configs(record: Record, current: Mapping[str, str], kept: Mapping[str, str]) -> FormerConfigs:
    """What labels meant before the rollout. C(kept) are the former texts that stand on the map, by key.

    A text counts as a key's former one by its hash only: the map may not be written yet, or may have been edited since.
    """
    texts = {key: text for key, text in current.items() if key not in record.former_hashes}
    for key, wanted in record.former_hashes.items():
        for text in (current.get(key), kept.get(key)):
            if wanted is not None and text is not None and content_hash(text) == wanted:
                texts[key] = text
    return FormerConfigs(record.former_config_name, record.former_config_default, texts)


def former_of(node: Node, formers: FormerConfigs, record: Record) -> Former:
    """Where a node came from: what an unfinished rollout has noted on it, or else what it is now."""
    mark, applied = read_mark(node.annotations), read_applied(node.annotations)
    noted = _noted(mark, applied, record)
    if noted is not None:
        return noted
    config, source = formers.selection(node.config_label)
    return Former(
        label=node.config_label,
        config=config,
        source=source,
        content=formers.content(config),
        daemon=node.labels.get("nvidia.com/mps.capable") == "true",
        features=sharing_labels(node.labels),
        allocatable=gpu_resources(node.allocatable),
    )


def _noted(mark: Mark | None, applied: Applied | None, record: Record) -> Former | None:
    if mark is not None and mark.touched:
        return mark.former
    if applied is not None and applied.rollout == record.id and applied.former is not None:
        return applied.former
    return None


def former_target(former: Former, formers: FormerConfigs, version: PluginVersion | None) -> Target:
    """The former config as a target. What must show again is what was seen before; only the daemon's limits are computed."""
    text = formers.texts.get(former.config) if former.config else None
    sharing = read_config(former.config, text, plugin_version=version).config if former.config and text is not None else None
    replicas = sharing.replicas if sharing and sharing.strategy is Strategy.MPS else None
    prediction = Prediction(
        labels={key: former.features.get(key) for key in SHARING_LABELS},
        resources=dict(former.allocatable),
        thread_percentage=thread_percentage(replicas) if replicas and former.daemon else None,
        daemon=former.daemon,
    )
    return Target(former.label, former.config, former.source, former.content, prediction, AGENTS)


def relabelled_target(target: Target, label: str | None, default: str) -> Target:
    """The same content under another label: the key that the label or, without one, the default names."""
    if label == target.label:
        return target
    source = "label" if label else "default" if default else "none"
    return replace(target, label=label, config=label or default or None, source=source)


def plan_way_back(
    plan: Plan, labels_before: Iterable[str | None], formers: FormerConfigs, current: Mapping[str, str], version: PluginVersion | None
) -> WayBack:
    """Decide how nodes could go back from this plan, before anything is written.

    C(labels_before) are the labels that nodes had before the rollout, C(current) are the map's texts now.
    """
    if plan.policy is not None and formers.config_name and plan.policy.name_after != formers.config_name:
        return _whole(f"the policy's ConfigMap changes from {formers.config_name} to {plan.policy.name_after}")
    default_after = plan.policy.default_after if plan.policy else ""
    return way_back(labels_before, formers, _texts_after(plan.config_map, current), default_after, version)


def way_back(
    labels_before: Iterable[str | None], formers: FormerConfigs, after: Mapping[str, str], default_after: str, version: PluginVersion | None
) -> WayBack:
    """How nodes with these labels can go back while the map holds the texts C(after) and the policy has C(default_after)."""
    preserved: dict[str, str] = {}
    labels: dict[str | None, str | None] = {}
    for label, config in sorted({(label or "", formers.selection(label)[0] or "") for label in labels_before}):
        if (label or default_after) == config and after.get(config) == formers.texts.get(config):
            continue  # the former label still means what it meant
        key, text = _place(config or None, formers, {**after, **preserved})
        if text is not None:
            preserved[key] = text
        if _breaks(config or None, key, default_after, formers, version):
            return _whole(f"device plugin {version} runs MPS only under the policy's default, so no node can keep '{config}' by its label")
        labels[config or None] = key
    return WayBack(SCOPE_NODE, "each node goes back by its own label", preserved, labels)


def return_label(former: Former, way: WayBack) -> str | None:
    """The label with which a node gets its former content back while map and policy stay as planned.

    Its own former label where that still means the same; else the name under which the content is kept.
    """
    return way.labels.get(former.config, former.label)


def _whole(reason: str) -> WayBack:
    return WayBack(SCOPE_WHOLE, reason, {}, {})


def _texts_after(config_map: ConfigMapPlan, current: Mapping[str, str]) -> dict[str, str]:
    """The map while the rollout runs: keys to be removed are still there, since nodes may need them."""
    texts = dict(current)
    texts.update({change.key: change.after for change in config_map.keys if change.after is not None})
    return texts


def _place(config: str | None, formers: FormerConfigs, after: Mapping[str, str]) -> tuple[str, str | None]:
    """The key that holds a former config's content, and the text to add under it where it is not in the map."""
    text = formers.texts.get(config) if config else write_config(SharingConfig(name=NO_SHARING_KEY, strategy=Strategy.NONE))
    name = config or NO_SHARING_KEY
    if text is None or after.get(name) == text:
        return name, None
    key = preserved_key(name, text)
    return key, None if after.get(key) == text else text


def preserved_key(name: str, text: str) -> str:
    """The name under which a former text is kept: the config's name and the text's hash, short enough for a label."""
    suffix = f"-{content_hash(text)}"
    return name[: LABEL_LENGTH - len(suffix)].rstrip("-_.") + suffix


def _breaks(config: str | None, key: str, default_after: str, formers: FormerConfigs, version: PluginVersion | None) -> bool:
    """Whether a node that is put under C(key) would lose its MPS pods."""
    if version is None or not label_must_equal_default(version) or key == default_after:
        return False
    text = formers.texts.get(config) if config else None
    sharing = read_config(config, text, plugin_version=version).config if config and text is not None else None
    return sharing is not None and sharing.strategy is Strategy.MPS


def with_preserved(config_map: ConfigMapPlan, preserved: Mapping[str, str]) -> ConfigMapPlan:
    """The map's plan for the start of the rollout: additions, changes and the preserved keys, but no removals yet."""
    kept = tuple(change for change in config_map.keys if change.action != "remove")
    added = tuple(KeyChange(key, "add", None, text) for key, text in sorted(preserved.items()))
    return replace(config_map, keys=kept + added)
