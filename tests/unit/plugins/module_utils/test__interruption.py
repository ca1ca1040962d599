# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import signal

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._interruption import Interrupted, interruptible, uninterrupted

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_becomes_an_exception_once(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match=number.name), interruptible():
        try:
            os.kill(os.getpid(), number)
        finally:
            os.kill(os.getpid(), number)  # an impatient user: what is removed meanwhile is not disturbed
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("number", SIGNALS)
def test_clearing_up_is_not_interrupted(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with uninterrupted():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before
