# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: values for the GPU Operator's Helm chart, and the images that follow from them.

The chart's own defaults (``helm show values``) tell which components there are, so that no list of them ages here.
"""

from __future__ import annotations

import typing as t

Values = t.Mapping[str, t.Any]

# The subchart's defaults are not among the parent chart's; gpu-operator v25.3.4, charts/node-feature-discovery/values.yaml.
FEATURE_DISCOVERY_CHART = "node-feature-discovery"
FEATURE_DISCOVERY_REPOSITORY = "registry.k8s.io/nfd/node-feature-discovery"
# Components of virtual machine workloads, deployed only with sandboxWorkloads.enabled.
SANDBOX_COMPONENTS = ("vgpuManager", "vgpuDeviceManager", "vfioManager", "kataManager", "sandboxDevicePlugin", "ccManager")
# The containers that download something themselves while they run.
PROXY_COMPONENTS = ("driver", "toolkit")


class ChartValuesError(ValueError):
    """The user's values contradict what the collection has to write; the message says which and what to do."""


def chart_values(
    user: Values,
    *,
    config: Values,
    chart: Values,
    registry: str = "",
    pull_secrets: t.Sequence[str] = (),
    proxy: Values | None = None,
) -> dict[str, t.Any]:
    """Everything that is passed to Helm: what the collection decides with the user's values over it.

    ``config`` is ``{"name": config map, "default": config or ""}``, ``chart`` the chart's defaults (needed for ``registry``
    and ``pull_secrets`` only), ``proxy`` has the keys http_proxy, https_proxy and no_proxy.
    Raises ChartValuesError when the user's values name another config.
    """
    _check_config(user, config)
    values = merge({"devicePlugin": {"config": dict(config)}, "operator": {"upgradeCRD": True}}, _registry_values(chart, registry))
    values = merge(merge(values, _pull_secret_values(chart, pull_secrets)), _proxy_values(proxy or {}))
    return merge(values, user)


def merge(lower: Values, upper: Values) -> dict[str, t.Any]:
    """Helm's way to merge values: mappings by key, everything else is replaced."""
    merged = dict(lower)
    for key, value in upper.items():
        both_mappings = isinstance(value, t.Mapping) and isinstance(merged.get(key), t.Mapping)
        merged[key] = merge(merged[key], value) if both_mappings else value
    return merged


def _check_config(user: Values, config: Values) -> None:
    named = (user.get("devicePlugin") or {}).get("config") or {}
    for field, variable in (("name", "mps_config_map"), ("default", "mps_default")):
        if field in named and named[field] != config[field]:
            raise ChartValuesError(
                f"gpu_operator_values.devicePlugin.config.{field} is '{named[field]}', but the cluster's declaration says '{config[field]}': "
                f"remove it from gpu_operator_values and set {variable}, so that Helm and the rollout never write different things"
            )


def _registry_values(chart: Values, registry: str) -> dict[str, t.Any]:
    """The same repositories on another registry host: C(nvcr.io/nvidia/k8s) -> C(mirror.example/nvidia/k8s)."""
    if not registry:
        return {}
    values = _replace_repositories(chart, registry)
    return merge(values, {FEATURE_DISCOVERY_CHART: {"image": {"repository": _on_registry(FEATURE_DISCOVERY_REPOSITORY, registry)}}})


def _replace_repositories(values: Values, registry: str) -> dict[str, t.Any]:
    replaced: dict[str, t.Any] = {}
    for key, value in values.items():
        if isinstance(value, t.Mapping):
            if inner := _replace_repositories(value, registry):
                replaced[key] = inner
        elif key == "repository" and value:
            replaced[key] = _on_registry(value, registry)
    return replaced


def _on_registry(repository: str, registry: str) -> str:
    _host, _slash, path = repository.partition("/")
    return f"{registry.rstrip('/')}/{path}"


def _pull_secret_values(chart: Values, pull_secrets: t.Sequence[str]) -> dict[str, t.Any]:
    if not pull_secrets:
        return {}
    values: dict[str, t.Any] = {
        name: {"imagePullSecrets": list(pull_secrets)} for name, value in chart.items() if isinstance(value, t.Mapping) and "imagePullSecrets" in value
    }
    # The subchart wants objects where the chart wants names.
    values[FEATURE_DISCOVERY_CHART] = {"imagePullSecrets": [{"name": name} for name in pull_secrets]}
    return values


def _proxy_values(proxy: Values) -> dict[str, t.Any]:
    """Both spellings of each variable, because programs differ in which one they read."""
    environment = [
        {"name": spelling, "value": value} for name, value in sorted(proxy.items()) if value for spelling in (name.upper(), name.lower())
    ]
    return {component: {"env": environment} for component in PROXY_COMPONENTS} if environment else {}


def chart_images(values: Values, chart: Values) -> list[str]:
    """Every image that a cluster needs with these values (the chart's defaults with the user's over them), sorted.

    ``chart`` is the content of Chart.yaml: ``appVersion`` is the tag of what names none, and ``dependencies`` tells the version of the subchart.
    The driver's tag ends with the operating system of the nodes, which no chart knows: it is given as ``<os>``.
    """
    images: set[str] = set()
    app_version = str(chart.get("appVersion") or "")
    skipped = () if (values.get("sandboxWorkloads") or {}).get("enabled") else SANDBOX_COMPONENTS
    for name, component in values.items():
        if isinstance(component, t.Mapping) and name not in skipped and component.get("enabled", True):
            images |= _component_images(component, app_version, suffix="-<os>" if name == "driver" else "")
    if (values.get("nfd") or {}).get("enabled"):
        images.add(_feature_discovery_image(values, chart))
    return sorted(images)


def _feature_discovery_image(values: Values, chart: Values) -> str:
    """The subchart's image; its appVersion is its version with a leading v (node-feature-discovery v0.17.3, deployment/helm)."""
    image = (values.get(FEATURE_DISCOVERY_CHART) or {}).get("image") or {}
    versions = [str(one.get("version")) for one in chart.get("dependencies") or () if one.get("name") == FEATURE_DISCOVERY_CHART]
    tag = image.get("tag") or next((f"v{version.removeprefix('v')}" for version in versions), f"<appVersion of the subchart {FEATURE_DISCOVERY_CHART}>")
    return f"{image.get('repository') or FEATURE_DISCOVERY_REPOSITORY}:{tag}"


def _component_images(component: Values, app_version: str, suffix: str = "") -> set[str]:
    """The component's own image and those of the containers below it (driver.manager, operator.initContainer)."""
    images: set[str] = set()
    if component.get("image") and component.get("repository"):
        version = str(component.get("version") or app_version)
        separator = "@" if version.startswith("sha256:") else ":"
        images.add(f"{component['repository']}/{component['image']}{separator}{version}{suffix}")
    for inner in component.values():
        if isinstance(inner, t.Mapping):
            images |= _component_images(inner, app_version)
    return images
