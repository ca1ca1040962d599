# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what a config makes of a node's GPUs: labels, resources, limits, and what is wrong with the pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._findings import CATALOGUE, Finding
from ansible_collections.gpuops.mps.plugins.module_utils._gpu import GPU, GPU_SHARED, MIG_INVALID, PREFIX, SHARED_SUFFIX, Gpus, architecture, gpus_from_labels
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion, memory_limit_mib, thread_percentage
from ansible_collections.gpuops.mps.plugins.module_utils._pair_checks import check_config, check_pair, effective_mig_strategy, mig_hides_devices

PRODUCT = f"{PREFIX}gpu.product"
REPLICAS = f"{PREFIX}gpu.replicas"

# Labels that are the same whichever of a node's products GFD happens to describe.
_OF_THE_NODE = ("gpu.replicas", "gpu.sharing-strategy", "gpu.mode", "mig.capable", "mig.strategy", "mps.capable")


@dataclass(frozen=True)
class Prediction:
    """What a node looks like once every agent runs the config.

    ``labels`` have full keys; None means that the label is absent. ``resources`` are the allocatable numbers once settled; a name that is
    not there is absent or 0, which kubelet does not tell apart. ``thread_percentage`` and ``memory_mib`` (MiB) hold for each client process
    under MPS, for the labelled product; ``memory_mib`` is None when the GPU reports no memory and nothing limits a client.
    ``daemon`` says that an MPS control daemon serves the node. ``exact`` is False for a node of several products: ``labels`` then
    hold for all of them, ``labels_one_of`` has the full set of the one product that is known, and others may appear in its place.
    An inexact prediction without labels and resources says nothing at all. Use ``disagreements`` to compare with a node.
    """

    labels: Mapping[str, str | None] = field(default_factory=dict)
    resources: Mapping[str, int] = field(default_factory=dict)
    thread_percentage: int | None = None
    memory_mib: int | None = None
    daemon: bool = False
    findings: tuple[Finding, ...] = ()
    exact: bool = True
    labels_one_of: tuple[Mapping[str, str | None], ...] = ()


@dataclass(frozen=True)
class Disagreement:
    """One label or resource (full name) that is not as predicted; ``actual`` is None where it is absent."""

    name: str
    expected: str
    actual: str | None


def predict(config: SharingConfig, gpus: Gpus, *, mig_strategy: str | None, plugin_version: PluginVersion | None, node: str = "", path: str = "") -> Prediction:
    """What ``config`` makes of a node with these GPUs, and every finding about the pair.

    ``mig_strategy`` is the ClusterPolicy's ``spec.mig.strategy``, None or "" when it sets none. ``plugin_version`` None means not known.
    ``path`` begins the findings' paths (default: the config's name). Findings about the config alone have no subject and are equal
    on every node, so that a caller with many nodes can drop repetitions. Never raises.
    """
    path = path or config.name
    subject = f"node/{node}" if node else ""
    mig = effective_mig_strategy(config, mig_strategy)
    findings = check_config(config, mig_strategy, plugin_version, path) + check_pair(config, gpus, mig, path, subject)
    if _unpredictable(config, gpus, mig):
        return Prediction(findings=findings, exact=False)
    labels = _labels(config, gpus, mig, plugin_version)
    # What is refused but acceptable is a risk of this collection's judgement: the real components advertise the resource.
    served = all(found.severity != "error" or CATALOGUE[found.code].acceptable for found in findings)
    clients = config.replicas if config.strategy is Strategy.MPS else None
    return Prediction(
        labels={key: labels[key] for key in labels if not gpus.mixed or key.removeprefix(PREFIX) in _OF_THE_NODE},
        resources=_resources(config, gpus) if served else {},
        thread_percentage=thread_percentage(clients) if clients else None,
        memory_mib=memory_limit_mib(gpus.memory_mib, clients) if clients and gpus.memory_mib else None,
        daemon=bool(clients) and served,
        findings=findings,
        exact=not gpus.mixed,
        labels_one_of=(labels,) if gpus.mixed else (),
    )


def disagreements(prediction: Prediction, labels: Mapping[str, str], allocatable: Mapping[str, int]) -> tuple[Disagreement, ...]:
    """Where a node's labels (full keys) and allocatable resources are not as predicted; empty when all is as it should be.

    A node of several products is judged by what holds for every product: the product label ends as the sharing demands, and
    the resource is a whole multiple of the replicas that covers at least the labelled GPUs.
    """
    found = [Disagreement(key, expected or "absent", labels.get(key)) for key, expected in prediction.labels.items() if labels.get(key) != expected]
    if not prediction.exact:
        return tuple(found + _mixed_disagreements(prediction, labels, allocatable))
    for name in (GPU, GPU_SHARED):
        expected_count = prediction.resources.get(name, 0)
        if allocatable.get(name, 0) != expected_count:
            found.append(Disagreement(name, str(expected_count), _text(allocatable.get(name))))
    return tuple(found)


def _mixed_disagreements(prediction: Prediction, labels: Mapping[str, str], allocatable: Mapping[str, int]) -> list[Disagreement]:
    if not prediction.labels_one_of:
        return []
    known, actual, found = prediction.labels_one_of[0], labels.get(PRODUCT), []
    shared = str(known[PRODUCT]).endswith(SHARED_SUFFIX)
    if actual is None or actual.endswith(SHARED_SUFFIX) != shared:
        found.append(Disagreement(PRODUCT, f"a product {'with' if shared else 'without'} {SHARED_SUFFIX}", actual))
    replicas, count = max(int(str(known[REPLICAS])), 1), gpus_from_labels(labels).count
    least = replicas * (1 if count is None else count)
    for name in (GPU, GPU_SHARED):
        number = allocatable.get(name, 0)
        if name not in prediction.resources and number:
            found.append(Disagreement(name, "0", str(number)))
        if name in prediction.resources and (number < least or number % replicas):
            found.append(Disagreement(name, f"a multiple of {replicas}, at least {least}", _text(allocatable.get(name))))
    return found


def _unpredictable(config: SharingConfig, gpus: Gpus, mig: str) -> bool:
    """Whether too little is known, or GFD stops with an error and its labels vanish or go stale by version (MPS with MIG)."""
    if gpus.product is None or gpus.count is None or MIG_INVALID in gpus.product:
        return True
    return gpus.mig_enabled and (config.strategy is Strategy.MPS or mig_hides_devices(gpus, mig))


def _labels(config: SharingConfig, gpus: Gpus, mig: str, plugin_version: PluginVersion | None) -> dict[str, str | None]:
    """The labels of GFD for the known product (k8s-device-plugin v0.20.0, lm/resource.go, lm/nvml.go, lm/mig-strategy.go)."""
    # A product whose GPUs are all in MIG mode, labelled as full GPUs; where only some are, the labels of the others win.
    replicas = 0 if gpus.replicas == 0 else config.replicas or 1
    shared = replicas > 1
    family = architecture(gpus.compute, plugin_version) if gpus.compute and plugin_version else gpus.family
    suffix = SHARED_SUFFIX if shared and not config.rename_by_default else ""
    labels: dict[str, str | None] = {
        "gpu.product": f"{gpus.product}{suffix}",
        "gpu.count": str(gpus.count),
        "gpu.replicas": str(replicas),
        "gpu.sharing-strategy": config.strategy.value if shared else Strategy.NONE.value,
        "gpu.memory": _text(gpus.memory_mib),
        "gpu.compute.major": str(gpus.compute[0]) if gpus.compute else None,
        "gpu.compute.minor": str(gpus.compute[1]) if gpus.compute else None,
        "gpu.family": family,
        "gpu.mode": gpus.mode,
        "mig.capable": None if gpus.mig_capable is None else str(gpus.mig_capable).lower(),
        "mig.strategy": None if mig == "none" else mig,
        "mps.capable": str(config.strategy is Strategy.MPS).lower(),
    }
    return {PREFIX + name: value for name, value in labels.items()}


def _resources(config: SharingConfig, gpus: Gpus) -> dict[str, int]:
    """What the plugin advertises when it serves the node (k8s-device-plugin v0.20.0, rm/device_map.go): GPUs of all products."""
    total = gpus.count if gpus.total is None else gpus.total
    name = GPU_SHARED if config.rename_by_default and config.replicas else GPU
    return {name: total * (config.replicas or 1)} if total else {}


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)
