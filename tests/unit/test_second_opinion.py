# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The strict reader against a second opinion: the simulated agents' own parser, which shares no code with the plugins.

Both follow the device plugin's parser; the reader may refuse more, and must never accept more or understand otherwise.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import read_config
from tests.testbed.agents.config_file import ConfigError, parse_config

DATA = Path(__file__).resolve().parent / "data"
TEXTS = [json.loads(line)["text"] for line in gzip.decompress((DATA / "parser-vectors.jsonl.gz").read_bytes()).splitlines()]

KEYS = ["version", "flags", "migStrategy", "sharing", "mps", "MPS", "timeSlicing", "resources", "name", "replicas", "devices", "rename"]
KEYS += ["renameByDefault", "failRequestsGreaterThanOne", "plugin", "gfd", "imex", "Sharing", "FLAGS", "<<"]
VALUES = ["null", "~", "", "true", "yes", "off", "y", "0", "2", "4.0", "4.5", "010", "08", "0o10", "0x4", "0b11", "1_0", "+4", "-4", "1e1", "4."]
VALUES += [".5", ".inf", "'4'", "v1", "'v1'", "[]", "{}", "[1]", "{a: 1}", "gpu", "nvidia.com/gpu", "all", "*s", "&s 4", "!!int 4", "!!str 4"]
VALUES += ["none", "Single", "mixed", "2001-01-01", "0x", "4_", "9223372036854775808", "|\n  x", "? a", "@x", "\t4", "4\t5", "\u00e9"]
LETTERS = " \t\n\r:,[]{}\"'#&*!|>%@`-?~\\=<.0\ufeff\u00a0\u2028\x85"


def _insert(text: str, place: int, piece: str) -> str:
    place %= len(text) + 1
    return text[:place] + piece + text[place:]


def _delete(text: str, place: int, piece: str) -> str:
    place %= len(text) + 1
    return text[:place] + text[place + len(piece) :]


def _add_line(text: str, place: int, piece: str) -> str:
    lines = text.split("\n")
    place %= len(lines) + 1
    return "\n".join([*lines[:place], piece, *lines[place:]])


def _replace_value(text: str, place: int, piece: str) -> str:
    """Another value after one of the colons."""
    parts = text.split(": ")
    place %= len(parts)
    if place == 0:
        return text
    tail = parts[place].lstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/.'\"")
    return ": ".join([*parts[:place], piece + tail, *parts[place + 1 :]])


INDENTS = st.sampled_from(["", "  ", "    ", "\t"])
LINES = st.builds("{}{}{}{}".format, INDENTS, st.sampled_from(KEYS), st.sampled_from([": ", ":", " : "]), st.sampled_from(VALUES))
PLACES = st.integers(0, 400)
EDITS = st.one_of(
    st.tuples(st.just(_insert), PLACES, st.sampled_from(LETTERS)),
    st.tuples(st.just(_delete), PLACES, st.sampled_from([" ", "  ", "    ", "x" * 10])),
    st.tuples(st.just(_add_line), PLACES, LINES | st.sampled_from(["---", "...", "# x", "%YAML 1.1", "copy: *s", "}", "  "])),
    st.tuples(st.just(_replace_value), PLACES, st.sampled_from(VALUES)),
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """One of the executed texts with up to three more faults."""
    text = draw(st.sampled_from(TEXTS))
    for edit, place, piece in draw(st.lists(EDITS, max_size=3)):
        text = edit(text, place, piece)
    return text


@given(damaged())
@example("version: v1\nflags: {}\nFLAGS: {migStrategy: none}\n")
@settings(max_examples=20_000)
def test_nothing_is_accepted_that_the_second_opinion_refuses_or_understands_otherwise(text: str) -> None:
    reading = read_config("key", text)
    if any(found.severity == "error" for found in reading.findings):
        return
    assert reading.config is not None
    try:
        other = parse_config(text)
    except ConfigError as error:
        raise AssertionError(f"accepted, but refused by the agents' parser: {error}") from error
    entries = [(entry.name, entry.replicas) for entry in other.sharing.entries]
    assert reading.config.strategy.value == other.strategy
    assert entries == ([("nvidia.com/gpu", reading.config.replicas)] if reading.config.replicas else [])
    assert reading.config.rename_by_default == other.sharing.rename_by_default
    assert reading.config.fail_requests_greater_than_one == other.sharing.fail_requests_greater_than_one
    assert reading.config.mig_strategy == other.mig_strategy
