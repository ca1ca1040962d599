# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML as the device plugin reads it: scalars, positions, notations and what is refused."""

from __future__ import annotations

import math

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils import _device_plugin_config_text as text_module
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config_text import (
    MAX_DEPTH,
    MAX_NODES,
    MAX_TEXT,
    Mapping,
    Notation,
    Scalar,
    ScalarValue,
    Sequence,
    parse_text,
    resolve_plain,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("Null", None),
        ("nUll", "nUll"),
        ("y", True),
        ("On", True),
        ("n", False),
        ("OFF", False),
        ("oN", "oN"),
        ("4", 4),
        ("0", 0),
        ("+4", 4),
        ("-4", -4),
        ("010", 8),
        ("0_10", 8),
        ("08", 8.0),
        ("0o10", 8),
        ("0O7", 7),
        ("0x1F", 31),
        ("-0xA", -10),
        ("0X4", 4),
        ("0b101", 5),
        ("0B11", 3),
        ("0x", "0x"),
        ("0b2", "0b2"),
        ("0o8", "0o8"),
        ("1_0", 10),
        ("4_", 4),
        ("_4", "_4"),
        ("4.0", 4.0),
        ("4.", 4.0),
        (".5", 0.5),
        ("._5", "._5"),
        ("1e1", 10.0),
        ("1E+1", 10.0),
        ("1e", "1e"),
        ("-.5", -0.5),
        (".inf", math.inf),
        ("+.Inf", math.inf),
        ("-.INF", -math.inf),
        ("inf", "inf"),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", 2**63),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 18446744073709551616.0),
        ("+9223372036854775808", 9223372036854775808.0),
        ("-9223372036854775808", -(2**63)),
        ("-9223372036854775809", -9223372036854775809.0),
        ("0xFFFFFFFFFFFFFFFFF", "0xFFFFFFFFFFFFFFFFF"),
        ("9" * 5000, "9" * 5000),
        ("0" * 5000 + "7", 7),
        ("2001-01-01", "2001-01-01"),
        ("4 5", "4 5"),
        ("v1", "v1"),
        ("-", "-"),
        ("+", "+"),
        (".", "."),
    ],
)
def test_plain_scalars_mean_what_goyaml_makes_of_them(text: str, value: ScalarValue) -> None:
    found = resolve_plain(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", [".nan", ".NaN", ".NAN"])
def test_not_a_number_is_a_float(text: str) -> None:
    found = resolve_plain(text)
    assert isinstance(found, float) and math.isnan(found)


# YAML 1.1's words, each in the three ways of writing that count; any other mixture of cases is text.
@pytest.mark.parametrize(
    ("word", "value"), [("y", True), ("yes", True), ("true", True), ("on", True), ("n", False), ("no", False), ("false", False), ("off", False), ("null", None)]
)
def test_words_are_values_in_three_spellings(word: str, value: ScalarValue) -> None:
    assert [resolve_plain(text) for text in (word, word.capitalize(), word.upper())] == [value] * 3
    assert resolve_plain(f"{word}X") == f"{word}X"


@pytest.mark.parametrize("sign", ["", "+", "-"])
def test_infinity_is_a_float_in_three_spellings(sign: str) -> None:
    assert [resolve_plain(sign + text) for text in (".inf", ".Inf", ".INF")] == [-math.inf if sign == "-" else math.inf] * 3


def test_nodes_keep_order_duplicates_and_lines() -> None:
    read = parse_text("# first\na: 1\n'a': \"2\"\nb: [x, {c: }]\n")
    assert read.root == Mapping(
        (
            (Scalar("a", "a", True, 2), Scalar("1", 1, True, 2)),
            (Scalar("a", "a", False, 3), Scalar("2", "2", False, 3)),
            (
                Scalar("b", "b", True, 4),
                Sequence((Scalar("x", "x", True, 4), Mapping(((Scalar("c", "c", True, 4), Scalar("", None, True, 4)),), 4)), 4),
            ),
        ),
        2,
    )
    assert (read.problem, read.notations, read.rest) == (None, (), None)


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "\ufeff", "---\n", "---\n...\n", "~"])
def test_an_empty_document(text: str) -> None:
    read = parse_text(text)
    assert read.problem is None
    assert read.root is None or (isinstance(read.root, Scalar) and read.root.value is None)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("a: 1\n", None),
        ("a: 1\n...\n", None),
        ("a: 1\n# end\n", None),
        ("a: 1\n---\n", 2),
        ("---\na: 1\n---\nb: 1\n", 3),
        ("a: 1\n...\n\nb: 1\n", 4),
        ("{a: 1}\nb: 1\n", 2),
        ("{a: 1}\n}", 2),
        (" a: 1\nb: 1\n", 2),
    ],
)
def test_what_follows_the_first_document(text: str, rest: int | None) -> None:
    read = parse_text(text)
    assert read.problem is None
    assert read.rest == rest


@pytest.mark.parametrize(
    ("text", "notations"),
    [
        ("a: &x 1\nb: *x\n", [Notation("anchor", 1, "x"), Notation("alias", 2, "x")]),
        ("\na: !!int 1\n", [Notation("tag", 2, "tag:yaml.org,2002:int")]),
        ("a: ! 1\n", [Notation("tag", 1, "!")]),
        ("%YAML 1.1\n---\na: 1\n", [Notation("directive", 1)]),
        ("%TAG !e! tag:example.com,2000:\n---\na: 1\n", [Notation("directive", 1)]),
        ("{\n\ta: 1,\n\tb: 1,\tc: 1}", [Notation("tab", 2), Notation("tab", 3)]),
        ("a:\t1\n", [Notation("tab", 1)]),
        ("a: b\tc\n", [Notation("tab", 1)]),
        ("a: 'b\tc' # d\te\n", []),
    ],
)
def test_notations_are_noted(text: str, notations: list[Notation]) -> None:
    read = parse_text(text)
    assert read.problem is None
    assert list(read.notations) == notations


def test_tags_make_texts_of_scalars_unless_they_name_a_scalar_type() -> None:
    read = parse_text("[!!str 4, !!map 4, ! 4, !!int 4, !!bool yes, !!float 4.5, !!null ~, !!int '4']")
    assert isinstance(read.root, Sequence)
    assert [item.value for item in read.root.items if isinstance(item, Scalar)] == ["4", "4", "4", 4, True, 4.5, None, "4"]


def test_tabs_within_a_plain_scalar_belong_to_it_but_not_at_its_end() -> None:
    read = parse_text("a: b \tc\t\nd: e\t\n")
    assert isinstance(read.root, Mapping)
    assert [value.text for _key, value in read.root.entries if isinstance(value, Scalar)] == ["b \tc", "e"]


def test_a_tab_before_a_line_break_does_not_end_a_scalar_that_goes_on() -> None:
    read = parse_text("a: b\t\n  c\n")
    assert isinstance(read.root, Mapping)
    assert read.root.entries[0][1] == Scalar("b c", "b c", True, 1)


def test_a_quoted_key_needs_no_space_after_its_colon() -> None:
    read = parse_text('{"a":[1]}')
    assert read.problem is None
    assert read.root == Mapping(((Scalar("a", "a", False, 1), Sequence((Scalar("1", 1, True, 1),), 1)),), 1)


def test_letters_after_a_tab_and_in_comments_are_letters() -> None:
    read = parse_text("a: b\tX # X marks\n# X\nc: d\n")
    assert isinstance(read.root, Mapping)
    assert [value.text for _key, value in read.root.entries if isinstance(value, Scalar)] == ["b\tX", "d"]


def test_an_alias_is_the_node_of_its_anchor() -> None:
    read = parse_text("a: &x {b: 1}\nc: *x\n")
    assert isinstance(read.root, Mapping)
    assert read.root.entries[1][1] == read.root.entries[0][1]


@pytest.mark.parametrize(
    ("text", "words", "line", "upstream_refuses"),
    [
        ("a: 1\n b: 2\n", "mapping values are not allowed here", 2, True),
        ("a: 1\nb: *x\n", "unknown anchor 'x' referenced", 2, True),
        ("a: &x [*x]\n", "whose value contains itself", 1, True),
        ("%YAML 1.2\n---\na: 1\n", "only the directive for YAML 1.1", 1, True),
        ("\n{a:{}}", "no space after the colon", 2, True),
        ("\n{a:[]}", "no space after the colon", 2, True),
        ("[a:[]]", "no space after the colon", 1, True),
        ("{a:}", "no space after the colon", 1, False),
        ("{a:,}", "no space after the colon", 1, False),
        ("a:\n\tb: 1\n", "cannot start any token", 2, True),
        ("a: 1\nb: \x01\n", "U+0001", 2, True),
        ("a: \x7f\n", "U+007F", 1, True),
        ("\n\x01\n", "U+0001", 2, True),
        ("a: \x85\n", "U+0085", 1, False),
        ("a: \u2028\n", "U+2028", 1, False),
        ("a: \ud800\n", "U+D800", 1, False),
        ("a: 1\n\ufeffb: 1\n", "U+FEFF", 2, False),
        ("\ufeff\ufeffa: 1\n", "U+FEFF", 1, False),
        ("a: 1\r\ufeffb: 1\n", "U+FEFF", 1, False),
        ("[" * (MAX_DEPTH + 2), "nested more than 24 deep", 1, False),
    ],
)
def test_what_cannot_be_read(text: str, words: str, line: int, upstream_refuses: bool) -> None:
    problem = parse_text(text).problem
    assert problem is not None
    assert words in problem.reason
    assert (problem.line, problem.upstream_refuses) == (line, upstream_refuses)


def test_a_byte_order_mark_within_a_line_is_a_character() -> None:
    read = parse_text("a: b\ufeff\n")
    assert isinstance(read.root, Mapping)
    assert read.root.entries[0][1] == Scalar("b\ufeff", "b\ufeff", True, 1)
    assert parse_text("[\ufeffb]").root == Sequence((Scalar("\ufeffb", "\ufeffb", True, 1),), 1)


def test_the_depth_is_bounded_where_it_says() -> None:
    for begin, end in (("[", "]"), ("{a: ", "}"), ("{? ", "}")):
        assert parse_text(begin * MAX_DEPTH + "1" + end * MAX_DEPTH).problem is None
        problem = parse_text(begin * (MAX_DEPTH + 1) + "1" + end * (MAX_DEPTH + 1)).problem
        assert problem is not None and problem.too_large


def test_the_size_is_bounded_where_it_says() -> None:
    assert parse_text("a: 1\n" + "#" * (MAX_TEXT - 5)).problem is None
    problem = parse_text("a: 1\n" + "#" * (MAX_TEXT - 4)).problem
    assert problem is not None and problem.too_large and problem.line is None


def test_the_number_of_values_is_bounded_where_it_says() -> None:
    assert parse_text(f"[{'1,' * (MAX_NODES - 1)}]").problem is None
    problem = parse_text(f"[{'1,' * MAX_NODES}]").problem
    assert problem is not None and problem.too_large and not problem.upstream_refuses


def test_aliases_count_as_what_they_expand_to() -> None:
    levels = [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 9)]
    problem = parse_text("\n".join(["a0: &a0 [1, 1]", *levels])).problem
    assert problem is not None and problem.too_large
    assert problem.line == 5  # 10 * 10 * 10 * 10 values of three nodes


def test_without_pyyaml_the_message_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "yaml", None)
    with pytest.raises(RuntimeError, match="PyYAML is required"):
        parse_text("a: 1\n")
