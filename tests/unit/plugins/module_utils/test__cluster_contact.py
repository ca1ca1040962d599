# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
import urllib3

from ansible_collections.gpuops.mps.plugins.module_utils._cluster_contact import MOST_TRIPS, address_of, connection_error, outcome_of
from ansible_collections.gpuops.mps.plugins.module_utils._retry import may_retry


class Refusal(Exception):
    """An error of the library with the server's answer in it."""

    def __init__(self, status: int, body: bytes = b"", **headers: str) -> None:
        super().__init__(f"({status})")
        self.status, self.body, self.headers = status, body, headers


def again(error: Exception, attempt: int = 1) -> bool:
    outcome = outcome_of(error, attempt)
    return outcome is not None and may_retry(outcome, idempotent=True, guarded=False)


@pytest.mark.parametrize(
    ("error", "first", "later"),
    [
        (Refusal(503), True, True),
        (Refusal(429), True, True),
        (Refusal(403), False, False),
        (Refusal(401), True, False),
        (urllib3.exceptions.ProtocolError("aborted"), True, True),
        (AttributeError("'str' object has no attribute 'groups'"), True, False),
        (KeyError("users"), True, False),
        (TimeoutError("nothing within 60 seconds"), False, False),
        (OSError("no such file"), False, False),
    ],
)
def test_what_passes_is_tried_again(error: Exception, first: bool, later: bool) -> None:
    assert again(error) is first
    assert again(error, MOST_TRIPS + 1) is later


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"host": "https://here"}, "host https://here"),
        ({"kubeconfig": "/a/b", "context": "c"}, "kubeconfig /a/b, context c"),
        ({"kubeconfig": {"users": []}}, "kubeconfig given as a mapping"),
        ({"kubeconfig": "users:\n- token: secret\n"}, "kubeconfig given as a text where its path or a mapping belongs"),
    ],
)
def test_the_address_is_what_the_user_gave_without_what_is_secret(monkeypatch: pytest.MonkeyPatch, parameters: dict[str, Any], words: str) -> None:
    for name in ("K8S_AUTH_HOST", "K8S_AUTH_KUBECONFIG", "K8S_AUTH_CONTEXT", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    assert address_of(parameters) == words


def test_the_error_says_what_answered() -> None:
    assert connection_error(Refusal(403, b'{"message": "not you"}'), "host x").message == "GET /version (host x): not you"
    said = connection_error(AttributeError("no attribute 'groups'"), "host x")
    assert "what answered is no API server, or the kubeconfig is none" in said.message and said.code == "cluster-unreachable"
    assert connection_error(ValueError("a\n  b"), "host x").message.endswith(": a b")
