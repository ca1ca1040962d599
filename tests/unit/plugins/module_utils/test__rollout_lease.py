# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two runs and one Lease: who waits, who takes it, and who finds that it was lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_lease import ORPHAN_SECONDS, RolloutLease, lease_path
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_record import Record, hold_of, lease_body, read_record
from tests.unit.memory_cluster import MemoryCluster

START = 1_790_000_000.0
SECONDS = 30
PATH = lease_path("gpu-operator")
RECORD = Record("r1", "2026-11-30T10:40:00Z", "map", "cluster-policy", "map", "")


class Stage:
    """A cluster whose Lease C(holder) holds, and a clock that only sleeping moves on. C(meanwhile) happens during each sleep."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, holder: str | None = None) -> None:
        self.now = START
        self.memory = MemoryCluster({})
        self.meanwhile: Callable[[], None] = lambda: None
        if holder is not None:
            self.memory.create(lease_path("gpu-operator", ""), lease_body("gpu-operator", holder, SECONDS, self.now, RECORD))
        monkeypatch.setattr("time.sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()

    def lease(self, holder: str) -> RolloutLease:
        """The Lease as a run of this name sees it."""
        return RolloutLease(cast(Cluster, self.memory), "gpu-operator", holder, SECONDS, lambda: self.now)

    def written_by(self, holder: str) -> None:
        """Somebody writes himself into the Lease."""
        self.memory.merge(PATH, lease_body("gpu-operator", holder, SECONDS, self.now, None))

    @property
    def stored(self) -> dict[str, Any]:
        """The Lease as it is stored."""
        return self.memory.objects[PATH]


def test_a_holder_that_renews_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """He lives longer than the rest of a killed run would: waiting on would not help, and nothing of his is touched."""
    stage = Stage(monkeypatch, "other")
    stage.meanwhile = lambda: stage.written_by("other")
    with pytest.raises(ClusterError, match="other holds the Lease gpu-operator/gpuops-mps-rollout") as caught:
        stage.lease("me").acquire()
    assert caught.value.code == "rollout-lease-held"
    assert caught.value.subject == "lease/gpu-operator/gpuops-mps-rollout"
    assert hold_of(stage.stored).holder == "other"
    assert START + ORPHAN_SECONDS < stage.now < START + ORPHAN_SECONDS + 5


def test_what_is_left_of_a_killed_run_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """ansible-playbook was killed, its module ends with the slice: it renews for a while and then no more."""
    stage = Stage(monkeypatch, "orphan")
    stage.meanwhile = lambda: stage.written_by("orphan") if stage.now < START + 15 else None
    assert stage.lease("me").acquire() == RECORD
    assert START + SECONDS < stage.now < START + 15 + SECONDS + 2
    assert hold_of(stage.stored).holder == "me"


def test_a_holder_that_has_stopped_renewing_is_waited_for_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """He may have been killed: his record says how to continue."""
    stage = Stage(monkeypatch, "killed")
    assert stage.lease("me").acquire() == RECORD
    assert START + SECONDS <= stage.now < START + SECONDS + 1
    assert hold_of(stage.stored).holder == "me"


def test_a_takeover_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user says that the holder is gone."""
    stage = Stage(monkeypatch, "other")
    assert stage.lease("me").acquire(takeover=True) == RECORD
    assert (stage.now, hold_of(stage.stored).holder) == (START, "me")


@pytest.mark.parametrize("holder", [None, "other"])
def test_a_lease_that_somebody_always_changes_first_is_given_up(monkeypatch: pytest.MonkeyPatch, holder: str | None) -> None:
    """A server, or something between, that answers every write with a conflict: a pause before each try, and an end."""
    stage, tries = Stage(monkeypatch, holder), []

    def conflict(*_arguments: Any, **_options: Any) -> Any:
        tries.append(stage.now)
        raise ClusterError("somebody else was faster", code="changed-meanwhile", remedy="Run again.", status=409)

    for write in ("create", "merge_patch"):
        monkeypatch.setattr(stage.memory, write, conflict)
    with pytest.raises(ClusterError, match="somebody else changes it each time") as caught:
        stage.lease("me").acquire(takeover=True)
    assert caught.value.code == "rollout-lease-held"
    assert stage.now < START + ORPHAN_SECONDS + 2 * SECONDS + 10
    assert len(tries) == len(set(tries)) > 2


def test_a_race_for_a_free_lease_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody labels the Lease between the look and the write: that is no reason to give up."""
    stage = Stage(monkeypatch)
    create, calls = stage.memory.create, []

    def late(*arguments: Any) -> Any:
        calls.append(stage.now)
        if len(calls) == 1:
            raise ClusterError("it exists already", code="changed-meanwhile", remedy="Run again.", status=409)
        return create(*arguments)

    monkeypatch.setattr(stage.memory, "create", late)
    assert stage.lease("me").acquire() is None
    assert len(calls) == 2 and hold_of(stage.stored).holder == "me"


def test_a_run_whose_lease_was_taken_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes nothing over what the other run has written."""
    stage = Stage(monkeypatch)
    lease = stage.lease("me")
    lease.acquire()
    stage.written_by("other")
    before = stage.stored
    with pytest.raises(ClusterError, match="lost during the rollout: other has taken it") as caught:
        lease.save(RECORD)
    assert caught.value.code == "rollout-lease-lost"
    assert stage.stored == before


def test_a_run_whose_lease_was_deleted_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new one could belong to anybody by now."""
    stage = Stage(monkeypatch)
    lease = stage.lease("me")
    lease.acquire()
    stage.memory.delete(PATH)
    stage.now += SECONDS
    with pytest.raises(ClusterError, match="it was deleted or released") as caught:
        lease.renew()
    assert caught.value.code == "rollout-lease-lost"
    assert PATH not in stage.memory.objects


def test_another_write_to_ones_own_lease_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody labels the Lease: the version is another, the holder is not."""
    stage = Stage(monkeypatch)
    lease = stage.lease("me")
    lease.acquire()
    stage.memory.merge(PATH, {"metadata": {"labels": {"team": "gpu"}}})
    lease.save(RECORD)
    assert read_record(stage.stored) == RECORD
    assert stage.stored["metadata"]["labels"] == {"team": "gpu"}


def test_a_lease_is_renewed_after_a_third_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with every step: that would be a write a second."""
    stage = Stage(monkeypatch)
    lease = stage.lease("me")
    lease.acquire()
    stage.now += SECONDS / 3
    lease.renew()
    assert stage.memory.writes == 1
    stage.now += 1
    lease.renew()
    assert hold_of(stage.stored).expires == stage.now + SECONDS


def test_a_released_lease_is_free_and_keeps_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run needs no waiting, and sees what the last one did."""
    stage = Stage(monkeypatch)
    lease = stage.lease("me")
    assert lease.acquire() is None
    lease.save(RECORD)
    lease.release()
    assert stage.lease("next").acquire() == RECORD
    assert (stage.now, hold_of(stage.stored).holder) == (START, "next")
