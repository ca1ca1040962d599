# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what it means that the first contact with a cluster failed, and how it is said."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.gpuops.mps.plugins.module_utils._cluster_answer import Answer, ClusterError, error_of
from ansible_collections.gpuops.mps.plugins.module_utils._retry import Outcome, retry_after_seconds
from ansible_collections.gpuops.mps.plugins.module_utils._secrets import is_content

# What the library trips over passes or does not; trying for a minute would only keep somebody with a broken kubeconfig waiting.
MOST_TRIPS = 3


def outcome_of(error: Exception, attempt: int) -> Outcome | None:
    """What a failed first contact says about trying again; None when trying again cannot help."""
    import urllib3

    status = getattr(error, "status", None)
    if isinstance(status, int) and status:
        # A token may be rotated between its reading and its use: it is read anew, once.
        return Outcome(503) if status == 401 and attempt == 1 else Outcome(status, retry_after=retry_after_seconds(getattr(error, "headers", None) or {}))
    # The library trips over an answer that is none of an API server, a proxy's page for example, and over a strange kubeconfig.
    tripped = isinstance(error, AttributeError | KeyError | TypeError | ValueError) and attempt <= MOST_TRIPS
    broken_off = isinstance(error, urllib3.exceptions.ProtocolError | urllib3.exceptions.ReadTimeoutError)
    return Outcome(None) if broken_off or tripped else None


def address_of(parameters: t.Mapping[str, t.Any]) -> str:
    """By what the cluster was looked for: the address or the kubeconfig and context, as the user gave them."""
    host = parameters.get("host") or os.environ.get("K8S_AUTH_HOST")
    if host:
        return f"host {host}"
    kubeconfig = parameters.get("kubeconfig") or os.environ.get("K8S_AUTH_KUBECONFIG") or os.environ.get("KUBECONFIG") or "~/.kube/config"
    context = parameters.get("context") or os.environ.get("K8S_AUTH_CONTEXT")
    if isinstance(kubeconfig, str):
        name = "given as a text where its path or a mapping belongs" if is_content(kubeconfig) else kubeconfig
    else:
        name = "given as a mapping"
    return f"kubeconfig {name}" + (f", context {context}" if context else "")


def connection_error(error: Exception, address: str) -> ClusterError:
    """The error for a first contact that failed, in one line: the libraries' own texts carry headers and tracebacks."""
    status = getattr(error, "status", None)
    if isinstance(status, int) and status:
        body = getattr(error, "body", None) or b""
        content = body if isinstance(body, bytes) else str(body).encode()
        return error_of("GET", f"/version ({address})", Answer(status, {}, content), "")
    tripped = "what answered is no API server, or the kubeconfig is none: " if isinstance(error, AttributeError | KeyError | TypeError) else ""
    return ClusterError(
        f"no connection to the cluster ({address}): {tripped}{' '.join(str(error).split())}",
        code="cluster-unreachable",
        remedy="Check kubeconfig, context and host, and that the API server answers: kubectl get --raw /readyz",
    )
