# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped roles are enough for what they are meant for, and the reader's allows nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.operator_variables import LAB_DECLARATION
from tests.integration.rights import forbidden, rights, signed_in, used
from tests.integration.test_rights_rules import Account, is_missed
from tests.testbed.bed import TestBed

# What the runs below have no occasion for: waiting for what has settled, draining, conflicts, a Deployment as proof, an operator of a later version.
OTHER_OCCASIONS = {
    *(("gpuclusters", "list"), ("clusterpolicies", "get"), ("pods/eviction", "create"), ("namespaces", "get"), ("pods/log", "get")),
    *(("deployments", "get"), ("deployments", "create"), ("deployments", "delete"), ("nodes", "get"), ("configmaps", "delete"), ("leases", "delete")),
    # The API server looks this one up beside the get that it logs; and a map that is there is changed by an update only.
    *(("pods/exec", "create"), ("configmaps", "patch")),
}


@pytest.mark.slow
def test_the_operation_role_operates_and_the_readers_role_reads(bed_factory: Callable[..., TestBed], run_ansible: Callable[..., Any], tmp_path: Path) -> None:
    bed = bed_factory("rights", instant=True)
    bed.install_operator_objects()
    bed.wait_until_settled()

    since = bed.mark()
    operator = signed_in(bed, "operator")
    configured = run_ansible("gpuops.mps.configure", bed, variables=LAB_DECLARATION)
    assert configured.status == 0, configured.failure()
    verified = run_ansible("gpuops.mps.verify", bed, variables=LAB_DECLARATION)
    assert verified.status == 0, verified.failure()
    assert not forbidden(bed, since, "operator")

    for playbook in ("gpuops.mps.plan", "gpuops.mps.drift"):
        read = run_ansible(playbook, bed, variables=LAB_DECLARATION)
        assert read.status == 0, read.failure()
    assert not forbidden(bed, since, "reader")
    refused = run_ansible("gpuops.mps.configure", bed, variables={**LAB_DECLARATION, "mps_default": "none"}, account="reader")
    assert refused.status != 0
    assert "forbidden" in refused.failure()
    writes = [event for event in bed.audit(since) if event.user == "reader" and event.mutating and event.code < 300]
    assert not writes

    asked_for = used(bed, since, "operator") | used(bed, since, "reader") | OTHER_OCCASIONS
    idle = [str(right) for file in ("reader", "operator") for right in rights(file) if (right.resource, right.verb) not in asked_for]
    assert not idle, "rights that nothing used"
    for right in rights("reader"):
        if (right.resource, right.verb) in (("nodes", "list"), ("jobs", "list")):
            is_missed(Account(bed, operator, tmp_path), right)
