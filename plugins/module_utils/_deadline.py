# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: do something that may never return, but wait for it only so long."""

from __future__ import annotations

import queue
import threading
import typing as t

Result = t.TypeVar("Result")


def within(seconds: float, function: t.Callable[[], Result]) -> Result:
    """What the function returns or raises; TimeoutError when it has not ended after so many seconds.

    It then goes on in a thread that does not keep the process from ending: other people's code cannot be stopped.
    """
    answers: queue.Queue[tuple[Result | None, Exception | None]] = queue.Queue()

    def run() -> None:
        try:
            answers.put((function(), None))
        except Exception as error:  # raised again for the caller
            answers.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        found, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"nothing within {seconds:g} seconds") from None
    if error is not None:
        raise error
    return t.cast(Result, found)
