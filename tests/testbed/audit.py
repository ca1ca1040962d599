# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the API server's audit log: who asked what, with which answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

MUTATING = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True)
class AuditEvent:
    """One request as the API server logged it after answering."""

    verb: str
    resource: str
    subresource: str
    name: str
    namespace: str
    code: int
    user: str
    user_agent: str
    uri: str
    dry_run: bool

    @property
    def mutating(self) -> bool:
        """Whether the request could have changed the cluster: a write that is no dry run and no access review."""
        return self.verb in MUTATING and not self.dry_run and not self.resource.endswith("reviews")


def read_events(path: Path, offset: int = 0) -> list[AuditEvent]:
    """Return the events logged from byte `offset` on; a line still being written is left out, then and at the offset."""
    with open(path, "rb") as log:
        log.seek(max(0, offset - 1))
        lines = log.read().split(b"\n")[:-1]
    if offset:  # what stands before the first line's end began before the offset
        del lines[:1]
    return [_event(json.loads(line)) for line in lines if line]


def _event(record: dict) -> AuditEvent:
    reference = record.get("objectRef", {})
    uri = record.get("requestURI", "")
    return AuditEvent(
        verb=record["verb"],
        resource=reference.get("resource", ""),
        subresource=reference.get("subresource", ""),
        name=reference.get("name", ""),
        namespace=reference.get("namespace", ""),
        code=record.get("responseStatus", {}).get("code", 0),
        user=record.get("user", {}).get("username", ""),
        user_agent=record.get("userAgent", ""),
        uri=uri,
        dry_run="dryRun=All" in uri,
    )
