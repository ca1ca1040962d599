# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the YAML of a device plugin config file, read as the device plugin reads it, with positions.

The device plugin decodes its file with sigs.k8s.io/yaml on goyaml v2. PyYAML's loaders differ from it (octal and
underscore numbers, one-letter booleans, duplicate keys, what follows the first document) and give no positions, so only
PyYAML's events are used here. What scalars mean follows goyaml v2, resolve.go.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, TypeAlias

_Loader: Any
try:
    import yaml

    _Loader = yaml.SafeLoader
except ImportError:  # the file must import without PyYAML; parse_text says what is missing
    yaml = None
    _Loader = object

MAX_TEXT = 128 * 1024  # characters of one config; PyYAML needs about a second for that many
MAX_DEPTH = 24  # nested collections; the format itself needs six
MAX_NODES = 10_000  # nodes after aliases are expanded

ScalarValue: TypeAlias = "str | int | float | bool | None"


@dataclass(frozen=True)
class Scalar:
    """A scalar; ``value`` is what goyaml v2 makes of it, ``text`` what was written, ``line`` counts from 1."""

    text: str
    value: ScalarValue
    plain: bool
    line: int


@dataclass(frozen=True)
class Sequence:
    """A list of nodes."""

    items: tuple[Node, ...]
    line: int


@dataclass(frozen=True)
class Mapping:
    """A mapping as it was written: order and duplicates are kept, keys may be any node."""

    entries: tuple[tuple[Node, Node], ...]
    line: int


Node: TypeAlias = "Scalar | Sequence | Mapping"


@dataclass(frozen=True)
class Notation:
    """A part of YAML that a config file has no need of: ``kind`` is anchor, alias, tag, directive or tab."""

    kind: str
    line: int
    detail: str = ""


@dataclass(frozen=True)
class SyntaxProblem:
    """Why a text is not read.

    ``upstream_refuses`` is False where the device plugin itself might read it, as it might a text that is ``too_large``.
    """

    reason: str
    line: int | None
    upstream_refuses: bool = True
    too_large: bool = False


@dataclass(frozen=True)
class Text:
    """A text that was read. ``root`` is None for an empty document; ``rest`` is the line where ignored text begins."""

    root: Node | None = None
    problem: SyntaxProblem | None = None
    notations: tuple[Notation, ...] = ()
    rest: int | None = None


class _Unreadable(Exception):
    def __init__(self, problem: SyntaxProblem) -> None:
        super().__init__(problem.reason)
        self.problem = problem


def parse_text(text: str) -> Text:
    """The first document of ``text``, the only one that the device plugin reads.

    Never raises for what the text holds. Raises RuntimeError when PyYAML is not installed.
    """
    if yaml is None:
        raise RuntimeError("PyYAML is required to read a device plugin config file")
    if len(text) > MAX_TEXT:
        return Text(problem=_too_large(f"the text has {len(text)} characters, more than {MAX_TEXT}", None))
    composer = None
    try:
        _refuse_characters(text)
        composer = _Composer(text)
        root, rest = composer.first_document()
    except _Unreadable as error:
        return Text(problem=error.problem, notations=_notations(composer))
    except yaml.MarkedYAMLError as error:
        return Text(problem=SyntaxProblem(str(error.problem), error.problem_mark.line + 1), notations=_notations(composer))
    return Text(root=root, notations=_notations(composer), rest=rest)


def _notations(composer: _Composer | None) -> tuple[Notation, ...]:
    return tuple(composer.notations) if composer else ()


def _refuse_characters(text: str) -> None:
    """Characters that PyYAML and goyaml read differently, or that neither allows."""
    body = text.removeprefix("\ufeff")
    # A byte order mark that begins a line is skipped by goyaml and part of a word to PyYAML.
    found = re.search("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|(?:^|(?<=\r))\ufeff", body, re.MULTILINE)
    if found:
        line = body.count("\n", 0, found.start()) + 1
        # A line separator or a byte order mark may pass upstream; control characters do not.
        refused = ord(found.group()) < 0x20 or found.group() == "\x7f"
        raise _Unreadable(SyntaxProblem(f"the character U+{ord(found.group()):04X} does not belong in a config file", line, refused))


def _too_large(reason: str, line: int | None) -> SyntaxProblem:
    return SyntaxProblem(reason, line, upstream_refuses=False, too_large=True)


class _Events(_Loader):
    """PyYAML's events, with goyaml's view of tabs: allowed within plain scalars, and between tokens where no block key could begin."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.tabs: list[int] = []

    def scan_to_next_token(self) -> None:
        if self.index == 0 and self.peek() == "\ufeff":
            self.forward()
        at_end = False
        while not at_end:
            self._skip_blanks()
            if self.peek() == "#":
                self._skip_comment()
            at_end = not self.scan_line_break()
            if not at_end and not self.flow_level:
                self.allow_simple_key = True

    def scan_plain_spaces(self, indent: int, start_mark: Any) -> Any:
        blanks = 0
        while self.peek(blanks) in (" ", "\t"):
            blanks += 1
        between = self.prefix(blanks)
        if "\t" not in between:
            return super().scan_plain_spaces(indent, start_mark)
        self.tabs.append(self.line + 1)
        self.forward(blanks)
        return super().scan_plain_spaces(indent, start_mark) if self.peek() in "\0\r\n" else [between]

    def _skip_blanks(self) -> None:
        while self.peek() == " " or (self.peek() == "\t" and (self.flow_level or not self.allow_simple_key)):
            if self.peek() == "\t":
                self.tabs.append(self.line + 1)
            self.forward()

    def _skip_comment(self) -> None:
        while self.peek() not in "\0\r\n":
            self.forward()


@dataclass
class _Composer:
    """Builds nodes from events and notes what a config file has no need of."""

    text: str
    notations: list[Notation] = field(default_factory=list)
    anchors: dict[str, tuple[Node, int]] = field(default_factory=dict)
    nodes: int = 0

    def first_document(self) -> tuple[Node | None, int | None]:
        """The root (None when there is none) and the line of the first thing after the document."""
        self.events = _Events(self.text)
        try:
            self.events.get_event()  # the stream's start
            if self.events.check_event(yaml.StreamEndEvent):
                return None, None
            self._directives(self.events.get_event())
            root = self._node(depth=0, in_flow=False)
            self.events.get_event()  # the document's end
        finally:
            self.notations.extend(Notation("tab", line) for line in dict.fromkeys(self.events.tabs))
        return root, self._rest()

    def _directives(self, start: yaml.DocumentStartEvent) -> None:
        line = start.start_mark.line + 1
        if start.version and tuple(start.version) != (1, 1):
            raise _Unreadable(SyntaxProblem("found incompatible YAML document: only the directive for YAML 1.1 is known", line))
        if start.version or start.tags:
            self.notations.append(Notation("directive", line))

    def _rest(self) -> int | None:
        """The line where a second document or other text begins; nothing there is read by the device plugin."""
        try:
            event = self.events.peek_event()
        except yaml.MarkedYAMLError as error:
            return error.problem_mark.line + 1
        return None if isinstance(event, yaml.StreamEndEvent) else event.start_mark.line + 1

    def _node(self, depth: int, in_flow: bool) -> Node:
        event = self.events.get_event()
        line = event.start_mark.line + 1
        self._count(1, line)
        if depth > MAX_DEPTH:
            raise _Unreadable(_too_large(f"lists and mappings are nested more than {MAX_DEPTH} deep", line))
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, line)
        if event.tag is not None:
            self.notations.append(Notation("tag", line, event.tag))
        before = self.nodes
        if isinstance(event, yaml.ScalarEvent):
            node: Node = self._scalar(event, line, in_flow)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(depth, line, in_flow or event.flow_style)
        else:
            node = self._mapping(depth, line, in_flow or event.flow_style)
        if event.anchor is not None:
            self.notations.append(Notation("anchor", line, event.anchor))
            self.anchors[event.anchor] = (node, self.nodes - before)
        return node

    def _count(self, nodes: int, line: int) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise _Unreadable(_too_large(f"the text holds more than {MAX_NODES} values once its aliases are expanded", line))

    def _alias(self, event: yaml.AliasEvent, line: int) -> Node:
        self.notations.append(Notation("alias", line, event.anchor))
        if event.anchor not in self.anchors:
            raise _Unreadable(SyntaxProblem(f"unknown anchor '{event.anchor}' referenced, or one whose value contains itself", line))
        node, size = self.anchors[event.anchor]
        self._count(size, line)
        return node

    def _scalar(self, event: yaml.ScalarEvent, line: int, in_flow: bool) -> Scalar:
        plain = event.style is None
        after = self.text[event.end_mark.index : event.end_mark.index + 2]
        if plain and in_flow and len(after) == 2 and after[0] == ":" and after[1] in ",[]{}":
            # goyaml takes the colon into the scalar: `{sharing:{` has no key for it, `{mps:}` has the key `mps:`.
            raise _Unreadable(SyntaxProblem("there is no space after the colon", line, upstream_refuses=after[1] in "[{"))
        resolved = plain and (event.tag is None or event.tag in _RESOLVED_TAGS)
        return Scalar(event.value, resolve_plain(event.value) if resolved else event.value, plain, line)

    def _sequence(self, depth: int, line: int, in_flow: bool) -> Sequence:
        items = []
        while not self.events.check_event(yaml.SequenceEndEvent):
            items.append(self._node(depth + 1, in_flow))
        self.events.get_event()
        return Sequence(tuple(items), line)

    def _mapping(self, depth: int, line: int, in_flow: bool) -> Mapping:
        entries = []
        while not self.events.check_event(yaml.MappingEndEvent):
            key = self._node(depth + 1, in_flow)
            entries.append((key, self._node(depth + 1, in_flow)))
        self.events.get_event()
        return Mapping(tuple(entries), line)


# A scalar with any other tag is text to goyaml, whatever it looks like.
_RESOLVED_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("bool", "int", "float", "null", "timestamp"))

_WORDS: dict[str, ScalarValue] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_INTEGER = re.compile(r"([-+]?)(?:0[xX](?P<x>[0-9a-fA-F]+)|0[bB](?P<b>[01]+)|0[oO](?P<o>[0-7]+)|(?P<z>0[0-7]*)|(?P<d>[1-9][0-9]*))\Z")
_BASES = {"x": 16, "b": 2, "o": 8, "z": 8, "d": 10}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")


def resolve_plain(text: str) -> ScalarValue:
    """What goyaml v2 makes of a plain scalar.

    Integers are Go's base-0 literals without their underscores, so ``010`` and ``0o10`` are 8, ``0x4`` is 4 and ``1_0`` is
    10; what is no such literal but a decimal number is a float (``08`` is 8.0). An integer beyond 64 bits is a float too.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    bare = text if text[0] == "." else text.replace("_", "")
    found = _INTEGER.match(bare)
    if found and (number := _integer(found)) is not None:
        return number
    # Go's ParseFloat gives an error where Python's float gives infinity.
    return float(bare) if _FLOAT.match(bare) and math.isfinite(float(bare)) else text


def _integer(found: re.Match[str]) -> int | None:
    """The integer if it fits into 64 bits: signed ones always, unsigned ones only without a sign."""
    group = next(name for name in _BASES if found.group(name) is not None)
    if group == "d" and len(found.group(group)) > 20:  # beyond 64 bits, and Python refuses to convert very long ones
        return None
    number = int(found.group(1) + found.group(group), _BASES[group])
    highest = 2**63 - 1 if found.group(1) else 2**64 - 1
    return number if -(2**63) <= number <= highest else None
