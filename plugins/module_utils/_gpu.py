# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what a node's labels say about its GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion

GPU = "nvidia.com/gpu"
GPU_SHARED = "nvidia.com/gpu.shared"
PREFIX = "nvidia.com/"
SHARED_SUFFIX = "-SHARED"
MIG_INVALID = "-MIG-INVALID"

_KERNEL_LABEL = "feature.node.kubernetes.io/kernel-version.full"
_TEGRA_MACHINE = re.compile(r"jetson|tegra", re.IGNORECASE)
_TEGRA_PRODUCT = re.compile(r"(?<![a-z])(jetson|tegra|xavier|orin|thor)(?![a-z])", re.IGNORECASE)
_WSL_KERNEL = re.compile(r"microsoft|wsl", re.IGNORECASE)
_MIG_RESOURCE = re.compile(r"nvidia\.com/mig-\d")


@dataclass(frozen=True)
class Gpus:
    """The GPUs of one node as GPU Feature Discovery describes them; None is not known.

    ``product`` is without ``-SHARED``. ``count`` is the number of physical GPUs of that product (of MIG devices under the MIG
    strategy single), ``total`` that of all products as far as the advertised resources tell, ``memory_mib`` the whole memory of
    one GPU in MiB, ``replicas`` the clients per GPU that the labels speak of now. ``mixed`` says that the node has GPUs the labels do
    not describe: GFD labels a node with one of its products, chosen at random (k8s-device-plugin v0.20.0, lm/mig-strategy.go).
    """

    product: str | None = None
    count: int | None = None
    total: int | None = None
    memory_mib: int | None = None
    compute: tuple[int, int] | None = None
    family: str | None = None
    replicas: int | None = None
    strategy: str | None = None
    mps_capable: bool | None = None
    mig_capable: bool | None = None
    mig_enabled: bool = False
    mig_pending: bool = False
    mig_config: str | None = None
    mode: str | None = None
    machine: str | None = None
    driver: tuple[int, ...] | None = None
    tegra: bool = False
    wsl: bool = False
    vgpu: bool = False
    mixed: bool = False


def plain_product(product: str) -> str:
    """The product label without the ``-SHARED`` that sharing adds; a MIG profile in it stays."""
    return product.removesuffix(SHARED_SUFFIX)


def gpus_from_labels(labels: Mapping[str, str], *, kernel: str = "", allocatable: Mapping[str, int] | None = None) -> Gpus:
    """The GPU facts of a node from its labels (full keys), its kernel version and its allocatable resources.

    ``allocatable`` shows GPUs of other products and MIG devices; without it a node is taken to be of one product. A value that
    is not what GFD writes counts as not known. The kernel falls back to the label of Node Feature Discovery.
    """
    own = {key.removeprefix(PREFIX): value for key, value in labels.items() if key.startswith(PREFIX)}
    allocatable = allocatable or {}
    kernel = kernel or labels.get(_KERNEL_LABEL, "")
    product = plain_product(own["gpu.product"]) if own.get("gpu.product") else None
    count, replicas = _number(own.get("gpu.count")), _number(own.get("gpu.replicas"))
    total = _total(count, replicas, allocatable)
    mig_capable = _boolean(own.get("mig.capable"))
    return Gpus(
        product=product,
        count=count,
        total=total,
        memory_mib=_number(own.get("gpu.memory")) or None,
        compute=_compute(own),
        family=own.get("gpu.family"),
        replicas=replicas,
        strategy=own.get("gpu.sharing-strategy"),
        mps_capable=_boolean(own.get("mps.capable")),
        mig_capable=mig_capable,
        mig_enabled=_mig_enabled(own, mig_capable, allocatable),
        mig_pending=own.get("mig.config.state", "success") != "success",
        mig_config=own.get("mig.config"),
        mode=own.get("gpu.mode"),
        machine=own.get("gpu.machine"),
        driver=_driver(own),
        tegra=_is_tegra(own, kernel),
        wsl=bool(_WSL_KERNEL.search(kernel)),
        vgpu=own.get("vgpu.present") == "true",
        mixed=total != count,
    )


def architecture(compute: tuple[int, int], plugin_version: PluginVersion | None = None) -> str:
    """The value of ``nvidia.com/gpu.family`` for a compute capability, as the given (or else the newest known) version writes it.

    k8s-device-plugin v0.20.0, lm/resource.go; ada-lovelace came with 0.17.1, blackwell with 0.17.2, rubin with 0.20.
    """

    def since(*version: int) -> bool:
        return plugin_version is None or plugin_version >= PluginVersion(*version)

    major, minor = compute
    if major == 7:
        return "volta" if minor < 5 else "turing"
    if major == 8:
        return "ada-lovelace" if minor >= 9 and since(0, 17, 1) else "ampere"
    if major in (10, 12):
        return "blackwell" if since(0, 17, 2) else "undefined"
    if major == 13:
        return "rubin" if since(0, 20, 0) else "undefined"
    return {1: "tesla", 2: "fermi", 3: "kepler", 5: "maxwell", 6: "pascal", 9: "hopper"}.get(major, "undefined")


def _is_tegra(own: Mapping[str, str], kernel: str) -> bool:
    """Whether machine, kernel or product are of a Jetson or another Tegra system; the architecture arm64 alone says nothing."""
    by_machine = any(_TEGRA_MACHINE.search(text) for text in (own.get("gpu.machine", ""), kernel))
    return by_machine or _TEGRA_PRODUCT.search(own.get("gpu.product", "")) is not None


def _number(text: str | None) -> int | None:
    """A whole number as GFD writes it; None for anything else."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else None


def _boolean(text: str | None) -> bool | None:
    if text not in ("true", "false"):
        return None
    return text == "true"


def _compute(own: Mapping[str, str]) -> tuple[int, int] | None:
    """The compute capability; GFD leaves the labels out when the major number is 0."""
    major, minor = _number(own.get("gpu.compute.major")), _number(own.get("gpu.compute.minor"))
    return (major, minor) if major and minor is not None else None


def _driver(own: Mapping[str, str]) -> tuple[int, ...] | None:
    """The driver's version from the newer set of labels, else from the older one; a driver may have two numbers only."""
    for names in (("driver-version.major", "driver-version.minor", "driver-version.revision"), ("driver.major", "driver.minor", "driver.rev")):
        numbers = tuple(number for name in names if (number := _number(own.get(f"cuda.{name}"))) is not None)
        if len(numbers) >= 2:
            return numbers
    return None


def _mig_enabled(own: Mapping[str, str], mig_capable: bool | None, allocatable: Mapping[str, int]) -> bool:
    """Whether any GPU is in MIG mode, by any of the signs a node can give.

    GFD writes 0 replicas for a full GPU in MIG mode and names MIG devices in the product (k8s-device-plugin v0.20.0,
    lm/resource.go); the strategy mixed adds ``mig-<profile>`` labels and resources. The MIG manager's wish counts where
    the GPUs can follow it.
    """
    wish = own.get("mig.config") or "all-disabled"
    signs = (
        own.get("gpu.replicas") == "0",
        "-MIG-" in own.get("gpu.product", ""),
        any(_MIG_RESOURCE.match(PREFIX + key) for key in own),
        any(count > 0 and _MIG_RESOURCE.match(name) for name, count in allocatable.items()),
        wish != "all-disabled" and mig_capable is not False,
    )
    return any(signs)


def _total(count: int | None, replicas: int | None, allocatable: Mapping[str, int]) -> int | None:
    """GPUs of all products: what is advertised, divided by the replicas, where that is more than the labelled product's.

    Fewer means unhealthy GPUs, or a plugin that does not advertise yet. A number that the replicas do not divide comes from
    another config than the labels do and says nothing; neither does it with GPUs in MIG mode, whose replicas are 0.
    """
    if count is None or not replicas:
        return count
    advertised = max(allocatable.get(GPU, 0), allocatable.get(GPU_SHARED, 0))
    return max(count, advertised // replicas) if advertised % replicas == 0 else count
