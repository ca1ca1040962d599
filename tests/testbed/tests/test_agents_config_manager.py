# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""config-manager's choice of a key, by version."""

from __future__ import annotations

import pytest

from tests.testbed.agents.config_manager import (
    NO_CONFIG,
    SelectionError,
    Settings,
    init_container_label,
    missing_process,
    select,
    sidecar_labels,
)

KEYS = ("base", "mps4")
OLD, NEW = (0, 18, 1), (0, 18, 2)


@pytest.mark.parametrize(
    ("label", "default", "keys", "result"),
    [
        ("mps4", "base", KEYS, "mps4"),
        ("mps4", "", KEYS, "mps4"),
        ("", "base", KEYS, "base"),
        ("", "", KEYS, NO_CONFIG),
        ("", "", ("default",), NO_CONFIG),
        ("nope", "base", KEYS, SelectionError("specified config nope does not exist")),
        ("", "nope", KEYS, SelectionError("specified config  does not exist")),
        ("mps4", "base", (), SelectionError("no configuration files available")),
    ],
)
def test_selection_under_the_operator(label: str, default: str, keys: tuple[str, ...], result: object) -> None:
    if isinstance(result, SelectionError):
        with pytest.raises(SelectionError) as caught:
            select(label, Settings(default), keys)
        assert str(caught.value) == str(result)
    else:
        assert select(label, Settings(default), keys) == result


@pytest.mark.parametrize(("keys", "result"), [(("default", "other"), "default"), (("only",), "only")])
def test_fallbacks_of_the_plugins_own_chart(keys: tuple[str, ...], result: str) -> None:
    assert select("", Settings("", ("named", "single")), keys) == result


def test_fallbacks_can_all_fail() -> None:
    with pytest.raises(SelectionError, match="all fallbacks failed"):
        select("", Settings("", ("named", "single")), KEYS)


def test_the_init_container_does_not_see_the_label_since_0_18_2() -> None:
    assert init_container_label("mps4", OLD) == "mps4"
    assert init_container_label("mps4", NEW) == ""


@pytest.mark.parametrize(("label", "version", "looks"), [("mps4", OLD, ("mps4",)), ("mps4", NEW, ("", "mps4")), ("", OLD, ("",)), ("", NEW, ("",))])
def test_the_sidecar_looks_twice_since_0_18_2(label: str, version: tuple[int, int, int], looks: tuple[str, ...]) -> None:
    assert sidecar_labels(label, version) == looks


@pytest.mark.parametrize(
    ("version", "host_pid", "code"),
    [((0, 16, 2), True, 1), ((0, 17, 4), True, 2), ((0, 17, 4), False, 1), ((0, 19, 3), True, 2), ((0, 20, 0), True, 1)],
)
def test_the_unfindable_mps_process_panics_or_errors(version: tuple[int, int, int], host_pid: bool, code: int) -> None:
    assert missing_process(version, host_pid).exit_code == code
