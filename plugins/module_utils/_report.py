# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what the modules returned becomes one report, the source of all its forms. Pure.

Everything comes from results that went through a playbook's variables, so any value may be missing or of another type;
what cannot be understood is left out, never a failure.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from ansible_collections.gpuops.mps.plugins.module_utils._shown import named, visible

# Where the page about each finding is; the code is the page's anchor.
FINDINGS_URL = "https://github.com/gpuops/gpuops.mps/blob/main/docs/docsite/rst/findings.rst#"
CLEAN = "clean"
DRIFTED = "drifted"
NOT_RIGHT = "not right"
NOT_PROVEN = "not proven"
UNKNOWN = "unknown"
VERDICTS = ("broken", "stale", "waiting", "verified")


@dataclass(frozen=True)
class FindingRow:
    """One finding with the address of its page."""

    code: str
    severity: str
    message: str
    remedy: str
    subject: str
    url: str


@dataclass(frozen=True)
class EvidenceRow:
    """One observed value."""

    subject: str
    field: str
    value: str
    expected: str


@dataclass(frozen=True)
class NodeRow:
    """One node. C(allocatable_before) is None without a rollout, C(proof) None without a proof."""

    name: str
    verdict: str
    group: str
    config: str
    source: str
    strategy: str
    product: str
    replicas: int | None
    resource: str
    allocatable_before: int | None
    allocatable: int | None
    thread_percentage: int | None
    memory_mib: int | None
    link: str
    code: str
    url: str
    reason: str
    remedy: str
    evidence: tuple[EvidenceRow, ...]
    proof: str | None


@dataclass(frozen=True)
class GroupRow:
    """The nodes that have group, config and source in common."""

    group: str
    config: str
    source: str
    nodes: int
    verified: int
    allocatable: int
    thread_percentage: str
    memory_mib: str


@dataclass(frozen=True)
class ChangeRow:
    """One changed thing, as text before and after."""

    title: str
    before: str
    after: str


@dataclass(frozen=True)
class Report:
    """The whole report. C(state) is CLEAN, DRIFTED, NOT_RIGHT, NOT_PROVEN or UNKNOWN (nothing was verified)."""

    title: str
    state: str
    server: str
    namespace: str
    read_at: str
    counts: Mapping[str, int]
    groups: tuple[GroupRow, ...]
    nodes: tuple[NodeRow, ...]
    changes: tuple[ChangeRow, ...]
    drift: tuple[FindingRow, ...]
    findings: tuple[FindingRow, ...]
    proof: str | None = None

    def as_dict(self) -> dict[str, t.Any]:
        """The report as plain data."""
        return asdict(self)


def make_report(
    verification: object,
    rollout: object = None,
    proof: object = None,
    *,
    title: str = "GPU sharing",
    findings_url: str = FINDINGS_URL,
) -> Report:
    """The report of a verification, with what a rollout or plan changed and what a proof showed where there are any. Never raises."""
    verified, changed, proven = (_mapping(one) for one in (verification, rollout, proof))
    findings_url = _text(findings_url)
    before = {_text(one.get("name")): one for one in _mappings(changed.get("nodes"))}
    proofs = {_text(one.get("node")): one for one in _mappings(proven.get("nodes"))}
    nodes = tuple(_node(name, one, before, proofs, findings_url) for one in _mappings(verified.get("nodes")) for name in _texts(one.get("names")))
    drift = _findings(verified.get("drift"), findings_url)
    findings = _once((*_findings(verified.get("findings"), findings_url), *_findings(proven.get("findings"), findings_url)))
    return Report(
        title=_text(title),
        state=_state(nodes, drift, proven),
        server=_text(verified.get("server")),
        namespace=_text(verified.get("namespace")),
        read_at=_text(verified.get("read_at")),
        counts=_counts(nodes),
        groups=_groups(nodes),
        nodes=tuple(sorted(nodes, key=lambda node: (_rank(node.verdict), node.name))),
        changes=_changes(changed),
        drift=drift,
        findings=findings,
        proof=_proof_word(proven),
    )


def _state(nodes: Sequence[NodeRow], drift: Sequence[FindingRow], proof: Mapping[str, t.Any]) -> str:
    if any(node.verdict != "verified" for node in nodes):
        return NOT_RIGHT
    if proof and proof.get("passed") is False:
        return NOT_PROVEN
    if drift:
        return DRIFTED
    return CLEAN if nodes else UNKNOWN


def _proof_word(proof: Mapping[str, t.Any]) -> str | None:
    return {True: "passed", False: "failed"}.get(t.cast(bool, proof.get("passed"))) if isinstance(proof.get("passed"), bool) else None


def _node(name: str, one: Mapping[str, t.Any], before: Mapping[str, t.Any], proofs: Mapping[str, t.Any], findings_url: str) -> NodeRow:
    resource, code = _text(one.get("resource")), _text(one.get("code"))
    earlier = _mapping(_mapping(before.get(name)).get("allocatable_before"))
    return NodeRow(
        name=name,
        verdict=_text(one.get("verdict")) or UNKNOWN,
        group=_text(one.get("group")),
        config=_text(one.get("config")),
        source=_text(one.get("source")),
        strategy=_text(one.get("strategy")),
        product=_text(_mapping(one.get("labels")).get("nvidia.com/gpu.product")),
        replicas=_number(one.get("replicas")),
        resource=resource,
        allocatable_before=sum(_number(count) or 0 for count in earlier.values()) if name in before else None,
        allocatable=_number(one.get("allocatable")),
        thread_percentage=_number(one.get("thread_percentage")),
        memory_mib=_number(one.get("memory_mib")),
        link=_text(one.get("link")),
        code=code,
        url=f"{findings_url}{code}" if code else "",
        reason=_text(one.get("reason")),
        remedy=_text(one.get("remedy")),
        evidence=tuple(_evidence(item) for item in _mappings(one.get("evidence"))),
        proof=_proof_word(_mapping(proofs.get(name))),
    )


def _evidence(item: Mapping[str, t.Any]) -> EvidenceRow:
    return EvidenceRow(*(_text(item.get(name)) for name in ("subject", "field", "value", "expected")))


def _findings(value: object, findings_url: str) -> tuple[FindingRow, ...]:
    names = ("code", "severity", "message", "remedy", "subject")
    return tuple(FindingRow(**{name: _text(one.get(name)) for name in names}, url=f"{findings_url}{_text(one.get('code'))}") for one in _mappings(value))


def _once(findings: Sequence[FindingRow]) -> tuple[FindingRow, ...]:
    order = {"error": 0, "warning": 1, "info": 2}
    return tuple(sorted(dict.fromkeys(findings), key=lambda found: order.get(found.severity, 3)))


def _counts(nodes: Sequence[NodeRow]) -> dict[str, int]:
    counts = {verdict: sum(node.verdict == verdict for node in nodes) for verdict in VERDICTS}
    sharing = [node for node in nodes if node.strategy == "mps"]
    return {"nodes": len(nodes), **counts, "sharing": len(sharing), "clients": sum(node.allocatable or 0 for node in sharing)}


def _groups(nodes: Sequence[NodeRow]) -> tuple[GroupRow, ...]:
    members: dict[tuple[str, str, str], list[NodeRow]] = {}
    for node in nodes:
        members.setdefault((node.group, node.config, node.source), []).append(node)
    return tuple(
        GroupRow(
            *key,
            nodes=len(found),
            verified=sum(node.verdict == "verified" for node in found),
            allocatable=sum(node.allocatable or 0 for node in found),
            thread_percentage=_range(node.thread_percentage for node in found),
            memory_mib=_range(node.memory_mib for node in found),
        )
        for key, found in sorted(members.items())
    )


def _range(values: t.Iterable[int | None]) -> str:
    known = sorted({value for value in values if value is not None})
    return "" if not known else str(known[0]) if len(known) == 1 else f"{known[0]} to {known[-1]}"


def _changes(rollout: Mapping[str, t.Any]) -> tuple[ChangeRow, ...]:
    """The diffs of a plan or a rollout, those that are none left out."""
    diffs = rollout.get("plan_diff") or rollout.get("diff")
    rows = (ChangeRow(_text(one.get("before_header")), _text(one.get("before")), _text(one.get("after"))) for one in _mappings(diffs))
    return tuple(row for row in rows if row.before != row.after)


def _rank(verdict: str) -> int:
    return VERDICTS.index(verdict) if verdict in VERDICTS else -1


def _mapping(value: object) -> Mapping[str, t.Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> list[Mapping[str, t.Any]]:
    if isinstance(value, Mapping):
        return [value]
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, (list, tuple)) else []


def _texts(value: object) -> list[str]:
    return [_text(one) for one in value] if isinstance(value, (list, tuple)) else []


def _text(value: object) -> str:
    """A value as text without control characters, which neither XML nor a terminal takes well."""
    if value is None or isinstance(value, (Mapping, list, tuple, set)):
        return ""
    return visible(named(value))


def _number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    number = value if isinstance(value, int) else int(value) if value.isascii() and value.isdigit() and len(value) < 19 else None
    return number if number is not None and abs(number) < 10**18 else None
