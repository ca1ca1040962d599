# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the one place that talks to the Kubernetes API.

It stands on kubernetes.core for what users configure there (authentication options, kubeconfig, proxies, impersonation)
and sends raw requests through the connection pool of that client: the typed classes of the Python client cost seconds of
imports, and its dynamic client neither pages nor retries.
"""

from __future__ import annotations

import builtins
import json
import random
import sys
import threading
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlencode

from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC, extract_sensitive_values_from_kubeconfig

from ansible_collections.gpuops.mps.plugins.module_utils._cluster_answer import PROTOBUF, Answer, ClusterError, Object, error_of, exec_error, exit_code, rfc3339
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_contact import address_of, connection_error, outcome_of
from ansible_collections.gpuops.mps.plugins.module_utils._deadline import within
from ansible_collections.gpuops.mps.plugins.module_utils._pace import Pace
from ansible_collections.gpuops.mps.plugins.module_utils._retry import RETRY_SECONDS, Outcome, may_retry, pause_before, retry_after_seconds

__all__ = [
    "AUTH_ARG_SPEC",
    "Cluster",
    "ClusterError",
    "Eviction",
    "Execution",
    "Listing",
    "WatchEvent",
    "extract_sensitive_values_from_kubeconfig",
]

FIELD_MANAGER = "gpuops.mps"
PAGE_SIZE = 500
CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0
CREDENTIALS_SECONDS = 5.0
# The API server ends a watch by itself after at least 30 minutes. Asking for less bounds how long a connection that died
# without a word is taken for one on which nothing happens.
WATCH_SECONDS = 60.0
# A watch that ended sooner than this, without an event, was broken off; the next one waits for a moment.
LASTED_SECONDS = 1.0
# The line of one event: etcd takes objects of 1.5 MiB, and JSON's escapes make them longer.
MOST_EVENT_BYTES = 16 * 1024 * 1024
JSON = "application/json"
ANY = "*/*"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
# An API server, or a proxy before it, that does not speak protobuf answers in JSON.
PROTOBUF_LIST = f"{PROTOBUF},{JSON}"
PROTOBUF_METADATA_LIST = f"{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{METADATA_LIST}"

Query = t.Sequence[tuple[str, str]]
Item = t.TypeVar("Item")
Result = t.TypeVar("Result")


@dataclass(frozen=True)
class Listing:
    """All objects of a list, and the version to watch from."""

    items: tuple[Object, ...]
    resource_version: str


@dataclass(frozen=True)
class WatchEvent:
    """``type`` is ADDED, MODIFIED, DELETED, BOOKMARK, or RELISTED: then ``object`` is ``{"items": [...]}``, everything there is."""

    type: str
    object: Object


@dataclass(frozen=True)
class Eviction:
    """``outcome`` is evicted, blocked (a PodDisruptionBudget forbids it now) or gone; ``message`` is the API's reason."""

    outcome: str
    message: str = ""


@dataclass(frozen=True)
class Execution:
    """What a command in a container printed and returned."""

    stdout: str
    stderr: str
    code: int


class Cluster:
    """Requests to one API server, retried where that is safe and never silently repeated where it is not.

    Every write carries the field manager ``gpuops.mps`` and, with ``dry_run``, ``dryRun=All``. Safe for threads.
    """

    def __init__(self, parameters: t.Mapping[str, t.Any], client: t.Any, *, dry_run: bool = False) -> None:
        self._parameters = parameters
        self._api = client
        self._dry_run = dry_run
        self._lock = threading.Lock()
        self._pace: Pace | None = None
        self.server: str = client.configuration.host
        self._date: str | None = None  # Date header of the latest answer
        self._credentials: dict[str, str] = {}
        self._credentials_until = 0.0

    @classmethod
    def connect(cls, parameters: t.Mapping[str, t.Any], *, dry_run: bool = False) -> Cluster:
        """A cluster reached with the authentication options of kubernetes.core in ``parameters``.

        Raises ClusterError when the Python library is missing, the configuration cannot be loaded, or nobody answers.
        """
        return cls(parameters, _api_client(parameters), dry_run=dry_run)

    @property
    def server_time(self) -> str | None:
        """The server's clock at the latest answer, RFC 3339; None when no answer said it."""
        return rfc3339(self._date)

    # Reading

    def get(self, path: str, *, query: Query = (), metadata_only: bool = False) -> Object | None:
        """The object at ``path``, None when it does not exist."""
        try:
            return self._request("GET", path, query=query, accept=METADATA_ONLY if metadata_only else JSON).json()
        except ClusterError as error:
            if error.status == 404:
                return None
            raise

    def list(self, path: str, *, label_selector: str | None = None, field_selector: str | None = None, metadata_only: bool = False) -> Listing:
        """All objects under ``path``, read in pages of 500; an expired page token starts over once with a fresh list."""
        items: list[Object] = []
        version = ""
        for page in self.pages(path, label_selector=label_selector, field_selector=field_selector, metadata_only=metadata_only):
            if page.restarted:
                items.clear()
            items.extend(page.items)
            version = page.resource_version
        return Listing(tuple(items), version)

    def pages(
        self, path: str, *, label_selector: str | None = None, field_selector: str | None = None, metadata_only: bool = False, protobuf: bool = False
    ) -> t.Iterator[Page]:
        """The same page by page, so that a caller can reduce each page before the next one is read.

        A page with ``restarted`` means: forget what came before, the server had compacted it away and the list begins anew.
        With ``protobuf`` nodes and pods come with the fields of `_protobuf_kinds` only, in a fraction of the time.
        """
        accept = {(True, True): PROTOBUF_METADATA_LIST, (True, False): METADATA_LIST, (False, True): PROTOBUF_LIST, (False, False): JSON}
        token, restarted, restarts = "", False, 0
        while True:
            query = [("limit", str(PAGE_SIZE)), ("labelSelector", label_selector), ("fieldSelector", field_selector), ("continue", token)]
            try:
                answer = self._request("GET", path, query=[(key, value) for key, value in query if value], accept=accept[metadata_only, protobuf])
            except ClusterError as error:
                if error.status != 410 or restarts >= 3:
                    raise
                token, restarted, restarts = "", True, restarts + 1
                continue
            content = answer.json()
            if "items" not in content:
                raise error_of("GET", path, None, "what came is no list")
            metadata = content.get("metadata") or {}
            yield Page(tuple(content.get("items") or ()), str(metadata.get("resourceVersion", "")), restarted)
            token, restarted = metadata.get("continue") or "", False
            if not token:
                return

    def watch(
        self, path: str, *, resource_version: str, label_selector: str | None = None, field_selector: str | None = None, deadline: float
    ) -> t.Iterator[WatchEvent]:
        """Changes under ``path`` after ``resource_version`` until ``deadline`` (a time of ``time.monotonic``).

        Reconnects by itself, after a pause unless the connection lasted. When the server no longer knows the version, one
        RELISTED event brings everything there is. Raises ClusterError when the server refuses the watch.
        """
        version, failures, signed_in_again = resource_version, 0, False
        selectors = [(key, value) for key, value in (("labelSelector", label_selector), ("fieldSelector", field_selector)) if value]
        while (remaining := deadline - time.monotonic()) > 0:
            began, problem = time.monotonic(), None
            try:
                for event in self._watch_once(path, version, selectors, min(remaining, WATCH_SECONDS)):
                    failures, signed_in_again = 0, False
                    version = event.object.get("metadata", {}).get("resourceVersion", version)
                    yield event
            except ClusterError as error:
                problem = error
            if problem is not None and problem.status == 410:
                listing = self.list(path, label_selector=label_selector, field_selector=field_selector)
                version = listing.resource_version
                yield WatchEvent("RELISTED", {"items": list(listing.items)})
            elif problem is not None and problem.status == 401 and not signed_in_again:
                signed_in_again = True
                self._sign_in_again()  # a watch outlives many a token
            elif problem is not None and problem.status is not None and problem.status != 429 and problem.status < 500:
                raise problem
            failures = 0 if time.monotonic() - began > LASTED_SECONDS else failures + 1
            if failures:
                pause = pause_before(failures, Outcome(problem.status if problem else None), random.random())
                time.sleep(max(0.0, min(deadline - time.monotonic(), pause)))

    def logs(self, namespace: str, pod: str, *, container: str, previous: bool = False, tail_lines: int = 20, limit_bytes: int = 64 * 1024) -> str:
        """The last lines of a container's log; of its previous run with ``previous``."""
        query = [("container", container), ("tailLines", str(tail_lines)), ("limitBytes", str(limit_bytes))]
        if previous:
            query.append(("previous", "true"))
        answer = self._request("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}/log", query=query, accept=ANY)
        return answer.body.decode("utf-8", "replace")

    # Writing

    def create(self, path: str, body: Object) -> Object:
        """Create an object in the collection at ``path``. 409 means that it is there already."""
        return self._request("POST", path, body=body, query=self._write_query(), idempotent=False).json()

    def merge_patch(self, path: str, body: Object, *, resource_version: str | None = None, uid: str | None = None, metadata_only: bool = False) -> Object:
        """A JSON merge patch. With ``resource_version`` or ``uid`` a change by somebody else since then is a 409, not overwritten."""
        guard = {key: value for key, value in (("resourceVersion", resource_version), ("uid", uid)) if value}
        if guard:
            body = {**body, "metadata": {**body.get("metadata", {}), **guard}}
        return self._request(
            "PATCH",
            path,
            body=body,
            query=self._write_query(),
            accept=METADATA_ONLY if metadata_only else JSON,
            content_type="application/merge-patch+json",
            guarded=bool(guard),
        ).json()

    def json_patch(self, path: str, operations: t.Sequence[Object], *, idempotent: bool = False, metadata_only: bool = False) -> Object:
        """A JSON patch; a failed ``test`` operation is a ClusterError with status 422.

        ``idempotent`` says that the caller can tell a second time from the first, so that it may be sent again.
        """
        return self._request(
            "PATCH",
            path,
            body=list(operations),
            query=self._write_query(),
            accept=METADATA_ONLY if metadata_only else JSON,
            content_type="application/json-patch+json",
            idempotent=idempotent,
        ).json()

    def patch_seen(
        self,
        path: str,
        body: Object,
        *,
        seen: Object,
        unchanged: t.Callable[[Object], bool],
        done: t.Callable[[Object], bool],
        metadata_only: bool = False,
    ) -> Object:
        """A merge patch that is only made while ``unchanged`` holds, however often unrelated parts of the object change meanwhile.

        ``seen`` is the metadata (uid, resourceVersion) of the object as the plan saw it. On a conflict the object is read
        again: when it is ``done`` already, that is success; when what the plan relied on is ``unchanged``, the patch is made
        against the new version; else ClusterError ``changed-meanwhile``. At most five times.
        """
        version, uid = seen["resourceVersion"], seen.get("uid")
        for _attempt in range(5):
            try:
                return self.merge_patch(path, body, resource_version=version, uid=uid, metadata_only=metadata_only)
            except ClusterError as error:
                if error.status != 409:
                    raise
            fresh = self.get(path, metadata_only=metadata_only)
            if fresh is not None and done(fresh):
                return fresh
            if fresh is None or (uid and fresh["metadata"].get("uid") != uid) or not unchanged(fresh):
                break
            version = fresh["metadata"]["resourceVersion"]
        raise ClusterError(
            f"{path} was changed by somebody else between reading and writing, so it was left alone",
            code="changed-meanwhile",
            remedy="Run again: the next run plans from what is there now.",
            status=409,
            subject=path,
            reason="Conflict",
        )

    def delete(self, path: str, *, uid: str | None = None, resource_version: str | None = None, grace_seconds: int | None = None) -> bool:
        """Delete one object; True when this call did it, False when it was gone already (or, by ``uid``, is another one by now)."""
        try:
            self._request("DELETE", path, body=self._delete_options(uid, resource_version, grace_seconds), query=self._write_query(), guarded=True)
        except ClusterError as error:
            if error.status == 404 or (error.status == 409 and uid and resource_version is None):
                return False
            raise
        return True

    def evict(self, namespace: str, name: str, *, uid: str | None = None) -> Eviction:
        """Ask for a pod's eviction, which a PodDisruptionBudget may refuse for now."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": self._delete_options(uid, None, None),
        }
        try:
            self._request("POST", f"{path}/eviction", body=body, query=self._write_query(), idempotent=uid is not None, guarded=True)
        except ClusterError as error:
            if error.code == "disruption-budget":
                return Eviction("blocked", error.message)
            if error.status == 404 or (error.status == 409 and uid):
                return Eviction("gone", error.message)
            raise
        return Eviction("evicted")

    def execute(self, namespace: str, pod: str, *, container: str, command: t.Sequence[str], timeout: float) -> Execution:
        """Run a command in a container and wait for its end, at most ``timeout`` seconds.

        A command that ran and failed is a result with its exit code; one that could not be run is a ClusterError ``exec-failed``.
        """
        from kubernetes.stream import ws_client

        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec"
        headers = self._headers(ANY, None)
        if any(name.lower().startswith("impersonate") for name in headers):
            raise ClusterError(
                f"{path}: the Python client does not send impersonation headers with exec, so the command would run as somebody else",
                code="exec-impersonated",
                remedy="Give the task credentials of the user itself in place of impersonate_user and impersonate_groups.",
                subject=path,
            )
        query = [("container", container), ("stdout", "true"), ("stderr", "true"), *(("command", part) for part in command)]
        url = ws_client.get_websocket_url(f"{self.server}{path}?{urlencode(query)}")
        try:
            stream = ws_client.WSClient(self._api.configuration, url, headers, capture_all=False)
            stream.run_forever(timeout=timeout)
            if stream.is_open():
                stream.close()
                raise ClusterError(
                    f"{path}: '{' '.join(command)}' did not end within {timeout:g} seconds",
                    code="exec-timeout",
                    remedy=f"Look at the pod: kubectl -n {namespace} logs {pod}",
                    subject=path,
                )
            return Execution(stream.read_channel(1), stream.read_channel(2), exit_code(stream.read_channel(ws_client.ERROR_CHANNEL)))
        except ClusterError:
            raise
        except Exception as error:  # websocket-client raises a dozen unrelated classes, and a failed exec is no reason for a traceback
            raise exec_error(path, error) from error

    # Many at once

    def each(
        self, function: t.Callable[[Item], Result], items: t.Iterable[Item], *, workers: int | None = None, per_second: float | None = None
    ) -> builtins.list[Result | ClusterError]:
        """``function`` over ``items``, several at a time, results in order; a ClusterError is a result, not the end.

        As many at once (at most ``workers``, 8 by default) as the server takes well; ``per_second`` bounds the starts.
        """
        pace = Pace(workers, per_second)
        self._pace = pace

        def one(item: Item) -> Result | ClusterError:
            with pace.turn():
                try:
                    return function(item)
                except ClusterError as error:
                    return error

        with ThreadPoolExecutor(max_workers=pace.most) as pool:
            results = list(pool.map(one, items))
        self._pace = None
        return results

    # One request

    def _write_query(self) -> builtins.list[tuple[str, str]]:
        query = [("fieldManager", FIELD_MANAGER)]
        if self._dry_run:
            query.append(("dryRun", "All"))
        return query

    def _delete_options(self, uid: str | None, resource_version: str | None, grace_seconds: int | None) -> Object:
        """The body of a deletion. The API server takes dryRun from here and overlooks the query once there is a body."""
        preconditions = {key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if preconditions:
            options["preconditions"] = preconditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if self._dry_run:
            options["dryRun"] = ["All"]
        return options

    def _headers(self, accept: str, content_type: str | None) -> dict[str, str]:
        """Default headers of the client (impersonation) with ours."""
        headers = {**self._api.default_headers, "Accept": accept, "Accept-Encoding": "gzip", "User-Agent": FIELD_MANAGER, **self._signature()}
        if content_type:
            headers["Content-Type"] = content_type
        return headers

    def _signature(self) -> dict[str, str]:
        """The headers that sign a request.

        Asking the client for them refreshes a token that has expired, and sets up its whole configuration anew each time:
        that costs more than the request itself, so the answer is used for some seconds.
        """
        with self._lock:
            if time.monotonic() >= self._credentials_until:
                settings = self._api.configuration.auth_settings().values()
                self._credentials = {setting["key"]: setting["value"] for setting in settings if setting["in"] == "header" and setting["value"]}
                self._credentials_until = time.monotonic() + CREDENTIALS_SECONDS
            return self._credentials

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: t.Any = None,
        accept: str = JSON,
        content_type: str = JSON,
        idempotent: bool = True,
        guarded: bool = False,
    ) -> Answer:
        """One request with its retries; raises ClusterError when it fails for good."""
        deadline = time.monotonic() + RETRY_SECONDS
        attempt, signed_in_again = 0, False
        while True:
            answer, outcome, problem = self._attempt(method, path, query, body, accept, content_type)
            if answer is not None and answer.status < 400:
                return answer
            if outcome.status == 401 and not signed_in_again:
                signed_in_again = True
                self._sign_in_again()
                continue
            attempt += 1
            pause = pause_before(attempt, outcome, random.random())
            error = error_of(method, path, answer, problem)
            if error.code == "disruption-budget" or not may_retry(outcome, idempotent=idempotent, guarded=guarded) or time.monotonic() + pause > deadline:
                raise error
            if outcome.status == 429 and self._pace is not None:
                self._pace.throttled()
            time.sleep(pause)

    def _attempt(self, method: str, path: str, query: Query, body: t.Any, accept: str, content_type: str) -> tuple[Answer | None, Outcome, str]:
        import urllib3

        url = f"{self.server}{path}" + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body)
        timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
        headers = self._headers(accept, content_type if body is not None else None)
        pool = self._api.rest_client.pool_manager
        try:
            response = pool.request(method, url, body=data, headers=headers, timeout=timeout, retries=False)
        except urllib3.exceptions.HTTPError as error:
            never_sent = isinstance(error, urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError)
            return None, Outcome(None, sent=not never_sent and not isinstance(error, urllib3.exceptions.SSLError)), str(error)
        self._date = response.headers.get("Date") or self._date
        answer = Answer(response.status, response.headers, response.data)
        if answer.status < 400 and accept != ANY and answer.content is None:
            return None, Outcome(None), f"what came is no answer of an API server: {answer.body[:200].decode('utf-8', 'replace')!r}"
        return answer, Outcome(response.status, retry_after=retry_after_seconds(response.headers)), ""

    def _sign_in_again(self) -> None:
        """Load the credentials anew: runs an exec plugin again, reads a rotated token file again."""
        with self._lock:
            self._api = _api_client(self._parameters)
            self._credentials_until = 0.0

    def _watch_once(self, path: str, version: str, selectors: Query, seconds: float) -> t.Iterator[WatchEvent]:
        """Events of one connection; returns when the server or the network ends it."""
        import urllib3

        query = [
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", version),
            ("timeoutSeconds", str(max(1, int(seconds)))),
            *selectors,
        ]
        headers = self._headers(JSON, None) | {"Accept-Encoding": "identity"}
        timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=seconds + 1)
        try:
            response = self._api.rest_client.pool_manager.request(
                "GET", f"{self.server}{path}?{urlencode(query)}", headers=headers, timeout=timeout, retries=False, preload_content=False
            )
            try:
                if response.status >= 400:
                    raise error_of("GET", path, Answer(response.status, response.headers, response.read()), "")
                yield from _events(path, response)
            finally:
                response.close()
        except urllib3.exceptions.ReadTimeoutError:
            return
        except urllib3.exceptions.HTTPError as error:
            raise error_of("GET", path, None, str(error)) from error


@dataclass(frozen=True)
class Page:
    """One page of a list."""

    items: tuple[Object, ...]
    resource_version: str
    restarted: bool = False


def _events(path: str, response: t.Any) -> t.Iterator[WatchEvent]:
    """Events from the lines of a watch; raises ClusterError for the ERROR event, and for what is no event."""
    buffer = b""
    for chunk in response.stream(amt=None):
        buffer += chunk
        *lines, buffer = buffer.split(b"\n")
        if len(buffer) > MOST_EVENT_BYTES:
            raise error_of("GET", path, None, f"an event of more than {MOST_EVENT_BYTES} bytes")
        for line in filter(None, lines):
            event = Answer(200, {}, line).content or {}
            found = event.get("object")
            if not isinstance(found, dict) or not isinstance(event.get("type"), str):
                raise error_of("GET", path, None, f"what came is no event: {line[:200].decode('utf-8', 'replace')!r}")
            if event["type"] == "ERROR":
                raise error_of("GET", path, Answer(int(found.get("code") or 500), {}, json.dumps(found).encode()), "")
            yield WatchEvent(event["type"], found)


def _api_client(parameters: t.Mapping[str, t.Any]) -> t.Any:
    """kubernetes.core's authenticated client; its discovery cache is kept on disk, so a warm start sends no request.

    A cold start asks for the server's versions first, outside of our own retries: a server that is busy or half up then
    gets the same patience as later. An address where nobody listens is reported at once: it is most often a wrong one.
    The library itself waits for ever, for an answer as for the end of a Retry-After or of a login program: so long and no longer.
    """
    try:
        import kubernetes  # noqa: F401
    except ImportError as error:
        raise ClusterError(
            f"the Python library kubernetes is missing from {sys.executable}: {error}",
            code="library-missing",
            remedy=f"Run '{sys.executable} -m pip install kubernetes', or set ansible_python_interpreter to the interpreter that has it.",
        ) from error
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client

    options = {name: parameters[name] for name in AUTH_ARG_SPEC if parameters.get(name) is not None}
    deadline = time.monotonic() + RETRY_SECONDS
    attempt = 0
    while True:
        try:
            return within(deadline - time.monotonic(), lambda: get_api_client(**options).client.client)
        except Exception as error:  # the loaders raise many classes: configuration, YAML, TLS and exec plugin errors
            attempt += 1
            outcome = outcome_of(error, attempt)
            pause = pause_before(attempt, outcome, random.random()) if outcome else 0.0
            if outcome is None or not may_retry(outcome, idempotent=True, guarded=False) or time.monotonic() + pause > deadline:
                raise connection_error(error, address_of(parameters)) from error
            time.sleep(pause)
