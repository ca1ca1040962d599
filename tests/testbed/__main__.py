# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line: python -m tests.testbed up|down|status."""

from __future__ import annotations

import argparse
import sys
import time

from tests.testbed import processes
from tests.testbed.bed import BedError, TestBed, take_down
from tests.testbed.build import BuildError
from tests.testbed.chart import ChartError
from tests.testbed.layout import Layout, LayoutError
from tests.testbed.node_sets import NodeSetError
from tests.testbed.operator_runner import NamespaceError


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return {"up": up, "down": down, "status": status}[options.command](options)
    except (BedError, BuildError, ChartError, LayoutError, NamespaceError, NodeSetError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def up(options: argparse.Namespace) -> int:
    """Start the bed or what is missing of it, and print where things are."""
    begun = time.monotonic()
    bed = TestBed.start(
        options.name,
        nodes=options.nodes,
        plugin_version=options.plugin_version,
        operator=not options.no_operator,
        instant=options.instant,
        agents=not options.no_agents,
    )
    if options.install:
        bed.install_operator_objects()
    print(f"test bed {bed.name} is up ({time.monotonic() - begun:.1f} s)")
    print(f"kubeconfig: {bed.kubeconfig}")
    print(f"audit log:  {bed.audit_log}")
    print(f"programs:   {bed.programs}")
    return 0


def down(options: argparse.Namespace) -> int:
    """End the bed's processes and remove its directory."""
    take_down(Layout.of(options.name))
    print(f"test bed {options.name} is down")
    return 0


def status(options: argparse.Namespace) -> int:
    """Print which processes run; the exit status tells whether any does."""
    running = processes.running(Layout.of(options.name).directory)
    for name, pid in sorted(running.items()):
        print(f"{name:26} {pid}")
    return 0 if running else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.testbed", description="A Kubernetes cluster with simulated GPU nodes, on loopback.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("up", "down", "status"):
        command = commands.add_parser(name)
        command.add_argument("--name", default="default", help="which bed (default: %(default)s)")
        if name == "up":
            command.add_argument("--nodes", default="lab", help="lab, fleet:N, or a YAML file (default: %(default)s)")
            command.add_argument("--plugin-version", default="0.17.4", help="device plugin version to simulate (default: %(default)s)")
            command.add_argument("--no-operator", action="store_true", help="never run the GPU Operator, whatever is installed")
            command.add_argument("--no-agents", action="store_true", help="no GPU behaviour: KWOK calls every pod ready")
            command.add_argument("--instant", action="store_true", help="agents without delays")
            command.add_argument("--install", action="store_true", help="install the GPU Operator's chart as well")
    return parser


if __name__ == "__main__":
    sys.exit(main())
