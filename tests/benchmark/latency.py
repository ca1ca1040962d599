# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much others have to wait while many nodes are labelled: the 99th percentile of somebody else's small reads."""

from __future__ import annotations

import statistics
import threading
import time

from tests.benchmark.contestants import OURS, SELECTOR, UNBOUND, Contestant, Context
from tests.benchmark.fleet import label_all
from tests.benchmark.measure import measure

PAUSE_SECONDS = 0.02


def measure_politeness(context: Context) -> dict[str, tuple[int, float, float]]:
    """Beside whom -> how many GETs of one node another client made, and their median and 99th percentile in milliseconds."""
    found = {}
    for contestant in (None, OURS, UNBOUND, SELECTOR):
        label_all(context.bed, dict.fromkeys(context.names, None))
        latencies = _latencies(context, contestant)
        found[contestant.name if contestant else "nothing"] = (len(latencies), statistics.median(latencies), statistics.quantiles(latencies, n=100)[98])
    return found


def _latencies(context: Context, contestant: Contestant | None) -> list[float]:
    """Milliseconds of each GET until the contestant has ended (or for five seconds beside nothing)."""
    found: list[float] = []
    ended = threading.Event()
    client = context.bed.client("testbed:launcher", "testbed-latency")
    path = f"/api/v1/nodes/{context.names[0]}"

    def look() -> None:
        while not ended.is_set():
            began = time.perf_counter()
            client.get(path)
            found.append((time.perf_counter() - began) * 1000)
            time.sleep(PAUSE_SECONDS)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        if contestant is None:
            time.sleep(5)
        else:
            measure(context.bed, contestant.command(context), context.environment)
    finally:
        ended.set()
        thread.join()
    return found
