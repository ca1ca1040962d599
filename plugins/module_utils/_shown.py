# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: text and values of others, so that they can be shown to a person. Pure."""

from __future__ import annotations

# A message longer than this helps nobody; the rest is in the object that it names.
MOST_CHARACTERS = 8_000


def visible(text: str) -> str:
    """A text that does nothing to a terminal, a table or a reader's eye: what cannot be seen is shown as an escape.

    Control characters (the terminal's escape among them), marks that turn the direction of writing, and halves of
    surrogate pairs are written as Python would write them; line ends and tabs stay. What is very long is cut.
    """
    if len(text) > MOST_CHARACTERS:
        text = f"{text[:MOST_CHARACTERS]} ... ({len(text) - MOST_CHARACTERS} more characters)"
    if text.isprintable():
        return text
    return "".join(character if character in "\n\t" or character.isprintable() else _escape(character) for character in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def shown(value: object) -> str:
    """Any value as Python writes it, also one that Python refuses to write: a number of thousands of digits, endless nesting."""
    try:
        return repr(value)
    except (ValueError, RecursionError):
        return "a value too large to show"


def named(value: object) -> str:
    """The same for what may be a name: a text as it is."""
    return value if isinstance(value, str) else shown(value)
