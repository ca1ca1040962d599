# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi on a simulated node: -L, and --query-gpu=... --format=csv[,noheader][,nounits] with a few fields."""

from __future__ import annotations

import json
import os
import sys

FIELDS = {
    "index": lambda gpu: gpu["index"],
    "name": lambda gpu: gpu["name"],
    "uuid": lambda gpu: gpu["uuid"],
    "compute_cap": lambda gpu: gpu["compute"],
    "compute_mode": lambda gpu: gpu["compute_mode"],
    "memory.total": lambda gpu: f"{gpu['memory_mib']} MiB",
    "mig.mode.current": lambda gpu: "Enabled" if gpu["mig_enabled"] else "Disabled",
    "driver_version": lambda gpu: "580.65.06",
}


def visible_gpus() -> list[dict]:
    with open(os.environ["TESTBED_NODE_FILE"], encoding="utf-8") as file:
        host = json.load(file)["host"]
    wanted = os.environ.get("TESTBED_GPUS", "all")
    return [
        {**gpu, "compute_mode": "Exclusive_Process" if gpu["index"] in host["exclusive"] else "Default"}
        for gpu in host["gpus"]
        if wanted == "all" or gpu["index"] in wanted.split(",")
    ]


def main(arguments: list[str]) -> int:
    options = dict(word.partition("=")[::2] for word in arguments)
    query = options.get("--query-gpu")
    if query is not None:
        return print_table([field.strip() for field in query.split(",")], options.get("--format", "csv").split(","))
    if arguments in ([], ["-L"]):
        for gpu in visible_gpus():
            print(f"GPU {gpu['index']}: {gpu['name']} (UUID: {gpu['uuid']})")
        return 0
    print(f"Invalid combination of input arguments: {' '.join(arguments)}")
    return 2


def print_table(fields: list[str], form: list[str]) -> int:
    unknown = [field for field in fields if field not in FIELDS]
    if unknown:
        print(f'Field "{unknown[0]}" is not a valid field to query.')
        return 2
    if "noheader" not in form:
        print(", ".join(fields))
    for gpu in visible_gpus():
        row = ", ".join(FIELDS[field](gpu) for field in fields)
        print(row.replace(" MiB", "") if "nounits" in form else row)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
