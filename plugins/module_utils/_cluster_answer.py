# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what the API server answers, and the error that a failed request becomes. Pure."""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cached_property

from ansible_collections.gpuops.mps.plugins.module_utils._protobuf_kinds import object_of
from ansible_collections.gpuops.mps.plugins.module_utils._shown import visible

Object = dict[str, t.Any]
PROTOBUF = "application/vnd.kubernetes.protobuf"


class ClusterError(Exception):
    """A request that failed for good: what is wrong, where, and what to do.

    ``code`` is the code of a finding of the catalogue, ``status`` the HTTP status (None when no answer came), ``subject``
    the API path concerned, and ``reason`` the API's own machine-readable word (``Conflict``, ``Forbidden`` ...).
    """

    def __init__(self, message: str, *, code: str, remedy: str, status: int | None = None, subject: str = "", reason: str = "") -> None:
        self.message = visible(message)
        super().__init__(self.message)
        self.code = code
        self.remedy = remedy
        self.status = status
        self.subject = subject
        self.reason = reason


@dataclass(frozen=True)
class Answer:
    """One answer, its body as it came."""

    status: int
    headers: t.Mapping[str, str]
    body: bytes

    @cached_property
    def content(self) -> Object | None:
        """The object in the body, from JSON or protobuf; None when there is none: then it was no API server that answered."""
        try:
            binary = self.headers.get("Content-Type", "").startswith(PROTOBUF)
            content = object_of(self.body) if binary else json.loads(self.body)
        except (ValueError, RecursionError):
            return None
        return content if isinstance(content, dict) else None

    def json(self) -> Object:
        """The same for callers that know that there is one."""
        return self.content or {}


def rfc3339(date: str | None) -> str | None:
    """A Date header as RFC 3339 text, None when there is none or it is no date (some proxy's)."""
    try:
        return parsedate_to_datetime(date).strftime("%Y-%m-%dT%H:%M:%SZ") if date else None
    except ValueError:
        return None


def exit_code(status: str) -> int:
    """The exit code in the Status, as JSON text, that kubelet sends when a command in a container has ended.

    A command that ran and failed has the reason NonZeroExitCode and its code in a cause (kubernetes, kubelet remotecommand,
    exec.go). Raises ValueError with the Status's own words when the command did not run at all, or nobody said how it ended.
    """
    if not status:
        raise ValueError("the connection ended before the command did")
    found = json.loads(status)
    if found.get("status") == "Success":
        return 0
    causes = (found.get("details") or {}).get("causes") or []
    codes = [cause.get("message", "") for cause in causes if cause.get("reason") == "ExitCode"]
    if not codes:
        raise ValueError(found.get("message") or found.get("reason") or "no reason was given")
    return int(codes[0])


# What a status means, and what to do about it. 409 and 404 are judged by the callers first.
_STATUS_CODES: t.Mapping[int, tuple[str, str]] = {
    401: ("cluster-unauthorized", "Renew the credentials; the token or certificate was refused although it was loaded anew."),
    403: ("cluster-forbidden", "Grant the missing right; the collection's documentation lists the roles that each task needs."),
    404: ("object-missing", "Check the name and the namespace."),
    409: ("changed-meanwhile", "Run again: the next run plans from what is there now."),
    413: ("cluster-rejected", "The object is larger than the API server or etcd accepts (a ConfigMap holds at most 1 MiB)."),
    422: ("cluster-rejected", "Correct the field that the API server names."),
    429: ("cluster-overloaded", "Run again later; the API server still refused after a minute of retries."),
}


def error_of(method: str, path: str, answer: Answer | None, problem: str) -> ClusterError:
    """The error for a failed attempt, with the API's own reason in it."""
    if answer is None:
        return ClusterError(
            f"{method} {path}: no answer from the API server: {problem}",
            code="cluster-unreachable",
            remedy="Check the address, the network and certificates of the cluster, then run again: a second run starts from what is there.",
            subject=path,
        )
    status = answer.content if answer.content is not None else {"message": answer.body[:500].decode("utf-8", "replace")}
    message, reason = status.get("message") or f"HTTP status {answer.status}", str(status.get("reason") or "")
    details = status.get("details")
    causes = (details.get("causes") if isinstance(details, dict) else None) or []
    if answer.status == 429 and any(isinstance(cause, dict) and cause.get("reason") == "DisruptionBudget" for cause in causes):
        code, remedy = "disruption-budget", "Wait until the budget allows a disruption, or give the workload more replicas."
    else:
        code, remedy = _STATUS_CODES.get(answer.status, ("cluster-failed", "Look into the API server's log, then run again."))
    return ClusterError(f"{method} {path}: {message}", code=code, remedy=remedy, status=answer.status, subject=path, reason=reason)


def exec_error(path: str, error: Exception) -> ClusterError:
    """The error for a command that could not be run. A refused WebSocket has the server's answer in it, among much else.

    The API server's own words leave out what is missing: the verb create beside the get of the WebSocket (from Kubernetes 1.35 on).
    """
    status, body = getattr(error, "status_code", None), getattr(error, "resp_body", None)
    problem = str(error)
    if isinstance(status, int) and isinstance(body, bytes):
        problem = error_of("GET", path, Answer(status, {}, body), "").message.partition(": ")[2]
    if status == 403:
        problem += " (a command needs the verbs get and create on the resource pods/exec)"
    return ClusterError(
        f"{path}: the command could not be run: {problem}",
        code="exec-failed",
        remedy="Check the pod, and the right to get and create pods/exec.",
        status=status if isinstance(status, int) else None,
        subject=path,
    )
