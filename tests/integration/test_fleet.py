# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two clusters at once, and a third one that does not answer: what happens on each, the one summary over all, and a cluster as an inventory."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.ansible_runs import SCRIPTS, AnsibleRun, environment
from tests.integration.bastion import bastion
from tests.integration.observation import CONFIG_LABEL, allocatable
from tests.integration.operator_variables import operator_variables
from tests.integration.rights import requests_of_accounts, signed_in
from tests.testbed.bed import TestBed, take_down
from tests.testbed.layout import Layout

DECLARED: dict[str, Any] = {"mps_configs": {"mps-two": {"replicas": 2}}, "mps_default": "mps-two", "mps_prove": "never", "mps_hosts": "all"}
CLUSTERS = ("west", "east")
NODES = "fleet:2"
SUMMARY = "how it went on all clusters"
Run = Callable[..., AnsibleRun]


@pytest.fixture(scope="module")
def clusters(worker: str) -> Iterator[dict[str, TestBed]]:
    """Two beds with the operator installed, by the name that the inventory gives them."""
    try:
        beds = {name: TestBed.start(f"{name}-{worker}", nodes=NODES, instant=True) for name in CLUSTERS}
        for bed in beds.values():
            bed.install_operator_objects()
        for bed in beds.values():
            bed.wait_until_settled()
        yield beds
    finally:
        for name in CLUSTERS:
            take_down(Layout.of(f"{name}-{worker}"))


def inventory(clusters: Mapping[str, TestBed], directory: Path, *order: str, account: str = "operator") -> tuple[str, str]:
    """The arguments for an inventory with these hosts in this order; `lost` is a cluster that does not answer."""
    west = clusters["west"]
    lost = directory / "lost.kubeconfig"
    lost.write_text(signed_in(west, account).read_text().replace(west.layout.server, "https://127.0.0.1:1"))
    kubeconfigs = {**{name: signed_in(bed, account) for name, bed in clusters.items()}, "lost": lost}
    path = directory / "clusters.json"
    path.write_text(json.dumps({"all": {"hosts": {name: {"mps_kubeconfig": str(kubeconfigs[name])} for name in order}}}))
    return "-i", str(path)


def states(run: AnsibleRun) -> dict[str, str]:
    """Cluster -> state, from the last summary that the run shows."""
    lines = run.result(SUMMARY)["msg"][1:-1]
    return {line.split()[0]: line[25:37].strip() for line in lines}


@pytest.mark.slow
def test_a_cluster_that_fails_stops_no_other_one(clusters: dict[str, TestBed], run_ansible: Run, tmp_path: Path) -> None:
    variables = {**DECLARED, "mps_report_folder": str(tmp_path / "reports")}
    hosts = inventory(clusters, tmp_path, "west", "lost", "east")
    run = run_ansible("gpuops.mps.configure", variables=variables, arguments=hosts)
    assert run.status == 2, run.output
    assert states(run) == {"west": "clean", "lost": "failed", "east": "clean"}
    assert "refused" in next(line for line in run.result(SUMMARY)["msg"] if line.startswith("lost"))
    assert {name: run.document["stats"][name]["failures"] for name in ("west", "lost", "east")} == {"west": 0, "lost": 1, "east": 0}
    for bed in clusters.values():
        assert allocatable(bed) == {"gpu-0000": 2 * 4, "gpu-0001": 2 * 8}
    written = {path.name for path in (tmp_path / "reports").iterdir()}
    assert {"gpu-sharing-west.html", "gpu-sharing-east.html", "gpu-sharing-all-clusters.md", "gpu-sharing-all-clusters.json"} <= written
    assert "gpu-sharing-lost.html" not in written
    assert json.loads((tmp_path / "reports" / "gpu-sharing-all-clusters.json").read_text())["failed"] == ["lost"]

    again = run_ansible("gpuops.mps.drift", variables=DECLARED, arguments=inventory(clusters, tmp_path, "west", "east", account="reader"))
    assert (again.status, again.changed, states(again)) == (0, 0, {"west": "clean", "east": "clean"}), again.failure()


@pytest.mark.parametrize(
    ("order", "told", "expected"),
    [
        # A canary of one cluster: nothing follows when all of a batch have failed.
        (("lost", "west", "east"), {"mps_serial": [1, 2]}, {"lost": "failed", "west": "not reached", "east": "not reached"}),
        (("west", "lost", "east"), {"mps_serial": 2, "mps_max_failed_clusters": 0}, {"west": "planned", "lost": "failed", "east": "not reached"}),
        (("west", "lost", "east"), {"mps_serial": 2}, {"west": "planned", "lost": "failed", "east": "planned"}),
    ],
    ids=["a canary that fails", "told to stop", "not told to stop"],
)
def test_where_a_failure_stops(
    order: tuple[str, ...],
    told: dict[str, Any],
    expected: dict[str, str],
    clusters: dict[str, TestBed],
    run_ansible: Run,
    tmp_path: Path,
) -> None:
    since = {name: bed.mark() for name, bed in clusters.items()}
    variables = {**DECLARED, **told, "mps_report_folder": str(tmp_path / "reports")}
    run = run_ansible("gpuops.mps.plan", variables=variables, arguments=inventory(clusters, tmp_path, *order, account="reader"))
    assert (run.status, states(run)) == (2, expected), run.failure()
    asked = {name for name, bed in clusters.items() if requests_of_accounts(bed, since[name])}
    assert asked == {name for name, state in expected.items() if state == "planned"}
    written = json.loads((tmp_path / "reports" / "gpu-sharing-all-clusters.json").read_text())
    assert {one["cluster"]: one["state"] for one in written["clusters"]} == expected


@pytest.mark.skipif(not shutil.which("ssh"), reason="Ansible's connection needs the program ssh (openssh-client)")
def test_a_cluster_behind_a_bastion(clusters: dict[str, TestBed], run_ansible: Run, tmp_path: Path) -> None:
    """Everything runs on the bastion, with the kubeconfig that only the bastion has; reports are written on the controller."""
    west = clusters["west"]
    variables = {**DECLARED, **operator_variables(west), "mps_configs": {"mps-two": {"replicas": 3}}, "mps_report_folder": str(tmp_path / "reports")}
    with bastion(tmp_path / "bastion") as gate:
        gate.give_kubeconfig(signed_in(west, "installer"))
        path = tmp_path / "clusters.json"
        path.write_text(json.dumps({"all": {"hosts": {"behind": gate.host_variables}}}))
        since = west.mark()
        planned = run_ansible("gpuops.mps.site", variables=variables, arguments=("-i", str(path)), check=True)
        assert planned.status == 0, planned.failure()
        assert not [event for event in requests_of_accounts(west, since) if event.mutating and not event.dry_run]
        assert planned.result("Bring every GPU node to its config")["state"] == "planned"

        run = run_ansible("gpuops.mps.site", variables=variables, arguments=("-i", str(path)))
        assert run.status == 0, run.failure()
    assert allocatable(west) == {"gpu-0000": 3 * 4, "gpu-0001": 3 * 8}
    assert [line for line in gate.commands if "AnsiballZ_mps_rollout.py" in line]
    assert "Bring every GPU node to its config, batch by batch: batch 1 of 2 ended" in run.output, "progress shows on the controller"
    assert (tmp_path / "reports" / "gpu-sharing-behind.html").exists() and not (gate.home / "reports").exists()


def list_inventory(bed: TestBed, directory: Path, *arguments: str) -> dict[str, Any]:
    """What ansible-inventory makes of a file for the bed's cluster, with everything that the plugin gpu_nodes offers."""
    source = {
        "plugin": "gpuops.mps.gpu_nodes",
        "kubeconfig": str(signed_in(bed, "reader")),
        "cache": True,
        "cache_plugin": "ansible.builtin.jsonfile",
        "cache_connection": str(directory / "cache"),
        "compose": {"replicas": "gpu_node.labels['nvidia.com/gpu.replicas'] | int"},
        "keyed_groups": [{"key": "gpu_node.gpus.architecture", "prefix": "architecture"}],
        "groups": {"big": "gpu_node.gpus.memory_mib > 40000"},
    }
    path = directory / "west.gpu_nodes.yml"
    path.write_text(json.dumps(source))
    command = [str(SCRIPTS / "ansible-inventory"), "--inventory", str(path), "--list", *arguments]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, env=environment(None), cwd=directory)
    listing: dict[str, Any] = json.loads(answer.stdout)
    return listing


def test_gpu_nodes_are_hosts_in_groups_that_sharing_does_not_change(clusters: dict[str, TestBed], run_ansible: Run, tmp_path: Path) -> None:
    bed = clusters["west"]
    configured = run_ansible("gpuops.mps.configure", variables=DECLARED, arguments=inventory(clusters, tmp_path, "west"))
    assert configured.status == 0, configured.failure()
    first = list_inventory(bed, tmp_path)
    hosts = {group: content["hosts"] for group, content in first.items() if "hosts" in content}
    both = ["gpu-0000", "gpu-0001"]
    assert hosts["product_tesla_t4"] == ["gpu-0000"] and hosts["product_nvidia_a100_sxm4_40gb"] == hosts["big"] == ["gpu-0001"]
    assert (hosts["config_mps_two"], hosts["sharing_mps"]) == (both, both)
    assert hosts["architecture_turing"] == ["gpu-0000"]
    assert first["_meta"]["hostvars"]["gpu-0001"]["replicas"] == 2
    assert "drift" not in hosts

    label = {"metadata": {"labels": {CONFIG_LABEL: "none"}}}
    bed.api.patch("/api/v1/nodes/gpu-0000", label)
    since = bed.mark()
    assert list_inventory(bed, tmp_path) == first, "the cache was not used"
    assert not requests_of_accounts(bed, since)
    assert list_inventory(bed, tmp_path, "--flush-cache")["drift"]["hosts"] == ["gpu-0000"]
    bed.api.patch("/api/v1/nodes/gpu-0000", {"metadata": {"labels": {CONFIG_LABEL: None}}})
