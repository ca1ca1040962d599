# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: turn the signals that end a module into an exception, so that what it made is removed."""

from __future__ import annotations

import contextlib
import signal
import typing as t
from collections.abc import Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """The module was told to end: Ctrl-C, a cancelled job, a closed terminal."""


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Within the block the signals raise Interrupted, once; afterwards they do again what they did before."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def interrupt(number: int, _frame: t.Any) -> None:
        _ignore()
        raise Interrupted(f"stopped by {signal.Signals(number).name}")

    for number in _SIGNALS:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Within the block the signals do nothing: what must be removed is removed, however impatient the user is."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    _ignore()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
