# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs and configs that several tests of the prediction use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._gpu import Gpus
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._prediction import Prediction, predict

OLD, NEW = PluginVersion(0, 17, 4), PluginVersion(0, 20, 0)

T4 = Gpus(product="Tesla-T4", count=2, total=2, memory_mib=15360, compute=(7, 5), family="turing", replicas=1, mode="compute", mig_capable=False)
A100 = Gpus(
    product="NVIDIA-A100-SXM4-40GB",
    count=4,
    total=4,
    memory_mib=40960,
    compute=(8, 0),
    family="ampere",
    replicas=1,
    mode="compute",
    mig_capable=True,
    mig_config="all-disabled",
)
MIXED = replace(T4, total=3, count=1, mixed=True)


def mps(replicas: int, **fields: Any) -> SharingConfig:
    return SharingConfig("shared", Strategy.MPS, replicas, **fields)


NO_SHARING = SharingConfig("none", Strategy.NONE)
SLICES = SharingConfig("slices", Strategy.TIME_SLICING, 10)


def judge(config: SharingConfig, gpus: Gpus, *, mig_strategy: str | None = None, version: PluginVersion | None = NEW) -> Prediction:
    return predict(config, gpus, mig_strategy=mig_strategy, plugin_version=version, node="gpu-01")


def codes(prediction: Prediction, severity: str | None = None) -> set[str]:
    return {found.code for found in prediction.findings if severity in (None, found.severity)}


def short(labels: Mapping[str, str | None]) -> dict[str, str]:
    """The labels that are there, without the prefix."""
    return {key.removeprefix("nvidia.com/"): value for key, value in labels.items() if value is not None}
