# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a CUDA program on a node meets: does it reach an MPS daemon, is its GPU free, what does it print."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tests.testbed.agents.objects import Json

NO_DAEMON = "MPS client failed to connect to the MPS control daemon or the MPS server"
BUSY = "all CUDA-capable devices are busy or unavailable"
NO_DEVICE = "no CUDA-capable device is detected"

PASSED = (
    "[Vector addition of 50000 elements]",
    "Copy input data from the host memory to the CUDA device",
    "CUDA kernel launch with 196 blocks of 256 threads",
    "Copy output data from the CUDA device to the host memory",
    "Test PASSED",
    "Done",
)


@dataclass(frozen=True)
class Client:
    """A CUDA process: its GPUs, the pipe directory it was given ("" without MPS), and whether it hides /dev/shm."""

    pod: str
    container: str
    gpus: tuple[str, ...]
    pipe_directory: str = ""
    own_shm: bool = False


@dataclass(frozen=True)
class Host:
    """The node as CUDA sees it: answering pipe directories, GPUs in EXCLUSIVE_PROCESS, processes beside MPS."""

    pipes: frozenset[str]
    exclusive: frozenset[str]
    others: Mapping[str, Collection[tuple[str, str]]]  # GPU -> (pod, container) of the processes that hold a context
    broken: bool = False


def cuda_error(client: Client, host: Host) -> str:
    """The text of the CUDA error the process ends with, or "" when it runs."""
    if host.broken:
        return NO_DEVICE
    if client.pipe_directory:
        reached = client.pipe_directory in host.pipes and not client.own_shm
        return "" if reached else NO_DAEMON
    for gpu in client.gpus:
        rivals = set(host.others.get(gpu, ())) - {(client.pod, client.container)}
        if gpu in host.exclusive and rivals:
            return BUSY
    return ""


def vector_add_lines(error: str) -> tuple[str, ...]:
    """The log of one run of the sample."""
    return (PASSED[0], f"Failed to allocate device vector A (error code {error})!") if error else PASSED


def command_text(container: Json) -> str:
    return " ".join(str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ())))


def is_vector_add(container: Json) -> bool:
    text = command_text(container)
    return "vectoradd" in text.lower() or (not text and "vectoradd" in str(container.get("image")).lower())


def is_loop(container: Json) -> bool:
    """Whether the sample is run for ever, as the document's Deployment does."""
    return "while " in command_text(container)


def uses_cuda(container: Json) -> bool:
    """A pause image or a sleeping shell holds its GPU without opening it; everything else is taken for a CUDA program."""
    words = command_text(container).split()
    sleeps = bool(words) and ("sleep" in words or words[0].endswith("/pause") or words[0] == "pause")
    return not sleeps and "pause" not in str(container.get("image")).rpartition("/")[2]
