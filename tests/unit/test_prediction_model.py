# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The prediction against the model that the test bed's agents follow, without a bed: random nodes and configs.

Both are held against the same executed nodes, each in its own tests; here they meet on nodes that nobody wrote down.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import write_config
from ansible_collections.gpuops.mps.plugins.module_utils._gpu import gpus_from_labels
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._prediction import Prediction, disagreements, predict
from tests.testbed.agents import device_plugin, feature_discovery, mps_daemon
from tests.testbed.agents.config_file import Config, parse_config
from tests.testbed.agents.device_map import effective_mig_strategy
from tests.testbed.agents.hardware import Gpu

PREFIX = "nvidia.com/"
MIB = 2**20
MODELS = (
    Gpu("Tesla M60", 7618 * MIB, (5, 2)),
    Gpu("Tesla V100-SXM2-16GB", 16384 * MIB, (7, 0)),
    Gpu("Tesla T4", 15360 * MIB, (7, 5)),
    Gpu("NVIDIA GeForce RTX 3090", 24576 * MIB, (8, 6), pci_class="0x030000"),
    Gpu("NVIDIA A100-SXM4-40GB", 40960 * MIB + 12345, (8, 0), mig_capable=True),
    Gpu("NVIDIA A100-SXM4-40GB", 40960 * MIB + 12345, (8, 0), mig_capable=True, mig_enabled=True),
    Gpu("NVIDIA L4", 23034 * MIB, (8, 9)),
    Gpu("NVIDIA GB10", 0, (12, 1)),
    Gpu("NVIDIA R200?", 294912 * MIB, (13, 0), mig_capable=True),
)
NODES = st.lists(st.sampled_from(MODELS), min_size=1, max_size=2, unique=True).flatmap(
    lambda models: st.lists(st.integers(1, 8), min_size=len(models), max_size=len(models)).map(
        lambda counts: tuple(gpu for gpu, count in zip(models, counts, strict=True) for _copy in range(count))
    )
)
CONFIGS = st.just(SharingConfig("key", Strategy.NONE)) | st.builds(
    SharingConfig,
    name=st.just("key"),
    strategy=st.sampled_from([Strategy.MPS, Strategy.MPS, Strategy.TIME_SLICING]),
    replicas=st.integers(2, 48),
    rename_by_default=st.booleans(),
    mig_strategy=st.none() | st.sampled_from(["none", "single"]),
)
VERSIONS = [(0, 17, 0), (0, 17, 4), (0, 18, 1), (0, 20, 0)]


def plain_states(gpus: tuple[Gpu, ...], environment: str | None, version: tuple[int, int, int]) -> list[tuple[dict[str, str], dict[str, int]]]:
    """Labels and resources of the node without sharing, as the agents would make them, and the MIG manager's label."""
    strategy = effective_mig_strategy(environment, Config())
    manager = {"mig.config": "custom" if any(gpu.mig_enabled for gpu in gpus) else "all-disabled"} if any(gpu.mig_capable for gpu in gpus) else {}
    try:
        resources = device_plugin.start(gpus, Config(), strategy, version).registered()
    except device_plugin.PluginError:
        resources = {}
    sets = feature_discovery.possible_labels(gpus, Config(), strategy, version)
    return [(full({**labels, **manager}), resources) for labels in sets]


def full(labels: dict[str, str]) -> dict[str, str]:
    return {PREFIX + key: value for key, value in labels.items()}


def served(gpus: tuple[Gpu, ...], text: str, environment: str | None, version: tuple[int, int, int]) -> tuple[list[dict[str, str]], dict[str, int]]:
    """Every set of labels that GFD may write, and what is advertised in the end; nothing where any agent fails."""
    config = parse_config(text)
    strategy = effective_mig_strategy(environment, config)
    try:
        labels = [full(dict(one)) for one in feature_discovery.possible_labels(gpus, config, strategy, version)]
        plugin = device_plugin.start(gpus, config, strategy, version)
        pipes = {daemon.pipe_directory for daemon in mps_daemon.daemons(gpus, config, strategy)} if config.strategy == "mps" else set()
        return labels, {} if plugin.unanswered(pipes) else plugin.registered()
    except (feature_discovery.DiscoveryError, device_plugin.PluginError, mps_daemon.DaemonError):
        return [], {}


def errors(prediction: Prediction) -> set[str]:
    return {found.code for found in prediction.findings if found.severity == "error"}


@pytest.mark.parametrize("version", VERSIONS)
@given(gpus=NODES, config=CONFIGS, environment=st.none() | st.sampled_from(["none", "single"]))
@settings(max_examples=5_000, deadline=None)  # for each version: 20,000 in all
def test_what_is_accepted_comes_out_as_predicted_and_what_fails_was_refused(
    version: tuple[int, int, int], gpus: tuple[Gpu, ...], config: SharingConfig, environment: str | None
) -> None:
    sets, advertised = served(gpus, write_config(config), environment, version)
    for labels, resources in plain_states(gpus, environment, version):
        facts = gpus_from_labels(labels, allocatable=resources)
        prediction = predict(config, facts, mig_strategy=environment, plugin_version=PluginVersion(*version))
        if not advertised:
            event("refused")
            assert errors(prediction)
            continue
        assert errors(prediction) <= {"gpu-before-volta", "replicas-above-cap-unseen", "mig-not-predicted"}
        event("compared" if prediction.labels else "not predicted")
        for one in sets:
            assert disagreements(prediction, one, advertised) == ()
        if prediction.labels:
            assert prediction.resources == advertised


@pytest.mark.parametrize("version", [(0, 17, 4), (0, 20, 0)])
@pytest.mark.parametrize("replicas", [2, 3, 7, 16])
@pytest.mark.parametrize("gpu", [gpu for gpu in MODELS if not gpu.mig_enabled], ids=lambda gpu: gpu.product)
def test_limits_of_each_client(gpu: Gpu, replicas: int, version: tuple[int, int, int]) -> None:
    config = SharingConfig("key", Strategy.MPS, replicas)
    (daemon,) = mps_daemon.daemons((gpu,), parse_config(write_config(config)), "none")
    ((labels, resources),) = plain_states((gpu,), None, version)
    facts = gpus_from_labels(labels, allocatable=resources)
    prediction = predict(config, facts, mig_strategy=None, plugin_version=PluginVersion(*version))
    assert prediction.thread_percentage == daemon.thread_percentage
    limits: dict[str, Any] = dict(daemon.memory_mib)
    assert prediction.memory_mib == limits.get("0")
