# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: hold the rollout's Lease, and keep the rollout's record on it."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable
from datetime import datetime

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._findings import CATALOGUE
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_record import LEASE_NAME, Record, hold_of, lease_body, read_record

# What is left of a run whose ansible-playbook was killed ends with its slice (action mps_rollout, SLICE_SECONDS) and renews until then.
ORPHAN_SECONDS = 20.0

Object = dict[str, t.Any]


def lease_path(namespace: str, name: str = LEASE_NAME) -> str:
    """The API path of the Lease; with an empty name that of all Leases."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    return f"{path}/{name}" if name else path


def server_clock(cluster: Cluster) -> Callable[[], float]:
    """A clock in seconds since the epoch that goes by the API server's, so that two controllers agree on what has expired."""
    try:
        offset = datetime.fromisoformat(cluster.server_time or "").timestamp() - time.time()
    except ValueError:
        offset = 0.0
    # The header counts whole seconds; a smaller difference is none.
    offset = offset if abs(offset) > 2.0 else 0.0
    return lambda: time.time() + offset


class RolloutLease:
    """The Lease of one cluster's rollout. C(holder) names this run in all its slices; C(seconds) is how long it holds unrenewed."""

    def __init__(self, cluster: Cluster, namespace: str, holder: str, seconds: int, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._holder = holder
        self._seconds = seconds
        self._clock = clock
        self._renewed = 0.0
        self._version = ""
        self.record: Record | None = None

    def acquire(self, *, takeover: bool = False) -> Record | None:
        """Take the Lease and return the record on it.

        A Lease that somebody else holds is waited for until it expires: its holder may have been killed. Raises
        ClusterError when the holder still renews it after ORPHAN_SECONDS, and when somebody else is faster again and again.
        C(takeover) takes the Lease whoever holds it.
        """
        seen: str | None = None
        patience = self._clock() + ORPHAN_SECONDS
        limit = patience + 2 * self._seconds + 5
        while True:
            lease = self._cluster.get(lease_path(self._namespace))
            hold, renewed = hold_of(lease), str(((lease or {}).get("spec") or {}).get("renewTime"))
            free = takeover or hold.free_for(self._holder, self._clock())
            if free:
                self.record = read_record(lease)
                if self._take(lease):
                    return self.record
            lives = not free and seen is not None and renewed != seen and self._clock() > patience
            if lives or self._clock() > limit:
                raise self._outrun() if free else self._held(hold.holder)
            seen = renewed
            time.sleep(1.0 if free else min(1.0, max(0.1, hold.expires - self._clock())))

    def save(self, record: Record) -> None:
        """Write the record, and renew the Lease with it. Raises ClusterError when the Lease was lost."""
        self.record = record
        self._patch(self._holder)

    def renew(self) -> None:
        """Renew the Lease when a third of its time has passed."""
        if self._clock() - self._renewed > self._seconds / 3:
            self._patch(self._holder)

    def release(self) -> None:
        """Let go of the Lease; the record stays on it."""
        self._patch("")

    def _take(self, lease: Object | None) -> bool:
        """Write ourselves into the Lease; False when somebody was faster."""
        body = lease_body(self._namespace, self._holder, self._seconds, self._clock(), None)
        try:
            if lease is None:
                stored = self._cluster.create(lease_path(self._namespace, ""), body)
            else:
                version = lease["metadata"]["resourceVersion"]
                stored = self._cluster.merge_patch(lease_path(self._namespace), {"spec": body["spec"]}, resource_version=version)
        except ClusterError as error:
            if error.status == 409:
                return False
            raise
        self._stored(stored)
        return True

    def _patch(self, holder: str) -> None:
        body = lease_body(self._namespace, holder, self._seconds, self._clock(), self.record)
        patch = {"metadata": {"annotations": body["metadata"]["annotations"]}, "spec": body["spec"]}
        try:
            self._stored(self._cluster.merge_patch(lease_path(self._namespace), patch, resource_version=self._version))
        except ClusterError as error:
            if error.status not in (404, 409):
                raise
            lease = self._cluster.get(lease_path(self._namespace))
            other = hold_of(lease).holder
            if lease is None or other != self._holder:
                raise self._lost(other) from error
            self._stored(self._cluster.merge_patch(lease_path(self._namespace), patch, resource_version=lease["metadata"]["resourceVersion"]))

    def _stored(self, lease: Object) -> None:
        self._version = lease["metadata"]["resourceVersion"]
        self._renewed = self._clock()

    def _held(self, holder: str) -> ClusterError:
        return self._error("rollout-lease-held", f"another rollout is under way in this cluster: {holder} holds the Lease {self._namespace}/{LEASE_NAME}")

    def _outrun(self) -> ClusterError:
        return self._error("rollout-lease-held", f"the Lease {self._namespace}/{LEASE_NAME} cannot be taken: somebody else changes it each time before us")

    def _lost(self, holder: str) -> ClusterError:
        by = f"{holder} has taken it" if holder else "it was deleted or released"
        return self._error("rollout-lease-lost", f"the Lease {self._namespace}/{LEASE_NAME} was lost during the rollout: {by}")

    def _error(self, code: str, message: str) -> ClusterError:
        return ClusterError(message, code=code, remedy=CATALOGUE[code].remedy, subject=f"lease/{self._namespace}/{LEASE_NAME}")
