# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launcher's parts that need no running bed."""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
from pathlib import Path

import pytest

from tests.testbed import build, processes
from tests.testbed.audit import read_events
from tests.testbed.certificates import write_certificates
from tests.testbed.chart import merged
from tests.testbed.components import stage_objects
from tests.testbed.layout import USERS, Layout, LayoutError, port_is_free, state_home
from tests.testbed.node_sets import NodeSetError, node_objects, read_node_set


def test_the_lab_has_a_node_of_every_kind() -> None:
    nodes = {node["metadata"]["name"]: node for node in node_objects(read_node_set("lab"), 10250)}
    assert len(nodes) == 8
    assert nodes["cpu-1"]["spec"]["taints"] == []
    assert "feature.node.kubernetes.io/pci-10de.present" not in nodes["cpu-1"]["metadata"]["labels"]
    for name in set(nodes) - {"cpu-1"}:
        assert [taint["key"] for taint in nodes[name]["spec"]["taints"]] == ["nvidia.com/gpu"]
        assert nodes[name]["metadata"]["labels"]["feature.node.kubernetes.io/pci-10de.present"] == "true"
        assert nodes[name]["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10250
        assert json.loads(nodes[name]["metadata"]["annotations"]["testbed.gpuops.example/gpus"])


def test_a_fleet_has_the_asked_number_of_gpu_nodes_and_one_without() -> None:
    fleet = read_node_set("fleet:7")
    assert [bool(node["gpus"]) for node in fleet] == [True] * 7 + [False]
    assert len({node["name"] for node in fleet}) == 8
    assert read_node_set("fleet:7") == fleet, "a fleet is the same every time"


@pytest.mark.parametrize("nodes", ["fleet:", "fleet:0", "fleet:-3", "fleet:many", "no-such-set", "missing.yml"])
def test_an_unknown_node_set_is_refused(nodes: str) -> None:
    with pytest.raises(NodeSetError):
        read_node_set(nodes)


def test_a_file_that_is_no_node_set_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "odd.yml").write_text("- just\n- a list\n")
    with pytest.raises(NodeSetError, match="odd.yml"):
        read_node_set(str(tmp_path / "odd.yml"))


@pytest.mark.parametrize("name", ["", "-x", "x-", "Upper", "../up", "a/b", "x" * 43])
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(LayoutError):
        Layout.of(name)


def test_a_bed_keeps_its_ports_and_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    layout = Layout.of("kept")
    assert layout.directory == state_home() / "kept"
    layout.directory.mkdir(parents=True)
    assert layout.ports() == layout.ports()
    assert len(set(vars(layout.ports()).values())) == 4
    assert layout.tokens() == layout.tokens()
    assert set(layout.tokens()) == set(USERS)
    layout.write_kubeconfigs()
    kubeconfig = json.loads(layout.kubeconfig.read_text())
    assert kubeconfig["users"][0]["user"]["token"] == layout.tokens()["admin"]
    assert layout.kubeconfig.stat().st_mode & 0o077 == 0, "others may read the administrator's token"


def test_a_taken_port_is_not_free() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        assert not port_is_free(listener.getsockname()[1])


def test_certificates_are_made_once_and_are_good_enough_for_a_strict_client(tmp_path: Path) -> None:
    write_certificates(tmp_path)
    former = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_certificates(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == former
    client = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (client.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1"), server.wrap_bio(outgoing, incoming, server_side=True))
    for _round in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ends[0].getpeercert()


def test_processes_are_found_by_their_mark_and_ended_with_their_children(tmp_path: Path) -> None:
    child = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); time.sleep(60)"
    pid = processes.start("sleeper", [sys.executable, "-c", child], tmp_path)
    assert processes.running(tmp_path) == {"sleeper": pid}
    assert processes.running(tmp_path / "other") == {}
    processes.stop(tmp_path)
    assert processes.running(tmp_path) == {}
    assert str(tmp_path).encode() not in b"".join(_environments())


def _environments() -> list[bytes]:
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            found.append(Path("/proc", entry, "environ").read_bytes())
        except OSError:
            continue
    return found


def test_audit_events_are_read_from_the_mark_on_without_the_unfinished_line(tmp_path: Path) -> None:
    def line(verb: str, uri: str) -> bytes:
        return json.dumps({"verb": verb, "requestURI": uri, "objectRef": {"resource": "nodes"}, "responseStatus": {"code": 200}}).encode() + b"\n"

    log = tmp_path / "audit.log"
    log.write_bytes(line("list", "/api/v1/nodes"))
    mark = log.stat().st_size
    with open(log, "ab") as more:
        more.write(line("patch", "/api/v1/nodes/a") + line("patch", "/api/v1/nodes/a?dryRun=All") + line("get", "/api/v1/nodes")[:20])
    assert [(event.verb, event.mutating) for event in read_events(log, mark)] == [("patch", True), ("patch", False)]
    assert len(read_events(log)) == 3
    assert [event.mutating for event in read_events(log, mark + 5)] == [False], "a mark in the middle of a line that was being written"


def test_without_agents_kwok_plays_every_pod() -> None:
    def keys(*, agents: bool) -> str:
        return str([e["key"] for stage in stage_objects(agents=agents) for e in stage["spec"]["selector"]["matchExpressions"]])

    assert "metadata.labels.app" in keys(agents=True)
    assert 'startswith("nvidia.com/")' in keys(agents=True)
    assert "metadata.labels.app" not in keys(agents=False)
    assert 'startswith("nvidia.com/")' not in keys(agents=False)
    assert len(stage_objects(agents=False)) == len(stage_objects(agents=True))


def test_chart_values_merge_key_by_key() -> None:
    below = {"operator": {"version": "v1", "list": [1, 2]}, "kept": 1}
    assert merged(below, {"operator": {"list": [3]}, "new": {"a": 1}}) == {"operator": {"version": "v1", "list": [3]}, "kept": 1, "new": {"a": 1}}
    assert below["operator"] == {"version": "v1", "list": [1, 2]}, "the values below were changed"


def test_the_cache_directory_follows_the_lock_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "GO_MODULES", tmp_path)
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "go.sum").write_text("one")
    former = build.cache_directory()
    assert former.parent == tmp_path / "cache" / "gpuops-mps" / "bin"
    assert build.cache_directory() == former
    (tmp_path / "cluster" / "go.sum").write_text("two")
    assert build.cache_directory() != former


def test_a_fitting_program_of_the_machine_is_copied_and_another_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    present = tmp_path / "present"
    present.mkdir()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(present))
    monkeypatch.setenv("PATH", "/nonexistent")
    program = build.Program("thing", "example.com/thing", version_arguments=("--version",), fitting=r"v1\.37\.")
    for version, copied in (("v1.36.9", False), ("v1.37.4", True)):
        (present / "thing").write_text(f"#!/bin/sh\necho {version}\n")
        (present / "thing").chmod(0o755)
        assert build._copy_present(program, tmp_path) is copied
        assert (tmp_path / "thing").exists() is copied
