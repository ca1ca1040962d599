# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write Protocol Buffers messages for tests: a message is a list of (number of the field, value)."""

from __future__ import annotations

from collections.abc import Sequence

Value = str | bytes | bool | int | Sequence[tuple[int, "Value"]]


def encoded(fields: Sequence[tuple[int, Value]]) -> bytes:
    """The bytes of a message; a value that is a list is a message itself."""
    found = b""
    for number, value in fields:
        if isinstance(value, int):
            found += number_field(number, value)
        else:
            content = value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else encoded(value)
            found += varint_bytes(number << 3 | 2) + varint_bytes(len(content)) + content
    return found


def number_field(number: int, value: int) -> bytes:
    """A field that holds a number; a negative one takes ten bytes."""
    return varint_bytes(number << 3) + varint_bytes(value % 2**64)


def varint_bytes(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the highest bit says that more come."""
    found = b""
    while value > 127:
        found += bytes((value & 127 | 128,))
        value >>= 7
    return found + bytes((value,))
