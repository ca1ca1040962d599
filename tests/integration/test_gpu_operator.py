# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role gpu_operator beside other owners, other plugins and old operators, and the images that a mirror must hold."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from tests.integration.ansible_runs import AnsibleRun
from tests.integration.chart_mirror import CURRENT, ChartMirror
from tests.integration.operator_variables import operator_variables
from tests.integration.releases import from_repository, writes_of_the_user
from tests.testbed.bed import TestBed, take_down
from tests.testbed.chart import NAMESPACE
from tests.testbed.layout import Layout

DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/gpu-operator"
CSV_GROUP = "operators.coreos.com"
Run = Callable[..., AnsibleRun]
# What Helm leaves on an object, and what is not there when another tool installed it.
NO_HELM = {"meta.helm.sh/release-name": None, "meta.helm.sh/release-namespace": None}
# The marks that each tool leaves on the operator's Deployment.
MARKS: dict[str, dict[str, Any]] = {
    "argocd gpu": {"annotations": {**NO_HELM, "argocd.argoproj.io/tracking-id": f"gpu:apps/Deployment:{NAMESPACE}/gpu-operator"}},
    "flux gpus": {"labels": {"helm.toolkit.fluxcd.io/name": "gpus", "helm.toolkit.fluxcd.io/namespace": "flux-system"}},
    "olm gpu-operator-certified.v25.3.4": {"annotations": NO_HELM, "ownerReferences": []},
    "unknown": {"annotations": NO_HELM},
}


@pytest.fixture(scope="module")
def installed(worker: str) -> Iterator[TestBed]:
    """A bed of one GPU node with the operator installed by Helm."""
    name = f"owners-{worker}"
    try:
        bed = TestBed.start(name, nodes="fleet:1", instant=True)
        bed.install_operator_objects()
        bed.wait_until_settled()
        yield bed
    finally:
        take_down(Layout.of(name))


@pytest.fixture
def bed(installed: TestBed) -> Iterator[TestBed]:
    """The bed, whose Deployment is put back after the test."""
    former = installed.api.get(DEPLOYMENT)
    yield installed
    del former["metadata"]["resourceVersion"], former["status"]
    installed.api.put(DEPLOYMENT, former)


def role(state: str) -> dict[str, Any]:
    """A play that runs the role and nothing else."""
    variables = {"gpu_operator_state": state, "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    task = {"name": "operator", "ansible.builtin.import_role": {"name": "gpuops.mps.gpu_operator"}}
    return {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": variables, "tasks": [task]}


def service_version(bed: TestBed, name: str) -> dict[str, Any]:
    """Create the object through which OLM owns an operator, and return a reference to it."""
    plural = "clusterserviceversions"
    definition = {
        "metadata": {"name": f"{plural}.{CSV_GROUP}"},
        "spec": {
            "group": CSV_GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": "clusterserviceversion", "kind": "ClusterServiceVersion", "listKind": "ClusterServiceVersionList"},
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    bed.api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    body = {"apiVersion": f"{CSV_GROUP}/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name}}
    path = f"/apis/{CSV_GROUP}/v1alpha1/namespaces/{NAMESPACE}/{plural}"
    made = bed.wait_for("an API for service versions", lambda: bed.api.post(path, body))
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "name": name, "uid": made["metadata"]["uid"]}


@pytest.mark.parametrize("owner", MARKS)
def test_what_another_tool_installed_is_left_alone_and_not_removed(owner: str, bed: TestBed, run_ansible: Run) -> None:
    marks = dict(MARKS[owner])
    if "ownerReferences" in marks:
        marks["ownerReferences"] = [service_version(bed, owner.split()[1])]
    bed.api.patch(DEPLOYMENT, {"metadata": marks})
    since = bed.mark()
    variables = {**operator_variables(bed), "mps_default": "mps-two", "gpu_operator_upgrade": True}
    run = run_ansible([role("present"), role("absent")], bed, variables=variables, account="installer")
    said = run.result("belongs to another tool")["msg"]
    assert owner in said and '"default": "mps-two"' in said
    assert run.status != 0 and owner in run.failure() and "would install it again" in run.failure()
    assert not writes_of_the_user(bed, since)


def test_an_operator_without_mps_is_refused_and_upgraded_when_asked(bed: TestBed, run_ansible: Run, mirror: ChartMirror) -> None:
    containers = bed.api.get(DEPLOYMENT)["spec"]["template"]["spec"]["containers"]
    old = [{**container, "image": "nvcr.io/nvidia/gpu-operator:v23.9.2"} for container in containers]
    bed.api.patch(DEPLOYMENT, {"spec": {"template": {"spec": {"containers": old}}}})
    since = bed.mark()
    refused = run_ansible([role("present")], bed, variables=operator_variables(bed), account="installer")
    assert refused.status != 0 and not writes_of_the_user(bed, since)
    for word in ("v23.9.2", "no MPS control daemon", "v24.3.0", "gpu_operator_upgrade"):
        assert word in refused.failure()
    asked = {**from_repository(mirror, CURRENT), "gpu_operator_upgrade": True}
    upgraded = run_ansible([role("present")], bed, variables={**operator_variables(bed), **asked}, account="installer")
    assert upgraded.status == 0, upgraded.failure()
    assert upgraded.result("every part of the operator runs")["version"] == CURRENT


def test_a_second_device_plugin_is_refused(bed: TestBed, run_ansible: Run) -> None:
    labels = {"app.kubernetes.io/name": "nvidia-device-plugin"}
    template = {"metadata": {"labels": labels}, "spec": {"nodeSelector": {"nowhere": "true"}, "containers": [{"name": "plugin", "image": "plugin"}]}}
    path = "/apis/apps/v1/namespaces/kube-system/daemonsets"
    bed.api.post(path, {"metadata": {"name": "nvdp", "labels": labels}, "spec": {"selector": {"matchLabels": labels}, "template": template}})
    try:
        since = bed.mark()
        run = run_ansible([role("present")], bed, variables=operator_variables(bed), account="installer")
        assert run.status != 0 and not writes_of_the_user(bed, since)
        assert "kube-system/nvdp" in run.failure() and "Uninstall its chart" in run.failure()
    finally:
        bed.api.delete(f"{path}/nvdp")


def images_in(values: Any) -> set[str]:
    """The images below a rendered object: those of containers, and those that a ClusterPolicy names in three fields."""
    if isinstance(values, list):
        return set().union(*(images_in(value) for value in values))
    if not isinstance(values, dict) or values.get("enabled") is False:
        return set()
    found = set().union(*(images_in(value) for key, value in values.items() if key not in ("vfioManager", "vgpuDeviceManager", "sandboxDevicePlugin")))
    if "repository" in values and "image" in values:
        return found | {f"{values['repository']}/{values['image']}:{values['version']}"}
    return found | ({values["image"]} if isinstance(values.get("image"), str) and ":" in values["image"] else set())


def test_the_images_for_a_mirror_are_those_that_the_chart_renders(bed: TestBed, run_ansible: Run, mirror: ChartMirror) -> None:
    task = {"name": "images", "ansible.builtin.include_role": {"name": "gpuops.mps.gpu_operator", "tasks_from": "images"}}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [task]}
    chosen = {"dcgm": {"enabled": True}, "gdrcopy": {"enabled": True}}
    variables = {
        **operator_variables(bed),
        "gpu_operator_chart_ref": mirror.oci,
        "gpu_operator_plain_http": True,
        "gpu_operator_image_registry": "mirror.example/gpu",
        "gpu_operator_image_pull_secrets": ["mirror"],
        "gpu_operator_values": chosen,
    }
    listed = run_ansible([play], variables=variables)
    command = [str(bed.programs / "helm4"), "template", "gpu", mirror.oci, "--version", CURRENT, "--plain-http", "--set-json", json.dumps(chosen)]
    rendered = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert listed.status == 0, listed.failure()
    images = [str(image) for image in listed.result("able to pull")["msg"]]
    assert all(image.startswith("mirror.example/gpu/") for image in images)
    wanted = images_in(list(yaml.safe_load_all(rendered)))
    assert {image.removesuffix("-<os>").removeprefix("mirror.example/gpu/") for image in images} == {image.partition("/")[2] for image in wanted}
