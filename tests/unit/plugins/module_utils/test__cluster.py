# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seam's own logic: what it does with answers that a healthy API server seldom gives.

What it does with a real one is tested on the test bed.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3

from ansible_collections.gpuops.mps.plugins.module_utils import _cluster
from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster, ClusterError

NODES = "/api/v1/nodes"
Answer = Any


class Pool:
    """Answers requests from a list and remembers them."""

    def __init__(self, answers: list[Answer]) -> None:
        self.answers = answers
        self.requests: list[SimpleNamespace] = []

    def request(self, method: str, url: str, *, body: str | None = None, headers: dict[str, str], **_options: Any) -> Any:
        self.requests.append(SimpleNamespace(method=method, url=url, body=json.loads(body) if body else None, headers=headers))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def answer(status: int = 200, body: Any = None, **headers: str) -> SimpleNamespace:
    data = json.dumps(body or {}).encode()
    lines = [json.dumps(event).encode() + b"\n" for event in body] if isinstance(body, list) else []
    return SimpleNamespace(
        status=status,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        data=data,
        read=lambda: data,
        stream=lambda amt=None: iter(lines),
        close=lambda: None,
    )


def refusal(status: int, reason: str = "", message: str = "no", **details: Any) -> SimpleNamespace:
    return answer(status, {"kind": "Status", "message": message, "reason": reason, "details": details})


def client(pool: Pool, token: str = "first") -> Any:
    settings = {"BearerToken": {"in": "header", "key": "authorization", "value": f"Bearer {token}"}}
    configuration = SimpleNamespace(host="https://cluster", auth_settings=lambda: settings)
    return SimpleNamespace(configuration=configuration, default_headers={"Impersonate-User": "deployer"}, rest_client=SimpleNamespace(pool_manager=pool))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Cluster, Pool]]:
    """A cluster that answers with the given answers; pauses take no time."""
    monkeypatch.setattr(_cluster.time, "sleep", lambda _seconds: None)

    def make(*answers: Answer, dry_run: bool = False) -> tuple[Cluster, Pool]:
        pool = Pool(list(answers))
        return Cluster({}, client(pool), dry_run=dry_run), pool

    return make


def test_every_request_says_who_asks_and_takes_compressed_answers(cluster: Any) -> None:
    found, pool = cluster(answer(body={"a": 1}, Date="Mon, 30 Nov 2026 10:00:00 GMT"))
    assert found.get(f"{NODES}/gpu-1") == {"a": 1}
    headers = pool.requests[0].headers
    assert (headers["User-Agent"], headers["Accept-Encoding"], headers["authorization"], headers["Impersonate-User"]) == (
        "gpuops.mps",
        "gzip",
        "Bearer first",
        "deployer",
    )
    assert found.server_time == "2026-11-30T10:00:00Z"


@pytest.mark.parametrize(("dry_run", "query"), [(False, "fieldManager=gpuops.mps"), (True, "fieldManager=gpuops.mps&dryRun=All")])
def test_every_write_names_the_field_manager_and_a_dry_run_is_one(cluster: Any, dry_run: bool, query: str) -> None:
    found, pool = cluster(*[answer()] * 4, dry_run=dry_run)
    found.merge_patch(f"{NODES}/a", {"metadata": {"labels": {}}})
    found.json_patch(f"{NODES}/a", [])
    found.create(NODES, {})
    found.delete(f"{NODES}/a")
    # With a body the API server takes dryRun from the body alone.
    assert pool.requests[-1].body.get("dryRun") == (["All"] if dry_run else None)
    assert [request.url.partition("?")[2] for request in pool.requests] == [query] * 4
    assert [request.headers["Content-Type"] for request in pool.requests[:2]] == ["application/merge-patch+json", "application/json-patch+json"]


def test_a_missing_object_is_none_and_another_failure_is_not(cluster: Any) -> None:
    found, _pool = cluster(refusal(404, "NotFound"), refusal(403, "Forbidden", "nodes is forbidden"))
    assert found.get(f"{NODES}/a") is None
    with pytest.raises(ClusterError, match="nodes is forbidden") as caught:
        found.get(f"{NODES}/a")
    assert (caught.value.code, caught.value.status, caught.value.reason) == ("cluster-forbidden", 403, "Forbidden")


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "cluster-failed"),
        (401, "cluster-unauthorized"),
        (409, "changed-meanwhile"),
        (413, "cluster-rejected"),
        (422, "cluster-rejected"),
        (404, "object-missing"),
    ],
)
def test_a_failure_has_the_code_of_a_finding(cluster: Any, monkeypatch: pytest.MonkeyPatch, status: int, code: str) -> None:
    found, pool = cluster(*[refusal(status)] * 2)
    monkeypatch.setattr(_cluster, "_api_client", lambda _parameters: client(pool))
    with pytest.raises(ClusterError) as caught:
        found.create(NODES, {})
    assert caught.value.code == code
    assert len(pool.requests) == (2 if status == 401 else 1)


def test_a_read_is_sent_again_after_every_passing_failure(cluster: Any) -> None:
    dropped = urllib3.exceptions.ProtocolError("Connection aborted.")
    found, pool = cluster(refusal(503), dropped, refusal(429, Retry_After="1"), answer(body={"a": 1}))
    assert found.get("/version") == {"a": 1}
    assert len(pool.requests) == 4


def test_a_creation_is_not_sent_again_when_it_may_have_happened(cluster: Any) -> None:
    found, pool = cluster(urllib3.exceptions.ProtocolError("Connection aborted."))
    with pytest.raises(ClusterError, match="no answer from the API server") as caught:
        found.create(NODES, {})
    assert (caught.value.code, caught.value.status, len(pool.requests)) == ("cluster-unreachable", None, 1)


def test_patience_ends(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found, pool = cluster(*[refusal(429, message="too many")] * 500)
    ticks = iter(range(0, 100000, 5))
    monkeypatch.setattr(_cluster.time, "monotonic", lambda: next(ticks))
    with pytest.raises(ClusterError) as caught:
        found.get("/version")
    assert caught.value.code == "cluster-overloaded"
    assert 2 < len(pool.requests) < 20


def test_a_refused_token_is_loaded_anew_once(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found, pool = cluster(refusal(401), answer(body={"a": 1}))
    monkeypatch.setattr(_cluster, "_api_client", lambda _parameters: client(pool, "second"))
    assert found.get("/version") == {"a": 1}
    assert [request.headers["authorization"] for request in pool.requests] == ["Bearer first", "Bearer second"]


def page(*names: str, token: str = "") -> SimpleNamespace:
    return answer(body={"metadata": {"resourceVersion": "9", "continue": token}, "items": [{"metadata": {"name": name}} for name in names]})


def test_a_list_is_read_in_pages(cluster: Any) -> None:
    found, pool = cluster(page("a", token="t"), page("b"))
    listing = found.list(NODES, label_selector="x=y", metadata_only=True)
    assert [item["metadata"]["name"] for item in listing.items] == ["a", "b"]
    assert listing.resource_version == "9"
    assert pool.requests[0].url == "https://cluster/api/v1/nodes?limit=500&labelSelector=x%3Dy"
    assert pool.requests[1].url.endswith("&continue=t")
    assert "PartialObjectMetadataList" in pool.requests[0].headers["Accept"]


def test_a_list_whose_pages_have_expired_begins_anew(cluster: Any) -> None:
    found, _pool = cluster(page("a", token="t"), refusal(410, "Expired"), page("a", token="u"), page("b"))
    assert [item["metadata"]["name"] for item in found.list(NODES).items] == ["a", "b"]


def test_a_list_does_not_begin_anew_for_ever(cluster: Any) -> None:
    found, _pool = cluster(*[refusal(410, "Expired")] * 9)
    with pytest.raises(ClusterError):
        found.list(NODES)


def event(kind: str, name: str, version: str) -> dict[str, Any]:
    return {"type": kind, "object": {"metadata": {"name": name, "resourceVersion": version}}}


def test_a_watch_goes_on_where_it_was_cut(cluster: Any) -> None:
    dropped = urllib3.exceptions.ProtocolError("Connection broken")
    found, pool = cluster(answer(body=[event("ADDED", "a", "2"), event("BOOKMARK", "", "5")]), dropped, answer(body=[event("MODIFIED", "a", "6")]))
    seen = []
    for one in found.watch(NODES, resource_version="1", deadline=time.monotonic() + 60):
        seen.append((one.type, one.object["metadata"]["resourceVersion"]))
        if len(seen) == 3:
            break
    assert seen == [("ADDED", "2"), ("BOOKMARK", "5"), ("MODIFIED", "6")]
    assert [part for request in pool.requests for part in request.url.split("&") if part.startswith("resourceVersion")] == [
        "resourceVersion=1",
        "resourceVersion=5",
        "resourceVersion=5",
    ]


def test_a_watch_whose_version_is_gone_brings_everything(cluster: Any) -> None:
    gone = {"type": "ERROR", "object": {"code": 410, "message": "too old", "reason": "Expired"}}
    found, _pool = cluster(answer(body=[gone]), page("a", "b"), answer(body=[event("DELETED", "a", "10")]))
    events = found.watch(NODES, resource_version="1", deadline=time.monotonic() + 60)
    relisted, deleted = next(events), next(events)
    assert relisted.type == "RELISTED" and len(relisted.object["items"]) == 2
    assert deleted.type == "DELETED"


def test_a_watch_that_is_forbidden_fails_and_one_past_its_deadline_ends(cluster: Any) -> None:
    found, _pool = cluster(refusal(403))
    with pytest.raises(ClusterError):
        next(found.watch(NODES, resource_version="1", deadline=time.monotonic() + 60))
    assert list(found.watch(NODES, resource_version="1", deadline=time.monotonic() - 1)) == []


def test_a_watch_that_ends_at_once_is_not_asked_for_without_a_pause(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = {"type": "MODIFIED", "object": {"metadata": {"resourceVersion": "5"}}}
    found, _pool = cluster(*[answer(body=[])] * 4, answer(body=[changed]), answer(body=[]), answer(body=[changed]))
    pauses: list[float] = []
    monkeypatch.setattr(_cluster.time, "sleep", pauses.append)
    events = found.watch(NODES, resource_version="1", deadline=time.monotonic() + 60)
    assert next(events).type == "MODIFIED"
    assert len(pauses) == 4 and pauses[0] < 0.3 and pauses[3] >= 1.0
    assert next(events).type == "MODIFIED"
    assert pauses[-1] < 0.6, "an event ends the patience"


@pytest.mark.parametrize("line", ["Please sign in", "[]", '{"kind": "Status"}', '{"type": "ADDED", "object": 1}'])
def test_a_watch_overlooks_what_is_no_event(cluster: Any, line: str) -> None:
    strange = answer()
    strange.stream = lambda amt=None: iter([line.encode() + b"\n"])
    found, _pool = cluster(strange, answer(body=[{"type": "ADDED", "object": {"metadata": {"resourceVersion": "5"}}}]))
    assert next(found.watch(NODES, resource_version="1", deadline=time.monotonic() + 60)).type == "ADDED"


def test_a_watch_keeps_no_endless_line(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cluster, "MOST_EVENT_BYTES", 1000)
    taken = 0

    def endless(amt: Any = None) -> Any:
        nonlocal taken
        while True:
            taken += 100
            yield b"x" * 100

    strange = answer()
    strange.stream = endless
    found, _pool = cluster(strange, answer(body=[{"type": "ADDED", "object": {"metadata": {}}}]))
    assert next(found.watch(NODES, resource_version="1", deadline=time.monotonic() + 60)).type == "ADDED"
    assert taken <= 1100


@pytest.mark.parametrize("body", [b"<html>Please sign in</html>", b"", b"[]", b"[" * 100_000])
def test_a_success_that_no_api_server_sent_is_none(cluster: Any, body: bytes) -> None:
    page = answer()
    page.data = body
    found, _pool = cluster(page, answer(body={"a": 1}))
    assert found.get(f"{NODES}/a") == {"a": 1}
    found, pool = cluster(page)
    with pytest.raises(ClusterError, match="no answer of an API server") as caught:
        found.create(NODES, {})
    assert (caught.value.code, len(pool.requests)) == ("cluster-unreachable", 1)


def test_an_object_in_place_of_a_list_is_no_empty_list(cluster: Any) -> None:
    found, _pool = cluster(answer(body={"message": "Please sign in"}))
    with pytest.raises(ClusterError, match="no list"):
        found.list(NODES)


def test_a_watch_whose_token_has_expired_goes_on_with_a_new_one(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found, pool = cluster(refusal(401), answer(body=[event("ADDED", "a", "2")]), refusal(401), refusal(401))
    monkeypatch.setattr(_cluster, "_api_client", lambda _parameters: client(pool, "second"))
    events = found.watch(NODES, resource_version="1", deadline=time.monotonic() + 60)
    assert next(events).type == "ADDED"
    assert [request.headers["authorization"] for request in pool.requests] == ["Bearer first", "Bearer second"]
    with pytest.raises(ClusterError) as caught:
        next(events)
    assert caught.value.code == "cluster-unauthorized" and len(pool.requests) == 4


SEEN = {"resourceVersion": "1", "uid": "u"}


def node(label: str, version: str = "2", uid: str = "u") -> SimpleNamespace:
    return answer(body={"metadata": {"resourceVersion": version, "uid": uid, "labels": {"l": label}}})


def patch(found: Cluster) -> Any:
    return found.patch_seen(
        f"{NODES}/a",
        {"metadata": {"labels": {"l": "new"}}},
        seen=SEEN,
        unchanged=lambda item: item["metadata"]["labels"]["l"] == "old",
        done=lambda item: item["metadata"]["labels"]["l"] == "new",
        metadata_only=True,
    )


def test_a_guarded_patch_carries_version_and_uid(cluster: Any) -> None:
    found, pool = cluster(node("new"))
    patch(found)
    assert pool.requests[0].body == {"metadata": {"labels": {"l": "new"}, "resourceVersion": "1", "uid": "u"}}


def test_an_unrelated_change_does_not_stand_in_the_way(cluster: Any) -> None:
    found, pool = cluster(refusal(409), node("old", "7"), node("new", "8"))
    patch(found)
    assert pool.requests[2].body["metadata"]["resourceVersion"] == "7"


def test_a_conflict_with_ones_own_earlier_write_is_success(cluster: Any) -> None:
    found, pool = cluster(refusal(409), node("new", "7"))
    patch(found)
    assert len(pool.requests) == 2


@pytest.mark.parametrize("fresh", [node("other"), node("old", uid="another"), refusal(404)], ids=["changed", "recreated", "gone"])
def test_somebody_elses_change_is_not_overwritten(cluster: Any, fresh: Any) -> None:
    found, _pool = cluster(refusal(409), fresh)
    with pytest.raises(ClusterError) as caught:
        patch(found)
    assert (caught.value.code, caught.value.status) == ("changed-meanwhile", 409)


def test_an_object_that_never_rests_is_given_up(cluster: Any) -> None:
    found, _pool = cluster(*[one for _turn in range(5) for one in (refusal(409), node("old"))])
    with pytest.raises(ClusterError) as caught:
        patch(found)
    assert caught.value.code == "changed-meanwhile"


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (answer(201), "evicted"),
        (refusal(429, "TooManyRequests", "would violate the budget", causes=[{"reason": "DisruptionBudget"}]), "blocked"),
        (refusal(404), "gone"),
        (refusal(409, "Conflict"), "gone"),
    ],
    ids=["evicted", "blocked", "gone", "another"],
)
def test_an_eviction_tells_what_became_of_it(cluster: Any, reply: Any, outcome: str) -> None:
    found, pool = cluster(reply)
    assert found.evict("team", "train", uid="u").outcome == outcome
    assert pool.requests[0].body["deleteOptions"]["preconditions"] == {"uid": "u"}


def test_a_throttled_eviction_is_not_a_blocked_one(cluster: Any) -> None:
    found, pool = cluster(refusal(429, "TooManyRequests"), answer(201))
    assert found.evict("team", "train").outcome == "evicted"
    assert len(pool.requests) == 2


def test_deleting_what_is_gone_is_not_an_error(cluster: Any) -> None:
    found, pool = cluster(answer(), refusal(404), refusal(409), refusal(409))
    assert found.delete(f"{NODES}/a", uid="u", grace_seconds=0)
    assert pool.requests[0].body == {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u"}, "gracePeriodSeconds": 0}
    assert not found.delete(f"{NODES}/a")
    assert not found.delete(f"{NODES}/a", uid="u")
    with pytest.raises(ClusterError):
        found.delete(f"{NODES}/a", uid="u", resource_version="1")


def test_many_at_once_keep_their_order_and_their_errors(cluster: Any) -> None:
    found, _pool = cluster()

    def work(number: int) -> int:
        if number == 3:
            raise ClusterError("three", code="cluster-failed", remedy="")
        return number * 2

    results = found.each(work, range(20))
    assert [one for index, one in enumerate(results) if index != 3] == [number * 2 for number in range(20) if number != 3]
    assert isinstance(results[3], ClusterError)


def test_a_command_is_not_run_as_somebody_else(cluster: Any) -> None:
    found, _pool = cluster()
    with pytest.raises(ClusterError) as caught:
        found.execute("ns", "pod", container="c", command=["true"], timeout=1)
    assert caught.value.code == "exec-impersonated"


class Stream:
    """What the Python client's websocket does: C(output) by channel, open for ever when C(hangs)."""

    def __init__(self, output: dict[int, str], hangs: bool = False) -> None:
        self.output, self.hangs = output, hangs

    def run_forever(self, timeout: float) -> None:
        assert timeout == 5

    def is_open(self) -> bool:
        return self.hangs

    def read_channel(self, channel: int) -> str:
        return self.output.get(channel, "")

    def close(self) -> None:
        self.hangs = False


def run_command(found: Cluster, pool: Pool, monkeypatch: pytest.MonkeyPatch, stream: Any) -> Any:
    from kubernetes.stream import ws_client

    def connect(_configuration: Any, url: str, headers: dict[str, str], capture_all: bool) -> Any:
        assert url.startswith("wss://cluster/api/v1/namespaces/ns/pods/pod/exec?container=c&") and "command=nvidia-smi&command=-L" in url
        assert headers["authorization"] == "Bearer first" and not capture_all
        if isinstance(stream, Exception):
            raise stream
        return stream

    monkeypatch.setattr(ws_client, "WSClient", connect)
    found._api.default_headers = {}
    return found.execute("ns", "pod", container="c", command=["nvidia-smi", "-L"], timeout=5)


def test_a_command_brings_its_output_and_its_code(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found, pool = cluster()
    failed = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}}
    done = run_command(found, pool, monkeypatch, Stream({1: "out", 2: "err", 3: json.dumps(failed)}))
    assert (done.stdout, done.stderr, done.code) == ("out", "err", 3)


@pytest.mark.parametrize(
    ("stream", "code", "words"),
    [
        (Stream({}, hangs=True), "exec-timeout", "did not end within 5 seconds"),
        (OSError("Handshake status 403 Forbidden"), "exec-failed", "could not be run: Handshake status 403 Forbidden"),
        (Stream({3: '{"status": "Failure", "message": "no such executable"}'}), "exec-failed", "could not be run: no such executable"),
        (Stream({1: "half an ans"}), "exec-failed", "could not be run: the connection ended before the command did"),
    ],
)
def test_a_command_that_hangs_or_cannot_be_run_is_an_error(cluster: Any, monkeypatch: pytest.MonkeyPatch, stream: Any, code: str, words: str) -> None:
    found, pool = cluster()
    with pytest.raises(ClusterError) as caught:
        run_command(found, pool, monkeypatch, stream)
    assert caught.value.code == code and caught.value.remedy and words in caught.value.message


def test_a_budget_that_holds_a_deletion_back_is_named(cluster: Any) -> None:
    found, _pool = cluster(refusal(429, "TooManyRequests", "would violate the budget", causes=[{"reason": "DisruptionBudget"}]))
    with pytest.raises(ClusterError) as caught:
        found.create("/api/v1/namespaces/ns/pods/pod/eviction", {})
    assert caught.value.code == "disruption-budget"


def test_a_log_is_text_whatever_its_bytes(cluster: Any) -> None:
    broken = answer()
    broken.data = b"line \xff\n"
    found, pool = cluster(broken)
    assert found.logs("ns", "pod", container="c", previous=True) == "line \ufffd\n"
    assert pool.requests[0].url.endswith("/log?container=c&tailLines=20&limitBytes=65536&previous=true")


def test_a_missing_library_names_the_interpreter_and_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_cluster.sys.modules, "kubernetes", None)
    with pytest.raises(ClusterError) as caught:
        Cluster.connect({})
    assert caught.value.code == "library-missing"
    assert _cluster.sys.executable in caught.value.message
    assert f"{_cluster.sys.executable} -m pip install kubernetes" in caught.value.remedy


def test_a_kubeconfig_that_is_not_there_is_an_error_without_a_traceback() -> None:
    with pytest.raises(ClusterError) as caught:
        Cluster.connect({"kubeconfig": "/nowhere/kubeconfig"})
    assert caught.value.code == "cluster-unreachable"


def test_a_first_contact_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s import client as library

    never = threading.Event()
    monkeypatch.setattr(library, "get_api_client", lambda **_options: never.wait())
    monkeypatch.setattr(_cluster, "RETRY_SECONDS", 0.05)
    try:
        with pytest.raises(ClusterError, match="host https://silent.*nothing within") as caught:
            Cluster.connect({"host": "https://silent"})
        assert caught.value.code == "cluster-unreachable"
    finally:
        never.set()
