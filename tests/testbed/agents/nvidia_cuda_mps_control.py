# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control program of MPS on a simulated node: commands on standard input, answers from the node's state file."""

from __future__ import annotations

import json
import os
import sys

FIRST_SERVER_PID = 4001


def main() -> int:
    with open(os.environ["TESTBED_NODE_FILE"], encoding="utf-8") as file:
        state = json.load(file)
    pipe = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "").rstrip("/")  # without it the real program looks in a place of its own
    daemon = state["host"]["daemons"].get(pipe)
    if daemon is None:
        print("Cannot find MPS control daemon process")
        return 1
    for line in sys.stdin:
        words = line.split()
        if words:
            print(answer(words[0], words[1:], daemon, state["clients"].get(pipe, 0)), end="")
    return 0


def answer(command: str, arguments: list[str], daemon: dict, clients: int) -> str:
    server = str(FIRST_SERVER_PID)
    pids = [FIRST_SERVER_PID + 1 + number for number in range(clients)]
    if command == "get_default_active_thread_percentage":
        return f"{float(daemon['thread_percentage'])}\n"
    if command == "get_default_device_pinned_mem_limit":
        return pinned_memory(dict(daemon["memory_mib"]), arguments)
    if command == "get_server_list":
        return f"{server}\n" if clients else ""
    if command == "get_client_list":
        return "".join(f"{pid}\n" for pid in pids) if arguments == [server] else ""
    if command == "ps":
        rows = [f"{pid:<8}{number + 1:<6}{server:<10}vectorAdd" for number, pid in enumerate(pids)]
        return "\n".join(["PID     ID    SERVER    COMMAND", *rows]) + "\n"
    return f"Unrecognized command: {command}\n"


def pinned_memory(limits: dict, arguments: list[str]) -> str:
    """The limit of the device named, else of the first: whole gigabytes as NVIDIA's document shows it, less than one in megabytes."""
    index = arguments[0] if arguments else next(iter(limits), "")
    if index not in limits:
        return "Default device pinned memory limit is not set\n"
    return f"{limits[index] // 1024}G\n" if limits[index] >= 1024 else f"{limits[index]}M\n"


if __name__ == "__main__":
    sys.exit(main())
