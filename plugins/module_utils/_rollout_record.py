# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the Lease that keeps two rollouts apart, and the record of the rollout that lies on it."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from ansible_collections.gpuops.mps.plugins.module_utils._annotations import annotated
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import BACK, FORWARD, ROLLOUT_ANNOTATION

LEASE_NAME = "gpuops-mps-rollout"

SCOPE_NODE = "node"  # each node goes back by its own label; verified nodes stay
SCOPE_WHOLE = "whole"  # the map and the policy go back, and with them every node

Object = Mapping[str, t.Any]


@dataclass(frozen=True)
class Record:
    """What must be known about a rollout beyond its nodes, to continue it or to take it back.

    The policy's former values are "" where they were unset. C(former_hashes) has every key of the map that the rollout
    changes, with the hash of its former text, None for a key that it adds; the texts themselves are kept on the map.
    C(former_update_strategy) is None as long as the policy's update strategy was left alone, else what stood there (""
    for nothing) and has to be put back. C(batch) are the nodes that are being changed together, on the way back those of
    the batch that failed. C(ended) is the outcome, None while the rollout is under way. C(scope) and C(reasons), why a
    node failed, are meaningful on the way back only.
    """

    id: str
    started: str
    config_map: str
    policy: str
    former_config_name: str
    former_config_default: str
    direction: str = FORWARD
    scope: str = SCOPE_NODE
    batch: tuple[str, ...] = ()
    former_hashes: Mapping[str, str | None] = field(default_factory=dict)
    pause_until: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)
    former_update_strategy: str | None = None
    ended: str | None = None

    @property
    def under_way(self) -> bool:
        """Whether the rollout has not ended yet."""
        return self.ended is None


def write_record(record: Record) -> str:
    """The annotation's text."""
    return json.dumps(asdict(record), sort_keys=True, separators=(",", ":"))


def read_record(lease: Object | None) -> Record | None:
    """The record on the Lease, or None where there is none or it cannot be understood."""
    annotations = ((lease or {}).get("metadata") or {}).get("annotations") or {}
    data = annotated(annotations, ROLLOUT_ANNOTATION, dict)
    if not isinstance(data.get("id"), str):
        return None
    texts = {name: str(data.get(name) or "") for name in ("id", "started", "config_map", "policy", "former_config_name", "former_config_default")}
    batch, hashes, reasons = data.get("batch"), data.get("former_hashes"), data.get("reasons")
    former_strategy, ended = data.get("former_update_strategy"), data.get("ended")
    return Record(
        **texts,
        direction=BACK if data.get("direction") == BACK else FORWARD,
        scope=SCOPE_WHOLE if data.get("scope") == SCOPE_WHOLE else SCOPE_NODE,
        batch=tuple(str(name) for name in batch) if isinstance(batch, list) else (),
        former_hashes={str(key): value if isinstance(value, str) else None for key, value in (hashes if isinstance(hashes, dict) else {}).items()},
        reasons={str(key): str(value) for key, value in (reasons if isinstance(reasons, dict) else {}).items()},
        pause_until=str(data.get("pause_until") or ""),
        former_update_strategy=former_strategy if isinstance(former_strategy, str) else None,
        ended=ended if isinstance(ended, str) else None,
    )


@dataclass(frozen=True)
class Hold:
    """Who holds the Lease: nobody with an empty C(holder). C(expires) is seconds since the epoch."""

    holder: str
    expires: float

    def free_for(self, holder: str, now: float) -> bool:
        """Whether C(holder) may take the Lease: it is nobody's, his own, or its holder has stopped renewing it."""
        return self.holder in ("", holder) or now >= self.expires


def hold_of(lease: Object | None) -> Hold:
    """Who holds a Lease. One without a time of renewal or a duration counts as expired (client-go, leaderelection)."""
    spec = (lease or {}).get("spec") or {}
    renewed = _micro_time(str(spec.get("renewTime") or ""))
    return Hold(str(spec.get("holderIdentity") or ""), renewed + float(spec.get("leaseDurationSeconds") or 0))


def lease_body(namespace: str, holder: str, seconds: int, now: float, record: Record | None) -> dict[str, t.Any]:
    """The Lease with this holder, or the patch that makes it so. An empty C(holder) lets go of it."""
    annotations = {} if record is None else {ROLLOUT_ANNOTATION: write_record(record)}
    time = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE_NAME, "namespace": namespace, "annotations": annotations},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": time},
    }


def _micro_time(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
