# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the agents read from Pod and Node objects (plain API JSON)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.testbed.agents.config_file import PREFIX
from tests.testbed.agents.config_manager import Settings, Version
from tests.testbed.agents.hardware import Gpu, gpus_from_annotation

Json = Mapping[str, Any]

GPU_ANNOTATION = "testbed.gpuops.example/gpus"
FAULT_ANNOTATION = "testbed.gpuops.example/fault"
NOT_READY_ANNOTATION = "testbed.gpuops.example/not-ready"  # KWOK calls the node NotReady
DISCOVERY = "gpu-feature-discovery"
PLUGIN = "nvidia-device-plugin-daemonset"
DAEMON = "nvidia-device-plugin-mps-control-daemon"
VALIDATOR = "nvidia-operator-validator"
OPERANDS = frozenset((DISCOVERY, PLUGIN, DAEMON, VALIDATOR))
IMAGE_VERSION = re.compile(r":v?(\d+)\.(\d+)\.(\d+)[^/]*$")


@dataclass(frozen=True)
class Request:
    """One container's demand for an extended resource."""

    container: str
    resource: str
    count: int


def node_gpus(node: Json) -> tuple[Gpu, ...]:
    text = (node["metadata"].get("annotations") or {}).get(GPU_ANNOTATION) or "[]"
    return gpus_from_annotation(json.loads(text))


def node_faults(node: Json) -> frozenset[str]:
    text = (node["metadata"].get("annotations") or {}).get(FAULT_ANNOTATION) or ""
    return frozenset(word.strip() for word in text.split(",") if word.strip())


def is_cut_off(node: Json) -> bool:
    """Whether the node's kubelet does not reach the API server."""
    return NOT_READY_ANNOTATION in (node["metadata"].get("annotations") or {})


def node_labels(node: Json) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}


def operand(pod: Json) -> str:
    """The operand's app label, or "" for any other pod."""
    app = (pod["metadata"].get("labels") or {}).get("app", "")
    return app if app in OPERANDS else ""


def gpu_requests(pod: Json) -> tuple[Request, ...]:
    """The containers' limits on NVIDIA's resources."""
    return tuple(
        Request(container["name"], name, int(count))
        for container in pod["spec"]["containers"]
        for name, count in ((container.get("resources") or {}).get("limits") or {}).items()
        if name.startswith(PREFIX)
    )


def is_played(pod: Json) -> bool:
    """Whether the agents (and not KWOK) play this pod."""
    return bool(operand(pod) or gpu_requests(pod))


def init_containers(pod: Json) -> tuple[Json, ...]:
    return tuple(pod["spec"].get("initContainers") or ())


def containers(pod: Json) -> tuple[Json, ...]:
    return tuple(pod["spec"]["containers"])


def environment(container: Json) -> dict[str, str]:
    return {item["name"]: item.get("value") or "" for item in container.get("env") or ()}


def image_version(container: Json, otherwise: Version) -> Version:
    """The version in the image's tag; a digest or another tag says nothing."""
    match = IMAGE_VERSION.search(str(container.get("image") or ""))
    if not match:
        return otherwise
    major, minor, patch = map(int, match.groups())
    return major, minor, patch


def manager_settings(container: Json) -> Settings:
    """config-manager's settings from its environment."""
    env = environment(container)
    fallbacks = tuple(word.strip() for word in env.get("FALLBACK_STRATEGIES", "").split(",") if word.strip())
    return Settings(env.get("DEFAULT_CONFIG", ""), fallbacks)


def required_config_maps(pod: Json) -> tuple[tuple[str, str], ...]:
    """(volume, ConfigMap) of every ConfigMap volume that is not optional."""
    return tuple(
        (volume["name"], volume["configMap"]["name"])
        for volume in pod["spec"].get("volumes") or ()
        if "configMap" in volume and not volume["configMap"].get("optional")
    )


def config_source(pod: Json) -> str:
    """The ConfigMap mounted where config-manager looks for configs; "" without config-manager."""
    for container in (*containers(pod), *init_containers(pod)):
        directory = environment(container).get("CONFIG_FILE_SRCDIR")
        volumes = {mount["name"] for mount in container.get("volumeMounts") or () if mount["mountPath"] == directory}
        for name, config_map in required_config_maps(pod) if directory else ():
            if name in volumes:
                return config_map
    return ""


def has_own_shm(container: Json) -> bool:
    """Whether the pod mounts something of its own on /dev/shm, which hides the node's shared memory of MPS."""
    return any(mount["mountPath"].rstrip("/") == "/dev/shm" for mount in container.get("volumeMounts") or ())
