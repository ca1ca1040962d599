# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command lines of the bed's processes, in the order they start."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import yaml

from tests.testbed.layout import Layout

REPOSITORY = Path(__file__).resolve().parents[2]
# How a process of our own is started; it finds the module by PYTHONPATH, because it runs in another directory.
# KWOK looks on PATH for the program that `kubectl exec` names: the simulated nvidia-smi and nvidia-cuda-mps-control are found there.
MODULE = (sys.executable, "-m")
COMMANDS = Path(__file__).parent / "agents" / "bin"
MODULE_ENVIRONMENT = {
    "PYTHONPATH": str(REPOSITORY),
    "PYTHONUNBUFFERED": "1",
    "PATH": f"{COMMANDS}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
}
STAGES = Path(__file__).parent / "kwok"
# The words by which a stage's expression tells the agents' pods from the others (kwok/pods.yml).
AGENT_EXPRESSIONS = (".metadata.labels.app", 'startswith("nvidia.com/")')

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        # The cluster's own machinery would drown what tests look for.
        {"level": "None", "users": ["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler", "testbed:kwok"]},
        {"level": "None", "nonResourceURLs": ["/readyz*", "/livez*", "/healthz*"]},
        {"level": "Metadata"},
    ],
}


def etcd(layout: Layout, programs: Path) -> list[str]:
    """Return etcd's command line; it never waits for the disk, because a test bed may lose its data."""
    ports = layout.ports()
    client, peer = f"http://127.0.0.1:{ports.etcd}", f"http://127.0.0.1:{ports.etcd_peer}"
    return [
        str(programs / "etcd"),
        "--name=testbed",
        f"--data-dir={layout.directory / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=testbed={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def kube_apiserver(layout: Layout, programs: Path) -> list[str]:
    """Return the API server's command line: RBAC and the audit log are on."""
    policy = layout.directory / "audit-policy.json"
    policy.write_text(json.dumps(AUDIT_POLICY))
    certificates = layout.certificates
    return [
        str(programs / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{layout.ports().etcd}",
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.ports().apiserver}",
        f"--tls-cert-file={certificates / 'server.crt'}",
        f"--tls-private-key-file={certificates / 'server.key'}",
        f"--client-ca-file={certificates / 'ca.crt'}",
        f"--token-auth-file={layout.directory / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={certificates / 'service-account.key'}",
        f"--service-account-signing-key-file={certificates / 'service-account.key'}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--endpoint-reconciler-type=none",
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged=true",
        "--profiling=false",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={layout.audit_log}",
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=100000",
    ]


def kube_controller_manager(layout: Layout, programs: Path) -> list[str]:
    """Return the controller-manager's command line, without the one that hands out pod networks."""
    return [
        str(programs / "kube-controller-manager"),
        f"--kubeconfig={layout.component_kubeconfig('system:kube-controller-manager')}",
        "--controllers=*,-node-ipam-controller",
        f"--service-account-private-key-file={layout.certificates / 'service-account.key'}",
        f"--root-ca-file={layout.certificates / 'ca.crt'}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=300",
        "--kube-api-burst=600",
    ]


def kube_scheduler(layout: Layout, programs: Path) -> list[str]:
    """Return the scheduler's command line."""
    return [
        str(programs / "kube-scheduler"),
        f"--kubeconfig={layout.component_kubeconfig('system:kube-scheduler')}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=300",
        "--kube-api-burst=600",
    ]


def kwok(layout: Layout, programs: Path, *, agents: bool) -> list[str]:
    """Return KWOK's command line; with `agents` it leaves the agents' pods alone, without it plays all pods."""
    stages = layout.directory / "kwok.yml"
    stages.write_text(yaml.safe_dump_all(stage_objects(agents=agents)))
    port = layout.ports().kwok
    return [
        str(programs / "kwok"),
        f"--kubeconfig={layout.component_kubeconfig('testbed:kwok')}",
        f"--config={stages}",
        "--manage-all-nodes=true",
        "--node-ip=127.0.0.1",
        f"--node-port={port}",
        f"--server-address=127.0.0.1:{port}",
        f"--tls-cert-file={layout.certificates / 'server.crt'}",
        f"--tls-private-key-file={layout.certificates / 'server.key'}",
        "--node-lease-duration-seconds=40",
        "--enable-crds=Logs,ClusterLogs,Exec,ClusterExec",
    ]


def stage_objects(*, agents: bool) -> list[dict]:
    """Return KWOK's stages; without agents the expressions that spare the agents' pods are left out."""
    stages = [stage for path in sorted(STAGES.glob("*.yml")) for stage in yaml.safe_load(path.read_text())["items"]]
    if agents:
        return stages
    for stage in stages:
        selector = stage["spec"]["selector"]
        selector["matchExpressions"] = [e for e in selector["matchExpressions"] if not any(word in e["key"] for word in AGENT_EXPRESSIONS)]
    return stages


def node_agents(layout: Layout, plugin_version: str, *, instant: bool) -> list[str]:
    """Return the command line of the simulated node agents."""
    return [
        *MODULE,
        "tests.testbed.agents",
        f"--kubeconfig={layout.component_kubeconfig('testbed:agents')}",
        f"--state-dir={layout.directory / 'agents'}",
        f"--plugin-version={plugin_version}",
        *(["--instant"] if instant else []),
    ]


def operator_runner(layout: Layout, programs: Path) -> list[str]:
    """Return the command line of the process that runs the GPU Operator while its Deployment exists."""
    return [*MODULE, "tests.testbed.operator_runner", f"--directory={layout.directory}", f"--programs={programs}"]
