# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the links that the whole cluster shares: ClusterPolicy, ConfigMap, key, and which key a node gets."""

from __future__ import annotations

from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import content_hash
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_case import (
    LINK_KEY,
    LINK_MAP,
    LINK_POLICY,
    LINK_SELECTION,
    Break,
    Case,
    Evidence,
    pod_subject,
)
from ansible_collections.gpuops.mps.plugins.module_utils._expectation import reading_of
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion, label_must_equal_default
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import CONFIG_LABEL, CONTROL_DAEMON, ClusterPolicy, ConfigMap

# k8s-device-plugin v0.15.0 is the first with MPS.
FIRST_WITH_MPS = PluginVersion(0, 15, 0)
FIELD_NAME = "spec.devicePlugin.config.name"
FIELD_DEFAULT = "spec.devicePlugin.config.default"


def check_policy(case: Case) -> Break | None:
    """There is an active ClusterPolicy, its operands run, and it refers to the ConfigMap."""
    policy = case.snapshot.policy
    if policy is None:
        return _no_policy(case)
    if not policy.device_plugin_enabled:
        message = f"the ClusterPolicy {policy.name} switches the device plugin off, so nothing offers GPUs through the operator"
        return _policy(policy, "policy-without-plugin", message, "spec.devicePlugin.enabled", "false", "true")
    if case.expected.daemon and not policy.feature_discovery_enabled:
        message = f"the ClusterPolicy {policy.name} switches GPU Feature Discovery off, so nothing sets the label that the MPS control daemon needs"
        return _policy(policy, "policy-without-discovery", message, "spec.gfd.enabled", "false", "true")
    if case.expected.daemon and policy.plugin_version is not None and policy.plugin_version < FIRST_WITH_MPS:
        version = policy.plugin_version
        found = f"v{version}"
        message = f"the device plugin {found} knows no MPS; the first that does is v0.15.0 (GPU Operator v24.3.0)"
        return _policy(policy, "plugin-before-mps", message, "spec.devicePlugin.version", found, ">= v0.15.0")
    return _policy_config(case, policy)


def _no_policy(case: Case) -> Break:
    snapshot = case.snapshot
    if snapshot.gpu_clusters:
        message = f"the cluster runs the operator by the GPUCluster {snapshot.gpu_clusters[0]}, which knows no device plugin and so no MPS"
        evidence = Evidence(f"gpucluster/{snapshot.gpu_clusters[0]}", "kind", "GPUCluster", "ClusterPolicy")
        return Break(LINK_POLICY, "policy-replaced-by-gpu-cluster", message, (evidence,))
    message = "there is no active ClusterPolicy: the GPU Operator is not installed, or has not been configured"
    return Break(LINK_POLICY, "policy-absent", message, (Evidence("clusterpolicy", "metadata.name", "absent"),))


def _policy_config(case: Case, policy: ClusterPolicy) -> Break | None:
    wanted = case.snapshot.map_name
    ignored = next((other for other in case.snapshot.policies if not other.active and other.config_name), None)
    if ignored is not None and not policy.config_name:
        message = f"the config is set on the ClusterPolicy {ignored.name}, but the operator follows {policy.name} only, the oldest one"
        return _policy(policy, "policy-ignored-carries-config", message, FIELD_NAME, '""', ignored.config_name)
    if case.expected.selection.config is None or policy.config_name == wanted:
        return None
    if not case.snapshot.policy_schema_has_config:
        message = "the ClusterPolicy's CRD does not know spec.devicePlugin.config, so the API server drops the field and says nothing"
        return _policy(policy, "policy-schema-without-config", message, FIELD_NAME, "not in the CRD", wanted)
    owner = f", last written by '{policy.config_owner}'" if policy.config_owner else ""
    now = f"refers to the ConfigMap '{policy.config_name}'" if policy.config_name else "refers to no ConfigMap"
    message = f"the ClusterPolicy {policy.name} {now}{owner}"
    return _policy(policy, "policy-names-other-map", message, FIELD_NAME, policy.config_name or '""', wanted)


def _policy(policy: ClusterPolicy, code: str, message: str, field: str, value: str, expected: str) -> Break:
    return Break(LINK_POLICY, code, message, (Evidence(f"clusterpolicy/{policy.name}", field, value, expected),))


def check_map(case: Case) -> Break | None:
    """The ConfigMap that the ClusterPolicy refers to is there and has keys."""
    policy, config_map = case.snapshot.policy, case.snapshot.config_map
    if policy is None or not policy.config_name:
        return None
    subject = f"configmap/{case.snapshot.namespace}/{policy.config_name}"
    if config_map is None:
        message = f"the ConfigMap {policy.config_name} is not in the namespace {case.snapshot.namespace}: new pods of the agents cannot start"
        return Break(LINK_MAP, "map-absent", message, (Evidence(subject, "metadata.name", "absent", policy.config_name),))
    if not config_map.data:
        message = f"the ConfigMap {config_map.name} has no keys: the agents' config-manager finds no configuration files"
        return Break(LINK_MAP, "map-without-keys", message, (Evidence(subject, "data", "empty"),))
    return None


def check_key(case: Case) -> Break | None:
    """The selected key is in the map, the agents can read its text, and the text is the one now wanted."""
    config_map, key = case.snapshot.config_map, case.expected.selection.config
    if config_map is None:
        return None
    missing = _missing_key(case, config_map)
    if missing is not None or key is None or key not in config_map.data:
        return missing
    subject, text = f"configmap/{config_map.namespace}/{config_map.name}", config_map.data[key]
    reading = reading_of(key, text, case.snapshot.plugin_version)
    if reading.config is None:
        problem = next((found.message for found in reading.findings if found.severity == "error"), "it is not a device plugin config")
        message = f"the text under '{key}' is refused: {problem}"
        return Break(LINK_KEY, "key-refused", message, (Evidence(subject, f"data[{key}]", _first_line(text), "a valid config"),))
    if case.expected.content not in (None, content_hash(text)):
        message = f"the text under '{key}' is not the one that is wanted: it was changed by hand or has not been written"
        return Break(LINK_KEY, "key-differs", message, (Evidence(subject, f"data[{key}] (hash)", content_hash(text), str(case.expected.content)),))
    return None


def _missing_key(case: Case, config_map: ConfigMap) -> Break | None:
    """The node's own key; from v0.18.2 also the default, which every pod start reads first even on a labelled node."""
    policy, label, keys = case.snapshot.policy, case.node.config_label, config_map.data
    has = ", ".join(sorted(keys))
    if label and label not in keys:
        message = f"the node's label names the config '{label}', which is not in the ConfigMap {config_map.name}; it has: {has}"
        return Break(LINK_KEY, "key-of-label-absent", message, (Evidence(case.subject, f"metadata.labels[{CONFIG_LABEL}]", label, f"one of: {has}"),))
    default = policy.config_default if policy else ""
    reads_default = not label or (policy is not None and policy.plugin_version is not None and label_must_equal_default(policy.plugin_version))
    if policy and default and default not in keys and reads_default:
        message = f"the default '{default}' of the ClusterPolicy is not in the ConfigMap {config_map.name}; it has: {has}"
        return Break(LINK_KEY, "key-of-default-absent", message, (Evidence(f"clusterpolicy/{policy.name}", FIELD_DEFAULT, default, f"one of: {has}"),))
    return None


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), '""')


def check_selection(case: Case) -> Break | None:
    """The node's label, or else the default, selects the config that is wanted."""
    now, wanted = case.node.config_label, case.expected.label
    if now != wanted:
        owner = f", last written by '{case.node.label_owner}'" if case.node.label_owner else ""
        message = f"the node's config label is {_quoted(now)} and should be {_quoted(wanted)}{owner}"
        evidence = Evidence(case.subject, f"metadata.labels[{CONFIG_LABEL}]", now or "absent", wanted or "absent")
        return Break(LINK_SELECTION, "label-differs", message, (evidence,))
    policy, selection = case.snapshot.policy, case.expected.selection
    if policy and selection.source == "default" and policy.config_default != selection.config:
        message = f"the default of the ClusterPolicy is {_quoted(policy.config_default)} and should be {_quoted(selection.config)}"
        evidence = Evidence(f"clusterpolicy/{policy.name}", FIELD_DEFAULT, policy.config_default or '""', selection.config or '""')
        return Break(LINK_SELECTION, "default-differs", message, (evidence,))
    return _label_against_default(case)


def _label_against_default(case: Case) -> Break | None:
    """From v0.18.2 a label that differs from the default breaks the MPS pod; said only where the pod really fails."""
    policy, label = case.snapshot.policy, case.node.config_label
    if policy is None or policy.plugin_version is None or not case.expected.daemon or label in (None, policy.config_default):
        return None
    daemon = case.pod(CONTROL_DAEMON)
    if not label_must_equal_default(policy.plugin_version) or daemon is None or daemon.ready or daemon.started is None:
        return None
    default = _quoted(policy.config_default)
    message = (
        f"the label selects '{label}' and the default is {default}: since device plugin v0.18.2 the MPS control daemon's pod starts with the default, "
        "and its sidecar then fails at every start"
    )
    evidence = (
        Evidence(case.subject, f"metadata.labels[{CONFIG_LABEL}]", str(label), default),
        Evidence(pod_subject(daemon), "status.conditions[Ready]", "False", "True"),
    )
    return Break(LINK_SELECTION, "label-against-default", message, evidence, passing=case.young(daemon.created))


def _quoted(value: str | None) -> str:
    return f"'{value}'" if value else "not set"
