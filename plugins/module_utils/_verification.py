# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: one snapshot and what is expected of a node become a verdict."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace

from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis import diagnose
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_agents import DOUBTFUL, content_state
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_case import (
    LINK_LIMITS,
    LINK_NODE,
    SETTLE_SECONDS,
    Break,
    Case,
    Evidence,
    LogKey,
)
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_limits import DaemonLimits
from ansible_collections.gpuops.mps.plugins.module_utils._expectation import REPLICAS_LABEL, STRATEGY_LABEL, Expected
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, finding
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import CONTROL_DAEMON, Node, Snapshot

VERIFIED = "verified"
WAITING = "waiting"
STALE = "stale"
BROKEN = "broken"
SEVERITIES = ("error", "warning", "info")

# The labels a person wants to see beside a verdict.
SHOWN_LABELS = ("nvidia.com/gpu.product", "nvidia.com/gpu.count", REPLICAS_LABEL, STRATEGY_LABEL, "nvidia.com/mps.capable")


@dataclass(frozen=True)
class Verdict:
    """What one node is.

    C(verdict) is VERIFIED; WAITING when the deviation is young enough to pass by itself; STALE when agents still run
    older content or limits and a restart helps; BROKEN otherwise. C(link) is the first broken link of the chain, one of
    C(_diagnosis_case.LINKS), and C(code) the finding code for it; both are None on a verified node.
    """

    node: str
    verdict: str
    link: str | None
    code: str | None
    reason: str
    remedy: str
    evidence: tuple[Evidence, ...]
    findings: tuple[Finding, ...]
    config: str | None
    source: str
    group: str | None
    strategy: str | None
    replicas: int | None
    resource: str
    allocatable: int
    thread_percentage: int | None
    memory_mib: int | None
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def verified(self) -> bool:
        """Whether the node is as expected."""
        return self.verdict == VERIFIED

    def as_dict(self) -> dict[str, t.Any]:
        """What the verdict says of its node, as plain data without the node's name."""
        data = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "node"}
        return {
            **data,
            "evidence": [asdict(seen) for seen in self.evidence],
            "findings": [{name: text for name, text in found.as_dict().items() if name != "subject"} for found in self.findings],
            "labels": dict(self.labels),
        }


def verify_node(
    snapshot: Snapshot,
    expected: Expected,
    *,
    logs: Mapping[LogKey, str] | None = None,
    limits: DaemonLimits | None = None,
    since: str | None = None,
    patience: int = SETTLE_SECONDS,
) -> Verdict:
    """Judge one node: it is verified when every link of the chain holds.

    C(logs) make the reason of a broken link more exact, C(limits) are the daemon's own answers; both may be left out.
    C(since), an RFC 3339 time, is when the caller last changed something on the node, C(patience) how many seconds a
    deviation may take after that, or after a pod's start, before it counts as broken.
    """
    node = snapshot.node(expected.node)
    if node is None:
        return _verdict(expected, None, _gone(expected), ())
    case = Case(snapshot, node, expected, logs or {}, limits, since, patience)
    broken = diagnose(case)
    return _verdict(expected, node, broken, _doubts(case, broken))


def _verdict(expected: Expected, node: Node | None, broken: Break | None, doubts: tuple[Finding, ...]) -> Verdict:
    prediction, subject = expected.prediction, f"node/{expected.node}"
    found = () if broken is None else (finding(broken.code, broken.link, broken.message, remedy=broken.remedy, subject=subject),)
    return Verdict(
        node=expected.node,
        verdict=_word(broken),
        link=broken.link if broken else None,
        code=broken.code if broken else None,
        reason=broken.message if broken else "",
        remedy=found[0].remedy if found else "",
        evidence=broken.evidence if broken else (),
        findings=found + doubts,
        config=expected.selection.config,
        source=expected.selection.source,
        group=expected.group,
        strategy=expected.strategy,
        replicas=expected.replicas,
        resource=expected.resource,
        allocatable=node.allocatable.get(expected.resource, 0) if node else 0,
        thread_percentage=prediction.thread_percentage if prediction else None,
        memory_mib=prediction.memory_mib if prediction else None,
        labels={key: node.labels[key] for key in SHOWN_LABELS if key in node.labels} if node else {},
    )


def _word(broken: Break | None) -> str:
    if broken is None:
        return VERIFIED
    if broken.passing:
        return WAITING
    return STALE if broken.stale else BROKEN


def _doubts(case: Case, broken: Break | None) -> tuple[Finding, ...]:
    """What is not broken but not proven either."""
    if broken is not None or case.limits is not None or not case.expected.daemon:
        return ()
    daemon = case.pod(CONTROL_DAEMON)
    if daemon is None or content_state(case, CONTROL_DAEMON, daemon) != DOUBTFUL:
        return ()
    return (finding("daemon-limits-unproven", LINK_LIMITS, subject=case.subject),)


def _gone(expected: Expected) -> Break:
    message = f"the node {expected.node} is not a GPU node of this cluster (any more)"
    return Break(LINK_NODE, "node-not-found", message, (Evidence(f"node/{expected.node}", "metadata.name", "absent", expected.node),))


def summarise(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """How many nodes there are of each verdict, how many share by MPS, and how many clients those can take now."""
    found = list(verdicts)
    counts = {word: sum(verdict.verdict == word for verdict in found) for word in (VERIFIED, WAITING, STALE, BROKEN)}
    sharing = [verdict for verdict in found if verdict.strategy == "mps"]
    return {"nodes": len(found), **counts, "sharing": len(sharing), "clients": sum(verdict.allocatable for verdict in sharing)}


def all_findings(verdicts: Iterable[Verdict], others: Iterable[Finding] = ()) -> tuple[Finding, ...]:
    """The findings of all nodes and the others, the worst first; what several nodes have in common is told once, about all of them."""
    by_words: dict[tuple[str, str, str], list[Finding]] = {}
    for found in (*others, *(found for verdict in verdicts for found in verdict.findings)):
        by_words.setdefault((found.code, found.path, found.message), []).append(found)
    merged = (replace(same[0], subject=", ".join(dict.fromkeys(found.subject for found in same))) for same in by_words.values())
    return tuple(sorted(merged, key=lambda found: (SEVERITIES.index(found.severity), found.code, found.subject)))
