# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One test bed: start it, repair it, look at it, stop it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.testbed import chart, components, processes
from tests.testbed.api import Api, ApiError
from tests.testbed.audit import AuditEvent, read_events
from tests.testbed.build import build
from tests.testbed.certificates import write_certificates
from tests.testbed.layout import Layout, port_is_free, write_json
from tests.testbed.node_sets import node_objects, read_node_set
from tests.testbed.operator_runner import private_mount
from tests.testbed.reset import reset, settled

START_SECONDS = 90.0
POLL_SECONDS = 0.1
KUBECTL_SECONDS = 120.0
PORT_SECONDS = 10.0


class BedError(Exception):
    """The bed cannot be started or does not answer; the message says which process and ends with its log."""


@dataclass(frozen=True)
class Settings:
    """What a bed was asked to be."""

    nodes: str = "lab"
    plugin_version: str = "0.17.4"
    operator: bool = True
    instant: bool = False
    agents: bool = True


@dataclass(frozen=True)
class TestBed:
    """A running bed. All of it is in `directory`; the cluster listens on loopback only."""

    __test__ = False  # not a test class, whatever pytest thinks of the name

    layout: Layout
    settings: Settings
    programs: Path

    @classmethod
    def start(
        cls,
        name: str = "default",
        nodes: str = "lab",
        plugin_version: str = "0.17.4",
        operator: bool = True,
        instant: bool = False,
        agents: bool = True,
    ) -> TestBed:
        """Start the bed `name`, or start again what is missing of it. Raises BedError and the errors of its parts."""
        bed = cls(Layout.of(name), Settings(nodes, plugin_version, operator, instant, agents), build())
        # What cannot be is refused before anything is there.
        read_node_set(nodes)
        if operator:
            private_mount()
        with _locked(bed.directory):
            bed._remember_settings()
            bed._start_processes()
        return bed

    @property
    def name(self) -> str:
        """The bed's name."""
        return self.layout.name

    @property
    def directory(self) -> Path:
        """Everything of this bed is below this directory."""
        return self.layout.directory

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.layout.kubeconfig

    @property
    def audit_log(self) -> Path:
        """The API server's audit log."""
        return self.layout.audit_log

    @property
    def api(self) -> Api:
        """A raw client with the launcher's rights."""
        return self.client("testbed:launcher", "testbed")

    def client(self, user: str, user_agent: str) -> Api:
        """Return a raw client that is one of layout.USERS."""
        return Api(self.layout.server, self.layout.certificates / "ca.crt", self.layout.tokens()[user], user_agent)

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        """Run kubectl as the administrator and return what it prints. Raises BedError with what it complains about."""
        beside = Path(sys.executable).parent / "kubectl"
        command = [str(beside) if beside.exists() else "kubectl", f"--kubeconfig={self.kubeconfig}", *arguments]
        answer = subprocess.run(command, input=input, capture_output=True, text=True, check=False, timeout=KUBECTL_SECONDS)
        if answer.returncode != 0:
            raise BedError(f"kubectl {' '.join(arguments)}: {answer.stderr.strip()}")
        return answer.stdout

    def processes(self) -> dict[str, int]:
        """Return name -> process id of what runs of this bed."""
        return processes.running(self.directory)

    def mark(self) -> int:
        """Return a marker for `audit`: events of requests that were answered before are left out."""
        self._flush_audit()
        return self.audit_log.stat().st_size

    def audit(self, since: int = 0) -> list[AuditEvent]:
        """Return the requests logged since the marker, the test bed's own looking left out."""
        self._flush_audit()
        return [event for event in read_events(self.audit_log, since) if not event.user_agent.startswith("testbed")]

    def install_operator_objects(self, values: Mapping[str, Any] | None = None) -> None:
        """Install the real chart with the bed's values (and `values` on top), without waiting for the policy."""
        chart.install(self, values or {})

    def wait_until_settled(self, seconds: float = 180.0) -> None:
        """Wait until the policy is ready and operator and agents have nothing left to do. Raises BedError."""
        self.wait_for("settled operator and agents", lambda: settled(self), seconds, poll=0.5)

    def reset(self) -> None:
        """Remove what tests left behind and wait until the bed is as after the operator's install. Raises BedError."""
        reset(self)

    def wait_for(self, what: str, condition: Callable[[], Any], seconds: float = START_SECONDS, poll: float = POLL_SECONDS) -> Any:
        """Return the first true value of `condition`; errors of the API, of connections and of kubectl count as not yet. Raises BedError."""
        deadline = time.monotonic() + seconds
        problem = ""
        while time.monotonic() < deadline:
            try:
                if value := condition():
                    return value
            except (OSError, ApiError, BedError) as error:
                problem = f" ({error})"
            time.sleep(poll)
        raise BedError(f"{self.name}: no {what} within {seconds:.0f} s{problem}")

    def stop(self) -> None:
        """End every process of the bed and remove its directory."""
        take_down(self.layout)

    # Starting

    def _remember_settings(self) -> None:
        path = self.directory / "settings.json"
        wanted = asdict(self.settings)
        if not path.exists():
            write_json(path, wanted)
        former = json.loads(path.read_text())
        if former != wanted:
            differences = ", ".join(f"{key} is {former[key]}, not {value}" for key, value in wanted.items() if former[key] != value)
            raise BedError(f"The test bed {self.name} is there already, but otherwise: {differences}. Take it down first.")

    def _start_processes(self) -> None:
        layout, programs, settings = self.layout, self.programs, self.settings
        write_certificates(layout.certificates)
        layout.write_kubeconfigs()
        self._ensure("etcd", lambda: components.etcd(layout, programs), layout.ports().etcd)
        self._ensure("kube-apiserver", lambda: components.kube_apiserver(layout, programs), layout.ports().apiserver)
        self._wait_until_ready("kube-apiserver", lambda: self.api.request("GET", "/readyz") == "ok")
        self._ensure("kube-controller-manager", lambda: components.kube_controller_manager(layout, programs))
        self._ensure("kube-scheduler", lambda: components.kube_scheduler(layout, programs))
        self._create_kwok_crds()
        self._ensure("kwok", lambda: components.kwok(layout, programs, agents=settings.agents), layout.ports().kwok)
        self._create_nodes()
        if settings.agents:
            (self.directory / "agents").mkdir(exist_ok=True)
            self._ensure("agents", lambda: components.node_agents(layout, settings.plugin_version, instant=settings.instant))
        if settings.operator:
            self._ensure("operator-runner", lambda: components.operator_runner(layout, programs))
        self._wait_until_ready("kube-controller-manager", lambda: self.api.find("/api/v1/namespaces/default/serviceaccounts/default"))
        self._wait_until_ready("kwok", self._nodes_ready)
        write_json(self.directory / "pids.json", self.processes())

    def _ensure(self, name: str, command: Callable[[], list[str]], port: int | None = None) -> None:
        """Start the process unless it runs."""
        if name in self.processes():
            return
        if port is not None:
            self._wait_for_port(name, port)
        processes.start(name, command(), self.directory, components.MODULE_ENVIRONMENT)

    def _wait_for_port(self, name: str, port: int) -> None:
        """Wait until the port is free: a process that was killed may hold it for a moment longer."""
        try:
            self.wait_for("free port", lambda: port_is_free(port), PORT_SECONDS)
        except BedError:
            raise BedError(f"{self.name}: port {port} of {name} is taken by another program. Take the bed down and start it anew.") from None

    def _wait_until_ready(self, name: str, condition: Callable[[], Any]) -> None:
        def ready() -> Any:
            if missing := {name, "etcd"} - set(self.processes()):
                gone = missing.pop()
                raise BedError(f"{self.name}: {gone} ended:\n{self._last_lines(gone)}")
            return condition()

        try:
            self.wait_for(f"answer of {name}", ready)
        except BedError as error:
            raise BedError(f"{error}\n{self._last_lines(name)}") from None

    def _last_lines(self, name: str) -> str:
        log = self.directory / "logs" / f"{name}.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-8:]) if log.exists() else ""

    def _create_kwok_crds(self) -> None:
        kinds = ("logs", "clusterlogs", "execs", "clusterexecs")
        collection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for kind in kinds:
            definition = yaml.safe_load((self.programs / "kwok-crds" / f"kwok.x-k8s.io_{kind}.yaml").read_text())
            self._create(collection, definition)
        for kind in kinds:
            self.wait_for(f"API for {kind}", partial(self.api.get, f"/apis/kwok.x-k8s.io/v1alpha1/{kind}"))

    def _create_nodes(self) -> None:
        nodes = node_objects(read_node_set(self.settings.nodes), self.layout.ports().kwok)
        present = {node["metadata"]["name"] for node in self.api.list("/api/v1/nodes")}
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda node: self._create("/api/v1/nodes", node), [n for n in nodes if n["metadata"]["name"] not in present]))

    def _create(self, collection: str, body: dict[str, Any]) -> None:
        """Create an object unless it is there."""
        try:
            self.api.post(collection, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    def _nodes_ready(self) -> bool:
        """Tell whether every node is ready and no longer carries the taint every new node gets."""
        nodes = self.api.list("/api/v1/nodes")
        taints = {taint["key"] for node in nodes for taint in node["spec"].get("taints", [])}
        unready = [n for n in nodes if "testbed.gpuops.example/not-ready" not in n["metadata"]["annotations"] and not _is_ready(n)]
        return bool(nodes) and not unready and "node.kubernetes.io/not-ready" not in taints

    def _flush_audit(self) -> None:
        """Wait until the log holds a request of our own: then it holds every request answered before."""
        token = f"testbed-marker-{uuid.uuid4()}"
        offset = self.audit_log.stat().st_size
        self.client("testbed:launcher", token).get("/version")
        self.wait_for("audit event", lambda: any(event.user_agent == token for event in read_events(self.audit_log, offset)), 10)


def _is_ready(node: Mapping[str, Any]) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))


def take_down(layout: Layout) -> None:
    """End every process of the bed and remove its directory, in whatever state they are."""
    if not layout.directory.exists():
        processes.stop(layout.directory)
        return
    with _locked(layout.directory):
        processes.stop(layout.directory)
        shutil.rmtree(layout.directory)


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Keep two launchers apart; the bed's directory itself is the lock, so that no lock file is left behind."""
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if directory.exists() and os.stat(directory).st_ino == os.fstat(descriptor).st_ino:
            break
        os.close(descriptor)  # somebody stopped the bed while we waited: this is no longer its directory
    try:
        yield
    finally:
        os.close(descriptor)
