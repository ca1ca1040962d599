# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The properties of hostile input, two thousand cases of them; `make fuzz` tries a hundred thousand."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fuzz.properties import PROPERTIES

# A developer waits seconds, as with every other property test.
CASES = 2_000 if os.environ.get("HYPOTHESIS_PROFILE") == "ci" else 300


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_property_holds(name: str) -> None:
    check, inputs, share = PROPERTIES[name]

    @settings(max_examples=CASES * share // 100, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(inputs)
    def holds(value: object) -> None:
        check(value)

    holds()


def test_the_shares_are_a_hundred() -> None:
    assert sum(share for _check, _inputs, share in PROPERTIES.values()) == 100
