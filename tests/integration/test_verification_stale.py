# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A config that was edited while its agents kept running: on a bed of its own, because it asks when containers started."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.integration.verifications import CONFIGS, MPS_NODES, configure, label, until, verdicts, write_map
from tests.testbed.bed import TestBed

NODE = "gpu-mig-1"


def test_an_edit_without_restarts_is_stale_and_the_first_agent_is_named(bed_factory: Callable[..., TestBed]) -> None:
    bed = bed_factory("stale")
    bed.install_operator_objects()
    bed.wait_until_settled()
    configure(bed, {**dict.fromkeys(MPS_NODES, "mps-four"), NODE: None})
    label(bed, NODE, "edited")
    until(bed, lambda result: verdicts(result)[NODE][0] == "verified", patience=30)
    time.sleep(1.1)  # the API's times are whole seconds: an edit in the second of the label's change is no edit after it
    write_map(bed, {**CONFIGS, "edited": CONFIGS["sliced"]})
    wanted = ("stale", "feature-discovery-pod", "agent-stale")
    result = until(bed, lambda found: verdicts(found)[NODE] == wanted, 45)
    assert verdicts(result)[NODE] == wanted
