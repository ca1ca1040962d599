# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line: python -m tests.fuzz [--cases 100000] [--seed N] [--properties a,b]: every property with its share of the cases."""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback

from hypothesis import HealthCheck, given, seed, settings

from tests.integration.ansible_runs import COLLECTIONS

sys.path.insert(0, str(COLLECTIONS))

from tests.fuzz.properties import PROPERTIES

# Seconds of CPU, so that a loaded machine breaks nothing. Reading one input takes milliseconds.
LONGEST_SECONDS = 10.0


def main() -> int:
    """Try everything; 0 when every property holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000, help="in all; 100000 by default")
    parser.add_argument("--seed", type=int, default=random.randrange(10**9), help="to try the same cases again")
    parser.add_argument("--properties", default=",".join(PROPERTIES), help="comma separated; all by default, each with its share of the cases")
    options = parser.parse_args()
    broken = total = 0
    print(f"seed {options.seed}", flush=True)
    chosen = options.properties.split(",")
    for name in chosen:
        share = PROPERTIES[name][2]
        began = time.monotonic()
        tried, longest, problem = _try(name, options.cases * share // 100, options.seed)
        total += tried
        broken += bool(problem)
        print(f"{name:12} {tried:7} cases, {time.monotonic() - began:5.0f} s, the longest {longest:.2f} s: {'BROKEN' if problem else 'holds'}", flush=True)
        if problem:
            print(problem)
    print(f"{total} cases, {broken} of {len(chosen)} properties broken")
    return 1 if broken else 0


def _try(name: str, cases: int, start: int) -> tuple[int, float, str]:
    """(cases tried, seconds of the slowest, what broke the property or "")."""
    check, inputs, _share = PROPERTIES[name]
    tried, longest = 0, 0.0

    @seed(start)
    @settings(max_examples=cases, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(inputs)
    def property_holds(value: object) -> None:
        nonlocal tried, longest
        tried += 1
        began = time.thread_time()
        check(value)
        seconds = time.thread_time() - began
        longest = max(longest, seconds)
        assert seconds < LONGEST_SECONDS, "it takes too long"

    try:
        property_holds()
    except Exception:
        return tried, longest, traceback.format_exc()[-4000:]
    return tried, longest, ""


if __name__ == "__main__":
    sys.exit(main())
