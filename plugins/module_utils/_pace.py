# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: how many requests run at once, and how fast they start."""

from __future__ import annotations

import threading
import time
import typing as t
from contextlib import contextmanager

MOST_WORKERS = 8
FIRST_WORKERS = 4
# A request this many times slower than the fastest seen says that the server, not the network, is the limit.
SLOW_FACTOR = 4.0


class Pace:
    """Turns for workers: as many at once as the server takes well, and no more starts per second than allowed.

    Grows by one after as many quick requests as it allows at once, shrinks by one on a slow one, and halves when the
    server throttles: more workers than an API server has CPU for make everything slower.
    """

    def __init__(self, workers: int | None = None, per_second: float | None = None, clock: t.Callable[[], float] = time.monotonic) -> None:
        self.most = max(1, workers or MOST_WORKERS)
        self.allowed = min(FIRST_WORKERS, self.most)
        self._interval = 1.0 / per_second if per_second else 0.0
        self._clock = clock
        self._condition = threading.Condition()
        self._running = 0
        self._quick = 0
        self._fastest: float | None = None
        self._next_start = 0.0

    @contextmanager
    def turn(self) -> t.Iterator[None]:
        """Wait for a free place and the next start time, and measure what is done in it."""
        with self._condition:
            self._condition.wait_for(lambda: self._running < self.allowed)
            self._running += 1
            now = self._clock()
            start = max(now, self._next_start)
            self._next_start = start + self._interval
        if start > now:
            time.sleep(start - now)
        began = self._clock()
        try:
            yield
        finally:
            self.finished(self._clock() - began)

    def finished(self, seconds: float) -> None:
        """Give the place back and learn from how long the request took."""
        with self._condition:
            self._running = max(0, self._running - 1)
            self._fastest = seconds if self._fastest is None else min(self._fastest, seconds)
            if seconds > SLOW_FACTOR * self._fastest and seconds > 0.1:
                self._quick = 0
                self.allowed = max(1, self.allowed - 1)
            else:
                self._quick += 1
                if self._quick >= self.allowed and self.allowed < self.most:
                    self._quick = 0
                    self.allowed += 1
            self._condition.notify_all()

    def throttled(self) -> None:
        """The server said that it has too much to do."""
        with self._condition:
            self._quick = 0
            self.allowed = max(1, self.allowed // 2)
