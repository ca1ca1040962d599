# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the state machine of one rollout: batches of nodes, one after the other, forward or back.

C(step) is all there is: state and what is seen now give the next state and the actions to carry out. It is called again
and again by the loop at the edge. Every node in a batch has a deadline from the moment it is begun, so that every
rollout ends in one of the OUTCOMES.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import BACK, CHANGING, FAILED, FORWARD
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_node import (
    Action,
    Begin,
    Release,
    Seen,
    Step,
    Work,
    begun,
    give_up,
    next_step,
    room_is_being_made,
)

# How one node ends.
VERIFIED = "verified"
RETURNED = "returned"
GONE = "gone"  # deleted from the cluster meanwhile
# How the whole ends. A forward rollout that is STOPPED is followed by the way back, which is RETURNED or FAILED.
STOPPED = "stopped"
OUTCOMES = (VERIFIED, STOPPED, RETURNED, FAILED)

WAITING = "waiting"  # its batch has not come yet
WORKING = "working"
BROKEN = "broken"  # did not get there in time; to be taken back
NODE_ENDS = frozenset({VERIFIED, RETURNED, FAILED, GONE})
# How often the last write on a node is tried after its deadline has passed.
GIVE_UP_TRIES = 5


@dataclass(frozen=True)
class Rules:
    """The limits of a rollout. Times are seconds; C(max_failures) is the number of broken nodes that do not stop it."""

    max_failures: int = 0
    pause: float = 0.0
    node_timeout: float = 600.0
    room_timeout: float = 600.0


@dataclass(frozen=True)
class NodeRun:
    """One node in the rollout. C(way_back) is the work that takes it back alone, where that is possible.

    C(deadline) is seconds since the epoch, 0 before the node is begun; C(since) is when its C(link) became the first one
    that does not hold. C(broken) is why the way forward failed, kept while the node goes back.
    """

    work: Work
    way_back: Work | None = None
    phase: str = WAITING
    link: str = ""
    reason: str = ""
    since: float = 0.0
    deadline: float = 0.0
    broken: str = ""
    broken_link: str = ""
    began: bool = False
    tries: int = 0

    @property
    def ended(self) -> bool:
        """Whether nothing more happens with this node."""
        return self.phase in NODE_ENDS


@dataclass(frozen=True)
class RolloutState:
    """The rollout in memory.

    C(resumed_until) is the deadline for nodes that an earlier run has left half done.

    C(broken_before) counts the nodes that earlier runs of the same rollout have taken back.
    """

    batches: tuple[tuple[str, ...], ...]
    runs: Mapping[str, NodeRun]
    rules: Rules = field(default_factory=Rules)
    direction: str = FORWARD
    current: int = 0
    pause_until: float = 0.0
    resumed_until: float = 0.0
    broken_before: int = 0
    outcome: str | None = None

    @property
    def batch(self) -> tuple[str, ...]:
        """The nodes that are being changed now."""
        return self.batches[self.current] if self.current < len(self.batches) else ()

    @property
    def broken(self) -> tuple[str, ...]:
        """The nodes whose way forward has failed."""
        return tuple(name for name, run in self.runs.items() if run.broken)


def rfc3339(seconds: float) -> str:
    """Seconds since the epoch as RFC 3339 text in UTC."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> float:
    """RFC 3339 text in UTC as seconds since the epoch, 0 for anything else."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0


def step(state: RolloutState, world: Mapping[str, Seen], now: float) -> tuple[RolloutState, tuple[Action, ...]]:
    """The next state and what to do now. C(world) has the nodes that exist; C(now) is seconds since the epoch."""
    if state.outcome is not None or now < state.pause_until:
        return state, ()
    if not state.batch:
        return replace(state, outcome=_outcome(state)), ()
    runs = dict(state.runs)
    actions: list[Action] = []
    for name in state.batch:
        runs[name], action = _step_node(state, runs[name], world.get(name), now)
        actions.extend([action] if action else [])
    state = _take_back_alone(replace(state, runs=runs))
    if state.outcome is not None:
        return state, ()
    return _next_batch(state, now), tuple(actions)


def _step_node(state: RolloutState, run: NodeRun, seen: Seen | None, now: float) -> tuple[NodeRun, Action | None]:
    """One node's next phase and action."""
    if run.ended or run.phase == BROKEN:
        return run, None
    if seen is None:
        return replace(run, phase=GONE, reason="the node was deleted from the cluster"), None
    run = _started(state, run, seen, now)
    if run.work.direction == BACK and _untouched(run, seen):
        return _release(run, seen)
    found = next_step(run.work, seen, room_until=rfc3339(run.deadline), change_until=rfc3339(now + state.rules.node_timeout))
    if found is None:
        return replace(run, phase=RETURNED if run.work.direction == BACK else VERIFIED, link="", reason=""), None
    if found.hopeless or (now >= run.deadline and not found.unseen):
        return _failed(run, seen, found)
    return _noticed(state, run, found, now), found.action


def _started(state: RolloutState, run: NodeRun, seen: Seen, now: float) -> NodeRun:
    """The run with its deadline. A node that has begun keeps the deadline on its mark, or gets the resuming run's."""
    if run.phase == WORKING:
        return run
    if seen.mark is not None and (begun(run.work, seen.mark) or room_is_being_made(run.work, seen.mark)):
        deadline = max(seconds_of(seen.mark.deadline), state.resumed_until)
        return replace(run, phase=WORKING, since=now, deadline=deadline, began=seen.mark.state == CHANGING)
    makes_room = run.work.breaks and run.work.disruption in ("wait", "drain")
    return replace(run, phase=WORKING, since=now, deadline=now + (state.rules.room_timeout if makes_room else state.rules.node_timeout))


def _noticed(state: RolloutState, run: NodeRun, found: Step, now: float) -> NodeRun:
    """The run with the link it waits at. The time to change a node starts when it is begun, however often that is tried."""
    if isinstance(found.action, Begin) and not run.began:
        run = replace(run, began=True, deadline=now + state.rules.node_timeout)
    since = run.since if found.link == run.link else now
    return replace(run, link=found.link, reason=found.reason, since=since)


def _failed(run: NodeRun, seen: Seen, found: Step) -> tuple[NodeRun, Action | None]:
    """The node did not get there: broken on the way forward, failed for good once its mark says so on the way back."""
    reason = found.reason if found.hopeless else f"{found.reason} (deadline passed)"
    if run.work.direction == FORWARD:
        return replace(run, phase=BROKEN, link=found.link, reason=reason, broken=reason, broken_link=found.link), None
    if run.tries and (seen.mark is None or seen.mark.state == FAILED or run.tries >= GIVE_UP_TRIES):
        return replace(run, phase=FAILED), None
    action = give_up(seen, reason)
    phase = WORKING if action else FAILED
    return replace(run, phase=phase, link=found.link, reason=reason, tries=run.tries + 1), action


def _untouched(run: NodeRun, seen: Seen) -> bool:
    """Whether a node on its way back has nothing to be taken back but the notice that it is being emptied."""
    if seen.mark is None:
        return bool(run.broken) or run.tries > 0
    return not seen.mark.touched


def _release(run: NodeRun, seen: Seen) -> tuple[NodeRun, Action | None]:
    """Take the notice away; without one the node is where it was."""
    if seen.mark is None or run.tries >= GIVE_UP_TRIES:
        return replace(run, phase=RETURNED), None
    return replace(run, tries=run.tries + 1), Release(seen.name, uncordon=seen.mark.cordoned)


def _take_back_alone(state: RolloutState) -> RolloutState:
    """Broken nodes go back by themselves while there are few enough of them; one too many stops the rollout.

    A node that could not be taken back stops it as well: there is no place that it could be left at.
    """
    if state.direction == BACK:
        return state
    broken = [name for name in state.batch if state.runs[name].phase == BROKEN]
    lost = any(run.phase == FAILED for run in state.runs.values())
    ways_back = {name: way for name in broken if (way := state.runs[name].way_back) is not None}
    stranded = len(ways_back) < len(broken)
    if lost or stranded or len(state.broken) + state.broken_before > state.rules.max_failures:
        return replace(state, outcome=STOPPED)
    runs = dict(state.runs)
    for name, way_back in ways_back.items():
        run = runs[name]
        runs[name] = replace(run, work=replace(way_back, reason=run.broken), phase=WAITING, began=False, deadline=0.0)
    return replace(state, runs=runs)


def _next_batch(state: RolloutState, now: float) -> RolloutState:
    """The state with the next batch once every node of this one has ended."""
    if not all(state.runs[name].ended for name in state.batch):
        return state
    last = state.current + 1 >= len(state.batches)
    return replace(state, current=state.current + 1, pause_until=0.0 if last else now + state.rules.pause)


def _outcome(state: RolloutState) -> str:
    """How a rollout ended whose batches are all through."""
    if state.direction == FORWARD:
        return VERIFIED
    return FAILED if any(run.phase == FAILED for run in state.runs.values()) else RETURNED
