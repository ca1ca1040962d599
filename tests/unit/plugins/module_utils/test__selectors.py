# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Label selectors, as kubectl takes them."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._selectors import Operator, Requirement, Selector, SelectorError, parse_selector

LABELS = {"pool": "inference", "zone": "a", "example.com/empty": ""}


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("pool=inference", (Requirement("pool", Operator.IN, ("inference",)),)),
        (" pool == inference ", (Requirement("pool", Operator.IN, ("inference",)),)),
        ("pool!=training", (Requirement("pool", Operator.NOT_IN, ("training",)),)),
        ("pool=", (Requirement("pool", Operator.IN, ("",)),)),
        ("pool in (a, b)", (Requirement("pool", Operator.IN, ("a", "b")),)),
        ("pool  notin(a)", (Requirement("pool", Operator.NOT_IN, ("a",)),)),
        ("pool in (a,)", (Requirement("pool", Operator.IN, ("a", "")),)),
        ("pool", (Requirement("pool", Operator.EXISTS),)),
        ("! pool", (Requirement("pool", Operator.ABSENT),)),
        ("example.com/a.b_c-d=1", (Requirement("example.com/a.b_c-d", Operator.IN, ("1",)),)),
        (
            "a=1,b in (x,y), !c",
            (Requirement("a", Operator.IN, ("1",)), Requirement("b", Operator.IN, ("x", "y")), Requirement("c", Operator.ABSENT)),
        ),
        ("in in (in)", (Requirement("in", Operator.IN, ("in",)),)),
    ],
)
def test_parsed(text: str, requirements: tuple[Requirement, ...]) -> None:
    assert parse_selector(text) == Selector(text, requirements)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty, which would select every node"),
        ("  ", "empty, which would select every node"),
        (",", "nothing before or after a comma"),
        ("a=1,", "nothing before or after a comma"),
        ("a in (b", "a parenthesis is not closed"),
        ("a in b)", "the parentheses do not match"),
        ("a in ((b))", "the parentheses do not match"),
        ("a in ()", "the set of values is empty"),
        ("a b", "the key 'a b' "),
        ("=b", "the key '=b' "),
        ("!a=b", "the key 'a=b' "),
        ("a>1", "the key 'a>1' "),
        ("a=b=c", "the key 'a=b=c' "),
        ("a=b c", "the key 'a=b c' "),
        ("a=-b", "the value '-b' "),
        ("a in (b c)", "the value 'b c' "),
        ("!", "the key '' has the name '', which is empty"),
        ("-x.com/a", "the key '-x.com/a' has the prefix '-x.com', which is no DNS subdomain"),
        ("/a", "the key '/a' has the prefix '', which is no DNS subdomain"),
        (f"{'a' * 64}=b", "has 64 characters"),
    ],
)
def test_refused(text: str, words: str) -> None:
    with pytest.raises(SelectorError) as error:
        parse_selector(text)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("pool=inference", True),
        ("pool=training", False),
        ("pool=inference,zone=a", True),
        ("pool=inference,zone=b", False),
        ("pool!=training", True),
        ("pool!=inference", False),
        ("absent!=x", True),
        ("absent=", False),
        ("example.com/empty=", True),
        ("zone in (a, b)", True),
        ("zone in (b, c)", False),
        ("absent in (a)", False),
        ("zone notin (a, b)", False),
        ("zone notin (b)", True),
        ("absent notin (a)", True),
        ("example.com/empty", True),
        ("absent", False),
        ("!absent", True),
        ("!pool", False),
    ],
)
def test_matched(text: str, matches: bool) -> None:
    assert parse_selector(text).matches(LABELS) is matches
