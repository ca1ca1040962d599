# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the device plugin's config file, a strict reader and a canonical writer.

The reader accepts a text only when two independent views of it agree: the strict rules find no error, and the model of the
device plugin's own parser accepts the text. The config that is given back is what that parser makes of it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import SharingConfig, Strategy, is_template
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config_rules import Rules
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config_text import Node, Scalar, SyntaxProblem, Text, parse_text
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config_upstream import RESOURCE, Outcome, outcome
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, finding, is_final
from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._names import name_problem

# The API server's limit for all keys and values of a ConfigMap together (Kubernetes, api/core/validation: MaxSecretSize).
MAX_CONFIG_MAP = 1024 * 1024

_NOTATIONS = {
    "anchor": "an anchor",
    "alias": "an alias",
    "tag": "a tag",
    "directive": "a directive",
}


@dataclass(frozen=True)
class Reading:
    """What one key of a ConfigMap means.

    ``config`` is None when an error that cannot be accepted says why; with an acceptable error it is what the device plugin
    makes of the text.
    """

    key: str
    config: SharingConfig | None
    findings: tuple[Finding, ...]


def read_config(key: str, text: str, *, plugin_version: PluginVersion | None = None) -> Reading:
    """Reads the text under one key of the ConfigMap.

    Every finding's path begins with the key. The first error says what the device plugin would do with the text as it is.
    Raises RuntimeError when PyYAML is not installed.
    """
    parsed = parse_text(text)
    result = outcome(parsed)
    rules = Rules(key, plugin_version)
    _judge_text(rules, parsed, text)
    content = _content(parsed)
    if content is not None:
        rules.judge(content)
    findings = _with_outcome(key, rules.findings, result)
    if any(is_final(found) for found in findings):
        return Reading(key, None, findings)
    return Reading(key, _config(key, result), findings)


def read_config_map(data: Mapping[str, str], *, plugin_version: PluginVersion | None = None) -> tuple[tuple[Reading, ...], tuple[Finding, ...]]:
    """Reads every key of a ConfigMap: the readings sorted by key, and the findings about the map as a whole."""
    findings = [*check_size(data)]
    if not data:
        findings.append(finding("config-map-empty", ""))
    for key in sorted(data):
        if problem := name_problem(key):
            findings.append(finding("config-name", key, f"the key '{key}' {problem}"))
    return tuple(read_config(key, data[key], plugin_version=plugin_version) for key in sorted(data)), tuple(findings)


def check_size(data: Mapping[str, str], *, subject: str = "") -> Iterator[Finding]:
    """A map that the API server would refuse for its size."""
    size = sum(len(part.encode(errors="surrogatepass")) for pair in data.items() for part in pair)
    if size > MAX_CONFIG_MAP:
        message = f"the keys and texts have {size} bytes together; the API server takes {MAX_CONFIG_MAP}"
        yield finding("config-map-too-large", "", message, subject=subject)


def write_config(config: SharingConfig) -> str:
    """The canonical text of a config: the same config gives the same bytes, and reading them gives the config back."""
    lines = ["version: v1"]
    if config.mig_strategy is not None:
        lines += ["flags:", f"  migStrategy: {config.mig_strategy}"]
    if config.strategy is not Strategy.NONE:
        lines += ["sharing:", "  mps:" if config.strategy is Strategy.MPS else "  timeSlicing:"]
        if config.rename_by_default:
            lines.append("    renameByDefault: true")
        if config.fail_requests_greater_than_one is not None:
            lines.append(f"    failRequestsGreaterThanOne: {str(config.fail_requests_greater_than_one).lower()}")
        lines += ["    resources:", f"      - name: {RESOURCE}", f"        replicas: {config.replicas}"]
    return "\n".join(lines) + "\n"


def content_hash(text: str) -> str:
    """Ten hexadecimal digits of the SHA-256 over a config's text."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:10]


def _content(parsed: Text) -> Node | None:
    """The document, None for an empty one and for null."""
    return None if isinstance(parsed.root, Scalar) and parsed.root.value is None else parsed.root


def _judge_text(rules: Rules, parsed: Text, text: str) -> None:
    """Findings about the text as YAML."""
    if parsed.problem is not None:
        _judge_problem(rules, parsed.problem, text)
        return
    for kind in dict.fromkeys(notation.kind for notation in parsed.notations):
        line = next(notation.line for notation in parsed.notations if notation.kind == kind)
        if kind == "tab":
            rules.add("yaml-tab", "", "there is a tab between the values", line)
        else:
            rules.add("yaml-notation", "", f"the text uses {_NOTATIONS[kind]} of YAML", line)
    if parsed.rest is not None:
        rules.add("several-documents", "", "the first document ends here; the device plugin reads nothing of what follows", parsed.rest)
    if _content(parsed) is None:
        rules.add("config-empty", "", "the text holds no config")


def _judge_problem(rules: Rules, problem: SyntaxProblem, text: str) -> None:
    lines = text.splitlines()
    line = lines[problem.line - 1] if problem.line and problem.line <= len(lines) else ""
    if problem.too_large:
        rules.add("config-too-large", "", problem.reason, problem.line)
    elif is_template(_without_comments(text)):
        rules.add("unrendered-template", "", "the text holds a template that was not rendered", problem.line)
    elif re.match(r"[ ]*\t", line):
        rules.add("yaml-tab", "", "the line is indented with a tab", problem.line)
    else:
        rules.add("yaml-syntax", "", f"the text is not YAML that can be read: {problem.reason}", problem.line)


def _without_comments(text: str) -> str:
    return re.sub(r"(?m)(^|\s)#.*$", "", text)


def _with_outcome(key: str, findings: list[Finding], result: Outcome) -> tuple[Finding, ...]:
    """The findings, where the first error also says what the device plugin would do with the whole text."""
    if result.refusal is not None and not any(is_final(found) for found in findings):
        return (*findings, finding("refused-upstream", key, result.describe()))
    first = next((index for index, found in enumerate(findings) if found.severity == "error"), None)
    if first is None:
        return tuple(findings)
    told = replace(findings[first], message=f"{findings[first].message}. {result.describe()}")
    return (*findings[:first], told, *findings[first + 1 :])


def _config(key: str, result: Outcome) -> SharingConfig:
    shared = result.strategy is not Strategy.NONE
    return SharingConfig(
        name=key,
        strategy=result.strategy,
        replicas=result.resources[0][1] if shared else None,
        rename_by_default=result.rename_by_default,
        mig_strategy=result.mig_strategy,
        fail_requests_greater_than_one=result.fail_requests_greater_than_one,
    )
