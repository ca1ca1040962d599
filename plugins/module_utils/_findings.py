# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: findings, and the catalogue of every code a finding can have."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType

from ansible_collections.gpuops.mps.plugins.module_utils import (
    _catalogue_cluster,
    _catalogue_config_file,
    _catalogue_declaration,
    _catalogue_diagnosis,
    _catalogue_prediction,
    _catalogue_rollout,
)
from ansible_collections.gpuops.mps.plugins.module_utils._catalogue import CatalogueEntry, Severity
from ansible_collections.gpuops.mps.plugins.module_utils._shown import visible

__all__ = ["CATALOGUE", "CatalogueEntry", "Finding", "Severity", "check_accept", "closest", "finding", "is_final", "split_accepted"]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong or worth knowing.

    ``path`` says where in what the user wrote or what the cluster holds (``mps_configs.mps-four.replicas``);
    ``subject`` names the object concerned when there is one (``node/gpu-01``, ``configmap/namespace/name``). All texts are
    made visible: they quote names, values and logs that anybody may have written.
    """

    code: str
    severity: Severity
    path: str
    message: str
    remedy: str
    subject: str = ""

    def __post_init__(self) -> None:
        for name in ("path", "message", "remedy", "subject"):
            object.__setattr__(self, name, visible(getattr(self, name)))

    def as_dict(self) -> dict[str, str]:
        """The finding as plain data for a module's result."""
        return asdict(self)


def _gather(groups: Iterable[tuple[CatalogueEntry, ...]]) -> Mapping[str, CatalogueEntry]:
    """All entries by code, in the order of the files; a code given twice is a defect of the collection."""
    catalogue: dict[str, CatalogueEntry] = {}
    for entry in (entry for group in groups for entry in group):
        if entry.code in catalogue:
            raise ValueError(f"the finding code {entry.code} is in the catalogue twice")
        catalogue[entry.code] = entry
    return MappingProxyType(catalogue)


CATALOGUE: Mapping[str, CatalogueEntry] = _gather(
    (
        _catalogue_declaration.ENTRIES,
        _catalogue_config_file.ENTRIES,
        _catalogue_prediction.ENTRIES,
        _catalogue_cluster.ENTRIES,
        _catalogue_rollout.ENTRIES,
        _catalogue_diagnosis.ENTRIES,
    )
)


def finding(code: str, path: str, message: str | None = None, *, remedy: str | None = None, subject: str = "", **values: object) -> Finding:
    """A finding with the severity, and by default the texts, of its catalogue entry.

    ``values`` fill the ``{placeholders}`` of the message and the remedy; without values both are taken literally.
    Raises KeyError for a code that is not in the catalogue.
    """
    entry = CATALOGUE[code]
    message = entry.title if message is None else message
    remedy = entry.remedy if remedy is None else remedy
    if values:
        message, remedy = message.format(**values), remedy.format(**values)
    return Finding(code=code, severity=entry.severity, path=path, message=message, remedy=remedy, subject=subject)


def split_accepted(findings: Iterable[Finding], accept: Collection[str]) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Findings that stand, and those the user accepted by code.

    An accepted error comes back as a warning that says so, an accepted warning as information.
    An error whose entry is not acceptable stays standing whatever the user wrote.
    """
    standing: list[Finding] = []
    accepted: list[Finding] = []
    for found in findings:
        if found.code in accept and not is_final(found):
            softer: Severity = "warning" if found.severity == "error" else "info"
            accepted.append(replace(found, severity=softer, message=f"{found.message} (accepted by name)"))
        else:
            standing.append(found)
    return tuple(standing), tuple(accepted)


def is_final(found: Finding) -> bool:
    """Whether it is an error that nobody can accept: something is not understood or cannot work."""
    return found.severity == "error" and not CATALOGUE[found.code].acceptable


def check_accept(accept: Iterable[str], path: str = "accept") -> tuple[Finding, ...]:
    """Findings for codes in ``accept`` that do not exist or that nobody may accept."""
    findings: list[Finding] = []
    for index, code in enumerate(accept):
        where = f"{path}[{index}]"
        if code not in CATALOGUE:
            suggestion = closest(code, CATALOGUE)
            hint = f"; did you mean '{suggestion}'?" if suggestion else ""
            findings.append(finding("accept-unknown-code", where, f"'{code}' is not the code of any finding{hint}"))
        elif is_final(finding(code, where)):
            findings.append(finding("accept-impossible", where, f"the finding '{code}' cannot be accepted: {CATALOGUE[code].remedy}"))
    return tuple(findings)


def closest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that ``word`` is most likely a misspelling of, or None.

    Case, hyphens and underscores do not count: ``Replica``, ``time-slicing`` and ``rename_by_default`` find their field.
    """
    by_plain = {_plain(candidate): candidate for candidate in candidates}
    found = difflib.get_close_matches(_plain(word), by_plain, n=1, cutoff=0.6)
    return by_plain[found[0]] if found else None


def _plain(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")
