# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles of docs/rbac are enough to install the operator, to operate it, and to take everything away again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.ansible_runs import AnsibleRun
from tests.integration.operator_variables import operator_variables
from tests.integration.rights import forbidden
from tests.reliability.operations import LEASE, POLICY_PATH
from tests.reliability.quiet import NODES
from tests.testbed.bed import TestBed

DECLARED = {"mps_configs": {"none": {}, "mps-two": {"replicas": 2}}, "mps_default": "mps-two", "mps_batch_size": "100%"}


@pytest.mark.reliability
def test_install_operate_and_remove(bed_factory: Callable[..., TestBed], run_ansible: Callable[..., AnsibleRun]) -> None:
    bed = bed_factory("installer", nodes=str(NODES), instant=True)
    variables: dict[str, Any] = {**operator_variables(bed), **DECLARED}

    since = bed.mark()
    installed = run_ansible("gpuops.mps.site", bed, variables=variables)
    assert installed.status == 0, installed.failure()
    again = run_ansible("gpuops.mps.site", bed, variables=variables)
    assert (again.status, again.changed) == (0, 0), again.output
    assert not forbidden(bed, since, "installer")

    changed = run_ansible("gpuops.mps.configure", bed, variables={**DECLARED, "mps_default": "none"})
    assert changed.status == 0, changed.failure()
    # The nodes are brought back and everything written is removed; the release is Helm's, and its Secrets are not the operator's.
    stopped = run_ansible("gpuops.mps.remove", bed, variables=variables, account="operator")
    assert stopped.status != 0 and "secrets is forbidden" in stopped.failure(), stopped.failure()
    assert not bed.api.get(POLICY_PATH)["spec"]["devicePlugin"].get("config", {}).get("name")
    assert bed.api.find(LEASE) is None

    everything = {**variables, "mps_remove_operator": True, "gpu_operator_remove_crds": True}
    since = bed.mark()
    removed = run_ansible("gpuops.mps.remove", bed, variables=everything)
    assert removed.status == 0, removed.failure()
    assert not forbidden(bed, since, "installer")
