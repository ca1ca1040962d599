# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what a plan means for nodes that do not exist yet: one node template per kind of node and config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpuops.mps.plugins.module_utils._advice import AdviceError, GpuModel, advise_declared
from ansible_collections.gpuops.mps.plugins.module_utils._gpu import GPU_SHARED, gpus_from_labels
from ansible_collections.gpuops.mps.plugins.module_utils._plan import NodePlan, Plan


def node_templates(plan: Plan) -> list[dict[str, Any]]:
    """One entry per config and kind of node (product, memory, number of GPUs) that the plan shares by MPS, sorted.

    Each holds ``config``, ``product``, ``gpus`` per node, ``nodes`` (how many there are) and ``advice`` as plain data. Nodes that are
    refused, of several products, or whose labels do not say enough are left out.
    """
    found: dict[tuple[str, str, int, int], dict[str, Any]] = {}
    for node in plan.nodes:
        template = _template(node)
        if template is not None:
            key = (template["config"], template["product"], template["gpus"], template["advice"]["memory_mib"] or 0)
            found.setdefault(key, template)["nodes"] += 1
    return [found[key] for key in sorted(found)]


def _template(node: NodePlan) -> dict[str, Any] | None:
    prediction, config = node.prediction, node.wanted.config
    if prediction is None or config is None or not prediction.daemon or not prediction.exact:
        return None
    gpus = gpus_from_labels(_present(prediction.labels))
    if gpus.compute is None or not gpus.count or not gpus.replicas:
        return None
    model = GpuModel(gpus.memory_mib, gpus.compute, gpus.count, gpus.product)
    try:
        advice = advise_declared(model, gpus.replicas, config=config, rename_by_default=GPU_SHARED in prediction.resources)
    except AdviceError:
        return None  # a GPU before Volta that the user accepted
    return {"config": config, "product": gpus.product, "gpus": gpus.count, "nodes": 0, "advice": advice.as_dict()}


def _present(labels: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if value is not None}
