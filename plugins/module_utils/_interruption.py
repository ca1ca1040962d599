# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: turn the signals that end a module into an exception, so that what it made is removed."""

from __future__ import annotations

import contextlib
import signal
import types
import typing as t
from collections.abc import Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """The module was told to end: Ctrl-C, a cancelled job, a closed terminal.

    No Exception, because a library that catches every Exception would take it for a failure of its own.
    """


class Interruption:
    """The signals that tell a module to end. Use as a context manager: they do nothing else until it is left.

    Within `raising` the first signal raises Interrupted, wherever the main thread is; no other one does, and none outside of it,
    so that what must be removed is removed, however impatient the user is. C(reason) keeps what was said.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._raises = False
        self._before: dict[signal.Signals, t.Any] = {}

    def __enter__(self) -> Interruption:
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        for number in _SIGNALS:
            signal.signal(number, self._told)
        return self

    def __exit__(self, *_details: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """Within the block the first signal raises Interrupted; at its end one that was lost does."""
        self._raises = True
        try:
            yield
            self.check()
        finally:
            self._raises = False

    def check(self) -> None:
        """Raise Interrupted if there was a signal.

        For loops that wait: Python drops what a signal's handler raises while a finalizer or a weak reference's callback runs,
        which happened to one of a thousand signals, and up to 3.11 it can forget for a while that a handler has to run.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, ())  # changes nothing, and runs what has to run
        if self.reason:
            raise Interrupted(self.reason)

    def _told(self, number: int, _frame: types.FrameType | None) -> None:
        first, self.reason = not self.reason, self.reason or f"stopped by {signal.Signals(number).name}"
        if first and self._raises:
            raise Interrupted(self.reason)
