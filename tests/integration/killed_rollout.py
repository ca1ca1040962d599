# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rollout in a process of its own that is killed at one of its writes: before it is sent, or before its answer is read.

`python -m tests.integration.killed_rollout OPTIONS`, OPTIONS being JSON: the rollout's options with `kubeconfig`, the
number of the write (`write`, from 1), `when` (before or after), and `how` (the number of the signal). It exits with 0 when there are fewer writes than that.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

from tests.integration.rollouts import DEFAULTS, Cluster, rollout

WRITES = ("POST", "PATCH", "DELETE")


def kill_at(number: int, when: str, how: int) -> None:
    """Arrange that this process dies at its write of that number."""
    send = Cluster._attempt
    seen = 0
    lock = threading.Lock()

    def attempt(self: Cluster, method: str, *arguments: Any) -> Any:
        nonlocal seen
        if method in WRITES:
            with lock:
                seen += 1
                mine = seen
            if mine == number and when == "before":
                os.kill(os.getpid(), how)
            answer = send(self, method, *arguments)
            if mine == number:
                os.kill(os.getpid(), how)
            return answer
        return send(self, method, *arguments)

    Cluster._attempt = attempt  # type: ignore[method-assign]


def main() -> int:
    """Run until killed."""
    options = json.loads(sys.argv[1])
    kill_at(options.pop("write"), options.pop("when"), options.pop("how"))
    parameters = {**DEFAULTS, **options}
    result = rollout(Cluster.connect(parameters), parameters, check_mode=False)
    print(json.dumps({"state": result["state"], "msg": result.get("msg")}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
