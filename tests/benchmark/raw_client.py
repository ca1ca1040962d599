# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fastest client we can think of for one label on many nodes: keep-alive connections, metadata-only answers, no thinking.

It reads nothing, checks nothing and retries nothing: the floor that a careful tool is compared with.
Usage: python -m tests.benchmark.raw_client KUBECONFIG VALUE WORKERS NODE... (node names on standard input, one a line).
"""

from __future__ import annotations

import http.client
import json
import ssl
import sys
import threading
import urllib.parse
from pathlib import Path


def label(kubeconfig: Path, value: str, workers: int, names: list[str]) -> None:
    """Put the config label of every named node to ``value`` with that many connections. Raises AssertionError on a refusal."""
    content = json.loads(kubeconfig.read_text(encoding="utf-8"))
    address = urllib.parse.urlsplit(content["clusters"][0]["cluster"]["server"])
    context = ssl.create_default_context(cafile=content["clusters"][0]["cluster"]["certificate-authority"])
    headers = {
        "Authorization": f"Bearer {content['users'][0]['user']['token']}",
        "Content-Type": "application/merge-patch+json",
        "Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    }
    body = json.dumps({"metadata": {"labels": {"nvidia.com/device-plugin.config": value}}})

    def work(share: list[str]) -> None:
        connection = http.client.HTTPSConnection(str(address.hostname), address.port, context=context)
        for name in share:
            connection.request("PATCH", f"/api/v1/nodes/{name}", body, headers)
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status == 200, text
        connection.close()

    threads = [threading.Thread(target=work, args=(names[start::workers],)) for start in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    label(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.stdin.read().split() or sys.argv[4:])
