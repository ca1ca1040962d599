# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mirror of the GPU Operator's chart on loopback, as an HTTP repository and as an OCI registry, in two versions.

There is one chart on the bed, that of the operator's own module; the versions differ in what Chart.yaml says and in nothing else.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.testbed.chart import chart_directory

FORMER, CURRENT = "v25.3.3", "v25.3.4"
# distribution-spec v1.1, and the media types under which Helm stores charts (helm pkg/registry/constants.go).
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.cncf.helm.config.v1+json"
CHART = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


@dataclass(frozen=True)
class ChartMirror:
    """Where the charts are, and the paths that were asked for."""

    port: int
    requests: list[str]

    @property
    def repository(self) -> str:
        """The address of the HTTP repository."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def oci(self) -> str:
        """The chart's address in the OCI registry, which is spoken to without TLS."""
        return f"oci://127.0.0.1:{self.port}/charts/gpu-operator"


@dataclass
class Registry:
    """The part of an OCI registry that is needed to pull: manifests by tag or digest, and blobs."""

    blobs: dict[str, tuple[str, bytes]] = field(default_factory=dict)

    def push(self, tag: str, chart: bytes) -> None:
        """Store a chart's archive under a tag."""
        config = self._store(CONFIG, b"{}")
        layer = self._store(CHART, chart)
        manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}).encode()
        self._store(MANIFEST, manifest)
        self.blobs[tag] = (MANIFEST, manifest)

    def _store(self, media_type: str, content: bytes) -> dict[str, object]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.blobs[digest] = (media_type, content)
        return {"mediaType": media_type, "digest": digest, "size": len(content)}


class Handler(SimpleHTTPRequestHandler):
    """Files of the repository, and below /v2/ the registry."""

    def __init__(self, registry: Registry, requests: list[str], *arguments: object, **settings: object) -> None:
        self.registry, self.requests = registry, requests
        super().__init__(*arguments, **settings)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """Answer from the registry or from the folder."""
        self.requests.append(self.path)
        if self.path.startswith("/v2/"):
            self._registry(body=True)
        else:
            super().do_GET()

    def do_HEAD(self) -> None:
        """Answer a client that asks whether a manifest is there."""
        self._registry(body=False)

    def _registry(self, *, body: bool) -> None:
        reference = self.path.rpartition("/")[2]
        media_type, content = self.registry.blobs.get(reference, ("application/json", b"{}"))
        self.send_response(200 if reference in self.registry.blobs or not reference else 404)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Docker-Content-Digest", f"sha256:{hashlib.sha256(content).hexdigest()}")
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing: the requests are kept."""


@contextmanager
def chart_mirror(programs: Path, folder: Path) -> Iterator[ChartMirror]:
    """Serve both versions of the chart from `folder` as long as the context lasts."""
    registry, requests = Registry(), list[str]()
    for version in (FORMER, CURRENT):
        helm = (str(programs / "helm4"), "package", str(chart_directory(programs)), "--version", version, "--app-version", version)
        subprocess.run([*helm, "--destination", str(folder)], check=True, capture_output=True)
        registry.push(version, (folder / f"gpu-operator-{version}.tgz").read_bytes())
    subprocess.run([str(programs / "helm4"), "repo", "index", str(folder)], check=True, capture_output=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, registry, requests, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield ChartMirror(server.server_port, requests)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
