# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: validate a declaration, raw config texts and workload manifests without a cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import Declaration, SharingConfig, Strategy, parse_declaration
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import read_config_map
from ansible_collections.gpuops.mps.plugins.module_utils._findings import CATALOGUE, Finding, check_accept, finding, split_accepted
from ansible_collections.gpuops.mps.plugins.module_utils._groups import membership
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion, label_must_equal_default
from ansible_collections.gpuops.mps.plugins.module_utils._pair_checks import check_config
from ansible_collections.gpuops.mps.plugins.module_utils._prediction import predict
from ansible_collections.gpuops.mps.plugins.module_utils._shown import named
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import Node
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot_build import node_of
from ansible_collections.gpuops.mps.plugins.module_utils._workload import lint_manifest, requests_above_one_fail

SEVERITIES = ("error", "warning", "info")

# A reading's own finding that already says what the named finding of the checks would say again.
_SAID_BY = {"mig-strategy-mixed": "mig-mixed-with-mps"}


@dataclass(frozen=True)
class Request:
    """What to validate, as the user gave it; None is not given.

    ``nodes`` are mappings with ``name`` and ``labels``, and where known ``allocatable`` and ``kernel``; API objects will do too.
    ``config_map_data`` maps keys to texts. ``mig_strategy`` is the ClusterPolicy's ``spec.mig.strategy``.
    """

    configs: object = None
    default: object = None
    groups: object = None
    nodes: object = None
    config_map_data: object = None
    manifests: object = None
    mig_strategy: str | None = None
    plugin_version: PluginVersion | None = None
    accept: Sequence[str] = ()


@dataclass(frozen=True)
class Validation:
    """What was found, the worst first, and the configs as far as they are understood, with where each was given."""

    findings: tuple[Finding, ...]
    configs: tuple[SharingConfig, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What stands against going on."""
        return tuple(found for found in self.findings if found.severity == "error")


@dataclass(frozen=True)
class _Given:
    """A config, the path that findings about it begin with, and the codes of what was already found about it."""

    config: SharingConfig
    path: str
    said: frozenset[str]

    def news(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings that were not made before, by the parser or the strict reader; those about a node are always new."""
        return [found for found in findings if found.subject or not {found.code, _SAID_BY.get(found.code, found.code)} & self.said]


def validate(request: Request) -> Validation:
    """Every finding about what was given. Never raises for anything that a user can give; RuntimeError without PyYAML."""
    given = [part for part in (request.configs, request.default, request.groups, request.config_map_data, request.manifests) if part is not None]
    findings = list(check_accept(request.accept))
    if not given:
        findings.append(finding("nothing-to-validate", ""))
    texts, text_findings = _texts(request)
    declaration, declaration_findings = _declaration(request, texts)
    findings += [*declaration_findings, *text_findings]
    configs = [*_declared(request.configs, declaration, declaration_findings), *texts]
    nodes, node_findings = _nodes(request.nodes)
    findings += node_findings
    for one in configs:
        findings += one.news(check_config(one.config, request.mig_strategy, request.plugin_version, one.path))
    if declaration is not None:
        findings += _version_findings(declaration, configs, request.plugin_version)
        findings += _node_findings(declaration, configs, nodes, request)
    findings += _workloads(request, configs)
    return Validation(_settle(findings, request.accept), tuple(one.config for one in configs))


def _settle(findings: Iterable[Finding], accept: Sequence[str]) -> tuple[Finding, ...]:
    """Each finding once, the accepted ones softened; the worst first, otherwise in the order in which they were found."""
    standing, accepted = split_accepted(dict.fromkeys(findings), accept)
    return tuple(sorted((*standing, *accepted), key=lambda found: SEVERITIES.index(found.severity)))


def _texts(request: Request) -> tuple[list[_Given], list[Finding]]:
    """The configs under the keys of a ConfigMap."""
    data = request.config_map_data
    if data is None:
        return [], []
    if not isinstance(data, Mapping):
        return [], [finding("declaration-shape", "config_map_data", "config_map_data is no mapping of keys to texts")]
    wrong = [key for key, text in data.items() if not isinstance(key, str) or not isinstance(text, str)]
    findings = [
        finding("option-type", named(key), "the value under the key is not a text", remedy="Give the text of the config file; in YAML begin it with '|'.")
        for key in wrong
    ]
    readings, map_findings = read_config_map({key: text for key, text in data.items() if key not in wrong}, plugin_version=request.plugin_version)
    if len(wrong) < len(data) or not data:  # a map whose values are all wrong is not called empty
        findings += map_findings
    findings += [found for reading in readings for found in reading.findings]
    given = [_Given(reading.config, reading.key, _codes(reading.findings)) for reading in readings if reading.config is not None]
    return given, findings


def _codes(findings: Iterable[Finding]) -> frozenset[str]:
    return frozenset(found.code for found in findings)


def _declaration(request: Request, texts: Sequence[_Given]) -> tuple[Declaration | None, tuple[Finding, ...]]:
    if request.configs is None and request.default is None and request.groups is None:
        return None, ()
    data = request.config_map_data
    existing = tuple(key for key in data if isinstance(key, str)) if isinstance(data, Mapping) else None
    return parse_declaration(request.configs, request.default, request.groups, existing=existing)


def _declared(configs: object, declaration: Declaration | None, findings: Iterable[Finding]) -> list[_Given]:
    """The declared configs; when the declaration as a whole is wrong, those of them that are right by themselves."""
    if declaration is not None:
        found = declaration.configs
    else:
        alone = (parse_declaration({name: options})[0] for name, options in configs.items()) if isinstance(configs, Mapping) else ()
        found = tuple(config for one in alone if one is not None for config in one.configs)
    return [_as_given(config, f"mps_configs.{config.name}", findings) for config in found]


def _as_given(config: SharingConfig, path: str, findings: Iterable[Finding]) -> _Given:
    return _Given(config, path, _codes(found for found in findings if found.path.startswith(f"{path}.")))


def _nodes(given: object) -> tuple[list[Node], list[Finding]]:
    if given is None:
        return [], []
    if not isinstance(given, (list, tuple)):
        return [], [finding("nodes-shape", "nodes", "nodes is no list")]
    nodes, findings = [], []
    for index, item in enumerate(given):
        node = _node(item)
        if node is None:
            findings.append(finding("nodes-shape", f"nodes[{index}]", "this is no mapping with a name and labels"))
        elif any(key.startswith("nvidia.com/") for key in node.labels):
            nodes.append(node)
    return nodes, findings


def _node(item: object) -> Node | None:
    """One node from a mapping with its name and labels, or from an API object; None when it is neither."""
    if not isinstance(item, Mapping):
        return None
    metadata = item.get("metadata", item)
    status = item.get("status", {"allocatable": item.get("allocatable"), "nodeInfo": {"kernelVersion": item.get("kernel") or ""}})
    if not (isinstance(metadata, Mapping) and isinstance(metadata.get("name"), str) and _are_texts(metadata.get("labels")) and isinstance(status, Mapping)):
        return None
    return node_of({"metadata": {"name": metadata["name"], "labels": dict(metadata["labels"])}, "status": status})


def _are_texts(labels: object) -> bool:
    return isinstance(labels, Mapping) and all(isinstance(text, str) for pair in labels.items() for text in pair)


def _version_findings(declaration: Declaration, configs: Sequence[_Given], version: PluginVersion | None) -> Iterable[Finding]:
    """Groups that an MPS daemon cannot follow: from 0.18.2 on its init container reads the default, not the label."""
    if version is None or not label_must_equal_default(version):
        return
    shared = {one.config.name for one in configs if one.config.strategy is Strategy.MPS}
    for index, group in enumerate(declaration.groups):
        if group.config in shared and group.config != declaration.default:
            message = (
                f"with device plugin {version} the MPS daemon of a node breaks when its label is not the policy's default:"
                f" the group '{group.name}' wants '{group.config}' while the default is '{declaration.default or 'unset'}'"
            )
            yield finding("label-against-default", f"mps_node_groups[{index}].config", message)


def _node_findings(declaration: Declaration, configs: Sequence[_Given], nodes: Sequence[Node], request: Request) -> list[Finding]:
    """Findings about the groups among the nodes, and about every node with the config that it would get."""
    if request.nodes is None:
        return []
    members = membership(declaration.groups, nodes)
    findings = list(members.findings)
    by_name = {one.config.name: one for one in configs}
    for node in nodes:
        group = members.group_of.get(node.name)
        # An empty label counts as unset, and a label wins over the default (k8s-device-plugin, cmd/config-manager).
        name = group.config if group else node.config_label or declaration.default
        one = by_name.get(name or "")
        if one is not None:
            prediction = predict(one.config, node.gpus, mig_strategy=request.mig_strategy, plugin_version=request.plugin_version, node=node.name, path=one.path)
            findings += one.news(prediction.findings)
    return findings


def _workloads(request: Request, configs: Sequence[_Given]) -> list[Finding]:
    """Findings about manifests; with no config known they are held against MPS as it is by default."""
    if request.manifests is None:
        return []
    if not isinstance(request.manifests, (list, tuple)):
        return [finding("declaration-shape", "manifests", "manifests is no list of manifests")]
    shared = [one.config for one in configs if one.config.strategy is not Strategy.NONE]
    above_one_fails = not shared or any(requests_above_one_fail(config, request.plugin_version) for config in shared)
    findings: list[Finding] = []
    for index, manifest in enumerate(request.manifests):
        path = f"manifests[{index}]"
        if isinstance(manifest, Mapping):
            findings += lint_manifest(manifest, requests_above_one_fail=above_one_fails, path=path)
        else:
            findings.append(
                finding("declaration-shape", path, "this is no mapping as a manifest is", remedy="Give the parsed manifest; use from_yaml_all for a file.")
            )
    return findings


def as_data(config: SharingConfig) -> dict[str, Any]:
    """A config as plain data for a result."""
    return {
        "strategy": config.strategy.value,
        "replicas": config.replicas,
        "rename_by_default": config.rename_by_default,
        "mig_strategy": config.mig_strategy,
        "fail_requests_greater_than_one": config.fail_requests_greater_than_one,
    }


def report(findings: Sequence[Finding]) -> str:
    """Errors and warnings for people: a line that counts them, then a block each that says what is wrong, where, why and what to do."""
    counts = {severity: sum(found.severity == severity for found in findings) for severity in ("error", "warning")}
    words = [f"{count} {severity}{'s' if count != 1 else ''}" for severity, count in counts.items() if count]
    return "\n\n".join([f"{' and '.join(words)}:", *(_block(found) for found in findings if found.severity in counts)])


def _block(found: Finding) -> str:
    rows = {
        "where": " on ".join(part for part in (found.path, found.subject) if part),
        "what": found.message,
        "why": CATALOGUE[found.code].why,
        "do": found.remedy,
    }
    accept = ["  or    go on in spite of it with accept: [" + found.code + "]"] if found.severity == "error" and CATALOGUE[found.code].acceptable else []
    lines = [f"  {name:<5} {text}" for name, text in rows.items() if text]
    return "\n".join([f"{found.severity.upper()} {found.code}", *lines, *accept])
