# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU Feature Discovery: a node's labels from its GPUs and the config.

Rules: k8s-device-plugin internal/lm. Labels come without the ``nvidia.com/`` prefix.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from tests.testbed.agents.config_file import GPU_RESOURCE, PREFIX, Config
from tests.testbed.agents.config_manager import Version
from tests.testbed.agents.hardware import INSTANCE_ATTRIBUTES, Gpu, MigInstance

Labels = dict[str, str]

MPS_ON_MIG = "error creating labeler: error creating sharing labeler: failed to check MPS-capable: MPS sharing is not supported for mig devices"
FAMILIES = {1: "tesla", 2: "fermi", 3: "kepler", 5: "maxwell", 6: "pascal", 9: "hopper"}
FIRST_VERSION_WITH_NODE_FEATURES = (0, 19, 0)
PCI_MODES = {"0x030000": "graphics", "0x030200": "compute"}


class DiscoveryError(ValueError):
    """A run of GPU Feature Discovery fails; the message is its own."""


def labels_survive_failure(version: Version) -> bool:
    """Since v0.19.0 labels live in a NodeFeature object and go stale; before, the features file is removed with the run."""
    return version >= FIRST_VERSION_WITH_NODE_FEATURES


def possible_labels(gpus: tuple[Gpu, ...], config: Config, mig_strategy: str, version: Version) -> tuple[Labels, ...]:
    """Every label set one run can produce: several where the node has several products (Go's map order decides).

    Raises DiscoveryError where MPS meets a GPU in MIG mode.
    """
    if config.strategy == "mps" and any(gpu.mig_enabled for gpu in gpus):
        raise DiscoveryError(MPS_ON_MIG)
    if not gpus:
        return ({},)
    node = _node_labels(gpus, config, mig_strategy)
    found: list[Labels] = []
    for full in _full_gpu_labels(gpus, config, version):
        for extra in _mig_labels(gpus, config, mig_strategy):
            labels = {**node, **full, **extra}
            if labels not in found:
                found.append(labels)
    return tuple(found)


def _node_labels(gpus: tuple[Gpu, ...], config: Config, mig_strategy: str) -> Labels:
    modes = {PCI_MODES.get(gpu.pci_class, "unknown") for gpu in gpus}
    labels = {
        "mig.capable": _word(any(gpu.mig_capable for gpu in gpus)),
        "mps.capable": _word(config.strategy == "mps"),
        "gpu.mode": modes.pop() if len(modes) == 1 else "unknown",
    }
    return labels if mig_strategy == "none" else {**labels, "mig.strategy": mig_strategy}


def _word(value: bool) -> str:
    return "true" if value else "false"


@dataclass(frozen=True)
class _Product:
    gpu: Gpu
    count: int


def _full_gpu_labels(gpus: tuple[Gpu, ...], config: Config, version: Version) -> tuple[Labels, ...]:
    """The products' labels written over each other: GPUs in MIG mode first, then the others, each group in any order."""
    counts = {gpu.product: sum(other.product == gpu.product for other in gpus) for gpu in gpus}
    groups = [{gpu.product: _Product(gpu, counts[gpu.product]) for gpu in gpus if gpu.mig_enabled is enabled}.values() for enabled in (True, False)]
    orders = itertools.product(*(itertools.permutations(group) for group in groups))
    results = []
    for first, second in orders:
        labels: Labels = {}
        for product in (*first, *second):
            labels |= _product_labels(product, config, version)
        results.append(labels)
    return tuple(results)


def _product_labels(product: _Product, config: Config, version: Version) -> Labels:
    gpu = product.gpu
    labels = {"gpu.count": str(product.count)}
    if gpu.memory_mib:
        labels["gpu.memory"] = str(gpu.memory_mib)
    if gpu.compute and gpu.compute[0]:
        major, minor = gpu.compute
        labels |= {"gpu.compute.major": str(major), "gpu.compute.minor": str(minor), "gpu.family": family(gpu.compute, version)}
    if gpu.mig_enabled:
        return {**labels, "gpu.product": sanitise(gpu.product), "gpu.replicas": "0", "gpu.sharing-strategy": "none"}
    return {**labels, **_sharing_labels("gpu", sanitise(gpu.product), GPU_RESOURCE, config)}


def _sharing_labels(prefix: str, product: str, resource: str, config: Config) -> Labels:
    """product, replicas and sharing-strategy of one resource: its first entry counts, replicas is a factor per GPU."""
    entries = config.sharing.entries_for(resource)
    replicas = entries[0].replicas if entries else 1
    shared = replicas > 1
    suffix = "-SHARED" if shared and not config.sharing.rename_by_default else ""
    return {
        f"{prefix}.product": product + suffix,
        f"{prefix}.replicas": str(replicas),
        f"{prefix}.sharing-strategy": config.strategy if shared else "none",
    }


def _mig_labels(gpus: tuple[Gpu, ...], config: Config, mig_strategy: str) -> tuple[Labels, ...]:
    enabled = [gpu for gpu in gpus if gpu.mig_enabled]
    if not enabled or mig_strategy == "none":
        return ({},)
    if mig_strategy == "mixed":
        return (_mixed(enabled, config),)
    profiles = {(gpu.profile(item)) for gpu in enabled for item in gpu.mig_instances}
    if len(enabled) < len(gpus) or len(profiles) != 1 or not all(gpu.mig_instances for gpu in enabled):
        return tuple(_invalid(product) for product in dict.fromkeys(gpu.product for gpu in enabled))
    labels = _instance_labels("gpu", GPU_RESOURCE, enabled[0], enabled[0].mig_instances[0], config)
    return ({**labels, "gpu.count": str(sum(len(gpu.mig_instances) for gpu in enabled))},)


def _invalid(product: str) -> Labels:
    """Strategy single on a layout that is not one profile on every GPU."""
    return {
        "gpu.count": "0",
        "gpu.replicas": "0",
        "gpu.memory": "0",
        "gpu.sharing-strategy": "",
        "gpu.product": f"{sanitise(product)}-MIG-INVALID",
    }


def _mixed(enabled: list[Gpu], config: Config) -> Labels:
    labels: Labels = {}
    counts: dict[str, int] = {}
    for gpu in enabled:
        for instance in gpu.mig_instances:
            name = f"mig-{gpu.profile(instance)}"
            counts[name] = counts.get(name, 0) + 1
            labels |= _instance_labels(name, PREFIX + name, gpu, instance, config)
            labels[f"{name}.count"] = str(counts[name])
    return labels


def _instance_labels(prefix: str, resource: str, gpu: Gpu, instance: MigInstance, config: Config) -> Labels:
    product = f"{sanitise(gpu.product)}-MIG-{gpu.profile(instance)}"
    attributes = {f"{prefix}.{name}": str(value) for name, value in zip(INSTANCE_ATTRIBUTES, instance.attributes, strict=True)}
    return {**attributes, f"{prefix}.memory": str(instance.memory_mib), **_sharing_labels(prefix, product, resource, config)}


def family(compute: tuple[int, int], version: Version) -> str:
    """The architecture's name; newer versions know more of them."""
    major, minor = compute
    if major == 7:
        return "volta" if minor < 5 else "turing"
    if major == 8:
        return "ada-lovelace" if minor >= 9 and version >= (0, 17, 1) else "ampere"
    if major in (10, 12):
        return "blackwell" if version >= (0, 17, 2) else "undefined"
    if major == 13:
        return "rubin" if version >= (0, 20, 0) else "undefined"
    return FAMILIES.get(major, "undefined")


def sanitise(product: str) -> str:
    """A product's name as a label value: odd characters dropped, blanks become a dash."""
    return re.sub(r"\s+", "-", re.sub(r"[^A-Za-z0-9\-_. ]", "", product).strip())
