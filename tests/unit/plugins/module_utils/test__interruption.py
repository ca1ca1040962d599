# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import signal
import weakref

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._interruption import Interrupted, Interruption

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_becomes_an_exception_once(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match=number.name), Interruption() as interruption, interruption.raising():
        try:
            send(number)
        finally:
            send(number)  # an impatient user: what is removed meanwhile is not disturbed
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("number", SIGNALS)
def test_clearing_up_is_not_interrupted_but_the_signal_is_remembered(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interruption() as interruption:
        with interruption.raising():
            pass
        send(number)
    assert interruption.reason == f"stopped by {number.name}"
    assert signal.getsignal(number) == before


class _Referenced:
    """An object that a weak reference can be held of."""


def lose_a_signal() -> None:
    """Python writes what is raised in this callback to stderr, and goes on."""
    target = _Referenced()
    reference = weakref.ref(target, lambda _gone: send(signal.SIGTERM))
    del target
    assert reference() is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_whose_exception_python_dropped_ends_the_next_look_and_the_block() -> None:
    with Interruption() as interruption, pytest.raises(Interrupted), interruption.raising():
        lose_a_signal()
        interruption.check()
        pytest.fail("the look did not end it")
    with pytest.raises(Interrupted), Interruption() as interruption, interruption.raising():
        lose_a_signal()
