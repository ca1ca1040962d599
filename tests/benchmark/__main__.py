# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line: python -m tests.benchmark [--sizes 100,…] [--site-sizes 3,…] [--rollout-sizes 5,…] [--runs 5] [--operations …] [--output DIRECTORY]."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import typing as t
from dataclasses import replace
from pathlib import Path

from tests.benchmark.contestants import ANSIBLE_ALONE, CONFIG_MAP, LABELLING, MAP, NAMESPACE, READING, Contestant, Context, kubectl, module, playbook, recipe
from tests.benchmark.fleet import grow, label_all, settle, write_node_set
from tests.benchmark.latency import measure_politeness
from tests.benchmark.measure import Sample, machine, measure, versions
from tests.benchmark.tables import data, markdown, parse
from tests.integration.observation import DAEMON, DISCOVERY, PLUGIN
from tests.integration.operator_variables import operator_variables
from tests.testbed.bed import TestBed

VALUE, OTHER = "mps-four", "mps-two"
PLAYED = 100  # More nodes take KWOK and the agents longer than what is measured.
ROLLOUT_SECONDS = 1800
SITE_VARIABLES = {
    "mps_configs": {"none": {}, "mps-two": {"replicas": 2}, "mps-four": {"replicas": 4}},
    "mps_node_groups": [{"name": "bench", "config": VALUE, "selector": ["bench=gpu"]}],
}
Results = dict[tuple[int, str, str], list[Sample]]


def main() -> int:
    """Measure everything that was asked for and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="100,1000,5000", help="numbers of GPU nodes, comma separated")
    parser.add_argument("--site-sizes", default="3,1000", help="numbers of GPU nodes for the main job as a whole")
    parser.add_argument("--rollout-sizes", default="5,20", help="numbers of GPU nodes for a rollout")
    parser.add_argument("--runs", type=int, default=5, help="paired runs")
    parser.add_argument("--operations", default="", help="comma separated; all by default")
    parser.add_argument("--output", type=Path, default=Path("docs/benchmark"), help="where the tables go")
    options = parser.parse_args()
    wanted = set(filter(None, options.operations.split(",")))
    before = machine()
    former = options.output / "results.json"
    # What was measured before is kept: all of it takes hours, so it may be taken in parts.
    results, latencies = parse(json.loads(former.read_text(encoding="utf-8"))) if former.exists() else ({}, {})
    measured: Results = {}
    for size in map(int, filter(None, options.sizes.split(","))):
        with tempfile.TemporaryDirectory() as name:
            measure_size(size, options.runs, wanted, Path(name), measured, latencies)
    for operation, sizes, take in (("site", options.site_sizes, measure_site), ("rollout", options.rollout_sizes, measure_rollout)):
        for size in map(int, filter(None, sizes.split(","))) if not wanted or operation in wanted else ():
            with tempfile.TemporaryDirectory() as name:
                take(size, options.runs, Path(name), measured)
    programs = {"kubectl": [kubectl(), "version", "--client"], "ansible": [str(Path(sys.executable).parent / "ansible"), "--version"]}
    found = versions(programs)
    options.output.mkdir(parents=True, exist_ok=True)
    contestants = [contestant for group in (*LABELLING.values(), *READING.values()) for contestant in group]
    ours = {contestant.name for contestant in contestants if contestant.ours} | {"gpuops.mps.site", "gpuops.mps.mps_rollout"}
    results.update(measured)
    text = markdown(results, ours, before, found, latencies)
    (options.output / "results.md").write_text(text, encoding="utf-8")
    former.write_text(json.dumps(data(results, before, found, latencies), indent=1) + "\n", encoding="utf-8")
    print(text)
    return 0


def measure_size(size: int, runs: int, wanted: set[str], directory: Path, results: Results, latencies: dict[int, t.Any]) -> None:
    """All operations on a settled bed of one size, on which only the API server runs beside the contestants."""
    node_set = directory / "nodes.yml"
    write_node_set(node_set, 1, settled=True)
    bed = TestBed.start(f"bench-{os.getpid()}-{size}", nodes=str(node_set), agents=False)
    try:
        # As on a cluster that has been running for a while: the config and the labels first, then the agents.
        bed.api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        bed.kubectl("apply", "-f", "-", input=CONFIG_MAP.format(name=MAP, namespace=NAMESPACE))
        bed.install_operator_objects({"devicePlugin": {"config": {"name": MAP}}})
        settle(bed)
        bed.wait_for("pods of all agents", lambda: _agents_are_ready(bed), 180, 2)
        names = grow(bed, size)
        context = Context(bed, names, VALUE, directory)
        for run in range(runs):
            for contestant in ANSIBLE_ALONE:
                _take(context, "Ansible alone", contestant, results)
            for operation, contestants in READING.items():
                if not wanted or operation in wanted:
                    for contestant in _rotated(contestants, run):
                        _take(context, operation, contestant, results)
        for run in range(runs):
            for operation, contestants in LABELLING.items():
                if not wanted or operation in wanted:
                    _run_labelling(context, operation, _rotated(contestants, run), results)
        if not wanted or "politeness" in wanted:
            latencies[size] = measure_politeness(context)
    finally:
        bed.stop()


def _agents_are_ready(bed: TestBed) -> bool:
    """On the one GPU node that is played: by the three DaemonSets' own counts."""
    sets = bed.api.list(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets")
    ready = {one["metadata"]["name"]: one.get("status", {}).get("numberReady", 0) for one in sets}
    return all(ready.get(name) for name in (PLUGIN, DISCOVERY, DAEMON))


def _rotated(contestants: tuple[Contestant, ...], run: int) -> tuple[Contestant, ...]:
    """Another order in each run, so that nobody always comes first."""
    start = run % len(contestants)
    return contestants[start:] + contestants[:start]


def _run_labelling(context: Context, operation: str, contestants: tuple[Contestant, ...], results: Results) -> None:
    names = context.names
    before: dict[str, dict[str, str | None]] = {
        "first labelling": dict.fromkeys(names, None),
        "check mode": dict.fromkeys(names, None),
        "no-op": dict.fromkeys(names, VALUE),
        "10 % changed": {name: OTHER if index % 10 == 0 else VALUE for index, name in enumerate(names)},
    }
    for contestant in contestants:
        label_all(context.bed, before[operation])
        _take(context, operation, contestant, results)


def _take(context: Context, operation: str, contestant: Contestant, results: Results) -> None:
    size = len(context.names)
    sample = measure(context.bed, contestant.command(context), context.environment)
    if contestant.nodes and contestant.nodes < size:
        sample = replace(sample, scale=size / contestant.nodes)
        if contestant.start:
            start = results[size, "Ansible alone", contestant.start][-1]
            sample = replace(sample, start_wall=start.wall, start_cpu=start.cpu)
    _keep(size, operation, contestant.name, sample, results)


def measure_site(size: int, runs: int, directory: Path, results: Results) -> None:
    """The main job as a whole against the document by hand: first on an empty cluster, then again; agents without delays.

    More nodes than PLAYED come after the first run as copies of one node, and only the runs after that are measured.
    """
    node_set = directory / "nodes.yml"
    played = size if size <= PLAYED else 1
    write_node_set(node_set, played, settled=False)
    for who, command in (("gpuops.mps.site", None), ("the document by hand", recipe)):
        bed = TestBed.start(f"site-{os.getpid()}-{size}", nodes=str(node_set), instant=True)
        try:
            context = Context(bed, [], VALUE, directory)
            variables = {**SITE_VARIABLES, "mps_batch_size": "100%", "mps_prove": "never", **operator_variables(bed)}
            call = command(context) if command else playbook("gpuops.mps.site", extra=variables)(context)
            first = measure(bed, call, context.environment)
            if played == size:
                _keep(size, "main job, first run", who, first, results)
            else:
                bed.wait_until_settled()
                grow(bed, size)
            for _run in range(runs):
                _keep(size, "main job, again", who, measure(bed, call, context.environment), results)
        finally:
            bed.stop()


def measure_rollout(size: int, runs: int, directory: Path, results: Results) -> None:
    """Another number of replicas on every node, in one batch, with agents that take no time: what is left is the rollout's own."""
    node_set = directory / "nodes.yml"
    write_node_set(node_set, size, settled=False)
    bed = TestBed.start(f"rollout-{os.getpid()}-{size}", nodes=str(node_set), instant=True)
    try:
        bed.install_operator_objects()
        bed.wait_until_settled()
        for run in range(runs + 1):
            group = {"name": "bench", "config": (VALUE, OTHER)[run % 2], "selector": ["bench=gpu"]}
            arguments = {"configs": SITE_VARIABLES["mps_configs"], "node_groups": [group], "batch_size": "100%", "wait_timeout": ROLLOUT_SECONDS}
            context = Context(bed, [], VALUE, directory)
            sample = measure(bed, module("mps_rollout", arguments)(context), context.environment)
            # The first run also writes the map and the policy, for which the operator replaces every agent.
            if run:
                _keep(size, "rollout of other replicas", "gpuops.mps.mps_rollout", sample, results)
    finally:
        bed.stop()


def _keep(size: int, operation: str, who: str, sample: Sample, results: Results) -> None:
    results.setdefault((size, operation, who), []).append(sample)
    print(f"{size} nodes, {operation}, {who}: {sample.wall:.2f} s, {dict(sample.requests)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
