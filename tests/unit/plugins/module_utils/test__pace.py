# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many requests run at once, and how fast they start."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.gpuops.mps.plugins.module_utils._pace import FIRST_WORKERS, MOST_WORKERS, Pace


def test_quick_requests_let_more_run_at_once_up_to_the_most() -> None:
    pace = Pace()
    assert pace.allowed == FIRST_WORKERS
    for _request in range(200):
        pace.finished(0.01)
    assert pace.allowed == MOST_WORKERS


def test_slow_requests_let_fewer_run_but_never_none() -> None:
    pace = Pace()
    pace.finished(0.05)
    for _request in range(50):
        pace.finished(2.0)
    assert pace.allowed == 1


def test_a_throttling_server_halves_what_runs() -> None:
    pace = Pace(workers=8)
    for _request in range(200):
        pace.finished(0.01)
    pace.throttled()
    assert pace.allowed == 4


def test_never_more_than_allowed_run_at_once() -> None:
    pace = Pace(workers=3)
    running, most, lock = 0, 0, threading.Lock()

    def work(_number: int) -> None:
        nonlocal running, most
        with pace.turn():
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.005)
            with lock:
                running -= 1

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(60)))
    assert 1 < most <= 3


def test_starts_are_spread_over_time() -> None:
    pace = Pace(workers=8, per_second=100)
    began = time.monotonic()
    for _request in range(11):
        with pace.turn():
            pass
    assert time.monotonic() - began >= 0.1


def test_a_failure_gives_the_place_back() -> None:
    pace = Pace(workers=1)
    for _request in range(3):
        try:
            with pace.turn():
                raise ValueError("a request that failed")
        except ValueError:
            continue
    with pace.turn():
        assert pace.allowed == 1
