# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small raw client for the Kubernetes API, on the standard library alone.

The test bed and its tests use it to look at the cluster independently of the client under test.
"""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


class ApiError(Exception):
    """The API server answered with an error; `status` is the HTTP code, `reason` the API's word for it."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason


class Api:
    """Raw requests to one API server with one bearer token."""

    def __init__(self, server: str, authority: Path, token: str, user_agent: str = "testbed") -> None:
        parts = urllib.parse.urlsplit(server)
        self.host = parts.hostname or "127.0.0.1"
        self.port = parts.port or 443
        self.token = token
        self.user_agent = user_agent
        self._context = ssl.create_default_context(cafile=str(authority))

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> Any:
        """Send one request; return the decoded JSON, or the text if the answer is none. Raises ApiError, OSError."""
        headers = {
            "Authorization": f"Bearer {self.token}",
            "User-Agent": self.user_agent,
            "Accept": "application/json, */*",
            "Content-Type": content_type,
        }
        connection = http.client.HTTPSConnection(self.host, self.port, context=self._context, timeout=timeout)
        try:
            target = path + ("?" + urllib.parse.urlencode(query) if query else "")
            connection.request(method, target, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        if response.status >= 400:
            raise _error(response.status, text)
        return json.loads(text) if response.headers.get_content_type() == "application/json" else text

    def get(self, path: str, **query: str) -> Any:
        """Return the object at `path`."""
        return self.request("GET", path, query=query)

    def find(self, path: str) -> Any | None:
        """Return the object at `path`, or None if there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, path: str, **query: str) -> list[dict[str, Any]]:
        """Return the items of the collection at `path`; `query` takes labelSelector and fieldSelector."""
        return self.request("GET", path, query=query)["items"]

    def post(self, path: str, body: Any) -> Any:
        """Create an object in the collection at `path`."""
        return self.request("POST", path, body)

    def put(self, path: str, body: Any) -> Any:
        """Replace the object at `path`."""
        return self.request("PUT", path, body)

    def patch(self, path: str, body: Any, content_type: str = MERGE_PATCH, **query: str) -> Any:
        """Patch the object at `path`; a merge patch unless told otherwise."""
        return self.request("PATCH", path, body, content_type=content_type, query=query)

    def delete(self, path: str, **query: str) -> bool:
        """Delete the object at `path`; tell whether there was one."""
        try:
            self.request("DELETE", path, query=query)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True


def _error(status: int, text: str) -> ApiError:
    try:
        answer = json.loads(text)
        return ApiError(status, answer.get("reason", ""), answer.get("message", text))
    except (ValueError, AttributeError):
        return ApiError(status, "", text)
