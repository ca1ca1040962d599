# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: API JSON becomes the snapshot's dataclasses. Pure."""

from __future__ import annotations

import re
import typing as t
from dataclasses import replace

from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._shown import named
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import (
    AGENT_DAEMON_SETS,
    CONFIG_LABEL,
    ClusterPolicy,
    ConfigMap,
    Container,
    DaemonSet,
    ForeignPlugin,
    Node,
    Owner,
    Pod,
)

Object = t.Mapping[str, t.Any]

FIELD_MANAGER = "gpuops.mps"
GPU_RESOURCE = re.compile(r"nvidia\.com/gpu(\.shared)?$")
DEVICE_PLUGIN_DIRECTORY = "/var/lib/kubelet/device-plugins"
# Plugins for other devices (RDMA, SR-IOV, KVM) mount the same directory; these words tell the ones for NVIDIA GPUs.
GPU_PLUGIN_WORDS = re.compile(r"nvidia|nvdp|hami|vgpu|gpushare|gpu-device-plugin", re.IGNORECASE)
OTHER_VENDOR_WORDS = re.compile(r"amd|intel|rocm|gaudi|rdma|sriov", re.IGNORECASE)


def node_of(item: Object) -> Node:
    """A Node; one that was read as metadata only counts as ready and has no resources."""
    metadata, status = item["metadata"], item.get("status") or {}
    owner, changed = _label_owner(metadata)
    info = status.get("nodeInfo") or {}
    return Node(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        capacity=_resources(status.get("capacity")),
        allocatable=_resources(status.get("allocatable")),
        ready="status" not in item or _condition(status, "Ready") == "True",
        unschedulable=bool((item.get("spec") or {}).get("unschedulable")),
        created=metadata.get("creationTimestamp", ""),
        kernel=info.get("kernelVersion", ""),
        operating_system=info.get("osImage", ""),
        label_owner=owner,
        label_changed=changed,
        taints=tuple(_taint_text(taint) for taint in (item.get("spec") or {}).get("taints") or ()),
    )


def pod_of(item: Object, *, with_spec: bool = False) -> Pod:
    """A Pod; ``with_spec`` keeps the raw spec, for pods that use GPUs."""
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    owner: Object = next((one for one in metadata.get("ownerReferences") or () if one.get("controller")), {})
    labels = metadata.get("labels") or {}
    requests, largest = gpu_requests(spec)
    return Pod(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        node=spec.get("nodeName") or None,
        phase=status.get("phase", ""),
        ready=_condition(status, "Ready") == "True",
        created=metadata.get("creationTimestamp", ""),
        started=status.get("startTime"),
        terminating="deletionTimestamp" in metadata,
        app=labels.get("app", ""),
        containers=(
            *(_container(one, init=True) for one in status.get("initContainerStatuses") or ()),
            *(_container(one, init=False) for one in status.get("containerStatuses") or ()),
        ),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        generation=labels.get("pod-template-generation", ""),
        owner_kind=owner.get("kind", ""),
        owner_name=owner.get("name", ""),
        requests=requests,
        largest_request=largest,
        spec=spec if with_spec else {},
    )


def gpu_requests(spec: Object) -> tuple[dict[str, int], int]:
    """The nvidia.com/* limits of a pod's containers, summed, and the most that one container asks of one nvidia.com/gpu* resource.

    Extended resources cannot be overcommitted, so requests equal limits and either may be written alone.
    """
    total: dict[str, int] = {}
    largest = 0
    for container in spec.get("containers") or ():
        resources = container.get("resources") or {}
        wanted = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        for name, number in _resources(wanted).items():
            total[name] = total.get(name, 0) + number
            if GPU_RESOURCE.match(name):
                largest = max(largest, number)
    return total, largest


def uses_gpus(item: Object) -> bool:
    """Whether a pod asks for nvidia.com/gpu or nvidia.com/gpu.shared and may hold it now."""
    if (item.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    return any(GPU_RESOURCE.match(name) and number for name, number in gpu_requests(item.get("spec") or {})[0].items())


def policies_of(items: t.Iterable[Object]) -> tuple[ClusterPolicy, ...]:
    """All ClusterPolicies, oldest first.

    The operator follows the oldest one and gives the others the state ``ignored`` (gpu-operator, clusterpolicy_controller.go;
    v25.3.4 computes that state without storing it, so age decides where no state says otherwise).
    """
    found = sorted((_policy(item) for item in items), key=lambda policy: (policy.created, policy.name))
    active = next((policy.name for policy in found if policy.state != "ignored"), None)
    return tuple(replace(policy, active=policy.name == active) for policy in found)


def _policy(item: Object) -> ClusterPolicy:
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    plugin, daemon_sets = spec.get("devicePlugin") or {}, spec.get("daemonsets") or {}
    config = plugin.get("config") or {}
    return ClusterPolicy(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        generation=int(metadata.get("generation") or 0),
        created=metadata.get("creationTimestamp", ""),
        state=status.get("state", ""),
        namespace=status.get("namespace", ""),
        config_name=config.get("name") or "",
        config_default=config.get("default") or "",
        mig_strategy=(spec.get("mig") or {}).get("strategy") or "",
        device_plugin_enabled=plugin.get("enabled") is not False,
        feature_discovery_enabled=(spec.get("gfd") or {}).get("enabled") is not False,
        plugin_version=PluginVersion.parse(plugin.get("version") or ""),
        mps_root=(plugin.get("mps") or {}).get("root") or "/run/nvidia/mps",
        update_strategy=daemon_sets.get("updateStrategy") or "RollingUpdate",
        max_unavailable=str((daemon_sets.get("rollingUpdate") or {}).get("maxUnavailable") or "1"),
        active=False,
        config_owner=_field_owner(metadata, ("f:spec", "f:devicePlugin", "f:config")),
        owners=owners_of(metadata),
        conditions=tuple((one.get("type", ""), one.get("status", ""), one.get("reason", ""), one.get("message", "")) for one in status.get("conditions") or ()),
    )


def config_map_of(item: Object) -> ConfigMap:
    """A ConfigMap, with the time its data last changed as far as field managers tell."""
    metadata = item["metadata"]
    return ConfigMap(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        data=item.get("data") or {},
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        binary_keys=tuple(sorted(item.get("binaryData") or ())),
        changed=_data_changed(metadata),
        owners=owners_of(metadata),
        immutable=bool(item.get("immutable")),
    )


def daemon_set_of(item: Object) -> DaemonSet:
    """A DaemonSet with the counts that say how far a rollout is."""
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    pod_spec = ((spec.get("template") or {}).get("spec")) or {}
    containers = pod_spec.get("containers") or [{}]
    manager = next((one for one in containers if one.get("name") == "config-manager"), None)
    mounted = _config_volume(pod_spec) if manager else None
    components = {name: component for component, name in AGENT_DAEMON_SETS.items()}
    return DaemonSet(
        namespace=metadata["namespace"],
        name=metadata["name"],
        component=components.get(metadata["name"], metadata["name"]),
        uid=metadata.get("uid", ""),
        generation=int(metadata.get("generation") or 0),
        observed_generation=int(status.get("observedGeneration") or 0),
        desired=int(status.get("desiredNumberScheduled") or 0),
        updated=int(status.get("updatedNumberScheduled") or 0),
        ready=int(status.get("numberReady") or 0),
        available=int(status.get("numberAvailable") or 0),
        update_strategy=(spec.get("updateStrategy") or {}).get("type") or "RollingUpdate",
        image=containers[0].get("image", ""),
        config_name=mounted,
        host_pid=bool(pod_spec.get("hostPID")),
        default_config=_environment(manager).get("DEFAULT_CONFIG", "") if manager else None,
        template_generation=(metadata.get("annotations") or {}).get("deprecated.daemonset.template.generation", ""),
    )


def operand_apps(items: t.Iterable[Object], namespace: str) -> tuple[str, ...]:
    """The label C(app) of the operator's own DaemonSets' pods, sorted: the operator owns its DaemonSets and selects their pods by it."""
    own = (item for item in items if is_operand(item, namespace))
    apps = ((((item.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}).get("app") for item in own)
    return tuple(sorted({app for app in apps if app}))


def is_operand(item: Object, namespace: str) -> bool:
    """Whether an object is one that the operator in this namespace made for its ClusterPolicy."""
    metadata = item["metadata"]
    return metadata["namespace"] == namespace and any(one.get("kind") == "ClusterPolicy" for one in metadata.get("ownerReferences") or ())


def foreign_plugin_of(item: Object, namespace: str) -> ForeignPlugin | None:
    """A DaemonSet that is a second device plugin for NVIDIA GPUs; None when it is the operator's, another vendor's, or runs nowhere."""
    metadata = item["metadata"]
    runs = (item.get("status") or {}).get("desiredNumberScheduled")
    reason = _plugin_reason(metadata["name"], ((item.get("spec") or {}).get("template") or {}).get("spec") or {})
    if is_operand(item, namespace) or not runs or not reason:
        return None
    return ForeignPlugin(metadata["namespace"], metadata["name"], "DaemonSet", reason)


def foreign_plugin_pod_of(item: Object, namespace: str) -> ForeignPlugin | None:
    """The same for a pod outside the operator's namespace, named by its controller, with the node it runs on."""
    metadata, spec = item["metadata"], item.get("spec") or {}
    owner: Object = next((one for one in metadata.get("ownerReferences") or () if one.get("controller")), {})
    name = owner.get("name") or metadata["name"]
    reason = _plugin_reason(name, spec)
    if metadata["namespace"] == namespace or not reason:
        return None
    return ForeignPlugin(metadata["namespace"], name, owner.get("kind") or "Pod", reason, spec.get("nodeName"))


def _plugin_reason(name: str, pod_spec: Object) -> str | None:
    """Why a pod spec looks like a device plugin for NVIDIA GPUs; None when it does not."""
    mounts = any((volume.get("hostPath") or {}).get("path", "").rstrip("/") == DEVICE_PLUGIN_DIRECTORY for volume in pod_spec.get("volumes") or ())
    images = ", ".join(one.get("image", "") for one in pod_spec.get("containers") or ())
    if not mounts or not GPU_PLUGIN_WORDS.search(f"{name} {images}") or OTHER_VENDOR_WORDS.search(name):
        return None
    return f"it mounts {DEVICE_PLUGIN_DIRECTORY} and runs {images}"


def operator_version_of(policies: t.Iterable[Object], daemon_sets: t.Iterable[Object]) -> str | None:
    """The operator's version from labels that the Helm chart sets, or the validator's image tag (OLM sets no such labels)."""
    for item in (*policies, *daemon_sets):
        labels = item["metadata"].get("labels") or {}
        chart = re.match(r"gpu-operator-(v?\d.*)", labels.get("helm.sh/chart", ""))
        if chart:
            return chart.group(1)
    for item in daemon_sets:
        if item["metadata"]["name"] == "nvidia-operator-validator":
            image = item["spec"]["template"]["spec"]["containers"][0].get("image", "")
            tag = re.search(r":(v\d[\w.\-]*)$", image)
            return tag.group(1) if tag else None
    return None


def version_of_image(image: str) -> PluginVersion | None:
    """The device plugin's version from an image reference; None for a digest."""
    return PluginVersion.parse(image.rsplit(":", 1)[-1]) if ":" in image and "@" not in image else None


def schema_has_config(definition: Object | None) -> bool:
    """Whether the ClusterPolicy's CRD knows spec.devicePlugin.config in its stored version; unknown fields are pruned silently."""
    for version in ((definition or {}).get("spec") or {}).get("versions") or ():
        if not version.get("storage"):
            continue
        schema: t.Any = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        for step in ("spec", "devicePlugin", "config"):
            if schema.get("x-kubernetes-preserve-unknown-fields"):
                return True
            schema = (schema.get("properties") or {}).get(step)
            if schema is None:
                return False
        return True
    return False


def owners_of(metadata: Object) -> tuple[Owner, ...]:
    """Tools that keep an object in a state of their own, by the marks they leave on it."""
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    found = []
    if annotations.get("meta.helm.sh/release-name"):
        found.append(Owner("helm", annotations["meta.helm.sh/release-name"], annotations.get("meta.helm.sh/release-namespace", "")))
    elif labels.get("app.kubernetes.io/managed-by") == "Helm":
        found.append(Owner("helm", labels.get("app.kubernetes.io/instance", "")))
    tracking = annotations.get("argocd.argoproj.io/tracking-id", "")
    application = tracking.split(":", 1)[0] or labels.get("argocd.argoproj.io/instance", "")
    if application:
        found.append(Owner("argocd", application))
    for kind in ("kustomize", "helm"):
        if labels.get(f"{kind}.toolkit.fluxcd.io/name"):
            found.append(Owner("flux", labels[f"{kind}.toolkit.fluxcd.io/name"], labels.get(f"{kind}.toolkit.fluxcd.io/namespace", "")))
    if labels.get("olm.owner") or any(key.startswith("operators.coreos.com/") for key in labels):
        found.append(Owner("olm", labels.get("olm.owner", ""), labels.get("olm.owner.namespace", "")))
    return tuple(found)


def _resources(values: Object | None) -> dict[str, int]:
    """The nvidia.com/* entries as numbers; extended resources are whole numbers, possibly written as 2k."""
    found = {}
    for name, text in (values or {}).items():
        if name.startswith("nvidia.com/"):
            number = re.fullmatch(r"(\d{1,18})(k?)", named(text))
            found[name] = int(number.group(1)) * (1000 if number.group(2) else 1) if number else 0
    return found


def _condition(status: Object, kind: str) -> str:
    return next((one.get("status", "") for one in status.get("conditions") or () if one.get("type") == kind), "")


def _taint_text(taint: Object) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key', '')}{value}:{taint.get('effect', '')}"


def _container(status: Object, *, init: bool) -> Container:
    state, last = status.get("state") or {}, (status.get("lastState") or {}).get("terminated") or {}
    kind = next(iter(state), "waiting")
    now = state.get(kind) or {}
    return Container(
        name=status.get("name", ""),
        init=init,
        ready=bool(status.get("ready")),
        restarts=int(status.get("restartCount") or 0),
        state=kind,
        reason=now.get("reason", ""),
        message=now.get("message", ""),
        last_reason=last.get("reason", ""),
        last_message=last.get("message", ""),
        last_exit_code=last.get("exitCode"),
        started=now.get("startedAt"),
    )


def _environment(container: Object) -> dict[str, str]:
    return {one["name"]: one.get("value") or "" for one in container.get("env") or () if "valueFrom" not in one}


def _config_volume(pod_spec: Object) -> str | None:
    """The ConfigMap that the config-manager reads: the operator names the volume after the map (gpu-operator, handleDevicePluginConfig)."""
    for volume in pod_spec.get("volumes") or ():
        name = (volume.get("configMap") or {}).get("name")
        if name and name == volume.get("name") and name != "nvidia-device-plugin-entrypoint":
            return str(name)
    return None


def _entries_with(metadata: Object, path: t.Sequence[str]) -> t.Iterator[Object]:
    """The managedFields entries that own something at or below ``path``."""
    for entry in metadata.get("managedFields") or ():
        fields: t.Any = entry.get("fieldsV1") or {}
        for step in path:
            fields = fields.get(step) if isinstance(fields, dict) else None
        if fields is not None and not entry.get("subresource"):
            yield entry


def _label_owner(metadata: Object) -> tuple[str | None, str | None]:
    entries = list(_entries_with(metadata, ("f:metadata", "f:labels", f"f:{CONFIG_LABEL}")))
    latest = max(entries, key=lambda entry: entry.get("time") or "", default=None)
    return (latest.get("manager"), latest.get("time")) if latest else (None, None)


def _field_owner(metadata: Object, path: t.Sequence[str]) -> str | None:
    """The last other manager of a field; None when nobody or only this collection wrote it."""
    entries = [entry for entry in _entries_with(metadata, path) if entry.get("manager") != FIELD_MANAGER]
    latest = max(entries, key=lambda entry: entry.get("time") or "", default=None)
    return latest.get("manager") if latest else None


def _data_changed(metadata: Object) -> str | None:
    """When a ConfigMap's data last changed, None where no manager of it is known.

    The API server begins to note managers when an object is created; one that is created with no fields at all, by
    ``kubectl create configmap NAME`` for example, gets none, and none later (apimachinery, managedfields, skipnonapplied.go).
    Such a map may have been edited at any time since.
    """
    times = [entry.get("time") for entry in _entries_with(metadata, ("f:data",))]
    return max((time for time in times if time), default=None)
