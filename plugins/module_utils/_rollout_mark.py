# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what a rollout writes on a node, so that another run can go on from it.

Nothing about a rollout lives in a local file: a run that is killed anywhere is continued by the next one from these
annotations, from the ConfigMap's and from the Lease's alone.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from ansible_collections.gpuops.mps.plugins.module_utils._annotations import annotated

APPLIED_ANNOTATION = "gpuops.mps/applied"
ROLLOUT_ANNOTATION = "gpuops.mps/rollout"

FORWARD = "forward"
BACK = "back"

EMPTYING = "emptying"  # GPU pods are on their way out, nothing else is touched yet
CHANGING = "changing"  # label written, agents are being restarted one after the other
FAILED = "failed"  # given up; the reason stays on the node until a later rollout succeeds there


@dataclass(frozen=True)
class Former:
    """What a node was before the rollout touched it: the place to return to.

    C(content) is the hash of the text that its agents run, None without a config. C(features) and C(allocatable) are
    facts seen on the node then, so that the way back can be checked even where the former text cannot be predicted.
    """

    label: str | None
    config: str | None
    source: str
    content: str | None
    daemon: bool
    features: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Mark:
    """The annotation of a node that a rollout is working on.

    C(replaced) maps each agent that needs a restart to the uid of its pod at the start ("" where it had none): the pod
    is restarted once no pod with that uid is left, which any later run can see. C(deadline) is RFC 3339 text.
    C(cordoned) tells that the rollout made the node unschedulable, so that only own cordons are undone. C(touched) tells
    that the label was written: until then there is nothing to take back.
    """

    rollout: str
    direction: str
    state: str
    label: str | None
    config: str | None
    content: str | None
    former: Former
    replaced: Mapping[str, str] = field(default_factory=dict)
    deadline: str = ""
    cordoned: bool = False
    touched: bool = False
    reason: str = ""


@dataclass(frozen=True)
class Applied:
    """The annotation of a node that was verified: what its agents run, by the uids of their pods, and the label it had.

    C(former) is where a rollback of the last rollout leads; C(returned) tells that the node was taken back
    already, and C(reason) why.
    """

    config: str | None
    content: str | None
    pods: Mapping[str, str | None]
    rollout: str
    at: str
    former: Former | None = None
    returned: bool = False
    reason: str = ""
    label: str | None = None


def write_annotation(value: Mark | Applied) -> str:
    """The annotation's text: compact JSON with sorted keys, so that equal values are equal bytes."""
    return json.dumps(asdict(value), sort_keys=True, separators=(",", ":"))


def read_mark(annotations: Mapping[str, str]) -> Mark | None:
    """The mark on a node, or None where there is none or it cannot be understood (somebody else wrote it)."""
    data = annotated(annotations, ROLLOUT_ANNOTATION, dict)
    former = _former(data.get("former")) if data else None
    if not data or former is None:
        return None
    return Mark(
        rollout=str(data.get("rollout", "")),
        direction=BACK if data.get("direction") == BACK else FORWARD,
        state=str(data.get("state", CHANGING)),
        label=_text(data.get("label")),
        config=_text(data.get("config")),
        content=_text(data.get("content")),
        former=former,
        replaced={str(key): str(uid) for key, uid in _mapping(data.get("replaced")).items()},
        deadline=str(data.get("deadline", "")),
        cordoned=data.get("cordoned") is True,
        touched=data.get("touched") is True,
        reason=str(data.get("reason", "")),
    )


def read_applied(annotations: Mapping[str, str]) -> Applied | None:
    """What the annotation says was verified on a node, or None."""
    data = annotated(annotations, APPLIED_ANNOTATION, dict)
    if not data:
        return None
    return Applied(
        config=_text(data.get("config")),
        content=_text(data.get("content")),
        pods={str(key): _text(uid) for key, uid in _mapping(data.get("pods")).items()},
        rollout=str(data.get("rollout", "")),
        at=str(data.get("at", "")),
        former=_former(data.get("former")),
        returned=data.get("returned") is True,
        reason=str(data.get("reason", "")),
        label=_text(data.get("label")),
    )


def _former(data: object) -> Former | None:
    if not isinstance(data, dict):
        return None
    return Former(
        label=_text(data.get("label")),
        config=_text(data.get("config")),
        source=str(data.get("source", "none")),
        content=_text(data.get("content")),
        daemon=data.get("daemon") is True,
        features={str(key): str(value) for key, value in _mapping(data.get("features")).items()},
        allocatable={str(key): value for key, value in _mapping(data.get("allocatable")).items() if isinstance(value, int)},
    )


def _mapping(value: object) -> dict[t.Any, t.Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
