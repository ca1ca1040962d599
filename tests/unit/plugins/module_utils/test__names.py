# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that Kubernetes allows."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._names import label_key_problem, label_value_problem, name_problem, node_name_problem


@pytest.mark.parametrize("name", ["a", "A", "1", "mps-four", "a_b.c", "a..b", "a" * 63])
def test_names_of_configs(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize("name", ["", "-a", "a-", ".a", "a.", "_a", "a b", "a/b", "a\n", "\u00e9", "a" * 64])
def test_what_cannot_name_a_config(name: str) -> None:
    assert name_problem(name)


def test_a_label_value_can_be_empty() -> None:
    assert label_value_problem("") is None
    assert label_value_problem("a") is None
    assert label_value_problem("a b")


@pytest.mark.parametrize("key", ["pool", "nvidia.com/gpu.product", "a.b-c.d/e", f"{'a' * 253}/b"])
def test_label_keys(key: str) -> None:
    assert label_key_problem(key) is None


@pytest.mark.parametrize("key", ["", "/a", "a/", "A.com/a", "a/b/c", "a_b/c", f"{'a' * 254}/b", "a/" + "b" * 64])
def test_what_is_no_label_key(key: str) -> None:
    assert label_key_problem(key)


@pytest.mark.parametrize("name", ["gpu-07", "gpu-07.example.com", "7", "a" * 253])
def test_node_names(name: str) -> None:
    assert node_name_problem(name) is None


@pytest.mark.parametrize("name", ["", "GPU", "gpu_07", "-a", "a.", "a..b", "a\n", "a" * 254])
def test_what_is_no_node_name(name: str) -> None:
    assert node_name_problem(name)
