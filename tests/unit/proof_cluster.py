# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster in memory on which every client of a proof runs at once and gives the right answers.

It refuses what the test bed never does: to run a command in a pod, and to delete a pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import ClusterError, Execution
from tests.unit.memory_cluster import MemoryCluster, Object

ANSWERS = "pipe=/mps/nvidia.com/gpu/pipe\npercentage=25.0\nmemory=3840M\n"
SERVER = "4711\n"


def forbidden(subject: str) -> ClusterError:
    return ClusterError(f"{subject} is forbidden", code="cluster-forbidden", remedy="Ask for the right.", status=403)


class ProofCluster(MemoryCluster):
    """C(silent) begins the names of the pods in which no command can be run, C(keeping) of those that cannot be deleted."""

    def __init__(self, *, silent: str | None = None, keeping: str | None = None) -> None:
        super().__init__({})
        self.silent = silent
        self.keeping = keeping

    def create(self, path: str, body: Object) -> Object:
        terms = body["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        node = terms[0]["matchFields"][0]["values"][0]
        name = f"{body['metadata']['generateName']}{self.writes}"
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        running = {**body, "metadata": {**body["metadata"], "name": name}, "spec": {**body["spec"], "nodeName": node}, "status": ready}
        return super().create(path, running)

    def delete(self, path: str, **preconditions: Any) -> bool:
        if self.keeping is not None and path.rpartition("/")[2].startswith(self.keeping):
            raise forbidden(path)
        return super().delete(path, **preconditions)

    def each(self, function: Callable[[Any], Any], items: Iterable[Any], **_pace: Any) -> list[Any]:
        """As the real one: a refusal is the result of its own item only."""

        def result(item: Any) -> Any:
            try:
                return function(item)
            except ClusterError as error:
                return error

        return [result(item) for item in items]

    def execute(self, _namespace: str, pod: str, *, command: Iterable[str], **_options: Any) -> Execution:
        if self.silent is not None and pod.startswith(self.silent):
            raise forbidden(pod)
        *_shell, line = command
        if "compute_mode" in line:
            return Execution("Exclusive_Process\n", "", 0)
        return Execution(SERVER if "get_server_list" in line else ANSWERS, "", 0)

    def logs(self, _namespace: str, _pod: str, **_options: Any) -> str:
        return "Test PASSED\nDone\n"
