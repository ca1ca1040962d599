# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each role's defaults are the ones that its argument specs tell, by value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

ROLES = sorted(path.parent for path in (Path(__file__).resolve().parents[2] / "roles").glob("*/meta"))


def read(path: Path) -> Any:
    """The content of a YAML file, an empty mapping where there is none."""
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}


def with_values(defaults: dict[str, Any]) -> dict[str, Any]:
    """Without those that are made from other variables: they have no value of their own, and the specs need not tell one."""
    return {name: value for name, value in defaults.items() if "{{" not in str(value)}


def test_there_are_roles() -> None:
    assert {"gpu_operator", "mps", "mps_verification", "mps_report"} <= {role.name for role in ROLES}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_defaults_equal_the_argument_specs(role: Path) -> None:
    specs = read(role / "meta" / "argument_specs.yml")["argument_specs"]
    told = {name: option["default"] for name, option in specs["main"]["options"].items() if "default" in option}
    assert with_values(read(role / "defaults" / "main.yml") or {}) == with_values(told)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_default_is_an_option(role: Path) -> None:
    specs = read(role / "meta" / "argument_specs.yml")["argument_specs"]
    assert set(read(role / "defaults" / "main.yml") or {}) <= set(specs["main"]["options"])


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_entry_point_has_its_tasks(role: Path) -> None:
    for entry_point in read(role / "meta" / "argument_specs.yml")["argument_specs"]:
        assert (role / "tasks" / f"{entry_point}.yml").exists()


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_option_has_a_user(role: Path) -> None:
    specs = read(role / "meta" / "argument_specs.yml")["argument_specs"]
    text = "".join(path.read_text(encoding="utf-8") for folder in ("tasks", "vars", "templates") for path in (role / folder).glob("*"))
    assert [name for spec in specs.values() for name in spec["options"] if name not in text] == []
