# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Chart values that agree with the declaration, and the images that follow from them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._chart_values import ChartValuesError, chart_images, chart_values, merge

CONFIG = {"name": "mps-configs", "default": ""}
CHART = {
    "nfd": {"enabled": True},
    "sandboxWorkloads": {"enabled": False},
    "operator": {
        "repository": "registry.example/nvidia",
        "image": "gpu-operator",
        "imagePullSecrets": [],
        "initContainer": {"repository": "registry.example/nvidia", "image": "cuda", "version": "13.0"},
    },
    "driver": {
        "enabled": True,
        "repository": "registry.example/nvidia",
        "image": "driver",
        "version": "580.82.07",
        "imagePullSecrets": [],
        "manager": {"repository": "registry.example/nvidia/cloud-native", "image": "k8s-driver-manager", "version": "v0.8.1"},
    },
    "devicePlugin": {"enabled": True, "repository": "registry.example/nvidia", "image": "k8s-device-plugin", "version": "v0.17.4"},
    "gfd": {"enabled": True, "repository": "registry.example/nvidia", "image": "k8s-device-plugin", "version": "v0.17.4"},
    "dcgm": {"enabled": False, "repository": "registry.example/nvidia/cloud-native", "image": "dcgm", "version": "4.3.1"},
    "toolkit": {"enabled": True, "repository": "registry.example/nvidia/k8s", "image": "container-toolkit", "version": "sha256:0123"},
    "vfioManager": {"enabled": True, "repository": "registry.example/nvidia", "image": "cuda", "version": "12.0"},
    "vgpuManager": {"enabled": False, "repository": "", "image": "vgpu-manager", "version": ""},
}
ABOUT = {"appVersion": "v25.3.4", "dependencies": [{"name": "node-feature-discovery", "version": "v0.17.3"}]}


def test_the_config_is_always_there_and_the_user_wins_elsewhere() -> None:
    values = chart_values({"operator": {"upgradeCRD": False}, "driver": {"enabled": False}}, config=CONFIG, chart={})
    assert values == {"devicePlugin": {"config": CONFIG}, "operator": {"upgradeCRD": False}, "driver": {"enabled": False}}


@pytest.mark.parametrize(("field", "variable"), [("name", "mps_config_map"), ("default", "mps_default")])
def test_another_config_in_the_users_values_is_refused(field: str, variable: str) -> None:
    with pytest.raises(ChartValuesError, match=f"devicePlugin.config.{field}.*set {variable}"):
        chart_values({"devicePlugin": {"config": {field: "other"}}}, config=CONFIG, chart={})


def test_the_same_config_in_the_users_values_is_no_contradiction() -> None:
    assert chart_values({"devicePlugin": {"config": {"name": "mps-configs"}}}, config=CONFIG, chart={})["devicePlugin"] == {"config": CONFIG}


def test_a_mirror_replaces_the_host_of_every_repository() -> None:
    values = chart_values({}, config=CONFIG, chart=CHART, registry="mirror.local:5000/gpu/")
    assert values["driver"]["manager"]["repository"] == "mirror.local:5000/gpu/nvidia/cloud-native"
    assert values["operator"]["initContainer"]["repository"] == "mirror.local:5000/gpu/nvidia"
    assert values["node-feature-discovery"]["image"]["repository"] == "mirror.local:5000/gpu/nfd/node-feature-discovery"
    assert "vgpuManager" not in values, "an empty repository stays empty"
    mirrored = chart_images(merge(CHART, values), ABOUT)
    assert mirrored
    assert all(image.startswith("mirror.local:5000/gpu/") for image in mirrored)


def test_pull_secrets_reach_every_component_in_the_form_it_wants() -> None:
    values = chart_values({}, config=CONFIG, chart=CHART, pull_secrets=["mirror"])
    assert values["driver"] == {"imagePullSecrets": ["mirror"]}
    assert values["operator"]["imagePullSecrets"] == ["mirror"]
    assert values["node-feature-discovery"] == {"imagePullSecrets": [{"name": "mirror"}]}
    assert "dcgm" not in values, "a component without the field in the chart gets none"


def test_a_proxy_is_given_in_both_spellings() -> None:
    values = chart_values({}, config=CONFIG, chart={}, proxy={"https_proxy": "http://proxy:3128", "no_proxy": "", "http_proxy": None})
    environment = [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}, {"name": "https_proxy", "value": "http://proxy:3128"}]
    assert values["driver"] == values["toolkit"] == {"env": environment}


def test_images_of_enabled_components_once_each() -> None:
    assert chart_images(CHART, ABOUT) == [
        "registry.example/nvidia/cloud-native/k8s-driver-manager:v0.8.1",
        "registry.example/nvidia/cuda:13.0",
        "registry.example/nvidia/driver:580.82.07-<os>",
        "registry.example/nvidia/gpu-operator:v25.3.4",
        "registry.example/nvidia/k8s-device-plugin:v0.17.4",
        "registry.example/nvidia/k8s/container-toolkit@sha256:0123",
        "registry.k8s.io/nfd/node-feature-discovery:v0.17.3",
    ]


@pytest.mark.parametrize(
    ("dependencies", "image", "tag"),
    [
        ([{"name": "node-feature-discovery", "version": "0.18.0"}], {}, "v0.18.0"),
        ([{"name": "node-feature-discovery", "version": "0.18.0"}], {"tag": "v1-minimal"}, "v1-minimal"),
        ([{"name": "other", "version": "1.0.0"}], {}, "<appVersion of the subchart node-feature-discovery>"),
        (None, {}, "<appVersion of the subchart node-feature-discovery>"),
    ],
)
def test_the_tag_of_the_subchart(dependencies: Any, image: dict[str, str], tag: str) -> None:
    values = {"nfd": {"enabled": True}, "node-feature-discovery": {"image": image}}
    assert chart_images(values, {"dependencies": dependencies}) == [f"registry.k8s.io/nfd/node-feature-discovery:{tag}"]


def test_virtual_machine_components_count_only_where_they_are_deployed() -> None:
    values = merge(CHART, {"sandboxWorkloads": {"enabled": True}, "nfd": {"enabled": False}})
    images = chart_images(values, ABOUT)
    assert "registry.example/nvidia/cuda:12.0" in images
    assert not [image for image in images if "node-feature-discovery" in image]
