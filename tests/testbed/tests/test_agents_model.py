# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agents' model against the real components: 1,500 executed nodes on two versions, and the rules one by one."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.testbed.agents import device_plugin, feature_discovery, mps_daemon
from tests.testbed.agents.config_file import parse_config
from tests.testbed.agents.device_map import effective_mig_strategy
from tests.testbed.agents.hardware import MIB, Gpu, gpu_from_facts, gpus_from_annotation

DATA = Path(__file__).parent.parent / "data"
VERSIONS = {"v0.17.4": (0, 17, 4), "v0.20.0": (0, 20, 0)}


def outcome(vector: Mapping[str, object], version: tuple[int, int, int]) -> dict[str, object]:
    """What the model makes of a vector's node, in the vectors' words."""
    gpus = tuple(gpu_from_facts(facts) for facts in vector["gpus"])
    config = parse_config(vector["config"])
    strategy = effective_mig_strategy(vector["mig_env"], config)
    found: dict[str, object] = {"mig_strategy": strategy, "sharing": config.strategy}
    pipes: set[str] = set()
    try:
        daemons = mps_daemon.daemons(gpus, config, strategy)
        found["mps"] = daemon_words(daemons) if config.strategy == "mps" else None
        pipes = {daemon.pipe_directory for daemon in daemons}
    except mps_daemon.DaemonError as error:
        found["mps_error"] = str(error)
    try:
        found["labels"] = sorted_sets(feature_discovery.possible_labels(gpus, config, strategy, version))
    except feature_discovery.DiscoveryError as error:
        found["labels"] = [{"labels_error": str(error)}]
        pipes = set()  # without the label no daemon pod is scheduled
    try:
        plugin = device_plugin.start(gpus, config, strategy, version)
        found["resources"] = plugin.registered()
        found["resources_settled"] = {} if plugin.unanswered(pipes) else plugin.registered()
    except device_plugin.PluginError as error:
        found["plugin_error"] = str(error)
    return found


def daemon_words(daemons: tuple[mps_daemon.Daemon, ...]) -> dict[str, object]:
    if not daemons:
        return {"threads": None, "memory": {}, "resource": None}
    (daemon,) = daemons
    memory = {index: f"{limit}M" for index, limit in daemon.memory_mib}
    return {"threads": str(daemon.thread_percentage), "memory": memory, "resource": daemon.resource}


def sorted_sets(sets: object) -> list[dict[str, str]]:
    return sorted(sets, key=lambda labels: json.dumps(labels, sort_keys=True))


def expected(vector: Mapping[str, object], version: str) -> dict[str, object]:
    merged = {**vector, **vector.get(f"differs_{version}", {})}
    names = ("mig_strategy", "sharing", "mps", "mps_error", "resources", "plugin_error")
    wanted = {name: merged[name] for name in names if name in merged}
    wanted["labels"] = sorted_sets(merged.get("labels_one_of") or [merged["labels"]])
    if "resources" in merged:
        wanted["resources_settled"] = merged.get("resources_settled", merged["resources"])
    return wanted


def agrees(vector: Mapping[str, object], version: str) -> bool:
    found, wanted = outcome(vector, VERSIONS[version]), expected(vector, version)
    if "mps_error_one_of" in vector and found.get("mps_error") in vector["mps_error_one_of"]:
        wanted["mps_error"] = found["mps_error"]  # the real text names a random GPU
    return found == wanted


@pytest.mark.parametrize("version", VERSIONS)
def test_every_executed_node_comes_out_as_on_the_real_code(version: str) -> None:
    with gzip.open(DATA / "node-vectors.jsonl.gz", "rt", encoding="utf-8") as lines:
        vectors = [json.loads(line) for line in lines]
    assert len(vectors) == 1500
    assert [vector["id"] for vector in vectors if not agrees(vector, version)] == []


PRODUCTS = {
    "T4": {"product": "Tesla T4", "memory_mib": 15360, "compute": "7.5"},
    "V100": {"product": "Tesla V100-SXM2-16GB", "memory_mib": 16384, "compute": "7.0"},
    "A100": {"product": "NVIDIA A100-SXM4-40GB", "memory_mib": 40960, "compute": "8.0", "mig_capable": True},
    "L4": {"product": "NVIDIA L4", "memory_mib": 23034, "compute": "8.9"},
    "H100": {"product": "NVIDIA H100 80GB HBM3", "memory_mib": 81559, "compute": "9.0", "mig_capable": True},
    "NVIDIA GeForce RTX 4090, 24564, 8.9, class 0x030000": {
        "product": "NVIDIA GeForce RTX 4090",
        "memory_mib": 24564,
        "compute": "8.9",
        "pci_class": "0x030000",
    },
    "NVIDIA (Graphics) Device/v2 [x]": {"product": "NVIDIA (Graphics) Device/v2 [x]", "memory_mib": 24576, "compute": "8.6"},
}
SLICE = {"profile": "1g.5gb", "memory_mb": 4864, "slices.gi": 1, "slices.ci": 1}
SECTION_VECTORS = json.loads((DATA / "section-vectors.json").read_text(encoding="utf-8"))


def short_gpu(text: str) -> dict[str, object]:
    """ "A100+2x1g.5gb" and the other short forms of the section's vectors."""
    name, plus, mig = text.partition("+")
    if not plus:
        return PRODUCTS[name]
    instances = [SLICE] * (0 if mig == "MIG" else int(mig.partition("x")[0]))
    return {**PRODUCTS[name], "mig_enabled": True, "mig_instances": instances}


def short_config(vector: Mapping[str, object]) -> str:
    blocks = {}
    for block in ("mps", "timeSlicing"):
        if block in vector:
            spec = vector[block]
            extra = {} if isinstance(spec, list) else {key: value for key, value in spec.items() if key in ("rename", "devices")}
            pairs = spec if isinstance(spec, list) else [(key, value) for key, value in spec.items() if key not in extra]
            entries = [{"name": name, "replicas": replicas, **extra} for name, replicas in pairs]
            blocks[block] = {"renameByDefault": vector.get("renameByDefault", False), "resources": entries}
    return str(vector.get("cfg") or json.dumps({"version": "v1", "sharing": blocks}))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("vector", SECTION_VECTORS, ids=[vector["id"] for vector in SECTION_VECTORS])
def test_section_vectors(vector: Mapping[str, object], version: str) -> None:
    full = {"gpus": [short_gpu(gpu) for gpu in vector["gpus"]], "config": short_config(vector), "mig_env": vector.get("mig")}
    found = outcome(full, VERSIONS[version])
    for wanted in vector.get("labelsOneOf") or [vector["labels"]] if {"labels", "labelsOneOf"} & set(vector) else []:
        assert any(labels | wanted == labels for labels in found["labels"])
    if vector.get("gfd") == "exit1":
        assert "labels_error" in found["labels"][0]
    if vector.get("dp") == "exit1":
        assert "plugin_error" in found
    elif "res" in vector:
        assert found.get("resources_settled", {}) == vector["res"]
    daemon = vector.get("mpsd")
    if isinstance(daemon, str):
        assert found["mps_error"].endswith("exceeded: " + daemon.removeprefix("exit1: "))
    elif daemon:
        ((resource, limits),) = daemon.items()
        assert found["mps"] == {"threads": limits["pct"], "memory": limits["mem"], "resource": resource}


def limits(gpu: Gpu, replicas: int) -> tuple[int, int]:
    config = parse_config(json.dumps({"sharing": {"mps": {"resources": [{"name": "gpu", "replicas": replicas}]}}}))
    (daemon,) = mps_daemon.daemons((gpu,), config, "none")
    return daemon.thread_percentage, dict(daemon.memory_mib).get("0", 0)


@pytest.mark.parametrize(
    ("replicas", "threads", "memory"),
    [(2, 50, 7680), (3, 33, 5120), (4, 25, 3840), (5, 20, 3072), (6, 16, 2560), (7, 14, 2194), (8, 12, 1920), (10, 10, 1536)]
    + [(12, 8, 1280), (16, 6, 960), (17, 5, 903), (20, 5, 768), (24, 4, 640), (48, 2, 320)],
)
def test_limits_of_a_t4(replicas: int, threads: int, memory: int) -> None:
    assert limits(gpu_from_facts(PRODUCTS["T4"]), replicas) == (threads, memory)


def test_limits_divide_bytes_not_mebibytes_and_are_left_out_without_memory() -> None:
    assert limits(Gpu("x", 15843721216, (8, 6)), 3) == (33, 5036)
    assert limits(Gpu("x", 183359 * MIB, (10, 0)), 48) == (2, 3819)
    assert limits(Gpu("x", 0, (12, 1)), 4) == (25, 0)


def test_the_cap_is_sixteen_below_turing() -> None:
    caps = {mps_daemon.replica_cap(compute) for compute in ((6, 0), (7, 0), (7, 2), None)}
    assert caps == {16}
    assert mps_daemon.replica_cap((7, 5)) == mps_daemon.replica_cap((9, 0)) == 48


@pytest.mark.parametrize(
    ("block", "fail", "version", "refused"),
    [
        ("mps", None, "v0.17.4", True),
        ("mps", False, "v0.17.4", True),
        ("mps", None, "v0.20.0", True),
        ("mps", False, "v0.20.0", False),
        ("timeSlicing", None, "v0.20.0", False),
        ("timeSlicing", True, "v0.17.4", True),
    ],
)
def test_requests_for_more_than_one_replica(block: str, fail: bool | None, version: str, refused: bool) -> None:
    spec = {"resources": [{"name": "gpu", "replicas": 4}], "failRequestsGreaterThanOne": fail}
    config = parse_config(json.dumps({"sharing": {block: spec}}))
    plugin = device_plugin.start((gpu_from_facts(PRODUCTS["T4"]),), config, "none", VERSIONS[version])
    assert (plugin.refusal("nvidia.com/gpu", 2) is not None) is refused
    assert plugin.refusal("nvidia.com/gpu", 1) is None


@pytest.mark.parametrize(
    ("compute", "version", "name"),
    [((8, 9), (0, 17, 0), "ampere"), ((8, 9), (0, 17, 1), "ada-lovelace"), ((10, 0), (0, 17, 1), "undefined")]
    + [((12, 0), (0, 17, 2), "blackwell"), ((13, 0), (0, 17, 4), "undefined"), ((13, 0), (0, 20, 0), "rubin"), ((4, 0), (0, 20, 0), "undefined")],
)
def test_family_names_by_version(compute: tuple[int, int], version: tuple[int, int, int], name: str) -> None:
    assert feature_discovery.family(compute, version) == name


def test_an_annotation_entry_stands_for_count_gpus() -> None:
    gpus = gpus_from_annotation([{**PRODUCTS["T4"], "count": 2}, PRODUCTS["L4"]])
    assert [gpu.product for gpu in gpus] == ["Tesla T4", "Tesla T4", "NVIDIA L4"]
