# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML to JSON values the way sigs.k8s.io/yaml does it: go-yaml v2's resolution, first document only, last duplicate wins.

libyaml (through PyYAML) tokenizes, because go-yaml v2 is a port of it; the meaning of scalars, keys, merges and aliases is go-yaml's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

TAG = "tag:yaml.org,2002:"
TRUE_WORDS = frozenset(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"])
FALSE_WORDS = frozenset(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"])
NULL_WORDS = frozenset(("", "~", "null", "Null", "NULL"))
FLOAT_WORDS = {
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[oO]?([0-7]+)|0[bB]([01]+)|(0|[1-9][0-9]*))")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


class YamlError(ValueError):
    """The text is no YAML to go-yaml; the message is go-yaml's, after ``yaml: ``."""


def to_json_value(text: str) -> Any:
    """The first document as JSON data: dict, list, str, int, float, bool or None. Raises YamlError."""
    try:
        events = _first_document(text)
    except yaml.YAMLError as error:
        raise YamlError(_message(error)) from None
    value = _Reader(iter(events)).value() if events else None
    _refuse_unsupported(value)
    return value


def _first_document(text: str) -> list[yaml.Event]:
    """The first document's events: all of it is parsed before any of it is interpreted, so syntax errors come first."""
    events: list[yaml.Event] = []
    flows: list[bool] = []
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.DocumentStartEvent) and event.version not in (None, (1, 1)):
            raise YamlError("found incompatible YAML document")
        if isinstance(event, yaml.DocumentEndEvent):
            return events
        if isinstance(event, yaml.CollectionStartEvent):
            flows.append(bool(event.flow_style))
        elif isinstance(event, yaml.CollectionEndEvent):
            flows.pop()
        elif isinstance(event, yaml.ScalarEvent) and not event.style and "?" in event.value and flows and flows[-1]:
            # Newer libyaml reads a question mark inside a flow collection's plain text, go-yaml v2 takes it for an indicator.
            raise YamlError(f"line {event.start_mark.line}: did not find expected ',' or '}}'")
        if isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            events.append(event)
    return events


class _Reader:
    """One pass over a document's events; anchors are remembered as values."""

    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events
        self._anchors: dict[str, Any] = {}
        self._open: set[str] = set()

    def value(self) -> Any:
        return self._value(next(self._events))

    def _value(self, event: yaml.Event) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event.anchor)
        if isinstance(event, yaml.ScalarEvent):
            value: Any = _scalar(event)
        else:
            self._open.add(event.anchor or "")
            value = self._sequence() if isinstance(event, yaml.SequenceStartEvent) else self._mapping()
            self._open.discard(event.anchor or "")
        if event.anchor:
            self._anchors[event.anchor] = value
        return value

    def _alias(self, anchor: str) -> Any:
        if anchor in self._open:
            raise YamlError(f"anchor '{anchor}' value contains itself")
        if anchor not in self._anchors:
            raise YamlError(f"unknown anchor '{anchor}' referenced")
        return self._anchors[anchor]

    def _sequence(self) -> list[Any]:
        values = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            values.append(self._value(event))
        return values

    def _mapping(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            merges = isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]
            key = self._value(event)
            value = self._value(next(self._events))
            if merges:
                values.update(_merged(value))
            else:
                values[_key(key)] = value
        return values


def _merged(value: Any) -> dict[str, Any]:
    """What ``<<: value`` adds; in a list the first map wins."""
    maps = value if isinstance(value, list) else [value]
    if not all(isinstance(item, dict) for item in maps):
        raise YamlError("map merge requires map or sequence of maps as the value")
    return {key: item[key] for item in reversed(maps) for key in item}


def _key(key: Any) -> str:
    """A JSON object's key; the two libraries refuse maps, lists and null as keys."""
    if isinstance(key, dict | list):
        raise YamlError(f"invalid map key: {_go_syntax(key)}")
    if isinstance(key, bool):
        return "true" if key else "false"
    if key is None:
        raise YamlError("unsupported map key of type: %!s(<nil>)")
    return go_number(key) if isinstance(key, int | float) else str(key)


def _go_syntax(value: Any) -> str:
    """A value as Go's %#v prints it, for the message about a map used as a key (a template left in the text)."""
    if isinstance(value, dict):
        inside = ", ".join(f"{_go_syntax(key)}:{_go_syntax(item)}" for key, item in value.items())
        return f"map[interface {{}}]interface {{}}{{{inside}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
    if value is None:
        return "interface {}(nil)"
    return '"' + value + '"' if isinstance(value, str) else go_number(value)


def go_number(value: int | float) -> str:
    """A number as Go's encoding/json writes it: no exponent between 1e-6 and 1e21."""
    if isinstance(value, int):
        return str(value)
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return str(int(value)) if value.is_integer() else format(value, "f").rstrip("0") if abs(value) < 1e-4 else repr(value)
    return re.sub(r"e([-+])0?(\d)$", r"e\g<1>0\2", repr(value)) if "e" in repr(value) else repr(value)


def _scalar(event: yaml.ScalarEvent) -> Any:
    tag = event.tag
    if not tag and not event.implicit[0]:
        return event.value
    if tag and tag not in {TAG + name for name in ("bool", "int", "float", "null", "timestamp")}:
        return event.value
    value = resolve(event.value)
    kinds: dict[str, Any] = {TAG + "bool": bool, TAG + "int": int, TAG + "float": (int, float), TAG + "null": type(None)}
    wanted = kinds.get(tag or "")
    if wanted is not None and (not isinstance(value, wanted) or (tag != TAG + "bool" and isinstance(value, bool))):
        raise YamlError(f"cannot decode !!str `{event.value}` as a !!{tag[len(TAG) :]}")
    return float(value) if tag == TAG + "float" else value


def resolve(text: str) -> Any:
    """A plain scalar's value by go-yaml v2's rules (YAML 1.1 words, Go's integer prefixes, no base 60, dates stay text)."""
    if text in TRUE_WORDS:
        return True
    if text in FALSE_WORDS:
        return False
    if text in NULL_WORDS:
        return None
    if text in FLOAT_WORDS:
        return FLOAT_WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    plain = text if text[0] == "." else text.replace("_", "")
    number = INTEGER.fullmatch(plain)
    if number:
        return _integer(number)
    return float(plain) if FLOAT.fullmatch(plain) else text


def _integer(match: re.Match[str]) -> int | float:
    sign, hexadecimal, octal, binary, decimal = match.groups()
    for digits, base in ((hexadecimal, 16), (octal, 8), (binary, 2), (decimal, 10)):
        if digits is not None:
            value = int(digits, base) * (-1 if sign == "-" else 1)
    return value if -(2**63) <= value < 2**64 else float(value)


def _refuse_unsupported(value: Any) -> None:
    """JSON has no infinity and no NaN: encoding/json fails on them."""
    if isinstance(value, float) and not math.isfinite(value):
        raise NotJson(f"unsupported value: {'NaN' if math.isnan(value) else '+Inf' if value > 0 else '-Inf'}")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _refuse_unsupported(item)


class NotJson(YamlError):
    """YAML that cannot be written as JSON; the message is encoding/json's, after ``json: ``."""


def _message(error: yaml.YAMLError) -> str:
    """go-yaml's form of a libyaml problem: parser errors name the line before, line 0 is left out."""
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    mark, context = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    scanner_only = problem == "found unexpected ':'"
    if scanner_only:  # a later libyaml's message for what go-yaml's parser stumbles over
        problem = "did not find expected ',' or '}'"
    line = 0
    if mark is not None and mark.line:
        line = mark.line + (1 if isinstance(error, yaml.scanner.ScannerError) and not scanner_only else 0)
    elif context is not None:
        line = context.line
    return f"line {line}: {problem}" if line else str(problem)
