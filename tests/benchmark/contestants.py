# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is measured at what: for each operation the commands of ours and of what people would use instead."""

from __future__ import annotations

import json
import shlex
import sys
import typing as t
from dataclasses import dataclass
from pathlib import Path

from tests.integration.ansible_runs import SCRIPTS, environment
from tests.testbed import chart
from tests.testbed.bed import TestBed

HERE = Path(__file__).parent
PLAYBOOKS = HERE / "playbooks"
NAMESPACE, MAP, LABEL = "gpu-operator", "mps-configs", "nvidia.com/device-plugin.config"
CONFIGS: dict[str, t.Any] = {"none": {}, "mps-four": {"replicas": 4}, "mps-two": {"replicas": 2}}
# A loop that starts a process for each node takes hours on a thousand nodes; it is measured on so many and multiplied.
LOOP_SAMPLE, LIST_SAMPLE, DESCRIBE_SAMPLE = 10, 100, 100
START = "ansible-playbook, one ping"


@dataclass(frozen=True)
class Contestant:
    """One command. ``nodes`` limits it to a sample of that many nodes (0: all); ``start`` names the contestant that only starts the same program."""

    name: str
    command: t.Callable[[Context], list[str]]
    nodes: int = 0
    ours: bool = False
    start: str = ""


@dataclass(frozen=True)
class Context:
    """What a command is made for: the bed, all node names, the label's new value, and a directory for files."""

    bed: TestBed
    names: list[str]
    value: str
    directory: Path
    selector: str = "bench=gpu"

    @property
    def environment(self) -> dict[str, str]:
        """The environment that every contestant runs in."""
        return {**environment(self.bed.kubeconfig), "ANSIBLE_GATHERING": "explicit"}

    def sample(self, count: int) -> list[str]:
        """The first ``count`` names, or all of them."""
        return self.names[:count] if count else self.names


def kubectl() -> str:
    """The pinned kubectl beside the tools."""
    return str(SCRIPTS / "kubectl")


def module(name: str, arguments: t.Mapping[str, t.Any], *flags: str) -> t.Callable[[Context], list[str]]:
    """An ad-hoc run of one of our modules; ``{value}`` and ``{selector}`` in the arguments are filled in."""

    def command(context: Context) -> list[str]:
        text = json.dumps(arguments).replace("{value}", context.value).replace("{selector}", context.selector)
        given = ["-a", text] if arguments else []
        return [str(SCRIPTS / "ansible"), "localhost", "-c", "local", "-m", f"gpuops.mps.{name}", *given, *flags]

    return command


def playbook(name: str, *, sample: int = 0, extra: t.Mapping[str, t.Any] | None = None, flags: tuple[str, ...] = ()) -> t.Callable[[Context], list[str]]:
    """A playbook run; names and value go in as variables."""

    def command(context: Context) -> list[str]:
        variables = {"names": context.sample(sample), "value": context.value, **(extra or {})} if sample else {**(extra or {})}
        path = context.directory / "variables.json"
        path.write_text(json.dumps(variables), encoding="utf-8")
        target = str(PLAYBOOKS / name) if name.endswith(".yml") else name
        return [str(SCRIPTS / "ansible-playbook"), target, "--extra-vars", f"@{path}", *flags]

    return command


def kubectl_selector(context: Context) -> list[str]:
    """What the document says: one label command with a selector."""
    return [kubectl(), "label", "nodes", f"--selector={context.selector}", f"{LABEL}={context.value}", "--overwrite"]


def kubectl_loop(context: Context) -> list[str]:
    """A shell loop with one process for each node."""
    lines = [f"{shlex.quote(kubectl())} label node {name} {LABEL}={context.value} --overwrite" for name in context.sample(LOOP_SAMPLE)]
    return ["bash", "-ec", "\n".join(lines)]


def raw_client(workers: int) -> t.Callable[[Context], list[str]]:
    """The fastest client, with so many connections."""

    def command(context: Context) -> list[str]:
        path = context.directory / "names"
        path.write_text("\n".join(context.names), encoding="utf-8")
        call = [sys.executable, "-m", "tests.benchmark.raw_client", str(context.bed.kubeconfig), context.value, str(workers)]
        return ["bash", "-ec", f"exec {shlex.join(call)} < {shlex.quote(str(path))}"]

    return command


NODES_ARGUMENTS = {"node_groups": [{"name": "bench", "config": "{value}", "selector": ["{selector}"]}], "namespace": NAMESPACE, "config_map": MAP}
PLAN_ARGUMENTS = {**NODES_ARGUMENTS, "configs": CONFIGS}
OURS = Contestant("gpuops.mps.mps_nodes", module("mps_nodes", NODES_ARGUMENTS), ours=True)
UNBOUND = Contestant("gpuops.mps.mps_nodes, writes_per_second 0", module("mps_nodes", {**NODES_ARGUMENTS, "writes_per_second": 0}), ours=True)
LOOP = Contestant("kubernetes.core.k8s loop", playbook("label_loop.yml", sample=LOOP_SAMPLE), LOOP_SAMPLE, start=START)
LIST = Contestant("kubernetes.core.k8s list task", playbook("label_list.yml", sample=LIST_SAMPLE), LIST_SAMPLE, start=START)
SELECTOR = Contestant("kubectl label --selector", kubectl_selector)
SHELL = Contestant("kubectl in a shell loop", kubectl_loop, LOOP_SAMPLE)

# The operations on labels: each starts from the former state that its name says.
LABELLING: t.Mapping[str, tuple[Contestant, ...]] = {
    "first labelling": (OURS, SELECTOR, SHELL, LOOP, LIST, *(Contestant(f"raw client, {n} workers", raw_client(n)) for n in (2, 4, 8))),
    "no-op": (OURS, SELECTOR, SHELL, LOOP, LIST),
    "check mode": (
        Contestant("gpuops.mps.mps_nodes --check", module("mps_nodes", NODES_ARGUMENTS, "--check"), ours=True),
        Contestant("kubectl label --dry-run=server", lambda context: [*kubectl_selector(context), "--dry-run=server"]),
        Contestant("kubernetes.core.k8s loop --check", playbook("label_loop.yml", sample=LOOP_SAMPLE, flags=("--check",)), LOOP_SAMPLE, start=START),
        Contestant("kubernetes.core.k8s list task --check", playbook("label_list.yml", sample=LIST_SAMPLE, flags=("--check",)), LIST_SAMPLE, start=START),
    ),
    "10 % changed": (OURS, SELECTOR),
}
# The operations that only read.
READING: t.Mapping[str, tuple[Contestant, ...]] = {
    "plan": (Contestant("gpuops.mps.mps_plan_info", module("mps_plan_info", PLAN_ARGUMENTS), ours=True),),
    "verification": (
        Contestant("gpuops.mps.mps_verify_info", module("mps_verify_info", {}), ours=True),
        Contestant("kubectl describe nodes", lambda context: [kubectl(), "describe", "nodes", *context.sample(DESCRIBE_SAMPLE)], DESCRIBE_SAMPLE),
    ),
    "inventory": (
        Contestant(
            "gpuops.mps.gpu_nodes",
            lambda context: [str(SCRIPTS / "ansible-inventory"), "-i", str(HERE / "bench.gpu_nodes.yml"), "--graph"],
            ours=True,
        ),
        Contestant("kubectl get nodes -o json", lambda context: [kubectl(), "get", "nodes", "-o", "json"]),
    ),
    "drift report": (Contestant("gpuops.mps.drift", playbook("gpuops.mps.drift"), ours=True),),
}
# What every other figure of an Ansible program contains.
ANSIBLE_ALONE: tuple[Contestant, ...] = (
    Contestant(START, playbook("nothing.yml")),
    Contestant("ansible ad-hoc ping", lambda context: [str(SCRIPTS / "ansible"), "localhost", "-c", "local", "-m", "ansible.builtin.ping"]),
)


def recipe(context: Context) -> list[str]:
    """NVIDIA's document by hand: chart, ConfigMap, merge patch, label, restarts, as somebody who runs it again would write it."""
    bed, text = context.bed, CONFIG_MAP.format(name=MAP, namespace=NAMESPACE)
    path = context.directory / "config-map.yml"
    path.write_text(text, encoding="utf-8")
    patch = json.dumps({"spec": {"devicePlugin": {"config": {"name": MAP}}}})
    helm = [
        *(str(bed.programs / "helm4"), "upgrade", "--install", "gpu-operator", str(chart.chart_directory(bed.programs))),
        *("-n", NAMESPACE, "--create-namespace", "--values", str(chart.VALUES), "--set", f"devicePlugin.config.name={MAP}", "--server-side=false"),
    ]
    call = shlex.quote(kubectl())
    lines = [
        f"{call} get namespace {NAMESPACE} >/dev/null 2>&1 || {call} create namespace {NAMESPACE}",
        f"{call} apply -f {shlex.quote(str(path))}",
        shlex.join(helm),
        f"until {call} get clusterpolicies.nvidia.com/cluster-policy >/dev/null 2>&1; do sleep 1; done",
        f"{call} patch clusterpolicies.nvidia.com/cluster-policy --type merge -p {shlex.quote(patch)}",
        shlex.join([kubectl(), "label", "nodes", f"--selector={context.selector}", f"{LABEL}={context.value}", "--overwrite"]),
    ]
    return ["bash", "-ec", "\n".join(lines)]


CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
  namespace: {namespace}
data:
  none: |-
    version: v1
  mps-two: |-
    version: v1
    sharing:
      mps:
        resources:
        - name: nvidia.com/gpu
          replicas: 2
  mps-four: |-
    version: v1
    sharing:
      mps:
        resources:
        - name: nvidia.com/gpu
          replicas: 4
"""
