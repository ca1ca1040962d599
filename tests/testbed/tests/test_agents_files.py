# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the agents keep in files: delays, logs, the node's state, and the commands that answer from it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.testbed.agents.delays import Delays, read_delays
from tests.testbed.agents.hardware import MIB, Gpu
from tests.testbed.agents.host import Host, host_from_json
from tests.testbed.agents.kubelet import Allocation, Registration
from tests.testbed.agents.log_files import ROTATE_BYTES, PodLogs
from tests.testbed.agents.mps_daemon import Daemon

COMMANDS = Path(__file__).parent.parent / "agents" / "bin"
GPUS = (Gpu("Tesla T4", 15360 * MIB, (7, 5)), Gpu("Tesla T4", 15360 * MIB, (7, 5)))
PIPE = "/mps/nvidia.com/gpu/pipe"


def host(replicas: int = 4) -> Host:
    memory = tuple((index, 15360 // replicas) for index in ("0", "1"))
    subject = Host(labels=["nvidia.com/gpu.count"])
    subject.start_daemons("uid", (Daemon("nvidia.com/gpu", 100 // replicas, memory, ("0", "1")),))
    subject.registrations = {"nvidia.com/gpu": Registration("nvidia.com/gpu", ("0", "1"), replicas, PIPE, True, "plugin")}
    subject.allocations = [Allocation("pod", "main", "nvidia.com/gpu", ("0",), PIPE)]
    return subject


def test_a_nodes_state_survives_its_file() -> None:
    text = json.dumps(host().as_json(GPUS))
    assert host_from_json(json.loads(text)) == host()


def test_an_orderly_stop_frees_the_gpus_and_a_kill_does_not() -> None:
    stopped, killed = host(), host()
    stopped.stop_daemons()
    killed.kill_daemons()
    assert (stopped.daemons, stopped.exclusive) == ({}, set())
    assert (killed.daemons, killed.exclusive) == ({}, {"0", "1"})


def run(command: str, tmp_path: Path, *arguments: str, text: str = "", clients: int = 0, replicas: int = 4, **env: str) -> tuple[int, str]:
    file = tmp_path / "node.json"
    file.write_text(json.dumps({"host": host(replicas).as_json(GPUS), "clients": {PIPE: clients}, "pods": {}}))
    answer = subprocess.run(
        [str(COMMANDS / command), *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "TESTBED_NODE_FILE": str(file), **env},
    )
    return answer.returncode, answer.stdout


@pytest.mark.parametrize(
    ("replicas", "text", "answer"),
    [
        (4, "get_default_active_thread_percentage\n", "25.0\n"),
        (3, "get_default_active_thread_percentage\n", "33.0\n"),
        (4, "get_default_device_pinned_mem_limit\n", "3G\n"),
        (16, "get_default_device_pinned_mem_limit 1\n", "960M\n"),
        (4, "get_default_device_pinned_mem_limit 7\n", "Default device pinned memory limit is not set\n"),
        (4, "get_server_list\n", "4001\n"),
        (4, "get_client_list 4001\n", "4002\n4003\n"),
        (4, "frobnicate\n", "Unrecognized command: frobnicate\n"),
    ],
)
def test_the_control_program_answers_for_the_running_daemon(tmp_path: Path, replicas: int, text: str, answer: str) -> None:
    result = run("nvidia-cuda-mps-control", tmp_path, text=text, clients=2, replicas=replicas, CUDA_MPS_PIPE_DIRECTORY=PIPE)
    assert result == (0, answer)


@pytest.mark.parametrize("pipe", ["", "/mps/nvidia.com/gpu.shared/pipe"])
def test_the_control_program_finds_no_daemon_without_its_pipe(tmp_path: Path, pipe: str) -> None:
    result = run("nvidia-cuda-mps-control", tmp_path, text="get_server_list\n", CUDA_MPS_PIPE_DIRECTORY=pipe)
    assert result == (1, "Cannot find MPS control daemon process\n")


def test_nvidia_smi_shows_the_visible_gpus(tmp_path: Path) -> None:
    query = ("--query-gpu=index,compute_mode,memory.total", "--format=csv,noheader,nounits")
    assert run("nvidia-smi", tmp_path, *query, TESTBED_GPUS="1") == (0, "1, Exclusive_Process, 15360\n")
    assert run("nvidia-smi", tmp_path, "-L")[1].count("Tesla T4") == 2
    assert run("nvidia-smi", tmp_path, "--query-gpu=nonsense")[0] == 2


def test_logs_rotate_and_give_their_tail(tmp_path: Path) -> None:
    logs = PodLogs(tmp_path / "pod")
    logs.create(("main",))
    logs.append("main", ("first", "second\nthird"))
    assert logs.tail("main", 2) == "second\nthird"
    logs.rotate("main")
    assert "first" in logs.previous("main").read_text()
    assert logs.current("main").read_text() == ""
    logs.remove()
    assert not logs.directory.exists()


def test_an_endless_log_starts_anew(tmp_path: Path) -> None:
    logs = PodLogs(tmp_path / "pod")
    logs.create(("main",))
    logs.append("main", ("x" * ROTATE_BYTES,))
    logs.append("main", ("after",))
    assert logs.current("main").read_text().rstrip().endswith("stdout F after")
    assert logs.current("main").stat().st_size < 200


def test_delays_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "delays.yml"
    path.write_text("projection: 3.5\n")
    assert read_delays(path) == Delays(projection=3.5)
    path.write_text("projections: 3.5\n")
    with pytest.raises(ValueError, match="unknown delays projections"):
        read_delays(path)
