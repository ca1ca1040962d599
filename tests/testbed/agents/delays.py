# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long things take on the simulated nodes, in seconds."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Delays:
    """Scaled so that one node's change settles in two to four seconds; the comments give what a real node needs."""

    init_container: float = 0.15
    container_start: float = 0.15
    sidecar_look: float = 0.2  # config-manager until it has applied a label
    discovery: float = 0.4  # GPU Feature Discovery's run and NFD's publishing: up to 60 s
    labels_removed: float = 0.5  # NFD until it notices that the features file is gone
    labels_kept: float = 30.0  # how long labels outlive a deleted discovery pod: NFD looks every 60 s
    daemon_start: float = 0.4
    plugin_start: float = 0.3
    plugin_retry: float = 1.5  # 30 s
    crash_backoff: float = 1.0  # 10 s, doubled each time
    crash_backoff_limit: float = 8.0  # 300 s
    termination: float = 0.4
    mount_retry: float = 0.5
    projection: float = 1.0  # kubelet until a changed ConfigMap is seen in the pods: about a minute
    slow_projection: float = 20.0  # the same under the fault kubelet-slow-projection
    stale_resource: float = 6.0  # 5 minutes
    vector_add: float = 0.3
    vector_add_log: float = 2.0  # a looping vectorAdd writes so often
    batch: float = 0.02  # statuses and state files are written at most so often
    events: bool = True  # kubelet's Event objects; off where thousands of pods start
    serve_healthy: bool = True  # logs and commands of operand pods from their start; else from their first failure


INSTANT = Delays(
    init_container=0.0,
    container_start=0.0,
    sidecar_look=0.0,
    discovery=0.0,
    labels_removed=0.1,
    labels_kept=30.0,
    daemon_start=0.0,
    plugin_start=0.0,
    plugin_retry=1.0,
    crash_backoff=0.3,
    crash_backoff_limit=5.0,
    termination=0.0,
    mount_retry=0.2,
    projection=0.1,
    slow_projection=5.0,
    stale_resource=2.0,
    vector_add=0.0,
    vector_add_log=5.0,
    batch=0.1,
    events=False,
    serve_healthy=False,
)


def read_delays(path: Path) -> Delays:
    """Delays from a YAML mapping of the field names; what is not named keeps its default. Raises ValueError."""
    given = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    unknown = set(given) - {field.name for field in fields(Delays)}
    if unknown:
        raise ValueError(f"{path}: unknown delays {', '.join(sorted(unknown))}")
    return Delays(**given)
