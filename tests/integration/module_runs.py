# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one module against a test bed: in a process of its own, as Ansible starts it, but without Ansible's second of start-up.

Modules whose work is done by an action on the controller run through Ansible. Through Ansible runs every module in the
tests of roles, playbooks, guides and credentials.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.integration import ansible_runs
from tests.integration.ansible_runs import ACCOUNT_OF
from tests.integration.rights import signed_in
from tests.reliability.direct import call
from tests.testbed.bed import TestBed

# Their actions do nothing but find the kubeconfig.
STANDING_ALONE = {"mps_config", "mps_policy", "mps_nodes", "mps_proof", "mps_info", "mps_plan_info", "mps_operator_info", "mps_verify_info"}


def run_module(
    bed: TestBed | None, module: str, arguments: Mapping[str, Any] | None = None, *, check: bool = False, diff: bool = False, account: str = "", directory: Path
) -> dict[str, Any]:
    """Run a module and return its result; a failed module's result has `failed: true`."""
    if bed is None or module not in STANDING_ALONE:
        return ansible_runs.run_module(bed, module, arguments, check=check, diff=diff, account=account, directory=directory)
    kubeconfig = signed_in(bed, account or ACCOUNT_OF.get(f"gpuops.mps.{module}", "operator"))
    result = call(module, arguments or {}, kubeconfig=kubeconfig, directory=directory, check=check, diff=diff)
    assert "Traceback" not in result["stderr"], result["stderr"]
    return {**result, "warnings": [_text(one) for one in result.get("warnings") or ()]}


def _text(warning: Any) -> str:
    """A warning's words: ansible-core 2.19 and later hand them to the controller with where they come from."""
    return warning if isinstance(warning, str) else str(warning["event"]["msg"])
