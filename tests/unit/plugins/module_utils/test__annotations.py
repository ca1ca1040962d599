# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._annotations import annotated

NAME = "gpuops.mps/former"


def test_what_was_written_is_read() -> None:
    assert annotated({NAME: '{"a": 1}'}, NAME, dict) == {"a": 1}
    assert annotated({NAME: '["a"]'}, NAME, list) == ["a"]


@pytest.mark.parametrize("text", ["", "null", "1", "text", "{", "[" * 200_000, '{"a":' * 200_000, "\x00"])
def test_what_somebody_else_wrote_is_nothing(text: str) -> None:
    assert annotated({NAME: text}, NAME, dict) == {}
    assert annotated({NAME: text}, NAME, list) == []


def test_an_absent_annotation_is_empty() -> None:
    assert annotated({}, NAME, dict) == {}
