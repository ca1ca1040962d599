# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agents' way to the API server: plain HTTP, list-and-watch in threads, writes in order per object."""

from __future__ import annotations

import base64
import json
import logging
import queue
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
import yaml

LOG = logging.getLogger("agents")
USER_AGENT = "testbed-agents"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
WATCH_SECONDS = 600
RETRY_SECONDS = 0.5
PAGE = 500
PASSING = frozenset((429, 500, 502, 503, 504))  # the server is starting, stopping or busy


class ApiError(Exception):
    """The API server answered with an error status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text[:300]}")
        self.status = status


@dataclass(frozen=True)
class Access:
    """Where the API server is and how to be let in."""

    server: str
    certificate_authority: str
    token: str = ""
    client_certificate: str = ""
    client_key: str = ""


def read_kubeconfig(path: Path) -> Access:
    """The current context of a kubeconfig (token or client certificate)."""
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"])["user"]
    return Access(
        cluster["server"].rstrip("/"),
        _file(cluster, "certificate-authority"),
        user.get("token") or "",
        _file(user, "client-certificate"),
        _file(user, "client-key"),
    )


def _named(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(item for item in items if item["name"] == name)


def _file(section: Mapping[str, str], key: str) -> str:
    """The path of a credential, written to a file first if the kubeconfig carries it inline."""
    inline = section.get(f"{key}-data")
    if not inline:
        return section.get(key) or ""
    with tempfile.NamedTemporaryFile("wb", delete=False, prefix="agents-", suffix=".pem") as file:
        file.write(base64.b64decode(inline))
    return file.name


class Api:
    """One connection pool; every call returns parsed JSON or raises ApiError."""

    def __init__(self, access: Access, connections: int) -> None:
        self._server = access.server
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json"}
        if access.token:
            headers["Authorization"] = f"Bearer {access.token}"
        self._pool = urllib3.PoolManager(
            maxsize=connections,
            block=False,
            headers=headers,
            ca_certs=access.certificate_authority,
            cert_file=access.client_certificate or None,
            key_file=access.client_key or None,
            retries=False,
        )

    def request(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> dict[str, Any]:
        headers = {**self._pool.headers, "Content-Type": content_type}
        data = None if body is None else json.dumps(body).encode()
        answer = self._pool.request(method, self._server + path, body=data, headers=headers, timeout=30.0)
        if answer.status >= 300:
            raise ApiError(answer.status, answer.data.decode(errors="replace"))
        return json.loads(answer.data) if answer.data else {}

    def pages(self, path: str) -> Iterator[dict[str, Any]]:
        """The chunks of a list."""
        token = ""
        while True:
            chunk = self.request("GET", f"{path}?{urlencode({'limit': PAGE, 'continue': token})}")
            yield chunk
            token = chunk["metadata"].get("continue") or ""
            if not token:
                return

    def watch(self, path: str, version: str) -> Iterator[dict[str, Any]]:
        """The events since `version` until the server ends the stream."""
        query = urlencode({"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": WATCH_SECONDS})
        answer = self._pool.request(
            "GET", f"{self._server}{path}?{query}", preload_content=False, timeout=urllib3.Timeout(connect=5.0, read=WATCH_SECONDS + 30)
        )
        try:
            if answer.status != 200:
                raise ApiError(answer.status, answer.read().decode(errors="replace"))
            rest = b""
            for chunk in answer.stream(65536):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (json.loads(line) for line in lines if line)
        finally:
            answer.close()


Event = tuple[str, str, dict[str, Any]]  # kind; ADDED, MODIFIED or DELETED; the object


class Informer(threading.Thread):
    """Keeps the queue supplied with every change of one kind, across lost connections and expired versions."""

    def __init__(self, api: Api, kind: str, path: str, events: queue.SimpleQueue[Event]) -> None:
        super().__init__(daemon=True, name=f"informer-{kind}")
        self._api, self._kind, self._path, self._events = api, kind, path, events
        self._known: dict[str, dict[str, Any]] = {}
        self.listed = threading.Event()

    def run(self) -> None:
        while True:
            try:
                version = self._list()
                self.listed.set()
                self._follow(version)
            except (ApiError, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                LOG.info("%s: %s; listing again", self._kind, error)
                time.sleep(RETRY_SECONDS)

    def _list(self) -> str:
        found: dict[str, dict[str, Any]] = {}
        version = ""
        for chunk in self._api.pages(self._path):
            version = chunk["metadata"]["resourceVersion"]
            found.update({item["metadata"]["uid"]: item for item in chunk["items"]})
        for uid in set(self._known) - set(found):
            self._emit("DELETED", self._known[uid])
        for item in found.values():
            self._emit("MODIFIED", item)
        return version

    def _follow(self, version: str) -> None:
        while True:
            for event in self._api.watch(self._path, version):
                item = event["object"]
                if event["type"] == "ERROR":
                    raise ApiError(int(item.get("code") or 500), str(item.get("message")))
                version = item["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self._emit(event["type"], item)

    def _emit(self, change: str, item: dict[str, Any]) -> None:
        uid = item["metadata"]["uid"]
        if change == "DELETED":
            self._known.pop(uid, None)
        else:
            # Only what a deletion that was missed needs later: the identity.
            self._known[uid] = {"metadata": {key: item["metadata"].get(key) for key in ("uid", "name", "namespace")}}
        self._events.put((self._kind, change, item))


@dataclass(frozen=True)
class Write:
    """One request; a replaceable one gives way to a later one with the same key while it waits."""

    key: str
    method: str
    path: str
    body: Mapping[str, Any]
    content_type: str = MERGE_PATCH
    replaceable: bool = False


class Writers:
    """Threads that write; all writes for one object go through the same one, so their order is kept."""

    def __init__(self, api: Api, threads: int) -> None:
        self._lanes = [_Lane(api, index) for index in range(threads)]

    def put(self, item: Write, lane: str) -> None:
        self._lanes[hash(lane) % len(self._lanes)].put(item)


class _Lane(threading.Thread):
    def __init__(self, api: Api, index: int) -> None:
        super().__init__(daemon=True, name=f"writer-{index}")
        self._api = api
        self._waiting: dict[str, Write] = {}
        self._changed = threading.Condition()
        self._count = 0
        self.start()

    def put(self, item: Write) -> None:
        with self._changed:
            key = item.key
            if item.replaceable:
                self._waiting.pop(key, None)  # the newest content, and its place at the end
            else:
                self._count += 1
                key = f"{key} {self._count}"
            self._waiting[key] = item
            self._changed.notify()

    def run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                item = self._waiting.pop(next(iter(self._waiting)))
            self._write(item)

    def _write(self, item: Write) -> None:
        """Write for as long as it takes: a write that is lost would leave its object wrong for ever."""
        while not self._is_settled(item):
            time.sleep(RETRY_SECONDS)

    def _is_settled(self, item: Write) -> bool:
        """Try once; the server's refusal settles a write too."""
        try:
            self._api.request(item.method, item.path, item.body, item.content_type)
        except ApiError as error:
            if error.status in PASSING:
                return False
            if error.status not in (404, 409):  # the object is gone, or another one of that name
                LOG.warning("%s %s: %s", item.method, item.path, error)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            LOG.info("%s %s: %s", item.method, item.path, error)
            return False
        return True
