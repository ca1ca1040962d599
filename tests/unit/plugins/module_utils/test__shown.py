# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._shown import MOST_CHARACTERS, named, shown, visible


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("the node gpu-1", "the node gpu-1"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("over\rwritten", "over\\rwritten"),
        ("evil\u202etxt.exe", "evil\\u202etxt.exe"),
        ("half \ud800", "half \\ud800"),
        ("nul\x00", "nul\\x00"),
        ("Größe µ 漢字", "Größe µ 漢字"),
    ],
)
def test_what_cannot_be_seen_is_shown(text: str, seen: str) -> None:
    assert visible(text) == seen


@given(st.text(alphabet=st.characters(codec=None)))
def test_nothing_invisible_is_left(text: str) -> None:
    seen = visible(text)
    assert seen.replace("\n", "").replace("\t", "").isprintable()
    assert visible(seen) == seen
    seen.encode("utf-8")


def test_a_very_long_text_is_cut() -> None:
    assert visible("x" * MOST_CHARACTERS) == "x" * MOST_CHARACTERS
    assert len(visible("x" * 10 * MOST_CHARACTERS)) < MOST_CHARACTERS + 50


def test_every_value_can_be_shown() -> None:
    nested: list[object] = []
    for _level in range(100_000):
        nested = [nested]
    assert shown([1, "a"]) == "[1, 'a']"
    assert shown(16**5000) == shown(nested) == named(-(16**5000)) == "a value too large to show"
    assert (named("gpu-1"), named(7)) == ("gpu-1", "7")
