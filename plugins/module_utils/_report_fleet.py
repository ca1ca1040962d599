# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: one summary over the clusters of a fleet, from what the roles left in each host's variables. Pure.

As in _report.py, anything may be missing or of another type: a summary is made of whatever a failed run left behind.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from ansible_collections.gpuops.mps.plugins.module_utils._report import UNKNOWN, Report, make_report
from ansible_collections.gpuops.mps.plugins.module_utils._report_markdown import table

# The variables that the roles leave on a host, the first one that is there counts.
REGISTERED: Mapping[str, tuple[str, ...]] = {
    "installation": ("_gpu_operator_found", "_mps_before"),
    "plan": ("_mps_plan",),
    "rollout": ("_mps_rollout",),
    "verification": ("mps_verification_result", "_mps_verification"),
    "proof": ("mps_verification_proven", "_mps_proof"),
}
FAILED = "failed"
NOT_REACHED = "not reached"
CHANGED_VERDICTS = frozenset({"verified", "returned", "failed", "changing", "returning", "planned"})
_COLUMNS = ("cluster", "state", "nodes", "verified", "changed", "clients", "reason")
# Widths for a terminal; negative ones are for text, which stands at the left.
_WIDTHS = (-24, -12, 6, 9, 8, 8, 0)


@dataclass(frozen=True)
class ClusterRow:
    """One cluster: how its run ended, its GPU nodes, those verified, those changed, and the clients that its shared GPUs take."""

    cluster: str
    state: str
    nodes: int
    verified: int
    changed: int
    clients: int
    reason: str


@dataclass(frozen=True)
class FleetSummary:
    """All clusters in the order of the inventory."""

    clusters: tuple[ClusterRow, ...]

    @property
    def failed(self) -> tuple[str, ...]:
        """The clusters whose run failed."""
        return tuple(row.cluster for row in self.clusters if row.state == FAILED)

    @property
    def not_reached(self) -> tuple[str, ...]:
        """The clusters whose turn has not come."""
        return tuple(row.cluster for row in self.clusters if row.state == NOT_REACHED)

    def as_dict(self) -> dict[str, t.Any]:
        """The summary as plain data, with its forms for a terminal and for Markdown."""
        return {
            "clusters": [asdict(row) for row in self.clusters],
            "failed": list(self.failed),
            "not_reached": list(self.not_reached),
            "lines": self.lines(),
            "markdown": self.markdown(),
        }

    def lines(self) -> list[str]:
        """One line for each cluster below a heading, and one for all."""
        rows = [_COLUMNS, *(_cells(row) for row in (*self.clusters, self._all()))]
        return [" ".join(_padded(cell, width) for cell, width in zip(row, _WIDTHS, strict=True)).rstrip() for row in rows]

    def markdown(self) -> str:
        """The summary as a Markdown document."""
        return "\n".join(["# GPU sharing on all clusters", "", *table(_COLUMNS, [_cells(row) for row in (*self.clusters, self._all())])])

    def _all(self) -> ClusterRow:
        done = len(self.clusters) - len(self.failed) - len(self.not_reached)
        rows = self.clusters
        return ClusterRow(
            cluster=f"all {len(rows)}",
            state=f"{done} done",
            nodes=sum(row.nodes for row in rows),
            verified=sum(row.verified for row in rows),
            changed=sum(row.changed for row in rows),
            clients=sum(row.clients for row in rows),
            reason="",
        )


def summarise_fleet(variables: Mapping[str, object], clusters: Sequence[str], finished: t.Collection[str]) -> FleetSummary:
    """The summary over C(clusters), of which those in C(finished) have not failed; C(variables) are each host's. Never raises."""
    return FleetSummary(tuple(_row(name, name in finished, _registered(variables.get(name))) for name in clusters))


def _registered(host: object) -> dict[str, Mapping[str, t.Any]]:
    """The results that a host has, without those of tasks that were skipped."""
    found: dict[str, Mapping[str, t.Any]] = {}
    for kind, names in REGISTERED.items():
        for name in names:
            result = _mapping(host).get(name)
            if isinstance(result, Mapping) and not result.get("skipped"):
                found.setdefault(kind, result)
    return found


def _row(cluster: str, finished: bool, registered: Mapping[str, Mapping[str, t.Any]]) -> ClusterRow:
    rollout, plan = registered.get("rollout", {}), registered.get("plan", {})
    report = make_report(registered.get("verification"), rollout or plan, registered.get("proof"))
    verdicts = [node.get("verdict") for node in _mappings(rollout.get("nodes"))]
    planned = _mapping(_mapping(plan.get("plan")).get("summary"))
    changed = [verdict for verdict in verdicts if verdict in CHANGED_VERDICTS]
    state = _state(finished, registered, report)
    return ClusterRow(
        cluster=cluster,
        state=state,
        nodes=report.counts["nodes"] or len(verdicts) or _count(planned.get("nodes")),
        verified=report.counts["verified"],
        changed=len(changed) or _count(planned.get("nodes_changed")),
        clients=report.counts["clients"],
        reason=_reason(registered, report) if state == FAILED else "",
    )


def _state(finished: bool, registered: Mapping[str, Mapping[str, t.Any]], report: Report) -> str:
    if not finished:
        return FAILED
    if not registered:
        return NOT_REACHED
    if report.state != UNKNOWN:
        return report.state
    if "plan" in registered:
        return "planned"
    return str(registered.get("rollout", {}).get("state") or "done")


def _reason(registered: Mapping[str, Mapping[str, t.Any]], report: Report) -> str:
    """The first line of what failed, where a module of ours said it; a failure elsewhere is in the output of its task."""
    said = [str(result.get("msg", "")) for result in registered.values() if result.get("failed")]
    wrong = [f"{node.name}: {node.reason}" for node in report.nodes if node.reason]
    return next((text.splitlines()[0] for text in (*said, *wrong) if text), "see the failed task")


def _cells(row: ClusterRow) -> tuple[str, ...]:
    return tuple(str(getattr(row, name)) for name in _COLUMNS)


def _padded(cell: str, width: int) -> str:
    return cell.ljust(-width) if width <= 0 else cell.rjust(width)


def _mapping(value: object) -> Mapping[str, t.Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> list[Mapping[str, t.Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, (list, tuple)) else []


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
