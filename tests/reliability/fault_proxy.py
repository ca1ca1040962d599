# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy between a client and a real API server that answers wrongly, late, half or not at all.

The client speaks TLS to the proxy on loopback, with a token file of the proxy's own that can be rotated; the proxy speaks TLS to the API
server with the real token, so authorization stays the server's. A fault hits the requests that its rule matches, a bounded number of
times. A rule may also do something just before a request passes, or after it passed and before its answer: an edit, a kill, a restart.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import re
import select
import socket
import ssl
import sys
import threading
import time
import typing as t
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

from tests.testbed.certificates import write_certificates

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}
WRITES = ("POST", "PUT", "PATCH", "DELETE")
# How long an answer that never comes is held back; longer than any client waits for one read.
SILENT_SECONDS = 120.0


@dataclasses.dataclass(frozen=True)
class Fault:
    """One way to fail.

    ``forwards`` tells whether the API server sees the request, ``status`` is the answer that the proxy makes up (0: none),
    ``body`` says what happens to the answer: whole, none (connection cut), half (cut inside), slow (dribbled), page (a text that
    is no JSON), empty (nothing, and the end), silent (headers, then nothing), event (a watch's ERROR event), and hang (no answer at all).
    ``connection`` is a fault of the TLS handshake, before there is a request: cut or untrusted.
    """

    name: str
    forwards: bool
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    body: str = "whole"
    reason: str = ""
    shifts_clock: int = 0
    rotates_token: bool = False
    connection: str = ""


FAULTS: t.Mapping[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault("429-retry-after", forwards=False, status=429, headers=(("Retry-After", "1"),), reason="TooManyRequests"),
        Fault("429-retry-after-an-hour", forwards=False, status=429, headers=(("Retry-After", "3600"),), reason="TooManyRequests"),
        Fault("429", forwards=False, status=429, reason="TooManyRequests"),
        Fault("500", forwards=False, status=500, reason="InternalError"),
        Fault("502", forwards=False, status=502, reason="BadGateway"),
        Fault("503", forwards=False, status=503, reason="ServiceUnavailable"),
        Fault("504", forwards=False, status=504, reason="Timeout"),
        Fault("504-after-acting", forwards=True, status=504, reason="Timeout"),
        Fault("reset-before", forwards=False, body="none"),
        Fault("reset-after", forwards=True, body="none"),
        Fault("truncated-body", forwards=True, body="half"),
        Fault("slow-body", forwards=True, body="slow"),
        Fault("no-json", forwards=False, status=200, body="page"),
        Fault("no-answer", forwards=False, body="hang"),
        Fault("watch-closed", forwards=False, body="empty"),
        Fault("watch-silent", forwards=True, body="silent"),
        Fault("410-event", forwards=False, status=410, reason="Expired", body="event"),
        Fault("401", forwards=False, status=401, reason="Unauthorized"),
        Fault("token-rotated", forwards=False, status=401, reason="Unauthorized", rotates_token=True),
        Fault("409", forwards=False, status=409, reason="Conflict"),
        Fault("410-gone", forwards=False, status=410, reason="Expired"),
        Fault("clock-behind", forwards=True, shifts_clock=-3600),
        Fault("clock-ahead", forwards=True, shifts_clock=3600),
        Fault("tls-handshake", forwards=False, connection="cut"),
        Fault("tls-untrusted", forwards=False, connection="untrusted"),
        Fault("none", forwards=True),
    )
}


@dataclasses.dataclass
class Rule:
    """Which requests a fault hits: by method, by path, after the first ``skip`` of them, ``times`` times at most.

    ``before`` is done just before such a request passes, ``after`` when the server has answered and the client does not know yet.
    """

    fault: Fault
    methods: tuple[str, ...] = ("GET", *WRITES)
    path: str = ".*"
    skip: int = 0
    times: int = 1
    before: t.Callable[[], None] | None = None
    after: t.Callable[[], None] | None = None
    hits: int = 0
    seen: int = 0

    def takes(self, method: str, path: str) -> bool:
        """Whether this request is to fail; counts it."""
        if method not in self.methods or not re.search(self.path, path):
            return False
        self.seen += 1
        if self.seen <= self.skip or self.hits >= self.times:
            return False
        self.hits += 1
        return True


PASS = Rule(FAULTS["none"])


class FaultProxy:
    """Runs between ``with`` and its end; ``rules`` may be changed meanwhile."""

    def __init__(self, kubeconfig: Path, certificates: Path, directory: Path) -> None:
        self.source = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        cluster = self.source["clusters"][0]["cluster"]
        target = urllib.parse.urlsplit(cluster["server"])
        assert target.hostname is not None and target.port is not None
        self.host, self.port = target.hostname, target.port
        self.tls = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
        self.directory = directory
        self.rules: list[Rule] = []
        self.page_size: int | None = None  # makes lists come in pages even on small clusters
        self.single_use = False  # one request for each connection
        self.requests: list[tuple[str, str]] = []
        self.lock = threading.Lock()
        self.token = "token-1"
        self.real_token = self.source["users"][0]["user"]["token"]
        write_certificates(directory / "nobody-knows")
        self.trusted = _serving(certificates)
        self.untrusted = _serving(directory / "nobody-knows")
        self.server = _Server(("127.0.0.1", 0), _handler_of(self))
        self._write_kubeconfig()

    def __enter__(self) -> FaultProxy:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *unused: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig that leads through the proxy, with a token in a file beside it."""
        return self.directory / "kubeconfig-through-proxy"

    def _write_kubeconfig(self) -> None:
        content = json.loads(json.dumps(self.source))
        content["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.server.server_address[1]}"
        content["users"][0]["user"] = {"tokenFile": str(self.directory / "token")}
        for path, text in ((self.directory / "token", self.token), (self.kubeconfig, yaml.safe_dump(content))):
            path.write_text(text, encoding="utf-8")
            path.chmod(0o600)

    def rotate_token(self) -> None:
        """Put another token into the file; the former one is refused from now on."""
        self.token = f"token-{int(self.token.partition('-')[2]) + 1}"
        (self.directory / "token").write_text(self.token, encoding="utf-8")

    def path_of(self, path: str) -> str:
        """The path to ask the server for: the client's own, with smaller pages if wanted."""
        return path if self.page_size is None else re.sub(r"\blimit=\d+", f"limit={self.page_size}", path)

    def rule_for(self, method: str, path: str) -> Rule:
        """The rule that this request meets; the first one that takes it wins."""
        with self.lock:
            self.requests.append((method, path))
            rule = next((rule for rule in self.rules if not rule.fault.connection and rule.takes(method, path)), PASS)
            if rule.fault.rotates_token:
                self.rotate_token()
            return rule

    def connection_fault(self) -> str:
        """The fault that a new connection meets, "" for none."""
        with self.lock:
            return next((rule.fault.connection for rule in self.rules if rule.fault.connection and rule.takes("GET", "")), "")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """Connections that are cut, by us or by a killed client, are what this proxy is for."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _serving(directory: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.crt", directory / "server.key")
    return context


def _status(fault: Fault) -> dict[str, t.Any]:
    """The Status object that an API server would answer with."""
    said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": f"made up by the fault proxy: {fault.name}"}
    return {**said, "code": fault.status, "reason": fault.reason}


def _handler_of(proxy: FaultProxy) -> type[BaseHTTPRequestHandler]:
    """A request handler class bound to one proxy."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            fault = proxy.connection_fault()
            if fault == "cut":
                self.request.recv(64)  # the client's greeting
                raise ConnectionAbortedError("cut on purpose")
            context = proxy.untrusted if fault == "untrusted" else proxy.trusted
            self.request = context.wrap_socket(self.request, server_side=True)
            super().setup()

        def finish(self) -> None:
            super().finish()
            self.request.close()

        def log_message(self, *unused: object) -> None:
            """Nothing: the proxy keeps its own list of requests."""

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            content = self.rfile.read(length) if length else None
            if self.headers.get("Authorization") != f"Bearer {proxy.token}":
                self._made_up(FAULTS["401"])
                return
            rule = proxy.rule_for(self.command, self.path)
            if rule.before:
                rule.before()
            if not rule.fault.forwards:
                self._made_up(rule.fault)
            elif self.headers.get("Upgrade"):
                self._tunnel()
            else:
                self._forward(content, rule)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

        def _forwarded_headers(self) -> dict[str, str]:
            kept = {key: value for key, value in self.headers.items() if key.lower() not in (*HOP_BY_HOP, "authorization")}
            return {**kept, "Authorization": f"Bearer {proxy.real_token}"}

        def _forward(self, content: bytes | None, rule: Rule) -> None:
            upstream = http.client.HTTPSConnection(proxy.host, proxy.port, context=proxy.tls, timeout=120)
            try:
                upstream.request(self.command, proxy.path_of(self.path), body=content, headers=self._forwarded_headers())
                answer = upstream.getresponse()
                if rule.after:
                    rule.after()
                if rule.fault.status:
                    answer.read()
                    self._made_up(rule.fault)
                else:
                    self._pass_on(answer, rule.fault)
            finally:
                upstream.close()

        def _made_up(self, fault: Fault) -> None:
            if fault.body == "none":
                self._cut()
                return
            if fault.body == "hang":
                self._wait_for_the_client()
                return
            body = {"page": b"<html><body>Please sign in</body></html>", "empty": b""}.get(fault.body, json.dumps(_status(fault)).encode())
            if fault.body == "event":
                body = json.dumps({"type": "ERROR", "object": _status(fault)}).encode() + b"\n"
            kind = "text/html" if fault.body == "page" else "application/json"
            self.send_response(200 if fault.body in ("event", "empty") else fault.status)
            for key, value in (*fault.headers, ("Content-Type", kind), ("Content-Length", str(len(body)))):
                self.send_header(key, value)
            self._end_headers()
            self.wfile.write(body)

        def _pass_on(self, answer: http.client.HTTPResponse, fault: Fault) -> None:
            if fault.body == "none":
                answer.read()
                self._cut()
                return
            streamed = "watch=" in self.path or "follow=" in self.path
            self.send_response_only(answer.status, answer.reason)
            self._copy_headers(answer, fault.shifts_clock)
            if fault.body == "silent":
                self.send_header("Transfer-Encoding", "chunked")
                self._end_headers()
                self.wfile.flush()
                self._wait_for_the_client()
                return
            if streamed and fault.body == "whole":
                self._stream(answer)
                return
            body = answer.read(4096) if streamed else answer.read()
            self.send_header("Content-Length", str(len(body)))
            self._end_headers()
            self._write(body, fault.body)

        def _copy_headers(self, answer: http.client.HTTPResponse, shift: int) -> None:
            for key, value in answer.getheaders():
                if key.lower() in HOP_BY_HOP:
                    continue
                if key.lower() == "date" and shift:
                    value = self.date_time_string(int(time.time()) + shift)
                self.send_header(key, value)

        def _end_headers(self) -> None:
            if proxy.single_use:
                self.send_header("Connection", "close")  # which also closes it
            self.end_headers()

        def _stream(self, answer: http.client.HTTPResponse) -> None:
            self.send_header("Transfer-Encoding", "chunked")
            self._end_headers()
            while True:
                chunk = answer.read1(65536)
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                self.wfile.flush()
                if not chunk:
                    return

        def _write(self, body: bytes, way: str) -> None:
            if way == "half":
                self.wfile.write(body[: len(body) // 2])
                self._cut()
                return
            if way == "slow":
                step = max(1, len(body) // 10)
                for start in range(0, len(body), step):
                    self.wfile.write(body[start : start + step])
                    self.wfile.flush()
                    time.sleep(0.15)
                return
            self.wfile.write(body)

        def _tunnel(self) -> None:
            """Pass a WebSocket through: from here on it is bytes both ways until one side ends."""
            with socket.create_connection((proxy.host, proxy.port), timeout=10) as plain, proxy.tls.wrap_socket(plain, server_hostname=proxy.host) as upstream:
                kept = {key: value for key, value in self.headers.items() if key.lower() in ("connection", "upgrade", "host")}
                lines = [f"{self.command} {self.path} HTTP/1.1", *(f"{key}: {value}" for key, value in {**self._forwarded_headers(), **kept}.items())]
                upstream.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
                self.close_connection = True
                sides: dict[t.Any, t.Any] = {upstream: self.connection, self.connection: upstream}
                while True:
                    ready = [side for side in sides if side.pending()] or select.select(list(sides), [], [], SILENT_SECONDS)[0]
                    for side in ready:
                        chunk = side.recv(65536)
                        if not chunk:
                            return
                        sides[side].sendall(chunk)
                    if not ready:
                        return

        def _wait_for_the_client(self) -> None:
            """Say nothing until the client gives up."""
            select.select([self.connection], [], [], SILENT_SECONDS)
            self._cut()

        def _cut(self) -> None:
            self.close_connection = True
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)

    return Handler
