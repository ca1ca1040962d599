# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agents' config parser against the real one: 4,000 executed texts, the real cases, and the rules one by one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.testbed.agents.config_file import Config, ConfigError, parse_config
from tests.testbed.agents.go_yaml import go_number, resolve

DATA = Path(__file__).parent.parent / "data"
REAL_CONFIGS = json.loads((DATA / "real-configs.json").read_text(encoding="utf-8"))


def read(text: str) -> dict[str, object]:
    """The parse in the vectors' words."""
    try:
        config = parse_config(text)
    except ConfigError as error:
        return {"accept": False, "error": str(error)}
    return {"accept": True, **in_vector_words(config)}


def in_vector_words(config: Config) -> dict[str, object]:
    entries = [{"name": entry.name, "replicas": entry.replicas} for entry in config.sharing.entries]
    words = {
        "renameByDefault": config.sharing.rename_by_default,
        "resources": entries or None,
        "strategy": config.strategy,
    }
    return words if config.mig_strategy is None else {"migStrategy": config.mig_strategy, **words}


def test_every_executed_text_reads_as_the_real_parser_read_it() -> None:
    with gzip.open(DATA / "parser-vectors.jsonl.gz", "rt", encoding="utf-8") as lines:
        vectors = [json.loads(line) for line in lines]
    assert len(vectors) == 4000
    wrong = [(vector["id"], read(vector["text"]), vector["real"]) for vector in vectors if read(vector["text"]) != vector["real"]]
    assert wrong == []


@pytest.mark.parametrize("case", REAL_CONFIGS, ids=[case["name"] for case in REAL_CONFIGS])
def test_real_config_files(case: dict[str, str]) -> None:
    result = read(case["text"])
    assert ("accept" if result["accept"] else "reject", result.get("strategy", "-")) == (case["verdict"], case["strategy"])


SHARING = "version: v1\nsharing:\n  mps:\n    resources:\n    - {name: nvidia.com/gpu, replicas: %s}\n"


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        ("1", "number of replicas must be >= 2"),
        ("0", "number of replicas must be >= 2"),
        ("null", "number of replicas must be >= 2"),
        ("'4'", "json: cannot unmarshal string into Go struct field Sharing.sharing.mps of type int"),
        ("4.5", "json: cannot unmarshal number 4.5 into Go struct field Sharing.sharing.mps of type int"),
        ("4, devices: 0", "devices set as '0' but a device count must be > 0"),
        ("4, devices: ALL", "devices set as 'ALL' but the only valid string input is 'all'"),
        ("4, devices: [foo]", "unsupported type for device in devices list: foo, string"),
        ("4, devices: [-1]", "unsupported type for device in devices list: -1, float64"),
    ],
)
def test_refused_entries(replicas: str, message: str) -> None:
    prefix = "unmarshal error: error unmarshaling JSON: while decoding JSON: "
    assert read(SHARING % replicas) == {"accept": False, "error": prefix + message}


@pytest.mark.parametrize("replicas", ["4.0", "4, devices: all", "4, devices: 2", "4, devices: [0, '1', '0:1']", "4, rename: nvidia.com/mine", "1000"])
def test_accepted_entries(replicas: str) -> None:
    assert read(SHARING % replicas)["accept"] is True


@pytest.mark.parametrize(
    ("text", "strategy"),
    [
        ("", "none"),
        ("# only a comment\n", "none"),
        ("null", "none"),
        ("sharing: {mps: null}", "none"),
        ("sharing: {mpss: {resources: [{name: gpu, replicas: 4}]}}", "none"),
        ("SHARING: {MPS: {resources: [{name: gpu, replicas: 4}]}}", "mps"),
        ("version: v1\n---\nsharing: nonsense\n", "none"),
    ],
)
def test_files_that_are_accepted_without_a_word(text: str, strategy: str) -> None:
    assert read(text) == read(text) | {"accept": True, "strategy": strategy}


def test_time_slicing_null_is_refused_where_mps_null_is_not() -> None:
    assert read("sharing: {timeSlicing: null}")["error"].endswith("while decoding JSON: no resources specified")


def test_rename_by_default_is_matched_exactly_inside_the_block() -> None:
    text = "sharing: {mps: {%s: yes, resources: [{name: gpu, replicas: 4}]}}"
    assert read(text % "renameByDefault")["renameByDefault"] is True
    assert read(text % "RenameByDefault")["renameByDefault"] is False


@pytest.mark.parametrize(
    ("text", "value"),
    [("0x10", 16), ("0o10", 8), ("010", 8), ("0b11", 3), ("1_000", 1000), ("1e2", 100.0), ("yes", True), ("Off", False), ("~", None)]
    + [(word, word) for word in ("1:30", "2026-11-30", "4x", "-", "nvidia.com/gpu")],
)
def test_plain_scalars_as_go_yaml_reads_them(text: str, value: object) -> None:
    assert resolve(text) == value


@pytest.mark.parametrize(("number", "text"), [(4.0, "4"), (4.5, "4.5"), (1e20, "100000000000000000000"), (1e21, "1e+21"), (1e-7, "1e-07")])
def test_numbers_as_go_writes_them(number: float, text: str) -> None:
    assert go_number(number) == text
