# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holding the operator back while the policy changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._rollout_policy import can_hold, follows, is_held, not_following, not_replaced, put_back_patch
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import AGENT_DAEMON_SETS, Owner
from tests.unit.plugins.module_utils.rollout_model import policy


@pytest.mark.parametrize(("kind", "can"), [("helm", True), ("olm", True), ("argocd", False), ("flux", False)])
def test_tools_that_heal_by_themselves_forbid_it(kind: str, can: bool) -> None:
    """Helm writes when somebody upgrades, Argo CD within minutes."""
    assert can_hold(replace(policy("a"), owners=(Owner(kind, "gpu"),))) is can


def test_on_delete_is_held_already() -> None:
    """The user's own choice needs no hold."""
    assert is_held(replace(policy("a"), update_strategy="OnDelete")) and not is_held(policy("a"))


def test_an_unset_strategy_is_unset_again() -> None:
    """A null in a merge patch removes the field."""
    assert put_back_patch("") == {"spec": {"daemonsets": {"updateStrategy": None}}}
    assert put_back_patch("RollingUpdate")["spec"]["daemonsets"]["updateStrategy"] == "RollingUpdate"


def daemon_set(name: str = "gpu-feature-discovery", *, config: str = "map", default: str | None = "two", seen: int = 3, updated: int = 2) -> dict[str, Any]:
    """A DaemonSet as the operator writes it."""
    manager = {"name": "config-manager", "env": [] if default is None else [{"name": "DEFAULT_CONFIG", "value": default}]}
    spec: dict[str, Any] = {"containers": [{"name": "main"}]}
    if config:
        spec = {"containers": [{"name": "main"}, manager], "volumes": [{"name": config, "configMap": {"name": config}}]}
    status = {"observedGeneration": seen, "desiredNumberScheduled": 2, "updatedNumberScheduled": updated}
    return {"metadata": {"name": name, "generation": 3}, "spec": {"template": {"spec": spec}}, "status": status}


@pytest.mark.parametrize(
    ("found", "wanted", "agrees"),
    [
        ({}, ("map", "two"), True),
        ({"default": "four"}, ("map", "two"), False),
        ({"config": "other"}, ("map", "two"), False),
        ({"seen": 2}, ("map", "two"), False),
        ({"config": ""}, ("", ""), True),
        ({"config": ""}, ("map", "two"), False),
        ({}, ("", ""), False),
        ({"default": None}, ("map", ""), True),
        ({"default": ""}, ("map", ""), True),
    ],
)
def test_when_a_daemon_set_follows_the_policy(found: dict[str, Any], wanted: tuple[str, str], agrees: bool) -> None:
    """Name and default are in the template, and its controller has seen it."""
    assert follows(daemon_set(**found), *wanted) is agrees


def test_every_agent_must_follow() -> None:
    """A DaemonSet that is not there yet does not follow either."""
    names = list(AGENT_DAEMON_SETS.values())
    assert not_following([daemon_set(name) for name in names], "map", "two") == ()
    assert not_following([daemon_set(names[0]), daemon_set(names[1], default="x")], "map", "two") == (names[1], names[2])
    assert not_replaced([daemon_set(names[0], updated=1), daemon_set(names[1]), daemon_set("another", updated=0)]) == (names[0],)
