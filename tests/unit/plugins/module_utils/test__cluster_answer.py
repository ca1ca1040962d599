# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the API server's answers become."""

from __future__ import annotations

import json

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._cluster_answer import Answer, error_of, exec_error, exit_code, rfc3339
from ansible_collections.gpuops.mps.plugins.module_utils._findings import CATALOGUE


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 413, 422, 429, 500, 503])
def test_every_failure_has_a_code_of_the_catalogue_and_a_remedy(status: int) -> None:
    error = error_of("GET", "/version", Answer(status, {}, b'{"message": "because"}'), "")
    assert error.code in CATALOGUE and error.remedy
    assert (error.message, error.status, error.subject) == ("GET /version: because", status, "/version")


def test_an_answer_that_is_no_json_is_shown_as_it_is() -> None:
    assert error_of("GET", "/x", Answer(502, {}, b"<html>Bad Gateway</html>"), "").message == "GET /x: <html>Bad Gateway</html>"
    assert error_of("GET", "/x", Answer(500, {}, b""), "").message == "GET /x: HTTP status 500"


def test_no_answer_is_told_from_a_bad_one() -> None:
    error = error_of("PATCH", "/x", None, "Connection refused")
    assert (error.code, error.status) == ("cluster-unreachable", None)
    assert "Connection refused" in error.message


def test_a_held_eviction_is_told_from_a_busy_server() -> None:
    held = {"message": "no", "details": {"causes": [{"reason": "DisruptionBudget"}]}}
    assert error_of("POST", "/x", Answer(429, {}, json.dumps(held).encode()), "").code == "disruption-budget"
    assert error_of("POST", "/x", Answer(429, {}, b"{}"), "").code == "cluster-overloaded"


def test_the_servers_clock_is_read_from_its_header() -> None:
    assert rfc3339("Mon, 30 Nov 2026 10:00:05 GMT") == "2026-11-30T10:00:05Z"
    assert rfc3339(None) is None
    assert rfc3339("today") is None


@pytest.mark.parametrize("body", [b"", b"[]", b'"text"', b"null", b"\xff", b"[" * 100_000])
def test_a_body_without_an_object_has_no_content(body: bytes) -> None:
    assert Answer(200, {}, body).content is None
    assert error_of("GET", "/", Answer(502, {}, body), "").code == "cluster-failed"


@pytest.mark.parametrize("details", ["text", [], {"causes": None}, {"causes": ["text"]}, None])
def test_strange_details_of_a_refusal_are_overlooked(details: object) -> None:
    body = json.dumps({"message": "no", "reason": None, "details": details}).encode()
    assert error_of("GET", "/", Answer(429, {}, body), "").code == "cluster-overloaded"


def test_a_command_that_failed_is_told_from_one_that_did_not_run() -> None:
    failed = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [{"reason": "ExitCode", "message": "127"}]}}
    assert (exit_code('{"status": "Success"}'), exit_code(json.dumps(failed))) == (0, 127)
    internal = {"status": "Failure", "reason": "InternalError", "message": "no container", "details": {"causes": [{"message": "no container"}]}}
    with pytest.raises(ValueError, match="no container"):
        exit_code(json.dumps(internal))
    with pytest.raises(ValueError, match="no reason"):
        exit_code("{}")
    with pytest.raises(ValueError, match="connection ended"):
        exit_code("")


def test_a_refused_command_says_which_right_is_missing() -> None:
    refused = OSError("Handshake status 403 Forbidden -+-+- {'audit-id': '6a61f543'}")
    refused.status_code, refused.resp_body = 403, b'{"message": "pods \\"x\\" is forbidden: "}'  # type: ignore[attr-defined]
    error = exec_error("/api/v1/namespaces/a/pods/x/exec", refused)
    assert "audit-id" not in error.message and 'pods "x" is forbidden' in error.message and "get and create on the resource pods/exec" in error.message
    assert (error.code, error.status) == ("exec-failed", 403)
    assert exec_error("/x", OSError("no route")).message == "/x: the command could not be run: no route"
