# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give an existing cluster simulated GPU nodes: python -m tests.testbed.attach up|down --name N --kubeconfig K.

For a kind cluster with a real control plane and a real node: KWOK and the node agents run beside it on this machine and
play the GPU nodes only. The cluster's API server must reach this machine at --address, where logs and exec are served.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.testbed import components, processes
from tests.testbed.build import build
from tests.testbed.certificates import write_certificates
from tests.testbed.layout import Layout
from tests.testbed.node_sets import node_objects, read_node_set

MARK = "kwok.x-k8s.io/node"
KINDS = ("logs", "clusterlogs", "execs", "clusterexecs")


def main() -> int:
    """Do what the command line says; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.testbed.attach", description=__doc__)
    parser.add_argument("command", choices=("up", "down"))
    parser.add_argument("--name", default="kind")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--nodes", default="lab", help="lab, fleet:N or a YAML file; nodes without GPUs are left out")
    parser.add_argument("--plugin-version", default="0.17.4")
    parser.add_argument("--address", default="127.0.0.1", help="where the API server reaches this machine")
    options = parser.parse_args()
    layout = Layout.of(options.name)
    if options.command == "down":
        down(layout, options.kubeconfig, options.nodes)
    else:
        up(layout, options.kubeconfig, options.nodes, options.plugin_version, options.address)
    return 0


def up(layout: Layout, kubeconfig: Path, nodes: str, plugin_version: str, address: str) -> None:
    """Create the GPU nodes and start what plays them; what runs already is left running. Raises CalledProcessError."""
    programs = build()
    layout.directory.mkdir(parents=True, exist_ok=True)
    write_certificates(layout.certificates)
    for user in ("admin", "testbed:kwok", "testbed:agents"):
        path = layout.component_kubeconfig(user)
        path.parent.mkdir(exist_ok=True)
        shutil.copyfile(kubeconfig, path)
        path.chmod(0o600)
    for kind in KINDS:
        _kubectl(kubeconfig, "apply", "-f", str(programs / "kwok-crds" / f"kwok.x-k8s.io_{kind}.yaml"))
    _kubectl(kubeconfig, "apply", "-f", "-", content=_gpu_nodes(nodes, layout.ports().kwok, address))
    running = processes.running(layout.directory)
    if "kwok" not in running:
        processes.start("kwok", _kwok(layout, programs, address), layout.directory, components.MODULE_ENVIRONMENT)
    if "agents" not in running:
        (layout.directory / "agents").mkdir(exist_ok=True)
        command = components.node_agents(layout, plugin_version, instant=False)
        processes.start("agents", command, layout.directory, components.MODULE_ENVIRONMENT)
    print(f"GPU nodes of {nodes} are on the cluster of {kubeconfig}")


def down(layout: Layout, kubeconfig: Path, nodes: str) -> None:
    """End the processes, delete the nodes, and leave no file behind. Raises CalledProcessError."""
    processes.stop(layout.directory)
    names = [item["metadata"]["name"] for item in json.loads(_gpu_nodes(nodes, 0, "127.0.0.1"))["items"]]
    _kubectl(kubeconfig, "delete", "nodes", "--ignore-not-found", *names)
    shutil.rmtree(layout.directory, ignore_errors=True)


def _kwok(layout: Layout, programs: Path, address: str) -> list[str]:
    """KWOK's command line for a cluster that has real nodes too: it plays those with the mark only."""
    replaced = {"--manage-all-nodes=true": f"--manage-nodes-with-annotation-selector={MARK}=fake", "--node-ip=127.0.0.1": f"--node-ip={address}"}
    port = layout.ports().kwok
    replaced[f"--server-address=127.0.0.1:{port}"] = f"--server-address=0.0.0.0:{port}" if address != "127.0.0.1" else f"--server-address=127.0.0.1:{port}"
    return [replaced.get(part, part) for part in components.kwok(layout, programs, agents=True)]


def _gpu_nodes(nodes: str, port: int, address: str) -> str:
    """The node set's GPU nodes as one List, reached at ``address``."""
    items = node_objects([node for node in read_node_set(nodes) if node.get("gpus")], port)
    for item in items:
        item["status"]["addresses"][0]["address"] = address
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def _kubectl(kubeconfig: Path, *arguments: str, content: str | None = None) -> None:
    beside = Path(sys.executable).parent / "kubectl"
    subprocess.run([str(beside), f"--kubeconfig={kubeconfig}", *arguments], input=content, text=True, check=True)


if __name__ == "__main__":
    sys.exit(main())
