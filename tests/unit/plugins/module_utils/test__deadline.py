# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import threading

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._deadline import within


def test_what_ends_in_time_is_what_it_is() -> None:
    assert within(60, lambda: 7) == 7
    assert within(60, lambda: None) is None
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 // 0)


def test_what_does_not_end_is_given_up() -> None:
    never = threading.Event()
    try:
        with pytest.raises(TimeoutError, match="nothing within 0.01 seconds"):
            within(0.01, never.wait)
    finally:
        never.set()
