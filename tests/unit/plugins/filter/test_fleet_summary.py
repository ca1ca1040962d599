# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter as a template uses it: what it takes, and what it says about what it does not."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpuops.mps.plugins.filter.fleet_summary import FilterModule

summarise = FilterModule().filters()["fleet_summary"]


def test_two_clusters() -> None:
    summary = summarise({"a": {"_mps_rollout": {"state": "verified"}}, "b": {}}, ["a", "b"], ["a"])
    assert [(one["cluster"], one["state"]) for one in summary["clusters"]] == [("a", "verified"), ("b", "failed")]
    assert summary["failed"] == ["b"]


@pytest.mark.parametrize(("arguments", "word"), [(([], ["a"], ["a"]), "hostvars"), (({}, "a", ["a"]), "clusters"), (({}, ["a"], None), "finished")])
def test_anything_else_is_refused(arguments: tuple[object, ...], word: str) -> None:
    with pytest.raises(AnsibleFilterError, match=word):
        summarise(*arguments)
