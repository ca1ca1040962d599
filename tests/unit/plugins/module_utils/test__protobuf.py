# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading Protocol Buffers, against an encoder of the test's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._protobuf import Field, flag, message, number, pair, raw, text, text_pair, time, varint
from tests.unit.protobuf_encoder import encoded, number_field, varint_bytes

INNER = message({1: Field("name", text), 200: Field("far", number)})
OUTER = message(
    {
        1: Field("text", text),
        2: Field("number", number),
        3: Field("flag", flag),
        4: Field("inner", INNER, "list"),
        5: Field("labels", text_pair, "map"),
        6: Field("raw", raw),
        7: Field("counts", pair(number), "map"),
    }
)


def read(data: bytes) -> dict[str, object]:
    return OUTER(data, 0, len(data))


@given(st.integers(0, 2**64 - 1))
def test_numbers_come_back(value: int) -> None:
    data = varint_bytes(value)
    assert varint(data, 0) == (value, len(data))


def test_a_number_does_not_go_on_for_ever() -> None:
    with pytest.raises(ValueError, match="more than 64 bits"):
        varint(b"\xff" * 20, 0)


@given(st.text(), st.integers(-(2**63), 2**63 - 1), st.booleans(), st.lists(st.text()), st.dictionaries(st.text(), st.text()), st.binary())
def test_what_was_written_is_read(words: str, value: int, on: bool, names: list[str], labels: dict[str, str], content: bytes) -> None:
    fields = [
        (1, words),
        (2, value),
        (3, on),
        *((4, [(1, name), (200, 5)]) for name in names),
        *((5, [(1, k), (2, v)]) for k, v in labels.items()),
        (6, content),
    ]
    expected: dict[str, object] = {"text": words, "number": value, "flag": on, "raw": content}
    if names:
        expected["inner"] = [{"name": name, "far": 5} for name in names]
    if labels:
        expected["labels"] = labels
    assert read(encoded(fields)) == expected


def test_fields_that_nobody_wants_are_stepped_over() -> None:
    """Of each kind: a number, eight bytes, a long text, four bytes; and a field with a number that takes two bytes."""
    unknown = number_field(90, 2**40) + varint_bytes(91 << 3 | 1) + b"8" * 8 + encoded([(92, "x" * 500)]) + varint_bytes(93 << 3 | 5) + b"4" * 4
    assert read(unknown + encoded([(1, "here")]) + unknown) == {"text": "here"}


def test_the_last_of_two_values_counts_and_absent_parts_of_a_pair_are_empty() -> None:
    assert read(encoded([(1, "first"), (1, "last")])) == {"text": "last"}
    assert read(encoded([(5, []), (7, [(1, "a")]), (7, [(1, "b"), (2, 300)])])) == {"labels": {"": ""}, "counts": {"a": "", "b": 300}}


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert read(encoded([(1, b"a\xffb")])) == {"text": "a\ufffdb"}


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(1_796_103_475, "2026-12-01T05:37:55Z"), (-62_135_596_800, None), (0, None), (2**62, None)],
)
def test_times_are_written_as_in_json(seconds: int, expected: str | None) -> None:
    data = encoded([(1, seconds)])
    assert time(data, 0, len(data)) == expected
    assert time(b"", 0, 0) is None


@pytest.mark.parametrize("data", [b"\x0a\x05four", b"\x0b", b"\x0f\x00", b"\x59" + b"8" * 7, b"\x0a"])
def test_what_is_no_message_is_refused(data: bytes) -> None:
    """A text that is too short, the kinds of groups and one that does not exist, eight bytes less one, nothing after a key."""
    with pytest.raises((ValueError, IndexError)):
        read(data)
