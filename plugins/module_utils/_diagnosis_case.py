# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the shapes of a diagnosis: the chain's links, one node's case, a break and its evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_limits import DaemonLimits
from ansible_collections.gpuops.mps.plugins.module_utils._expectation import Expected
from ansible_collections.gpuops.mps.plugins.module_utils._shown import visible
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import Node, Pod, Snapshot

LINK_POLICY = "policy"
LINK_MAP = "map"
LINK_KEY = "key"
LINK_SELECTION = "selection"
LINK_NODE = "node"
LINK_TOOLKIT = "toolkit-validation"
LINK_DISCOVERY = "feature-discovery-pod"
LINK_LABELS = "feature-discovery-labels"
LINK_SCHEDULED = "daemon-scheduled"
LINK_DAEMON = "daemon-ready"
LINK_LIMITS = "limits"
LINK_PLUGIN = "plugin"
LINK_RESOURCE = "resource"
# The chain from what is written to what a pod can ask for; each link needs all those before it.
LINKS = (
    LINK_POLICY,
    LINK_MAP,
    LINK_KEY,
    LINK_SELECTION,
    LINK_NODE,
    LINK_TOOLKIT,
    LINK_DISCOVERY,
    LINK_LABELS,
    LINK_SCHEDULED,
    LINK_DAEMON,
    LINK_LIMITS,
    LINK_PLUGIN,
    LINK_RESOURCE,
)

# "error checking MPS daemon health" for 30 to 90 s is normal: the plugin asks once per start and tries again after 30 s
# (k8s-device-plugin, cmd/nvidia-device-plugin/main.go). Twice the longest leaves room for a pulled image.
SETTLE_SECONDS = 180


@dataclass(frozen=True)
class LogKey:
    """Which log: of a container's run now, or with C(previous) of the run before."""

    namespace: str
    pod: str
    container: str
    previous: bool = False


@dataclass(frozen=True)
class Evidence:
    """One observed value: where it stands (C(kind/namespace/name) and field), what it is and what it should be."""

    subject: str
    field: str
    value: str
    expected: str = ""

    def __post_init__(self) -> None:
        for name in ("subject", "field", "value", "expected"):
            object.__setattr__(self, name, visible(getattr(self, name)))


@dataclass(frozen=True)
class Break:
    """A broken link. C(passing) says that it may mend by itself; C(stale) that a restart of the agent mends it."""

    link: str
    code: str
    message: str
    evidence: tuple[Evidence, ...]
    passing: bool = False
    stale: bool = False
    remedy: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", visible(self.message))


@dataclass(frozen=True)
class Case:
    """One node with everything that is known about it.

    C(logs) may be empty: the diagnosis then names the link without the last log line. C(limits) are the daemon's limits
    where somebody has read them. C(since) is the RFC 3339 time of the last change that the caller made on the node.
    """

    snapshot: Snapshot
    node: Node
    expected: Expected
    logs: Mapping[LogKey, str] = field(default_factory=dict)
    limits: DaemonLimits | None = None
    since: str | None = None
    patience: int = SETTLE_SECONDS

    @property
    def subject(self) -> str:
        """The node as the subject of evidence."""
        return f"node/{self.node.name}"

    def pod(self, component: str) -> Pod | None:
        """The agent's newest pod on the node that is not going away."""
        return next((pod for pod in reversed(self.snapshot.pods_of(self.node.name, component)) if not pod.terminating), None)

    def young(self, *times: str | None) -> bool:
        """Whether one of the times, the label's last change or the caller's lies less than the patience back.

        A changed label reaches GFD and the plugin without a restart, so their pods may be old.
        """
        now = parse_time(self.snapshot.read_at)
        known = [parsed for parsed in (parse_time(text) for text in (*times, self.since, self.node.label_changed)) if parsed]
        return now is not None and any(now - time < timedelta(seconds=self.patience) for time in known)

    def log_lines(self, pod: Pod) -> Iterator[tuple[LogKey, str]]:
        """The pod's known logs, those of the runs that failed first."""
        keys = [key for key in self.logs if (key.namespace, key.pod) == (pod.namespace, pod.name)]
        yield from ((key, self.logs[key]) for key in sorted(keys, key=lambda key: not key.previous))


def parse_time(text: str | None) -> datetime | None:
    """An RFC 3339 time, or None when there is none or it cannot be read; a time without a zone counts as UTC."""
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def pod_subject(pod: Pod) -> str:
    """The pod as the subject of evidence."""
    return f"pod/{pod.namespace}/{pod.name}"
