# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of a benchmark as tables: medians, and ratios against ours taken run by run."""

from __future__ import annotations

import statistics
import typing as t
from dataclasses import asdict

from tests.benchmark.measure import Sample

Results = t.Mapping[tuple[int, str, str], t.Sequence[Sample]]  # (nodes, operation, contestant) -> one sample a run
Latencies = t.Mapping[int, t.Mapping[str, tuple[int, float, float]]]  # nodes -> beside whom -> requests, median and 99th percentile in ms


def ratios(theirs: t.Sequence[Sample], ours: t.Sequence[Sample]) -> float:
    """The median over the runs of their wall time over ours, each scaled to all nodes."""
    return statistics.median(a.whole_wall / b.whole_wall for a, b in zip(theirs, ours, strict=True))


def markdown(results: Results, ours: t.Collection[str], machine: t.Mapping[str, str], versions: t.Mapping[str, str], latencies: Latencies) -> str:
    """The report: machine and versions, one table a size and operation, then how long others had to wait."""
    lines = ["# Benchmark", "", *(f"- {name}: {value}" for name, value in {**machine, **versions}.items()), ""]
    lines += ["Medians over paired runs; `times ours` is the median of the ratios within the runs.", ""]
    for size, operation in sorted(dict.fromkeys((key[0], key[1]) for key in results), key=lambda key: key[0]):
        rows = {key[2]: samples for key, samples in results.items() if key[:2] == (size, operation)}
        lines += [f"## {operation}, {size} nodes", "", HEAD, "|" + " --- |" * HEAD.count("|", 1)]
        base = next((samples for name, samples in rows.items() if name in ours), None)
        lines += [_row(name, samples, base) for name, samples in rows.items()]
        lines.append("")
    for size, beside in sorted(latencies.items()):
        lines += [f"## Another client's latency while {size} nodes are labelled", "", LATENCY_HEAD, "|" + " --- |" * LATENCY_HEAD.count("|", 1)]
        lines += [f"| {name} | {count} | {median:.1f} | {p99:.1f} |" for name, (count, median, p99) in beside.items()]
        lines.append("")
    return "\n".join(lines)


HEAD = "| who | runs | wall s | times ours | CPU s | peak MiB | requests | MiB sent by the server |"

LATENCY_HEAD = "| beside | requests | median ms | p99 ms |"


def _row(name: str, samples: t.Sequence[Sample], base: t.Sequence[Sample] | None) -> str:
    scale = samples[0].scale
    note = f" (sample, its share times {scale:g})" if scale != 1 else ""
    times = "1" if base is samples else "" if base is None else f"{ratios(samples, base):.2f}"
    requests = ", ".join(f"{round(count * scale)} {verb}" for verb, count in sorted(samples[-1].requests.items())) or "none"
    figures = (
        f"{len(samples)}",
        f"{statistics.median(s.whole_wall for s in samples):.2f}",
        times,
        f"{statistics.median(s.whole_cpu for s in samples):.2f}",
        f"{max(s.rss for s in samples):.0f}",
        requests,
        f"{statistics.median(s.received for s in samples) * scale:.2f}",
    )
    return f"| {name}{note} | " + " | ".join(figures) + " |"


def data(results: Results, machine: t.Mapping[str, str], versions: t.Mapping[str, str], latencies: Latencies) -> dict[str, t.Any]:
    """The same for machines, every sample of every run."""
    rows = [
        {"nodes": size, "operation": operation, "who": who, "samples": [asdict(sample) for sample in samples]}
        for (size, operation, who), samples in results.items()
    ]
    return {"machine": dict(machine), "versions": dict(versions), "results": rows, "latencies": {str(size): rows for size, rows in latencies.items()}}


def parse(content: t.Mapping[str, t.Any]) -> tuple[dict[tuple[int, str, str], list[Sample]], dict[int, dict[str, tuple[int, float, float]]]]:
    """Results and latencies out of what `data` gave."""
    results = {(row["nodes"], row["operation"], row["who"]): [Sample(**sample) for sample in row["samples"]] for row in content["results"]}
    return results, {int(size): {name: tuple(figures) for name, figures in rows.items()} for size, rows in content["latencies"].items()}
