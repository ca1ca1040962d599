# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: read chosen fields of Protocol Buffers messages into the shape that the same objects have as JSON. Pure.

The API server sends its own kinds in this encoding too, and a reader of it steps over what it does not want by its length:
half of a pod is managedFields. On pages of 500 a pod takes a fifth of the time that its JSON takes here, a node a little more than
its JSON, and both take the server half of the time; on five thousand nodes there are fifteen thousand pods of agents.
The kubernetes Python client speaks JSON only, and no library has these messages for Python.
Rules: protobuf.dev, encoding; the numbers of the fields are kept for ever by Kubernetes' API conventions.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass
from datetime import UTC, datetime

# What follows a field's key: a number of variable length, eight bytes, bytes after their length, four bytes.
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5

Object = dict[str, t.Any]
# Reads data[start:end]. For a number ``start`` is the number itself.
Reader = t.Callable[[bytes, int, int], t.Any]


@dataclass(frozen=True)
class Field:
    """A field that is wanted: its name in JSON, how to read it, and whether it is repeated: as a list, or as the pairs of a map."""

    name: str
    read: Reader
    repeated: t.Literal["", "list", "map"] = ""


Shape = t.Mapping[int, Field]


def message(shape: Shape) -> Reader:
    """A reader of messages with these fields by number; all others are stepped over.

    The reader raises ValueError or IndexError for what is no message.
    """
    # Tuples, because they are looked at a hundred times for each node.
    wanted = {number: (field.name, field.read, field.repeated) for number, field in shape.items()}

    def read(data: bytes, position: int, end: int) -> Object:
        found: Object = {}
        while position < end:
            # Nearly every key and length is below 128: those are read here, without a call.
            key, position = data[position], position + 1
            if key > 127:
                key, position = varint(data, position - 1)
            kind, field = key & 7, wanted.get(key >> 3)
            if kind == _BYTES:
                size, start = data[position], position + 1
                if size > 127:
                    size, start = varint(data, position)
                position = start + size
            elif kind == _VARINT:
                start, position = varint(data, position)
            elif kind in (_EIGHT, _FOUR):
                start, position = position, position + (8 if kind == _EIGHT else 4)
            else:
                raise ValueError(f"a field of the unknown kind {kind}")
            if position > end:
                raise ValueError("a field goes on behind the end of its message")
            if field is not None:
                name, value_of, repeated = field
                value = value_of(data, start, position)
                if not repeated:
                    found[name] = value
                elif repeated == "list":
                    found.setdefault(name, []).append(value)
                else:
                    found.setdefault(name, {})[value[0]] = value[1]
        return found

    return read


def varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at ``position``, seven bits a byte with the lowest first, and the position behind it."""
    byte = data[position]
    position += 1
    if byte < 128:
        return byte, position
    number, shift = byte & 127, 7
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def text(data: bytes, start: int, end: int) -> str:
    """A string; bytes that are no UTF-8 become what the API server's JSON has in their place."""
    return data[start:end].decode("utf-8", "replace")


def raw(data: bytes, start: int, end: int) -> bytes:
    """Bytes as they are."""
    return data[start:end]


def flag(_data: bytes, number: int, _end: int) -> bool:
    """A bool."""
    return bool(number)


def number(_data: bytes, value: int, _end: int) -> int:
    """An int32 or int64: negative ones are written as if they were numbers of 64 bits."""
    return value - (1 << 64) if value >> 63 else value


_YEAR_10000 = 253_402_300_800
_SECONDS = message({1: Field("seconds", number)})


def time(data: bytes, start: int, end: int) -> str | None:
    """A meta/v1 Time as RFC 3339 text; None for the zero time, which JSON writes as null, and for what no calendar has."""
    seconds = _SECONDS(data, start, end).get("seconds")
    return _rfc3339(seconds) if seconds is not None and 0 < seconds < _YEAR_10000 else None


@functools.lru_cache(maxsize=4096)
def _rfc3339(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pair(value: Reader) -> Reader:
    """A reader of one entry of a map with strings for keys: (key, value)."""
    entry = message({1: Field("key", text), 2: Field("value", value)})

    def read(data: bytes, start: int, end: int) -> tuple[str, t.Any]:
        found = entry(data, start, end)
        return found.get("key", ""), found.get("value", "")

    return read


_TEXT_PAIR = pair(text)


def text_pair(data: bytes, start: int, end: int) -> tuple[str, str]:
    """One label or annotation. Most are the same on every node, so they are read once and kept in memory once."""
    return _known_pair(data[start:end])


@functools.lru_cache(maxsize=16384)
def _known_pair(entry: bytes) -> tuple[str, str]:
    return _TEXT_PAIR(entry, 0, len(entry))
