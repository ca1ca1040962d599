# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of pods that use a GPU: NVIDIA's vectorAdd sample, and any other CUDA program."""

from __future__ import annotations

from tests.testbed.agents import cuda
from tests.testbed.agents.objects import Json, has_own_shm
from tests.testbed.agents.programs import Program


class CudaProgram(Program):
    """Opens its GPUs at the start and ends with code 1 when it cannot, or when its MPS daemon goes away."""

    def start(self) -> None:
        error = self.try_cuda()
        if error:
            self.log(f"CUDA error: {error}")
            self.later(self.delays.container_start, lambda: self.exit(1))
        else:
            self.memory["context"] = True
            self.node.world.touch(self.node.name)

    def resume(self) -> None:
        self.daemons_changed()

    def daemons_changed(self) -> None:
        error = self.try_cuda()
        if error and self.memory.get("context"):
            self.memory["context"] = False
            self.log(f"CUDA error: {error}")
            self.exit(1)

    def try_cuda(self) -> str:
        """The CUDA error this process meets now, "" if it can run."""
        return cuda.cuda_error(self.client(), self.node.cuda_host(broken=False))

    def client(self) -> cuda.Client:
        mine = [item for item in self.node.host.allocations if (item.pod, item.container) == (self.run.uid, self.name)]
        gpus = tuple(device for item in mine for device in item.devices)
        pipes = [item.pipe_directory for item in mine if item.pipe_directory]
        return cuda.Client(self.run.uid, self.name, gpus, pipes[0] if pipes else "", has_own_shm(self.container))

    def holds_context(self) -> bool:
        return self.alive and bool(self.memory.get("context"))


class VectorAdd(CudaProgram):
    """NVIDIA's vectorAdd sample run once: exit code 0 after "Test PASSED"."""

    def start(self) -> None:
        self.later(self.delays.vector_add, self._finish)

    def daemons_changed(self) -> None:
        """Too short a life to notice."""

    def try_cuda(self) -> str:
        return cuda.cuda_error(self.client(), self.node.cuda_host(broken=self.faulty("vectoradd-fails")))

    def run_sample(self) -> str:
        error = self.try_cuda()
        if self.memory.get("context") != (not error):
            self.memory["context"] = not error
            self.node.world.touch(self.node.name)  # the node's file counts the clients of each daemon
        self.log(*cuda.vector_add_lines(error))
        return error

    def _finish(self) -> None:
        self.exit(1 if self.run_sample() else 0)


class VectorAddLoop(VectorAdd):
    """The document's `while true; do /cuda-samples/vectorAdd; done`: the shell lives on whatever the sample says."""

    def start(self) -> None:
        self.later(self.delays.vector_add, self._round)

    def daemons_changed(self) -> None:
        self.run_sample()

    def faults_changed(self) -> None:
        self.run_sample()

    def resume(self) -> None:
        self._round()

    def _round(self) -> None:
        self.run_sample()
        self.later(self.delays.vector_add_log, self._round)


def client_program(container: Json) -> type[Program]:
    """The kind of process in a container of a pod that asked for a GPU."""
    if cuda.is_vector_add(container):
        return VectorAddLoop if cuda.is_loop(container) else VectorAdd
    return CudaProgram if cuda.uses_cuda(container) else Program
