# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command and print, as the last line of its output, a JSON object of what it took: code, wall, cpu (seconds), rss (MiB).

A process of its own, because Linux counts the memory of the process that starts a command as the command's own at first
(getrusage(2), ru_maxrss is kept across exec): a benchmark that holds thousands of nodes would measure itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

if __name__ == "__main__":
    began = time.perf_counter()
    process = subprocess.Popen(sys.argv[1:])
    _pid, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    cost = {"code": os.waitstatus_to_exitcode(status), "wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "rss": usage.ru_maxrss / 1024}
    print("\n" + json.dumps(cost))
