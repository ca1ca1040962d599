# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy between a client and a real API server that answers wrongly, late, half or not at all.

The client speaks plain HTTP to the proxy on loopback; the proxy speaks TLS to the API server and passes the client's own token on,
so authentication and authorization stay the server's. A fault hits the requests that its rule matches, a bounded number of times.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import re
import socket
import ssl
import threading
import time
import typing as t
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}
WRITES = ("POST", "PUT", "PATCH", "DELETE")


@dataclasses.dataclass(frozen=True)
class Fault:
    """One way to fail.

    ``forwards`` tells whether the API server sees the request, ``status`` is the answer that the proxy makes up (0: none),
    ``body`` says what happens to the server's answer: whole, none (connection cut), half (cut inside), slow (dribbled).
    """

    name: str
    forwards: bool
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    body: str = "whole"
    reason: str = ""
    shifts_clock: int = 0


FAULTS: t.Mapping[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault("429-retry-after", forwards=False, status=429, headers=(("Retry-After", "1"),), reason="TooManyRequests"),
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
        Fault("401", forwards=False, status=401, reason="Unauthorized"),
        Fault("409", forwards=False, status=409, reason="Conflict"),
        Fault("410-gone", forwards=False, status=410, reason="Expired"),
        Fault("clock-skew", forwards=True, shifts_clock=-3600),
    )
}


@dataclasses.dataclass
class Rule:
    """Which requests a fault hits: by method, by path, after the first ``skip`` of them, ``times`` times at most."""

    fault: Fault
    methods: tuple[str, ...] = ("GET", *WRITES)
    path: str = ".*"
    skip: int = 0
    times: int = 1
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


class FaultProxy:
    """Runs between ``with`` and its end; ``rules`` may be changed meanwhile."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        import yaml

        self.source = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        cluster = self.source["clusters"][0]["cluster"]
        target = urllib.parse.urlsplit(cluster["server"])
        assert target.hostname is not None and target.port is not None
        self.host, self.port = target.hostname, target.port
        self.tls = ssl._create_unverified_context()
        self.directory = directory
        self.rules: list[Rule] = []
        self.page_size: int | None = None  # makes lists come in pages even on small clusters
        self.requests: list[tuple[str, str]] = []
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self.server.daemon_threads = True

    def __enter__(self) -> FaultProxy:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *unused: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig that leads through the proxy with the same user."""
        import yaml

        text = json.loads(json.dumps(self.source))
        text["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self.server.server_address[1]}"}
        path = self.directory / "kubeconfig-through-proxy"
        path.write_text(yaml.safe_dump(text), encoding="utf-8")
        path.chmod(0o600)
        return path

    def path_of(self, path: str) -> str:
        """The path to ask the server for: the client's own, with smaller pages if wanted."""
        return path if self.page_size is None else re.sub(r"\blimit=\d+", f"limit={self.page_size}", path)

    def fault_for(self, method: str, path: str) -> Fault | None:
        """The fault that this request meets, or None; the first rule that takes it wins."""
        with self.lock:
            self.requests.append((method, path))
            return next((rule.fault for rule in self.rules if rule.takes(method, path)), None)


def _status(fault: Fault) -> dict[str, t.Any]:
    """The Status object that an API server would answer with."""
    said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": f"made up by the fault proxy: {fault.name}"}
    return {**said, "code": fault.status, "reason": fault.reason}


def _handler_of(proxy: FaultProxy) -> type[BaseHTTPRequestHandler]:
    """A request handler class bound to one proxy."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *unused: object) -> None:
            """Nothing: the proxy keeps its own list of requests."""

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            content = self.rfile.read(length) if length else None
            fault = proxy.fault_for(self.command, self.path)
            if fault is not None and not fault.forwards:
                self._made_up(fault)
                return
            upstream = http.client.HTTPSConnection(proxy.host, proxy.port, context=proxy.tls, timeout=120)
            try:
                headers = {key: value for key, value in self.headers.items() if key.lower() not in HOP_BY_HOP}
                upstream.request(self.command, proxy.path_of(self.path), body=content, headers=headers)
                answer = upstream.getresponse()
                if fault is not None and fault.status:
                    answer.read()
                    self._made_up(fault)
                else:
                    self._pass_on(answer, fault)
            finally:
                upstream.close()

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

        def _made_up(self, fault: Fault) -> None:
            if fault.body == "none":
                self._cut()
                return
            body = json.dumps(_status(fault)).encode()
            self.send_response(fault.status)
            for key, value in (*fault.headers, ("Content-Type", "application/json"), ("Content-Length", str(len(body)))):
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        def _pass_on(self, answer: http.client.HTTPResponse, fault: Fault | None) -> None:
            way = fault.body if fault else "whole"
            if way == "none":
                answer.read()
                self._cut()
                return
            streamed = "watch=" in self.path or "follow=" in self.path
            self.send_response_only(answer.status, answer.reason)
            self._copy_headers(answer, fault.shifts_clock if fault else 0)
            if streamed and way == "whole":
                self._stream(answer)
                return
            body = answer.read(4096) if streamed else answer.read()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self._write(body, way)

        def _copy_headers(self, answer: http.client.HTTPResponse, shift: int) -> None:
            for key, value in answer.getheaders():
                if key.lower() in HOP_BY_HOP:
                    continue
                if key.lower() == "date" and shift:
                    value = self.date_time_string(int(time.time()) + shift)
                self.send_header(key, value)

        def _stream(self, answer: http.client.HTTPResponse) -> None:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
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

        def _cut(self) -> None:
            self.close_connection = True
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)

    return Handler
