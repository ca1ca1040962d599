# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The prediction against a live bed: every GPU node of the lab runs every config, and comes out as predicted or was refused.

A prediction starts from what the node shows without sharing. One round per config sets all nodes at once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import write_config
from ansible_collections.gpuops.mps.plugins.module_utils._gpu import gpus_from_labels
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._prediction import Prediction, disagreements, predict
from tests.testbed.bed import BedError, TestBed

NAMESPACE = "gpu-operator"
CONFIG_LABEL = "nvidia.com/device-plugin.config"
APPS = ("nvidia-device-plugin-daemonset", "gpu-feature-discovery", "nvidia-device-plugin-mps-control-daemon")
DAEMON = "nvidia-device-plugin-mps-control-daemon"
MIG_STRATEGY = "single"  # the chart's default, which the lab keeps
PLUGIN_VERSION = PluginVersion(0, 17, 4)
ROUND_SECONDS = 150.0
# A plugin that waits for its daemon shows 0 as well; a refused node must stay so for longer than the plugin retries.
REFUSED_SECONDS = 6.0
NODES = ("gpu-t4-1", "gpu-t4-2", "gpu-v100-1", "gpu-a100-1", "gpu-h100-1", "gpu-mig-1", "gpu-mixed-1")
CONFIGS = (
    SharingConfig("mps-two", Strategy.MPS, 2),
    SharingConfig("mps-four-renamed", Strategy.MPS, 4, rename_by_default=True),
    SharingConfig("mps-sixteen", Strategy.MPS, 16, mig_strategy="none"),
    SharingConfig("mps-seventeen", Strategy.MPS, 17),
    SharingConfig("slices-five-renamed", Strategy.TIME_SLICING, 5, rename_by_default=True),
    SharingConfig("none", Strategy.NONE),
)
REFUSED = {
    **{(config.name, "gpu-mig-1"): "mig-enabled" for config in CONFIGS if config.strategy is Strategy.MPS},
    ("mps-seventeen", "gpu-v100-1"): "replicas-above-cap",
}
# The lab's mixed node has no GPU older than Turing, which its labels cannot tell.
REFUSED_THOUGH_SERVED = {("mps-seventeen", "gpu-mixed-1"): "replicas-above-cap-unseen"}
PAIRS = [(config, node) for config in CONFIGS for node in NODES]


@dataclass(frozen=True)
class Seen:
    """What a node shows: its labels, its allocatable GPUs, and what its MPS daemon answers (empty without one)."""

    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    threads: str = ""
    memory: str = ""


@dataclass
class Rounds:
    """The lab's nodes without sharing, and after each round; rounds run when they are first asked for."""

    bed: TestBed
    plain: dict[str, Seen] = field(default_factory=dict)
    seen: dict[tuple[str, str], Seen] = field(default_factory=dict)

    def prediction(self, config: SharingConfig, node: str) -> Prediction:
        plain = self.plain[node]
        facts = gpus_from_labels(plain.labels, allocatable=plain.allocatable)
        return predict(config, facts, mig_strategy=MIG_STRATEGY, plugin_version=PLUGIN_VERSION, node=node)

    def look(self, node: str) -> Seen:
        content = self.bed.api.get(f"/api/v1/nodes/{node}")
        allocatable = {name: int(count) for name, count in content["status"]["allocatable"].items() if name.startswith("nvidia.com/")}
        return Seen(content["metadata"]["labels"], allocatable)

    def after(self, config: SharingConfig, node: str) -> Seen:
        if (config.name, node) not in self.seen:
            self._run(config)
        return self.seen[config.name, node]

    def _run(self, config: SharingConfig) -> None:
        """One round. A node that does not come out as predicted in time is recorded as it is, for its own test to judge."""
        for node in NODES:
            self.bed.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {CONFIG_LABEL: config.name}}})
        selector = f"app in ({', '.join(APPS)})"
        self.bed.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=selector)
        try:
            self.bed.wait_for(f"nodes with {config.name}", lambda: all(self._as_predicted(config, node) for node in NODES), ROUND_SECONDS, 1.0)
            time.sleep(REFUSED_SECONDS)
        except BedError:
            pass
        for node in NODES:
            self.seen[config.name, node] = self._with_limits(config, node, self.look(node))

    def _as_predicted(self, config: SharingConfig, node: str) -> bool:
        seen = self.look(node)
        if (config.name, node) in REFUSED:
            return not any(seen.allocatable.values())
        return not disagreements(self.prediction(config, node), seen.labels, seen.allocatable)

    def _with_limits(self, config: SharingConfig, node: str, seen: Seen) -> Seen:
        if config.strategy is not Strategy.MPS or (config.name, node) in REFUSED:
            return seen
        threads = self._ask(node, config, "get_default_active_thread_percentage")
        return Seen(seen.labels, seen.allocatable, threads, self._ask(node, config, "get_default_device_pinned_mem_limit 0"))

    def _ask(self, node: str, config: SharingConfig, question: str) -> str:
        """The answer of the node's MPS control daemon, asked in its pod; what went wrong where it cannot answer."""
        pods = self.bed.api.list(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=f"app={DAEMON}", fieldSelector=f"spec.nodeName={node}")
        alive = [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        pipe = f"/mps/nvidia.com/{'gpu.shared' if config.rename_by_default else 'gpu'}/pipe"
        command = f"echo {question} | CUDA_MPS_PIPE_DIRECTORY={pipe} nvidia-cuda-mps-control"
        try:
            return self.bed.kubectl("exec", "-n", NAMESPACE, *alive, "-c", "mps-control-daemon-ctr", "--", "bash", "-c", command).strip()
        except BedError as error:
            return str(error)


@pytest.fixture(scope="module")
def rounds(lab: TestBed) -> Iterator[Rounds]:
    texts = {config.name: write_config(config) for config in CONFIGS}
    lab.api.post(f"/api/v1/namespaces/{NAMESPACE}/configmaps", {"metadata": {"name": "prediction"}, "data": texts})
    found = Rounds(lab)
    found.plain = {node: found.look(node) for node in NODES}
    policy = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
    lab.api.patch(policy, {"spec": {"devicePlugin": {"config": {"name": "prediction", "default": "none"}}}})
    lab.wait_until_settled()
    yield found
    lab.reset()


def test_there_are_enough_pairs() -> None:
    assert len(PAIRS) >= 30


@pytest.mark.parametrize(("config", "node"), PAIRS, ids=[f"{config.name}-{node}" for config, node in PAIRS])
def test_a_node_comes_out_as_predicted_or_was_refused(rounds: Rounds, config: SharingConfig, node: str) -> None:
    seen, prediction = rounds.after(config, node), rounds.prediction(config, node)
    errors = {found.code for found in prediction.findings if found.severity == "error"}
    refused = REFUSED.get((config.name, node)) or REFUSED_THOUGH_SERVED.get((config.name, node))
    assert errors == ({refused} if refused else set())
    if (config.name, node) in REFUSED:
        assert not any(seen.allocatable.values()), json.dumps(dict(seen.labels), indent=1)
        return
    assert disagreements(prediction, seen.labels, seen.allocatable) == ()
    assert {name: count for name, count in seen.allocatable.items() if count} == prediction.resources
    known = [dict(prediction.labels)] if prediction.exact else [dict(labels) for labels in prediction.labels_one_of]
    if prediction.exact or seen.labels["nvidia.com/gpu.product"] == known[0]["nvidia.com/gpu.product"]:
        assert {key: seen.labels.get(key) for key in known[0]} == known[0]
    if config.strategy is Strategy.MPS:
        assert seen.threads == f"{prediction.thread_percentage}.0"
        assert prediction.memory_mib is not None
        if prediction.exact:
            assert seen.memory == as_the_daemon_prints(prediction.memory_mib)


def as_the_daemon_prints(mib: int) -> str:
    """The control daemon answers in whole gigabytes, below one in megabytes."""
    return f"{mib // 1024}G" if mib >= 1024 else f"{mib}M"
