# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make demo`: the main job from an empty cluster, then a changed replica count, and what that changed.

Set KEEP=1 to leave the cluster running afterwards.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import yaml

from tests.integration.operator_variables import operator_variables
from tests.testbed.bed import TestBed, take_down
from tests.testbed.layout import Layout

REPOSITORY = Path(__file__).resolve().parents[2]
VARIABLES = Path(__file__).parent / "variables.yml"
NAME = "demo"
CHANGED_REPLICAS = 8


def main() -> int:
    """Run the demonstration; the exit status is that of the first part that fails."""
    begun = time.monotonic()
    take_down(Layout.of(NAME))
    say("starting a cluster with the node set lab: eight nodes, seven of them with GPUs, and no GPU Operator")
    bed = TestBed.start(NAME)
    try:
        declared = yaml.safe_load(VARIABLES.read_text())
        say("gpuops.mps.site: installs the operator, shares the GPUs, verifies every node, runs vectorAdd")
        run_site(bed, declared)
        before = offered(bed)
        declared["mps_configs"]["mps-four"]["replicas"] = CHANGED_REPLICAS
        say(f"gpuops.mps.site again, with {CHANGED_REPLICAS} replicas instead of 4 in the config mps-four")
        run_site(bed, declared)
        show_changes(before, offered(bed))
        say("gpuops.mps.site once more, with nothing changed: it must find nothing to do")
        run_site(bed, declared)
        say(f"done in {time.monotonic() - begun:.0f} s")
    except subprocess.CalledProcessError as error:
        say(f"the playbook failed with status {error.returncode}")
        return error.returncode
    finally:
        if os.environ.get("KEEP"):
            say(f"the cluster is left running; its kubeconfig is {bed.kubeconfig}")
        else:
            bed.stop()
    return 0


def run_site(bed: TestBed, declared: dict) -> None:
    """Run the playbook against the bed as a user would. Raises CalledProcessError."""
    path = bed.directory / "demo-variables.json"
    path.write_text(json.dumps({**declared, **operator_variables(bed)}))
    scripts = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}",
        "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".cache" / "collections"),
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
        "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "false",
        # kubernetes.core deprecates a return value on every run; it is not ours to heed.
        "ANSIBLE_DEPRECATION_WARNINGS": "false",
        "K8S_AUTH_KUBECONFIG": str(bed.kubeconfig),
    }
    command = [str(scripts / "ansible-playbook"), "gpuops.mps.site", "--extra-vars", f"@{path}"]
    subprocess.run(command, env=environment, cwd=bed.directory, check=True)


def offered(bed: TestBed) -> dict[str, dict[str, str]]:
    """Return node name -> what the GPU node says of itself: its replicas label and its allocatable GPUs."""
    return {
        node["metadata"]["name"]: {
            "replicas": node["metadata"]["labels"].get("nvidia.com/gpu.replicas", "-"),
            "allocatable": node["status"]["allocatable"].get("nvidia.com/gpu", "0"),
        }
        for node in bed.api.list("/api/v1/nodes", labelSelector="nvidia.com/gpu.present=true")
    }


def show_changes(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> None:
    """Print the nodes that offer something else than before."""
    say("what the changed replica count changed on the cluster")
    for name, now in after.items():
        if now != before[name]:
            print(f"{name:12} " + ", ".join(f"{key} {before[name][key]} -> {value}" for key, value in now.items()))
    same = [name for name, now in after.items() if now == before[name]]
    print(f"unchanged: {', '.join(same)}")


def say(message: str) -> None:
    """Print a heading."""
    print(f"\n=== {message}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
