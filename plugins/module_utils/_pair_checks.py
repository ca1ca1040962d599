# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: whether a config can work on a node's GPUs, and what to know when it does."""

from __future__ import annotations

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, finding
from ansible_collections.gpuops.mps.plugins.module_utils._gpu import MIG_INVALID, Gpus
from ansible_collections.gpuops.mps.plugins.module_utils._limits import (
    REPLICAS_BEFORE_TURING,
    PluginVersion,
    honours_fail_requests,
    is_before_volta,
    memory_limit_mib,
    replica_cap,
    smallest_start_mib,
    thread_loss,
    thread_percentage,
)

# From this many percent of lost threads on, another replica count is worth considering.
_LOSS_WORTH_A_WARNING = 10


def effective_mig_strategy(config: SharingConfig, policy_strategy: str | None) -> str:
    """The MIG strategy the agents run: the ClusterPolicy's, else the file's, else none.

    The operator passes its own as MIG_STRATEGY, and the environment beats the file (gpu-operator v25.3.4, object_controls.go;
    k8s-device-plugin v0.20.0, api/config/v1/config.go).
    """
    return policy_strategy or config.mig_strategy or "none"


def check_config(config: SharingConfig, policy_strategy: str | None, plugin_version: PluginVersion | None, path: str) -> tuple[Finding, ...]:
    """Findings that hold on every node that runs the config; they have no subject."""
    if config.strategy is not Strategy.MPS or not config.replicas:
        return ()
    return (
        *_check_mig_strategy(config, policy_strategy, path),
        *_check_thread_share(config.replicas, f"{path}.replicas"),
        *_check_fail_requests(config, plugin_version, f"{path}.fail_requests_greater_than_one"),
    )


def check_pair(config: SharingConfig, gpus: Gpus, mig: str, path: str, subject: str) -> tuple[Finding, ...]:
    """Findings about the config on one node's GPUs, ``mig`` being the effective MIG strategy."""
    findings = _check_facts(config, gpus, path, subject) + _check_mig_layout(config, gpus, mig, path, subject)
    if config.strategy is Strategy.MPS and config.replicas:
        where = f"{path}.replicas"
        findings += _check_platform(gpus, path, subject)
        findings += _check_cap(config.replicas, gpus, where, subject)
        findings += _check_memory(config.replicas, gpus, where, subject)
    return tuple(findings)


def _check_mig_strategy(config: SharingConfig, policy_strategy: str | None, path: str) -> list[Finding]:
    mig, where = effective_mig_strategy(config, policy_strategy), f"{path}.mig_strategy"
    if mig == "mixed":
        said_by = "the ClusterPolicy's spec.mig.strategy" if policy_strategy else "the config's MIG strategy"
        beaten = f"; the config says {config.mig_strategy}, but the ClusterPolicy wins" if policy_strategy and config.mig_strategy else ""
        return [finding("mig-strategy-mixed", where, f"{said_by} is mixed, and the device plugin does not start with MPS then{beaten}")]
    if policy_strategy and config.mig_strategy and policy_strategy != config.mig_strategy:
        message = f"the config says {config.mig_strategy}, but the ClusterPolicy's spec.mig.strategy {policy_strategy} is what the agents run"
        return [finding("mig-strategy-overridden", where, message)]
    return []


def _check_thread_share(replicas: int, where: str) -> list[Finding]:
    loss = thread_loss(replicas)
    if loss == 0:
        return []
    code = "thread-share-wasted" if loss >= _LOSS_WORTH_A_WARNING else "thread-share-rounded"
    share = thread_percentage(replicas)
    return [finding(code, where, f"{replicas} clients get {share} % of the threads each, {replicas * share} % together: {loss} % stay unused")]


def _check_fail_requests(config: SharingConfig, plugin_version: PluginVersion | None, where: str) -> list[Finding]:
    if config.fail_requests_greater_than_one is not False:
        return []
    if plugin_version is None:
        message = "failRequestsGreaterThanOne: false has an effect from device plugin 0.20.0 on only, and the version in use is not known"
        return [finding("fail-requests-ignored", where, message)]
    if honours_fail_requests(plugin_version):
        return [finding("fail-requests-off", where)]
    return [finding("fail-requests-ignored", where, f"device plugin {plugin_version} ignores failRequestsGreaterThanOne: false under MPS")]


def _check_facts(config: SharingConfig, gpus: Gpus, path: str, subject: str) -> list[Finding]:
    facts: dict[str, object] = {"gpu.product": gpus.product, "gpu.count": gpus.count}
    if config.strategy is Strategy.MPS:
        facts["gpu.compute.major and gpu.compute.minor"] = gpus.compute
    missing = [name for name, value in facts.items() if value is None]
    findings = []
    if missing:
        message = f"the node has no label nvidia.com/{', nvidia.com/'.join(missing)}: {_unchecked(gpus)}"
        findings.append(finding("gpu-facts-missing", path, message, subject=subject))
    if gpus.mixed:
        message = (
            f"the node advertises what {gpus.total} GPUs would with {gpus.replicas} replicas, but its labels describe {gpus.count} of the product "
            f"{gpus.product}: either it has others too, which are not checked and may take over the labels at any time, "
            "or its device plugin has not followed GPU Feature Discovery to another config yet"
        )
        findings.append(finding("mixed-products", path, message, subject=subject))
    return findings


def _unchecked(gpus: Gpus) -> str:
    if gpus.product is None or gpus.count is None:
        return "its labels and resources after the change cannot be predicted, nor the replicas be checked"
    return "the replicas cannot be checked against the GPU's limit"


def _check_mig_layout(config: SharingConfig, gpus: Gpus, mig: str, path: str, subject: str) -> list[Finding]:
    """MIG excludes MPS altogether; without MPS it is a matter of whether the plugin starts and what the labels tell.

    k8s-device-plugin v0.20.0: lm/nvml.go (GFD fails), plugin/mps.go (the plugin fails), lm/mig-strategy.go (layouts).
    """
    under_mps = config.strategy is Strategy.MPS
    if gpus.mig_pending and under_mps:
        return [finding("mig-pending", path, subject=subject)]
    if gpus.mig_enabled and under_mps:
        reason = f" (nvidia.com/mig.config is {gpus.mig_config})" if gpus.mig_config else ""
        return [finding("mig-enabled", path, f"a GPU of the node is in MIG mode{reason}, and MPS does not work there", subject=subject)]
    if not gpus.mig_enabled:
        partly = gpus.mig_capable and gpus.mig_config is None and gpus.total not in (None, 0, 1) and (under_mps or mig == "single")
        return [finding("mig-state-not-visible", path, subject=subject)] if partly else []
    if mig == "single" and (MIG_INVALID in (gpus.product or "") or not _labelled_by_mig_device(gpus)):
        return [finding("mig-layout-unusable", path, subject=subject)]
    return [finding("mig-not-predicted", path, subject=subject)] if mig_hides_devices(gpus, mig) else []


def mig_hides_devices(gpus: Gpus, mig: str) -> bool:
    """Whether labels or resources of a node in MIG mode depend on MIG devices that its present labels do not describe.

    ``mig`` is the effective MIG strategy.
    """
    return mig == "mixed" or (mig == "single") != _labelled_by_mig_device(gpus)


def _labelled_by_mig_device(gpus: Gpus) -> bool:
    return "-MIG-" in (gpus.product or "")


def _check_platform(gpus: Gpus, path: str, subject: str) -> list[Finding]:
    findings = []
    if gpus.tegra:
        findings.append(finding("tegra-unsupported", path, subject=subject))
    if gpus.wsl:
        findings.append(finding("wsl-unsupported", path, subject=subject))
    return findings


def _check_cap(replicas: int, gpus: Gpus, where: str, subject: str) -> list[Finding]:
    findings = [] if gpus.compute is None else _check_compute(replicas, gpus.product, gpus.compute, where, subject)
    above = any(found.code == "replicas-above-cap" for found in findings)
    if gpus.mixed and replicas > REPLICAS_BEFORE_TURING and not above:
        findings.append(finding("replicas-above-cap-unseen", where, subject=subject))
    return findings


def _check_compute(replicas: int, product: str | None, compute: tuple[int, int], where: str, subject: str) -> list[Finding]:
    cap, capability, findings = replica_cap(compute), f"compute capability {compute[0]}.{compute[1]}", []
    if is_before_volta(compute):
        message = f"{product} has {capability}: clients fail on GPUs before Volta (7.0)"
        findings.append(finding("gpu-before-volta", where, message, subject=subject))
    if replicas > cap:
        message = f"{replicas} replicas are more than the {cap} that the MPS daemon accepts on {product} ({capability})"
        remedy = f"Declare at most {cap} replicas for nodes with this GPU; give it a config of its own if others take more."
        findings.append(finding("replicas-above-cap", where, message, remedy=remedy, subject=subject))
    return findings


def _check_memory(replicas: int, gpus: Gpus, where: str, subject: str) -> list[Finding]:
    if gpus.product is None:
        return []
    if gpus.memory_mib is None:
        return [finding("memory-not-limited", where, subject=subject)]
    share, least = memory_limit_mib(gpus.memory_mib, replicas), smallest_start_mib(gpus.product)
    if share >= least:
        return []
    message = f"each client process gets {share} MiB of {gpus.memory_mib} MiB; below {least} MiB clients on {gpus.product} are reported not to start"
    return [finding("memory-per-client-small", where, message, subject=subject)]
