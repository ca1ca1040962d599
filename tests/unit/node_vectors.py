# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes for the tests of the prediction: physical GPUs become the labels and resources that a node without sharing has.

`tests/unit/data/node-vectors.jsonl.gz` holds 1,500 nodes with one config each and what the real code of k8s-device-plugin v0.17.4 and
v0.20.0 made of them when executed (GFD's labelers, the plugin against a fake kubelet, the start of the MPS daemon with recorded
commands; NVML mocked). One JSON object a line: `gpus`, `config` (the file's text), `mig_env` (MIG_STRATEGY, null is unset), `labels`
(without the prefix) or `labels_one_of`, `resources` or `plugin_error`, `resources_settled` where it differs, `mps` or `mps_error`,
`differs_v0.17.4`. `node-cases.json` beside it holds cases of the same kind, written down by hand after the same executions.

The labels before the change are worked out here from the hardware, apart from the product code, so that a prediction starts from what
it would find on a cluster.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent / "data"
PREFIX = "nvidia.com/"
FAMILIES = {"3": "kepler", "5": "maxwell", "6": "pascal", "9": "hopper", "10": "blackwell", "12": "blackwell", "13": "rubin"}
# GFD names a MIG profile by the memory that NVML reports, and the mocked one reports more than a real GPU.
PROFILES_BY_GFD = {"3g.40gb": "3g.50gb"}


@dataclass(frozen=True)
class PlainNode:
    """A node without sharing: labels with full keys, allocatable resources."""

    labels: dict[str, str]
    allocatable: dict[str, int]


def vectors() -> list[dict[str, Any]]:
    """All executed nodes."""
    with gzip.open(DATA / "node-vectors.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def plain_nodes(gpus: list[dict[str, Any]], mig_env: str | None, *, mig_manager: bool = True) -> list[PlainNode]:
    """What the node may look like without sharing; several answers where GFD chooses one of several products.

    With the MIG manager the node has its label, `custom` where a GPU is in MIG mode.
    """
    in_mig_mode = [gpu for gpu in gpus if gpu["mig_enabled"]]
    of_the_node = {
        "gpu.mode": _mode(gpus),
        "mig.capable": str(any(gpu["mig_capable"] for gpu in gpus)).lower(),
        "mps.capable": "false",
    }
    if mig_env in ("single", "mixed"):
        of_the_node["mig.strategy"] = mig_env
    if mig_manager and of_the_node["mig.capable"] == "true":
        of_the_node |= {"mig.config": "custom" if in_mig_mode else "all-disabled", "mig.config.state": "success"}
    if mig_env == "single" and in_mig_mode:
        sets, allocatable = [_single(gpus)], _single_resources(gpus)
    else:
        sets = _full_gpu_sets(gpus)
        allocatable = {"nvidia.com/gpu": len(gpus) if mig_env != "mixed" else len(gpus) - len(in_mig_mode)}
        if mig_env == "mixed":
            for gpu in in_mig_mode:
                for instance in gpu.get("mig_instances") or ():
                    name = f"nvidia.com/mig-{instance['profile']}"
                    allocatable[name] = allocatable.get(name, 0) + 1
    return [PlainNode({PREFIX + key: value for key, value in {**one, **of_the_node}.items()}, allocatable) for one in sets]


def product_label(name: str) -> str:
    """NVML's name as a label value."""
    return "-".join(re.sub(r"[^A-Za-z0-9\-_. ]", "", name).split())


def _full_gpu_sets(gpus: list[dict[str, Any]]) -> list[dict[str, str]]:
    """One set of labels per product; a product that is in MIG mode altogether loses to one that is not."""
    by_product: dict[str, list[dict[str, Any]]] = {}
    for gpu in gpus:
        by_product.setdefault(gpu["product"], []).append(gpu)
    full = [group for group in by_product.values() if not all(gpu["mig_enabled"] for gpu in group)]
    return [_full_gpu_labels(group) for group in full or by_product.values()]


def _full_gpu_labels(group: list[dict[str, Any]]) -> dict[str, str]:
    one = group[0]
    major, minor = one["compute"].split(".")
    labels = {
        "gpu.product": product_label(one["product"]),
        "gpu.count": str(len(group)),
        "gpu.replicas": "0" if all(gpu["mig_enabled"] for gpu in group) else "1",
        "gpu.sharing-strategy": "none",
        "gpu.compute.major": major,
        "gpu.compute.minor": minor,
        "gpu.family": _family(major, int(minor)),
    }
    if one["memory_mib"]:
        labels["gpu.memory"] = str(one["memory_mib"])
    return labels


def _single(gpus: list[dict[str, Any]]) -> dict[str, str]:
    """The labels under the MIG strategy single: of the MIG devices, or of an unusable layout."""
    parent = next(gpu for gpu in gpus if gpu["mig_enabled"])
    labels = _full_gpu_labels([parent])
    profiles = _profiles(gpus)
    name = product_label(parent["product"])
    if profiles is None:
        return labels | {"gpu.product": f"{name}-MIG-INVALID", "gpu.count": "0", "gpu.replicas": "0", "gpu.sharing-strategy": "", "gpu.memory": "0"}
    memory = parent["mig_instances"][0]["memory_mb"]
    return labels | {"gpu.product": f"{name}-MIG-{profiles[0]}", "gpu.count": str(len(profiles)), "gpu.replicas": "1", "gpu.memory": str(memory)}


def _single_resources(gpus: list[dict[str, Any]]) -> dict[str, int]:
    profiles = _profiles(gpus)
    return {"nvidia.com/gpu": len(profiles)} if profiles else {}


def _profiles(gpus: list[dict[str, Any]]) -> list[str] | None:
    """The profile of each MIG device of the node, or None for a layout that the strategy single does not take."""
    instances = [gpu.get("mig_instances") or () for gpu in gpus]
    profiles = [PROFILES_BY_GFD.get(instance["profile"], instance["profile"]) for group in instances for instance in group]
    return profiles if all(instances) and all(gpu["mig_enabled"] for gpu in gpus) and len(set(profiles)) == 1 else None


def _mode(gpus: list[dict[str, Any]]) -> str:
    classes = {gpu["pci_class"] for gpu in gpus}
    return {"0x030000": "graphics", "0x030200": "compute"}[classes.pop()] if len(classes) == 1 else "unknown"


def _family(major: str, minor: int) -> str:
    if major == "7":
        return "turing" if minor >= 5 else "volta"
    if major == "8":
        return "ada-lovelace" if minor == 9 else "ampere"
    return FAMILIES[major]
