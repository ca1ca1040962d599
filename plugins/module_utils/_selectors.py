# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: Kubernetes label selectors, parsed and matched without the API server.

The language is that of kubectl (Kubernetes, apimachinery pkg/labels): requirements joined by commas, all of which must hold.
The numeric comparisons that apimachinery also knows are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ansible_collections.gpuops.mps.plugins.module_utils._names import label_key_problem, label_value_problem


class Operator(StrEnum):
    """What a requirement asks of its key; equality is a set of one value."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    ABSENT = "absent"


class SelectorError(ValueError):
    """A selector that cannot be read; the message says what is wrong with it."""


@dataclass(frozen=True)
class Requirement:
    """One condition on one label key."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels fulfil it; as in Kubernetes, an absent key fulfils "notin" and "!="."""
        if self.operator is Operator.EXISTS:
            return self.key in labels
        if self.operator is Operator.ABSENT:
            return self.key not in labels
        found = self.key in labels and labels[self.key] in self.values
        return found == (self.operator is Operator.IN)


@dataclass(frozen=True)
class Selector:
    """A parsed selector; ``text`` is what was written."""

    text: str
    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels fulfil every requirement."""
        return all(requirement.matches(labels) for requirement in self.requirements)


_SET = re.compile(r"(\S+)\s+(in|notin)\s*\((.*)\)\Z")
_EQUALITY = re.compile(r"([^\s=!]+)\s*(==|=|!=)\s*([^\s=!]*)\Z")


def parse_selector(text: str) -> Selector:
    """The selector in ``text``. Raises SelectorError for an empty one and for everything kubectl would refuse."""
    if not text.strip():
        raise SelectorError("the selector is empty, which would select every node")
    return Selector(text, tuple(_requirement(part.strip()) for part in _split(text)))


def _split(text: str) -> list[str]:
    """The requirements: commas within parentheses belong to a set of values."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth not in (0, 1):
            raise SelectorError("the parentheses do not match")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    if depth:
        raise SelectorError("a parenthesis is not closed")
    return parts


def _requirement(part: str) -> Requirement:
    if not part:
        raise SelectorError("there is nothing before or after a comma")
    if found := _SET.match(part):
        key, operator, inside = found.groups()
        return _checked(key, Operator(operator), tuple(value.strip() for value in inside.split(",")), part)
    if found := _EQUALITY.match(part):
        key, sign, value = found.groups()
        return _checked(key, Operator.NOT_IN if sign == "!=" else Operator.IN, (value,), part)
    if part.startswith("!"):
        return _checked(part[1:].strip(), Operator.ABSENT, (), part)
    return _checked(part, Operator.EXISTS, (), part)


def _checked(key: str, operator: Operator, values: tuple[str, ...], part: str) -> Requirement:
    if problem := label_key_problem(key):
        raise SelectorError(f"in '{part}', the key '{key}' {problem}")
    if values == ("",) and "(" in part:
        raise SelectorError(f"in '{part}', the set of values is empty")
    for value in values:
        if problem := label_value_problem(value):
            raise SelectorError(f"in '{part}', the value '{value}' {problem}")
    return Requirement(key, operator, values)
