# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The strict reader and the canonical writer, against what the device plugin itself did with thousands of texts."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig, Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import Reading, content_hash, read_config, read_config_map, write_config
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, is_final
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion

DATA = Path(__file__).resolve().parents[2] / "data"
VECTORS = [json.loads(line) for line in gzip.decompress((DATA / "parser-vectors.jsonl.gz").read_bytes()).splitlines()]
FILES = json.loads((DATA / "config-files.json").read_text(encoding="utf-8"))

GOOD = "version: v1\nsharing:\n  mps:\n    resources:\n      - name: nvidia.com/gpu\n        replicas: 4\n"


@cache
def readings() -> list[Reading]:
    """What the reader makes of each vector, in their order."""
    return [read_config("key", vector["text"]) for vector in VECTORS]


def errors(findings: tuple[Finding, ...]) -> list[Finding]:
    return [found for found in findings if found.severity == "error"]


def understood(config: SharingConfig) -> dict[str, Any]:
    """A config in the words of the vectors."""
    meaning: dict[str, Any] = {"accept": True, "strategy": config.strategy.value, "renameByDefault": config.rename_by_default, "resources": None}
    if config.replicas is not None:
        meaning["resources"] = [{"name": "nvidia.com/gpu", "replicas": config.replicas}]
    if config.mig_strategy is not None:
        meaning["migStrategy"] = config.mig_strategy
    return meaning


def test_the_vectors_are_all_there() -> None:
    assert len(VECTORS) == 4000
    assert sum(vector["kind"] == "clean" for vector in VECTORS) == 975


def test_clean_texts_are_accepted_without_a_word_and_understood() -> None:
    for vector, reading in zip(VECTORS, readings(), strict=True):
        if vector["kind"] == "clean":
            assert reading.findings == (), vector["id"]
            assert reading.config is not None and understood(reading.config) == vector["real"], vector["id"]


def test_what_is_accepted_is_understood_as_the_device_plugin_does() -> None:
    accepted = 0
    for vector, reading in zip(VECTORS, readings(), strict=True):
        if not errors(reading.findings):
            accepted += 1
            assert reading.config is not None and understood(reading.config) == vector["real"], vector["id"]
    assert accepted > 1300


def test_a_refusal_says_what_the_device_plugin_would_have_done() -> None:
    for vector, reading in zip(VECTORS, readings(), strict=True):
        refusals = errors(reading.findings)
        if not refusals:
            continue
        told = " ".join(found.message for found in refusals)
        if vector["real"]["accept"]:
            assert "The device plugin would accept the text" in told, vector["id"]
            shared = "share nothing" if vector["real"]["strategy"] == "none" else f"with strategy {vector['real']['strategy']}:"
            assert shared in told, vector["id"]
            for resource in vector["real"]["resources"] or ():
                assert f"{resource['name']} with {resource['replicas']} replicas" in told, vector["id"]
        else:
            assert "The device plugin would refuse the text" in told, vector["id"]


def test_only_the_first_error_tells_the_whole_outcome() -> None:
    reading = read_config("key", "version: v2\nsharing:\n  mpss: {}\n")
    assert [("would refuse" in found.message) for found in reading.findings] == [True, False]


@pytest.mark.parametrize("row", FILES, ids=[row["file"] for row in FILES])
def test_real_files_get_the_verdict_they_deserve(row: dict[str, str]) -> None:
    reading = read_config("key", row["text"])
    severities = {found.severity for found in reading.findings}
    verdict = row["tool_should"]
    assert ("error" in severities) == (verdict == "reject")
    assert ("warning" in severities) == (verdict == "warn")
    if verdict == "normalise":
        assert [found.code for found in reading.findings] == ["value-spelling"]
    if verdict != "reject":
        assert reading.config is not None and reading.config.strategy.value == row["upstream_strategy"]
    assert all(found.path.split(".")[0] == "key" for found in reading.findings)


def test_crlf_and_a_byte_order_mark_change_nothing() -> None:
    plain = read_config("key", GOOD)
    assert plain.findings == ()
    assert read_config("key", GOOD.replace("\n", "\r\n")) == plain
    assert read_config("key", "\ufeff" + GOOD) == plain


def test_time_slicing_is_understood() -> None:
    text = GOOD.replace("mps:", "timeSlicing:\n    renameByDefault: true\n    failRequestsGreaterThanOne: false").replace("4", "100")
    reading = read_config("ts", text)
    assert reading.findings == ()
    assert reading.config == SharingConfig("ts", Strategy.TIME_SLICING, 100, True, None, False)


def test_requests_above_one_depend_on_the_version() -> None:
    text = GOOD.replace("    resources", "    failRequestsGreaterThanOne: false\n    resources")
    codes = [read_config("key", text, plugin_version=version).findings[0].code for version in (None, PluginVersion(0, 19, 3), PluginVersion(0, 20, 0))]
    assert codes == ["fail-requests-ignored", "fail-requests-ignored", "fail-requests-off"]
    assert read_config("key", text.replace("false", "true")).findings == ()


def test_an_acceptable_error_leaves_what_the_device_plugin_understands() -> None:
    reading = read_config("key", "version: v1\ncomment: hello\n" + GOOD.removeprefix("version: v1\n"))
    assert [found.code for found in reading.findings] == ["unknown-key"]
    assert reading.config == SharingConfig("key", Strategy.MPS, 4)


def test_an_acceptable_error_does_not_hide_a_refusal() -> None:
    reading = read_config("key", GOOD + "        devices: 0\n")
    assert [found.code for found in reading.findings] == ["field-dropped", "refused-upstream"]
    assert reading.config is None


# A whole map


def test_a_map_is_read_key_by_key_in_order() -> None:
    readings, findings = read_config_map({"b": "version: v1\n", "a": GOOD})
    assert [reading.key for reading in readings] == ["a", "b"]
    assert findings == ()


def test_the_version_reaches_every_key() -> None:
    text = GOOD.replace("    resources", "    failRequestsGreaterThanOne: false\n    resources")
    readings, _findings = read_config_map({"a": text}, plugin_version=PluginVersion(0, 20, 0))
    assert [found.code for found in readings[0].findings] == ["fail-requests-off"]


@pytest.mark.parametrize(
    ("data", "code", "path"),
    [
        ({}, "config-map-empty", ""),
        ({"mps 4": GOOD}, "config-name", "mps 4"),
        ({"-a": GOOD}, "config-name", "-a"),
        ({"a" * 64: GOOD}, "config-name", "a" * 64),
        ({"a": GOOD, "b": "#" * 1024 * 1024}, "config-map-too-large", ""),
    ],
)
def test_a_map_can_be_wrong_as_a_whole(data: dict[str, str], code: str, path: str) -> None:
    _readings, findings = read_config_map(data)
    assert [(found.code, found.path) for found in findings] == [(code, path)]


def test_the_size_of_a_map_counts_bytes_of_keys_and_texts() -> None:
    text = "#" + "\u00e9" * (512 * 1024 - 1)  # 1 MiB less one byte
    assert read_config_map({"a": text})[1] == ()
    assert [found.code for found in read_config_map({"ab": text})[1]] == ["config-map-too-large"]


def test_text_that_is_no_unicode_is_refused_not_fatal() -> None:
    readings, findings = read_config_map({"a": "\ud800"})
    assert findings == ()
    assert [found.code for found in readings[0].findings] == ["yaml-syntax"]
    assert content_hash("\ud800") != content_hash("\ud801")


# The writer


@st.composite
def configs(draw: st.DrawFn) -> SharingConfig:
    """Every config that a text can mean."""
    name = draw(st.from_regex(r"[a-zA-Z0-9]([-a-zA-Z0-9_.]{0,61}[a-zA-Z0-9])?", fullmatch=True))
    strategy = draw(st.sampled_from(Strategy))
    mig_strategies = [None, "none", "single"] if strategy is Strategy.MPS else [None, "none", "single", "mixed"]
    mig_strategy = draw(st.sampled_from(mig_strategies))
    if strategy is Strategy.NONE:
        return SharingConfig(name, strategy, mig_strategy=mig_strategy)
    replicas = draw(st.integers(2, 48 if strategy is Strategy.MPS else 10_000))
    return SharingConfig(name, strategy, replicas, draw(st.booleans()), mig_strategy, draw(st.sampled_from([None, True, False])))


@given(configs())
@settings(max_examples=20_000)
def test_reading_what_was_written_gives_the_config_back(config: SharingConfig) -> None:
    text = write_config(config)
    reading = read_config(config.name, text)
    assert reading.config == config
    assert errors(reading.findings) == []
    assert write_config(reading.config) == text


def test_the_canonical_text() -> None:
    config = SharingConfig("full", Strategy.MPS, 4, True, "none", False)
    assert write_config(config) == (
        "version: v1\n"
        "flags:\n"
        "  migStrategy: none\n"
        "sharing:\n"
        "  mps:\n"
        "    renameByDefault: true\n"
        "    failRequestsGreaterThanOne: false\n"
        "    resources:\n"
        "      - name: nvidia.com/gpu\n"
        "        replicas: 4\n"
    )
    assert write_config(SharingConfig("none", Strategy.NONE)) == "version: v1\n"


def test_the_hash_is_of_the_text() -> None:
    assert content_hash("version: v1\n") == "aefdbe17a1"
    assert content_hash("version: v1") != content_hash("version: v1\n")


@given(st.text(max_size=200))
@settings(max_examples=2_000)
def test_no_text_makes_the_reader_fail(text: str) -> None:
    reading = read_config("key", text)
    assert (reading.config is None) == any(is_final(found) for found in reading.findings)
