# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which config a node gets."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._plan import Selection
from ansible_collections.gpuops.mps.plugins.module_utils._selection import NO_CONFIG, select, text_of
from tests.unit.clusters import policy


@pytest.mark.parametrize(
    ("label", "name", "default", "expected"),
    [
        ("mps-four", "mps-configs", "none", Selection("mps-four", "label")),
        ("gone", "mps-configs", "none", Selection("gone", "label")),  # no fallback to the default
        (None, "mps-configs", "none", Selection("none", "default")),
        ("", "mps-configs", "none", Selection("none", "default")),  # an empty value counts as unset
        (None, "mps-configs", "", NO_CONFIG),
        ("mps-four", "", "none", NO_CONFIG),  # without a map there is no config-manager
    ],
)
def test_the_label_wins_then_the_default_then_nothing(label: str | None, name: str, default: str, expected: Selection) -> None:
    assert select(label, policy(config_name=name, config_default=default)) == expected
    assert select(label, None, map_name=name, default=default) == expected


def test_without_a_policy_no_node_has_a_config() -> None:
    assert select("mps-four", None) == NO_CONFIG


def test_a_selection_has_the_text_of_its_key() -> None:
    assert text_of({"a": "text"}, Selection("a", "label")) == "text"
    assert text_of({"a": "text"}, Selection("b", "label")) is None
    assert text_of({"a": "text"}, NO_CONFIG) is None
