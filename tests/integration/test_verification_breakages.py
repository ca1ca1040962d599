# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Break exactly one link on each node of a bed, and see the diagnosis name it.

Several nodes are broken at a time, each in its own way; one verification then judges all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.integration.verifications import (
    CONFIGS,
    DAEMON,
    GFD,
    MAP,
    MPS_NODES,
    NAMESPACE,
    PLUGIN,
    PODS,
    POLICY,
    configure,
    fault,
    label,
    look_until,
    restart,
    shared,
    told_of,
    until,
    verdicts,
    write_map,
)
from tests.testbed.bed import TestBed

POLICIES = POLICY.rpartition("/")[0]
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterpolicies.nvidia.com"
CONFIG_FIELD = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/devicePlugin/properties/config"
NOT_READY = "testbed.gpuops.example/not-ready"
FOREIGN = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "nvidia-device-plugin", "namespace": "kube-system"},
    "spec": {
        "selector": {"matchLabels": {"name": "foreign"}},
        "template": {
            "metadata": {"labels": {"name": "foreign"}},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": "gpu-mixed-1"},
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.16.2"}],
                "volumes": [{"name": "sockets", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
            },
        },
    },
}


@dataclass(frozen=True)
class Breakage:
    """How a node is broken, and the verdict, link and code that must come out."""

    node: str
    what: str
    link: str
    code: str
    do: Callable[[TestBed, str], None]
    verdict: str = "broken"


@dataclass(frozen=True)
class Round:
    """Breakages that hold at the same time. C(settings) go to the verification."""

    name: str
    breakages: tuple[Breakage, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)


def with_fault(value: str, *restarted: str) -> Callable[[TestBed, str], None]:
    def do(bed: TestBed, node: str) -> None:
        fault(bed, node, value)
        restart(bed, node, *restarted)

    return do


def with_label(value: str | None, *restarted: str, key: str | None = None) -> Callable[[TestBed, str], None]:
    def do(bed: TestBed, node: str) -> None:
        label(bed, node, value, **({"key": key} if key else {}))
        restart(bed, node, *restarted)

    return do


def labels_removed(bed: TestBed, node: str) -> None:
    """Discovery hangs after its start, and what it once published is gone."""
    fault(bed, node, "gfd-stuck")
    restart(bed, node, GFD)
    present = bed.api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"]
    published = [key for key in present if key.startswith("nvidia.com/gpu.") and ".deploy." not in key and key != "nvidia.com/gpu.present"]
    bed.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": dict.fromkeys([*published, "nvidia.com/mps.capable"])}})


def edited_before_a_restart(bed: TestBed, node: str) -> None:
    """A text is edited, which no agent notices; then discovery crashes and restarts before kubelet has brought another new text.

    The first map was created empty, so that the API server notes neither who edits it nor when; the second is made anew with its texts.
    """
    create_empty_map(bed)
    write_map(bed, CONFIGS)
    label(bed, node, "edited")
    until(bed, lambda result: verdicts(result)[node][0] == "verified", patience=30)
    write_map(bed, {**CONFIGS, "edited": CONFIGS["sliced"]})
    until(bed, lambda result: verdicts(result)[node] == STALE)
    fault(bed, node, "kubelet-slow-projection")
    bed.api.delete(MAP)
    write_map(bed, {**CONFIGS, "edited": shared("timeSlicing", 3)})
    before = discovery_restarts(bed, node)
    fault(bed, node, "kubelet-slow-projection,gfd-crash")
    bed.wait_for("a crash of discovery", lambda: discovery_restarts(bed, node) > before, poll=0.2)
    fault(bed, node, "kubelet-slow-projection")


def discovery_restarts(bed: TestBed, node: str) -> int:
    """How often discovery's container on a node has been started again."""
    pods = bed.api.list(PODS, labelSelector=f"app={GFD}", fieldSelector=f"spec.nodeName={node}")
    return sum(one["restartCount"] for pod in pods for one in pod["status"].get("containerStatuses", []) if one["name"] == "gpu-feature-discovery")


def second_plugin(bed: TestBed, node: str) -> None:
    bed.api.post("/apis/apps/v1/namespaces/kube-system/daemonsets", FOREIGN)
    fault(bed, node, "plugin-foreign")


STALE = ("stale", "feature-discovery-pod", "agent-stale")

ROUNDS = (
    Round(
        "labels and content",
        (
            # First: it takes its time, and nothing else may be waiting to mend itself meanwhile.
            Breakage("gpu-mig-1", "edited, restarted too early", "feature-discovery-pod", "agent-stale", edited_before_a_restart, "stale"),
            Breakage("gpu-t4-1", "kept off", "node", "agents-kept-off", with_label("false", key="nvidia.com/gpu.deploy.device-plugin")),
            Breakage("gpu-t4-2", "MIG manager", "node", "mig-manager-paused", with_label("pending", key="nvidia.com/mig.config.state"), "waiting"),
            Breakage("gpu-v100-1", "refused config", "key", "key-refused", with_label("refused")),
            Breakage("gpu-a100-1", "plugin crashes", "plugin", "agent-crash-loop", with_fault("plugin-crash")),
            Breakage("gpu-h100-1", "daemon never starts", "daemon-ready", "daemon-start-fails", with_fault("daemon-never-ready", DAEMON, PLUGIN)),
            Breakage("gpu-mixed-1", "daemon crashes", "daemon-ready", "agent-crash-loop", with_fault("daemon-crash")),
        ),
    ),
    Round(
        "agents",
        (
            Breakage("gpu-t4-1", "toolkit", "toolkit-validation", "toolkit-validation-stuck", with_fault("toolkit-validation-stuck", GFD)),
            Breakage("gpu-t4-2", "GFD crashes", "feature-discovery-pod", "agent-crash-loop", with_fault("gfd-crash")),
            Breakage("gpu-v100-1", "SELinux", "daemon-ready", "daemon-refused-by-selinux", with_fault("daemon-selinux", DAEMON, PLUGIN)),
            Breakage("gpu-a100-1", "replicas by hand", "feature-discovery-labels", "discovery-labels-differ", with_label("7", key="nvidia.com/gpu.replicas")),
            Breakage("gpu-h100-1", "not scheduled", "feature-discovery-labels", "discovery-labels-differ", with_label("false", key="nvidia.com/mps.capable")),
            Breakage("gpu-mixed-1", "plugin never registers", "resource", "resource-not-registered", with_fault("plugin-stuck", PLUGIN)),
            Breakage("gpu-mig-1", "MPS on MIG", "feature-discovery-pod", "mig-refuses-mps", with_label("mps-four")),
        ),
    ),
    Round(
        "content and limits",
        (
            Breakage("gpu-t4-1", "labels vanished", "feature-discovery-labels", "discovery-labels-absent", labels_removed),
            Breakage("gpu-t4-2", "label names no key", "key", "key-of-label-absent", with_label("mps-nine")),
            Breakage("gpu-v100-1", "too many replicas", "daemon-ready", "daemon-refuses-replicas", with_label("mps-twenty", DAEMON, PLUGIN)),
            Breakage("gpu-a100-1", "relabelled, daemon not restarted", "limits", "daemon-keeps-old-limits", with_label("mps-two"), "stale"),
            Breakage("gpu-h100-1", "daemon killed", "limits", "daemon-dead", with_fault("daemon-killed")),
            Breakage("gpu-mixed-1", "second plugin", "plugin", "second-device-plugin", second_plugin),
            Breakage("gpu-mig-1", "image", "feature-discovery-pod", "agent-image-pull", with_fault("image-pull", GFD)),
        ),
        {"limits": "all"},
    ),
)


@pytest.fixture(scope="module")
def bed(lab: TestBed) -> Iterator[TestBed]:
    yield lab
    lab.api.delete("/apis/apps/v1/namespaces/kube-system/daemonsets/nvidia-device-plugin")
    lab.reset()


@pytest.fixture(scope="module", params=ROUNDS, ids=lambda one: one.name)
def broken(request: pytest.FixtureRequest, bed: TestBed) -> Iterator[tuple[Round, dict[str, Any]]]:
    """The verification of a bed on which every node is broken in its own way."""
    configure(bed, {**dict.fromkeys(MPS_NODES, "mps-four"), "gpu-mig-1": None})
    for breakage in request.param.breakages:
        breakage.do(bed, breakage.node)
    wanted = {one.node: (one.verdict, one.link, one.code) for one in request.param.breakages}
    yield request.param, look_until(bed, lambda result: verdicts(result) == wanted, 90, **request.param.settings)
    mend(bed, request.param)


def mend(bed: TestBed, broken: Round) -> None:
    """Take every fault and every hand-made label away, and replace the pods that suffered; all of them are younger than the map then."""
    write_map(bed, CONFIGS)
    for breakage in broken.breakages:
        fault(bed, breakage.node, None)
        for key in ("nvidia.com/gpu.deploy.device-plugin", "nvidia.com/mig.config.state"):
            label(bed, breakage.node, "true" if "deploy" in key else None, key=key)
        label(bed, breakage.node, "none")
        restart(bed, breakage.node, GFD, DAEMON, PLUGIN)
    bed.api.delete("/apis/apps/v1/namespaces/kube-system/daemonsets/nvidia-device-plugin")


# Before the rounds: the last round's breakages are mended when the module ends.
DECLARED = {
    "configs": {"none": {}, "mps-four": {"replicas": 4}},
    "default": "none",
    "node_groups": [{"name": "all", "config": "mps-four", "nodes": list(MPS_NODES)}],
}


EVERYBODY = {*MPS_NODES, "gpu-mig-1"}


def broken_at(bed: TestBed, link: str, code: str, **options: Any) -> set[str]:
    """The nodes whose first broken link is this one, once there is any."""
    result = until(bed, lambda found: any(one[1:] == (link, code) for one in verdicts(found).values()), 60, **options)
    return {node for node, verdict in verdicts(result).items() if verdict[1:] == (link, code)}


def set_config(bed: TestBed, name: str, default: str) -> None:
    """Let the policy refer to a map and a default; again where the API server's schema does not know the field yet."""
    wanted = {"name": name, "default": default}

    def stays() -> bool:
        return bed.api.patch(POLICY, {"spec": {"devicePlugin": {"config": wanted}}})["spec"]["devicePlugin"].get("config") == wanted

    bed.wait_for("a policy with this config", stays, 30)


def test_links_that_the_whole_cluster_shares(bed: TestBed) -> None:
    configure(bed, {**dict.fromkeys(MPS_NODES, "mps-four"), "gpu-mig-1": None})
    set_config(bed, "mps-configs", "nobody")
    assert broken_at(bed, "key", "key-of-default-absent") == {"gpu-mig-1"}
    set_config(bed, "somebody-elses", "none")
    assert broken_at(bed, "policy", "policy-names-other-map", config_map="mps-configs", **DECLARED) == EVERYBODY
    assert broken_at(bed, "map", "map-absent") == EVERYBODY
    set_config(bed, "mps-configs", "none")
    bed.api.delete(MAP)
    assert broken_at(bed, "map", "map-absent") == EVERYBODY
    create_empty_map(bed)
    assert broken_at(bed, "map", "map-without-keys") == EVERYBODY
    write_map(bed, CONFIGS)


def create_empty_map(bed: TestBed) -> None:
    """A map without texts, as `kubectl create configmap` makes it."""
    bed.api.delete(MAP)
    bed.api.post(f"/api/v1/namespaces/{NAMESPACE}/configmaps", {"metadata": {"name": "mps-configs"}})


def test_a_policy_that_cannot_lead_to_mps(bed: TestBed) -> None:
    """Without a config; the config on a second policy; a CRD that drops the field; without the plugin; without discovery."""
    try:
        set_config(bed, "", "")
        assert broken_at(bed, "policy", "policy-names-other-map", config_map="mps-configs", **DECLARED) == EVERYBODY
        first = bed.api.get(POLICY)
        plugin = {**first["spec"]["devicePlugin"], "config": {"name": "mps-configs", "default": "none"}}
        bed.api.post(POLICIES, {**first, "metadata": {"name": "second-policy"}, "spec": {**first["spec"], "devicePlugin": plugin}, "status": {}})
        assert broken_at(bed, "policy", "policy-ignored-carries-config", config_map="mps-configs", **DECLARED) == EVERYBODY
        bed.api.delete(f"{POLICIES}/second-policy")
        field = bed.api.get(DEFINITION)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["devicePlugin"]
        bed.api.patch(DEFINITION, [{"op": "remove", "path": CONFIG_FIELD}], "application/json-patch+json")
        assert broken_at(bed, "policy", "policy-schema-without-config", config_map="mps-configs", **DECLARED) == EVERYBODY
        bed.api.patch(DEFINITION, [{"op": "add", "path": CONFIG_FIELD, "value": field["properties"]["config"]}], "application/json-patch+json")
        bed.api.patch(POLICY, {"spec": {"devicePlugin": {"enabled": False}}})
        assert broken_at(bed, "policy", "policy-without-plugin", config_map="mps-configs", **DECLARED) == EVERYBODY
        bed.api.patch(POLICY, {"spec": {"devicePlugin": {"enabled": True}, "gfd": {"enabled": False}}})
        assert broken_at(bed, "policy", "policy-without-discovery", config_map="mps-configs", **DECLARED) == set(MPS_NODES)
    finally:
        bed.api.patch(POLICY, {"spec": {"devicePlugin": {"enabled": True}, "gfd": {"enabled": True}}})
        bed.api.delete(f"{POLICIES}/second-policy")
        set_config(bed, "mps-configs", "none")


def test_a_node_that_its_kubelet_has_lost(bed: TestBed) -> None:
    configure(bed, dict.fromkeys(MPS_NODES, "mps-four"))
    bed.api.patch("/api/v1/nodes/gpu-h100-1", {"metadata": {"annotations": {NOT_READY: "yes"}}})
    try:
        assert broken_at(bed, "node", "node-not-ready") == {"gpu-h100-1"}
    finally:
        bed.api.patch("/api/v1/nodes/gpu-h100-1", {"metadata": {"annotations": {NOT_READY: None}}})


def test_a_label_against_the_default_is_named_where_the_device_plugin_cannot_follow_it(bed: TestBed) -> None:
    """k8s-device-plugin from v0.18.2: the pods start with the default, and the daemon never learns of the label."""
    configure(bed, {**dict.fromkeys(MPS_NODES, "none"), "gpu-t4-1": "mps-four", "gpu-mig-1": None})
    bed.api.patch(POLICY, {"spec": {"devicePlugin": {"version": "v0.20.0"}}})
    try:
        result = until(bed, lambda found: verdicts(found)["gpu-t4-1"] == ("broken", "selection", "label-against-default"))
    finally:
        bed.api.patch(POLICY, {"spec": {"devicePlugin": {"version": "v0.17.4"}}})
    found = told_of(result, "gpu-t4-1")
    assert "default" in found["remedy"]


@pytest.mark.parametrize("node", [*MPS_NODES, "gpu-mig-1"])
def test_the_broken_link_is_named_first(broken: tuple[Round, dict[str, Any]], node: str) -> None:
    round_, result = broken
    breakage = next(one for one in round_.breakages if one.node == node)
    found = told_of(result, node)
    assert (found["verdict"], found["link"], found["code"]) == (breakage.verdict, breakage.link, breakage.code), found["reason"]
    assert found["evidence"] and found["remedy"]


def test_the_summary_counts_them(broken: tuple[Round, dict[str, Any]]) -> None:
    round_, result = broken
    for verdict in ("broken", "stale", "waiting"):
        assert result["summary"][verdict] == sum(one.verdict == verdict for one in round_.breakages)
    assert not result["verified"] and not result["clean"]
