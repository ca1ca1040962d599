# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod's status as kubelet writes it, from what its containers do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tests.testbed.agents.kubelet import Refusal
from tests.testbed.agents.objects import Json, containers, init_containers


@dataclass(frozen=True)
class Ended:
    """A terminated run of a container; times are RFC 3339."""

    exit_code: int
    reason: str
    started_at: str
    finished_at: str
    message: str = ""

    def as_json(self) -> dict[str, object]:
        fields = {
            "exitCode": self.exit_code,
            "reason": self.reason,
            "startedAt": self.started_at,
            "finishedAt": self.finished_at,
        }
        return {**fields, "message": self.message} if self.message else fields


@dataclass(frozen=True)
class Container:
    """A container's life so far: phase is waiting, running or ended."""

    name: str
    image: str
    phase: str = "waiting"
    reason: str = ""
    message: str = ""
    started_at: str = ""
    ended: Ended | None = None
    last: Ended | None = None
    restarts: int = 0

    def running(self, now: str) -> Container:
        """The container is started (again, if it ran before)."""
        again = self.ended is not None
        return replace(
            self,
            phase="running",
            reason="",
            message="",
            started_at=now,
            last=self.ended or self.last,
            ended=None,
            restarts=self.restarts + (1 if again else 0),
        )

    def finished(self, exit_code: int, now: str, message: str = "") -> Container:
        reason = "Completed" if exit_code == 0 else "Error"
        return replace(self, phase="ended", ended=Ended(exit_code, reason, self.started_at, now, message))

    def held(self, reason: str, message: str = "") -> Container:
        """The container is kept from running; its last end stays visible."""
        return replace(self, phase="waiting", reason=reason, message=message)

    def as_json(self) -> dict[str, object]:
        running = self.phase == "running"
        last = self.ended if self.phase == "waiting" and self.ended else self.last
        entry: dict[str, object] = {
            "name": self.name,
            "image": self.image,
            "imageID": f"simulated://{self.image}",
            "ready": running,
            "started": running,
            "restartCount": self.restarts,
            "state": self._state(),
            "lastState": {"terminated": last.as_json()} if last else {},
        }
        return entry

    def _state(self) -> dict[str, object]:
        if self.phase == "ended" and self.ended:
            return {"terminated": self.ended.as_json()}
        if self.phase == "running":
            return {"running": {"startedAt": self.started_at}}
        waiting = {"reason": self.reason, "message": self.message}
        return {"waiting": {key: value for key, value in waiting.items() if value}}


def initial(pod: Json) -> dict[str, Container]:
    """All containers waiting; with init containers kubelet says PodInitializing, else ContainerCreating."""
    reason = "PodInitializing" if init_containers(pod) else "ContainerCreating"
    every = (*init_containers(pod), *containers(pod))
    return {item["name"]: Container(item["name"], str(item.get("image") or ""), reason=reason) for item in every}


def pod_phase(pod: Json, states: Mapping[str, Container]) -> str:
    mains = [states[item["name"]] for item in containers(pod)]
    if all(state.phase == "waiting" and state.ended is None for state in mains):
        return "Pending"
    policy = pod["spec"].get("restartPolicy", "Always")
    codes = [state.ended.exit_code for state in mains if state.phase == "ended" and state.ended]
    if len(codes) < len(mains) or policy == "Always":
        return "Running"
    if any(codes):
        return "Failed" if policy == "Never" else "Running"
    return "Succeeded"


def pod_status(pod: Json, states: Mapping[str, Container], now: str) -> dict[str, object]:
    """The status to patch: phase, conditions and container statuses."""
    mains = [states[item["name"]] for item in containers(pod)]
    inits = [states[item["name"]] for item in init_containers(pod)]
    phase = pod_phase(pod, states)
    initialized = all(state.ended and state.ended.exit_code == 0 and state.phase == "ended" for state in inits)
    ready = initialized and all(state.phase == "running" for state in mains)
    why = {} if ready else {"reason": "PodCompleted" if phase == "Succeeded" else "ContainersNotReady", "message": _unready(mains)}
    init_why = {} if initialized else {"reason": "ContainersNotInitialized"}
    status: dict[str, object] = {
        "phase": phase,
        "hostIP": "127.0.0.1",
        "podIP": "127.0.0.1",
        "podIPs": [{"ip": "127.0.0.1"}],
        "conditions": _conditions(pod, now, [("Initialized", initialized, init_why), ("Ready", ready, why), ("ContainersReady", ready, why)]),
        "containerStatuses": [state.as_json() for state in mains],
        "startTime": pod.get("status", {}).get("startTime") or now,
    }
    if inits:
        done = {"ready": True}
        status["initContainerStatuses"] = [
            {**state.as_json(), **(done if state.phase == "ended" and state.ended and state.ended.exit_code == 0 else {})} for state in inits
        ]
    return status


def failed_status(refusal: Refusal, now: str) -> dict[str, object]:
    """The status of a pod refused at admission: it stays so until somebody deletes it."""
    message = f"Pod was rejected: {refusal.message}"
    return {"phase": "Failed", "reason": refusal.reason, "message": message, "startTime": now}


def _unready(mains: Sequence[Container]) -> str:
    names = " ".join(state.name for state in mains if state.phase != "running")
    return f"containers with unready status: [{names}]"


def _conditions(pod: Json, now: str, wanted: Sequence[tuple[str, bool, Mapping[str, str]]]) -> list[dict[str, object]]:
    """All conditions: others' (the scheduler's) kept, ours with their transition time kept where they did not change."""
    before = {item["type"]: item for item in pod.get("status", {}).get("conditions") or ()}
    ours = []
    for kind, value, why in wanted:
        word = "True" if value else "False"
        former = before.get(kind, {})
        since = former.get("lastTransitionTime") if former.get("status") == word else None
        ours.append({"type": kind, "status": word, "lastTransitionTime": since or now, **why})
    names = {item["type"] for item in ours}
    return [*(item for kind, item in before.items() if kind not in names), *ours]
