# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Play the kubelet for one pod: run the real GPU Operator for as long as its Deployment exists.

The chart's Deployment gets a pod that KWOK only pretends to run. This process looks for the Deployment, starts NVIDIA's
binary with the namespace and the service account the Deployment names, starts it again when it dies, and ends it when
the Deployment is gone. So an uninstalled operator does nothing, and one without rights fails, as in a real cluster.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.testbed.api import Api, ApiError
from tests.testbed.layout import Layout, kubeconfig_text
from tests.testbed.processes import NAME_VARIABLE, running

POLL_SECONDS = 1.0
RESTART_SECONDS = 3.0
TOKEN_SECONDS = 7 * 24 * 3600
DEPLOYMENTS = "/apis/apps/v1/deployments"
SELECTOR = "app.kubernetes.io/component=gpu-operator"
OPERATOR = "gpu-operator"

# Ways to a mount namespace of one's own: as a plain user through a user namespace, else as root without one.
NAMESPACES = (("unshare", "--map-root-user", "--mount"), ("unshare", "--mount"))

# The operator reads its assets from fixed paths and insists on real directories: they are copied into a file system
# of memory that only this process sees.
MOUNT_AND_RUN = """
set -e
mount -t tmpfs -o size=64m tmpfs /opt
mkdir /opt/gpu-operator
cp -R "$1"/. /opt/gpu-operator/
cp -R "$2" /opt/gpu-operator/manifests
exec "$3" --kubeconfig="$4" --metrics-bind-address=0 --health-probe-bind-address=0
"""


class NamespaceError(Exception):
    """This machine does not let us mount anything in private."""


def private_mount() -> tuple[str, ...]:
    """Return the command that runs another one where it may mount for itself. Raises NamespaceError."""
    for command in NAMESPACES:
        with contextlib.suppress(FileNotFoundError):
            if subprocess.run([*command, "mount", "-t", "tmpfs", "tmpfs", "/opt"], capture_output=True, check=False).returncode == 0:
                return command
    raise NamespaceError(
        "The GPU Operator needs its files under /opt/gpu-operator, in a mount namespace of its own, and this machine allows none: neither "
        + " nor ".join(f"`{' '.join(command)}`" for command in NAMESPACES)
        + " may mount. Allow user namespaces (for example sysctl kernel.apparmor_restrict_unprivileged_userns=0), or start the bed as root."
    )


def main() -> int:
    """Follow the Deployment until this process is told to end."""
    parser = argparse.ArgumentParser(prog="python -m tests.testbed.operator_runner", description=__doc__)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--programs", type=Path, required=True)
    arguments = parser.parse_args()
    layout = Layout(arguments.directory)
    api = Api(layout.server, layout.certificates / "ca.crt", layout.tokens()["testbed:operator-runner"], "testbed-operator-runner")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    _end_orphan(layout)
    child: subprocess.Popen[bytes] | None = None
    try:
        while True:
            child = _step(layout, arguments.programs, api, child)
            time.sleep(POLL_SECONDS)
    finally:
        _end(child)


def _step(layout: Layout, programs: Path, api: Api, child: subprocess.Popen[bytes] | None) -> subprocess.Popen[bytes] | None:
    """Bring the operator's process in line with the Deployment; return the process, if one runs."""
    try:
        deployment = _find_deployment(api)
        if deployment is None:
            _end(child)
            return None
        if child is not None and child.poll() is None:
            return child
        if child is not None:
            print(f"the operator ended with {child.returncode}; starting it again", flush=True)
            time.sleep(RESTART_SECONDS)
        return _start(layout, programs, api, deployment)
    except (OSError, ApiError) as error:  # the API server restarts, or the service account is not there yet
        print(f"waiting: {error}", flush=True)
        return child


def _find_deployment(api: Api) -> dict[str, Any] | None:
    found = api.list(DEPLOYMENTS, labelSelector=SELECTOR)
    alive = [d for d in found if d["spec"].get("replicas", 1) > 0 and "deletionTimestamp" not in d["metadata"]]
    return alive[0] if alive else None


def _start(layout: Layout, programs: Path, api: Api, deployment: dict[str, Any]) -> subprocess.Popen[bytes]:
    namespace = deployment["metadata"]["namespace"]
    account = deployment["spec"]["template"]["spec"].get("serviceAccountName", "default")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": TOKEN_SECONDS}}
    token = api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", request)["status"]["token"]
    kubeconfig = layout.directory / "kubeconfigs" / "gpu-operator.kubeconfig"
    kubeconfig.write_text(kubeconfig_text(layout.server, layout.certificates / "ca.crt", account, token))
    files = [programs / "operator-assets", programs / "operator-manifests", programs / OPERATOR, kubeconfig]
    with open(layout.directory / "logs" / f"{OPERATOR}.log", "ab") as log:
        return subprocess.Popen(
            [*private_mount(), "sh", "-c", MOUNT_AND_RUN, "sh", *map(str, files)],
            env={**os.environ, NAME_VARIABLE: OPERATOR, "OPERATOR_NAMESPACE": namespace},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _end_orphan(layout: Layout) -> None:
    """End the operator a killed predecessor of this process has left running."""
    pid = running(layout.directory).get(OPERATOR)
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _end(child: subprocess.Popen[bytes] | None) -> None:
    if child is None or child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(5)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


if __name__ == "__main__":
    sys.exit(main())
