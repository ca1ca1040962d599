# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what one node is expected to be, from a plan or from what the cluster declares itself."""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import Reading, content_hash, read_config
from ansible_collections.gpuops.mps.plugins.module_utils._gpu import GPU, GPU_SHARED
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._plan import NodePlan, Selection
from ansible_collections.gpuops.mps.plugins.module_utils._prediction import Prediction, predict
from ansible_collections.gpuops.mps.plugins.module_utils._selection import select, text_of
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import Node, Snapshot

STRATEGY_LABEL = "nvidia.com/gpu.sharing-strategy"
REPLICAS_LABEL = "nvidia.com/gpu.replicas"
CAPABLE_LABEL = "nvidia.com/mps.capable"
# What a node without label and default runs.
NO_SHARING = SharingConfig(name="", strategy=Strategy.NONE)


@dataclass(frozen=True)
class Expected:
    """What a node is to be once everything has settled.

    C(label) is the config label that it is to carry. C(content) is the hash of the text under the selected key, None
    without a key or where the key is not in the map. C(prediction) is None where nothing can be predicted.
    C(replaced) are uids of agents' pods that must be gone: a rollout names the pods it has restarted.
    """

    node: str
    label: str | None
    selection: Selection
    content: str | None
    prediction: Prediction | None
    group: str | None = None
    replaced: frozenset[str] = frozenset()

    @property
    def strategy(self) -> str | None:
        """The predicted sharing strategy, or None without a prediction."""
        return self._label(STRATEGY_LABEL)

    @property
    def replicas(self) -> int | None:
        """The predicted number of clients per GPU, or None without a prediction."""
        value = self._label(REPLICAS_LABEL)
        return int(value) if value is not None and value.isdigit() else None

    @property
    def daemon(self) -> bool:
        """Whether the node's labels will put an MPS control daemon there, also one that then refuses its config."""
        return self._label(CAPABLE_LABEL) == "true"

    @property
    def resource(self) -> str:
        """The resource name under which the node offers its GPUs."""
        names = [name for name, count in self.prediction.resources.items() if count > 0] if self.prediction else []
        return GPU_SHARED if GPU_SHARED in names else GPU

    def _label(self, key: str) -> str | None:
        return self.prediction.labels.get(key) if self.prediction else None


def expected_by_plan(plan: NodePlan, *, replaced: Collection[str] = ()) -> Expected:
    """What a plan wants of a node."""
    return Expected(
        node=plan.node,
        label=plan.label_wanted,
        selection=plan.wanted,
        content=plan.content_wanted,
        prediction=plan.prediction,
        group=plan.group,
        replaced=frozenset(replaced),
    )


def expected_by_cluster(snapshot: Snapshot) -> tuple[Expected, ...]:
    """What the cluster's own label, default and ConfigMap say every GPU node should be, in the order of the nodes."""
    return tuple(_expected_of(snapshot, node) for node in snapshot.nodes)


def _expected_of(snapshot: Snapshot, node: Node) -> Expected:
    selection = select(node.config_label, snapshot.policy)
    text = text_of(snapshot.config_map.data, selection) if snapshot.config_map else None
    sharing = NO_SHARING if selection.config is None else None
    if selection.config is not None and text is not None:
        sharing = reading_of(selection.config, text, snapshot.plugin_version).config
    return Expected(
        node=node.name,
        label=node.config_label,
        selection=selection,
        content=None if text is None else content_hash(text),
        prediction=None if sharing is None else _prediction(snapshot, node, sharing),
    )


@functools.lru_cache(maxsize=64)
def reading_of(key: str, text: str, version: PluginVersion | None) -> Reading:
    """What a key's text means. Remembered, because a thousand nodes share a few keys."""
    return read_config(key, text, plugin_version=version)


def _prediction(snapshot: Snapshot, node: Node, sharing: SharingConfig) -> Prediction:
    mig_strategy = snapshot.policy.mig_strategy if snapshot.policy else None
    return predict(sharing, node.gpus, mig_strategy=mig_strategy or None, plugin_version=snapshot.plugin_version, node=node.name)
