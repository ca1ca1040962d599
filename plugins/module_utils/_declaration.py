# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what the user wants, as data, and how it is parsed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, closest, finding, is_final
from ansible_collections.gpuops.mps.plugins.module_utils._limits import REPLICAS_FROM_TURING
from ansible_collections.gpuops.mps.plugins.module_utils._names import (
    label_key_problem,
    label_value_problem,
    name_problem,
    node_name_problem,
)
from ansible_collections.gpuops.mps.plugins.module_utils._selectors import SelectorError, parse_selector
from ansible_collections.gpuops.mps.plugins.module_utils._shown import named, shown

MIG_STRATEGIES = ("none", "single", "mixed")

_CONFIG_OPTIONS = ("replicas", "rename_by_default", "mig_strategy", "fail_requests_greater_than_one")
_GROUP_OPTIONS = ("name", "config", "nodes", "selector", "match")
_MATCH_OPTIONS = ("product", "memory_at_least", "memory_at_most", "architecture", "count", "labels")
_TEMPLATE = re.compile(r"\{\{|\{%|<%|\$\{|%\(\w+\)s")
_SHARED = "-SHARED"


class Strategy(StrEnum):
    """How a config shares a GPU, in the words of the label ``nvidia.com/gpu.sharing-strategy``."""

    NONE = "none"
    MPS = "mps"
    TIME_SLICING = "time-slicing"


@dataclass(frozen=True)
class SharingConfig:
    """One named config: a key of the ConfigMap.

    ``replicas`` is the number of clients per physical GPU, None without sharing. ``mig_strategy`` is the file's
    ``flags.migStrategy``, None when the file leaves it to the ClusterPolicy. ``fail_requests_greater_than_one`` is None
    when the file does not say.
    """

    name: str
    strategy: Strategy
    replicas: int | None = None
    rename_by_default: bool = False
    mig_strategy: str | None = None
    fail_requests_greater_than_one: bool | None = None


@dataclass(frozen=True)
class Match:
    """Facts that a node of a group must have, all of them; None is not asked for.

    ``product`` is the product without the ``-SHARED`` that sharing itself adds. Memory is in MiB of the whole GPU, both
    bounds included. ``labels`` are sorted pairs.
    """

    product: str | None = None
    memory_at_least: int | None = None
    memory_at_most: int | None = None
    architecture: str | None = None
    count: int | None = None
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class NodeGroup:
    """Which nodes get a label, and which: nodes by name, by label selector, or by their GPUs.

    A node belongs when its name is listed, or when it fits every selector and the match that the group has.
    """

    name: str
    config: str
    nodes: tuple[str, ...] = ()
    selectors: tuple[str, ...] = ()
    match: Match | None = None


@dataclass(frozen=True)
class Declaration:
    """Everything the user wants: the configs, the default for nodes without a label, and the groups."""

    configs: tuple[SharingConfig, ...]
    default: str | None = None
    groups: tuple[NodeGroup, ...] = ()

    def config(self, name: str) -> SharingConfig | None:
        """The config of that name, or None."""
        return next((config for config in self.configs if config.name == name), None)


def is_template(text: str) -> bool:
    """Whether a text holds what a template engine should have replaced."""
    return bool(_TEMPLATE.search(text))


def parse_declaration(
    configs: object, default: object = None, groups: object = None, *, existing: Collection[str] | None = None
) -> tuple[Declaration | None, tuple[Finding, ...]]:
    """The declaration in the variables ``mps_configs``, ``mps_default`` and ``mps_node_groups``, and everything wrong with it.

    All errors are found in one pass; with an error that nobody can accept the declaration is None. ``existing`` are keys
    that the ConfigMap has anyway. With neither these nor ``configs``, nobody can tell here whether the default and the
    groups name configs that exist. An empty ``default`` is none. Never raises.
    """
    parser = _Parser()
    parsed_configs = parser.configs(configs) if configs is not None else ()
    names = None if configs is None and existing is None else (*_names(configs), *(existing or ()))
    parsed_default = parser.default(default, names)
    parsed_groups = parser.groups(groups, names)
    parser.check_members(parsed_groups)
    if any(is_final(found) for found in parser.findings):
        return None, tuple(parser.findings)
    return Declaration(parsed_configs, parsed_default, parsed_groups), tuple(parser.findings)


def _names(configs: object) -> tuple[str, ...]:
    """The declared names, the wrong ones included, so that one mistake is reported once."""
    return tuple(name for name in configs if isinstance(name, str)) if isinstance(configs, Mapping) else ()


def _kind(value: object) -> str:
    if value is None:
        return "null"
    kinds: tuple[tuple[type, str], ...] = ((bool, "a boolean"), (int, "a number"), (float, "a number"), (str, "a text"), (Mapping, "a mapping"))
    return next((word for kind, word in kinds if isinstance(value, kind)), "a list" if isinstance(value, (list, tuple)) else "something else")


@dataclass
class _Parser:
    """Collects findings while it turns plain values into the declaration's types."""

    findings: list[Finding] = field(default_factory=list)

    def add(self, code: str, path: str, message: str, remedy: str | None = None) -> None:
        self.findings.append(finding(code, path, message, remedy=remedy))

    # Configs

    def configs(self, value: object) -> tuple[SharingConfig, ...]:
        if not isinstance(value, Mapping):
            self.add("declaration-shape", "mps_configs", f"mps_configs is {_kind(value)} where a mapping of names to options belongs")
            return ()
        if not value:
            self.add("configs-missing", "mps_configs", "mps_configs is empty")
        return tuple(self._config(name, options) for name, options in value.items())

    def _config(self, name: object, options: object) -> SharingConfig:
        path = f"mps_configs.{named(name)}"
        self._config_name(name, path)
        fields = self._options(options, path, _CONFIG_OPTIONS)
        replicas = self._replicas(fields, f"{path}.replicas")
        config = SharingConfig(
            name=named(name),
            strategy=Strategy.NONE if "replicas" not in fields else Strategy.MPS,
            replicas=replicas,
            rename_by_default=self._typed(fields, "rename_by_default", bool, path) or False,
            mig_strategy=self._mig_strategy(fields, path),
            fail_requests_greater_than_one=self._typed(fields, "fail_requests_greater_than_one", bool, path),
        )
        if config.strategy is Strategy.NONE:
            for option in ("rename_by_default", "fail_requests_greater_than_one"):
                if option in fields:
                    self.add("option-without-replicas", f"{path}.{option}", f"'{option}' stands in a config without replicas, which shares nothing")
        elif config.mig_strategy == "mixed":
            self.add("mig-mixed-with-mps", f"{path}.mig_strategy", "the device plugin refuses MPS with the MIG strategy mixed")
        return config

    def _config_name(self, name: object, path: str) -> None:
        if not isinstance(name, str):
            self.add("config-name", path, f"the name {named(name)} is {_kind(name)}, not a text", "Put the name into quotes.")
        elif is_template(name):
            self._template(name, path)
        elif problem := name_problem(name):
            self.add("config-name", path, f"the name '{name}' {problem}")

    def _replicas(self, fields: Mapping[str, Any], path: str) -> int | None:
        replicas = self._typed(fields, "replicas", int, path.rpartition(".")[0])
        if replicas is None:
            return None
        if replicas < 2:
            whole = " For whole GPUs write the config as {}, without replicas." if replicas == 1 else ""
            self.add("replicas-below-two", path, f"{shown(replicas)} replicas: the device plugin refuses fewer than 2.{whole}")
        elif replicas > REPLICAS_FROM_TURING:
            self.add("replicas-above-every-cap", path, f"{shown(replicas)} replicas: no GPU takes more than {REPLICAS_FROM_TURING} MPS clients")
        return replicas

    def _mig_strategy(self, fields: Mapping[str, Any], path: str) -> str | None:
        strategy = self._typed(fields, "mig_strategy", str, path)
        if strategy is not None and strategy not in MIG_STRATEGIES:
            self.add("mig-strategy-unknown", f"{path}.mig_strategy", f"'{strategy}' is no MIG strategy; the device plugin ends at its start")
        return strategy

    # Options and types

    def _options(self, value: object, path: str, names: tuple[str, ...]) -> Mapping[str, Any]:
        """The known options of a mapping; unknown ones become findings with a suggestion."""
        if not isinstance(value, Mapping):
            remedy = "Write {} for a config that shares nothing." if names == _CONFIG_OPTIONS else None
            self.add("declaration-shape", path, f"this is {_kind(value)} where a mapping of options belongs", remedy)
            return {}
        for name in value:
            if name not in names:
                suggestion = closest(named(name), names)
                remedy = f"Did you mean '{suggestion}'?" if suggestion else f"The options are: {', '.join(names)}."
                self.add("unknown-option", f"{path}.{named(name)}", f"'{named(name)}' is no option", remedy)
        return {name: item for name, item in value.items() if name in names}

    def _typed(self, fields: Mapping[str, Any], name: str, wanted: type, path: str = "") -> Any:
        """An option of exactly the type ``wanted``, or None with a finding; None when it is absent."""
        if name not in fields:
            return None
        value, where = fields[name], f"{path}.{name}" if path else name
        if isinstance(value, str) and is_template(value):
            self._template(value, where)
            return None
        if isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)):
            return value
        words = {int: "a whole number", bool: "true or false", str: "a text", list: "a list", Mapping: "a mapping"}
        quotes = " without quotes" if isinstance(value, str) and wanted in (int, bool) else ""
        self.add("option-type", where, f"{shown(value)} is {_kind(value)} where {words[wanted]} belongs", f"Write {words[wanted]}{quotes}.")
        return None

    def _template(self, value: str, path: str) -> None:
        self.add("unrendered-template", path, f"'{value}' is a template that was not rendered")

    # Default and groups

    def default(self, value: object, names: tuple[str, ...] | None) -> str | None:
        default = self._typed({"mps_default": value}, "mps_default", str) if value not in (None, "") else None
        if default is not None:
            self._existing(default, "mps_default", names)
        return default

    def _existing(self, name: str, path: str, names: tuple[str, ...] | None) -> None:
        if names is None:
            if problem := name_problem(name):
                self.add("config-name", path, f"the name '{name}' {problem}")
        elif name not in names:
            known = ", ".join(sorted(names)) or "none declared"
            suggestion = closest(name, names)
            remedy = f"Did you mean '{suggestion}'?" if suggestion else None
            self.add("config-unknown", path, f"'{name}' is not one of the configs: {known}", remedy)

    def groups(self, value: object, names: tuple[str, ...] | None) -> tuple[NodeGroup, ...]:
        if value is None:
            return ()
        if not isinstance(value, (list, tuple)):
            self.add("declaration-shape", "mps_node_groups", f"mps_node_groups is {_kind(value)} where a list of groups belongs")
            return ()
        groups = tuple(self._group(options, f"mps_node_groups[{index}]", names) for index, options in enumerate(value))
        seen: set[str] = set()
        for index, group in enumerate(groups):
            if group.name and group.name in seen:
                self.add("group-duplicate", f"mps_node_groups[{index}].name", f"there is another group '{group.name}'")
            seen.add(group.name)
        return groups

    def _group(self, options: object, path: str, names: tuple[str, ...] | None) -> NodeGroup:
        fields = self._options(options, path, _GROUP_OPTIONS)
        for required in ("name", "config"):
            if isinstance(options, Mapping) and required not in fields:
                self.add("option-missing", f"{path}.{required}", f"the group has no '{required}'")
        name = self._typed(fields, "name", str, path)
        config = self._typed(fields, "config", str, path)
        if name == "":
            self.add("option-missing", f"{path}.name", "the group's name is empty")
        if config is not None:
            self._existing(config, f"{path}.config", names)
        group = NodeGroup(
            name=name or "",
            config=config or "",
            nodes=self._nodes(fields, path),
            selectors=self._selectors(fields, path),
            match=self._match(fields["match"], f"{path}.match") if "match" in fields else None,
        )
        # An empty list of nodes is a group without nodes; an empty selector or match would be a group of every node.
        if isinstance(options, Mapping) and not ("nodes" in fields or fields.get("selector") or "match" in fields):
            self.add("group-selects-nothing", path, f"the group '{group.name}' has neither nodes nor selector nor match")
        return group

    def _texts(self, fields: Mapping[str, Any], name: str, path: str) -> Iterable[tuple[str, str]]:
        """The texts of a list option, each with its path."""
        for index, item in enumerate(self._typed(fields, name, list, path) or ()):
            where = f"{name}[{index}]"
            text = self._typed({where: item}, where, str, path)
            if text is not None:
                yield text, f"{path}.{where}"

    def _nodes(self, fields: Mapping[str, Any], path: str) -> tuple[str, ...]:
        nodes = []
        for node, where in self._texts(fields, "nodes", path):
            if problem := node_name_problem(node):
                self.add("node-name", where, f"'{node}' {problem}")
            nodes.append(node)
        return tuple(dict.fromkeys(nodes))

    def _selectors(self, fields: Mapping[str, Any], path: str) -> tuple[str, ...]:
        selectors = []
        for text, where in self._texts(fields, "selector", path):
            try:
                parse_selector(text)
            except SelectorError as error:
                self.add("selector-syntax", where, f"'{text}' cannot be read: {error}")
            selectors.append(text)
        return tuple(selectors)

    def _match(self, value: object, path: str) -> Match:
        fields = self._options(value, path, _MATCH_OPTIONS)
        if isinstance(value, Mapping) and not value:
            self.add("match-value", path, "match is empty, which would match every node")
        match = Match(
            product=self._product(fields, path),
            memory_at_least=self._positive(fields, "memory_at_least", path),
            memory_at_most=self._positive(fields, "memory_at_most", path),
            architecture=self._word(fields, "architecture", path),
            count=self._positive(fields, "count", path),
            labels=self._labels(fields, path),
        )
        if match.memory_at_least and match.memory_at_most and match.memory_at_least > match.memory_at_most:
            message = f"memory_at_least {shown(match.memory_at_least)} is above memory_at_most {shown(match.memory_at_most)}: no GPU fits"
            self.add("match-value", f"{path}.memory_at_least", message)
        return match

    def _positive(self, fields: Mapping[str, Any], name: str, path: str) -> int | None:
        number = self._typed(fields, name, int, path)
        if number is not None and number < 1:
            self.add("match-value", f"{path}.{name}", f"{shown(number)} is not a positive number")
        return number

    def _word(self, fields: Mapping[str, Any], name: str, path: str) -> str | None:
        """A text that a node's label can hold."""
        text = self._typed(fields, name, str, path)
        if text is not None and (problem := name_problem(text)):
            self.add("match-value", f"{path}.{name}", f"'{text}' {problem}", f"Write the {name} as the node's label has it.")
        return text

    def _product(self, fields: Mapping[str, Any], path: str) -> str | None:
        product = self._word(fields, "product", path)
        if product is None or not product.endswith(_SHARED):
            return product
        plain = product.removesuffix(_SHARED)
        self.add("match-product-shared", f"{path}.product", f"'{product}' is matched as '{plain}', whether the GPUs are shared or not")
        return plain

    def _labels(self, fields: Mapping[str, Any], path: str) -> tuple[tuple[str, str], ...]:
        labels = self._typed(fields, "labels", Mapping, path) or {}
        for key, value in labels.items():
            where = f"{path}.labels.{named(key)}"
            if not isinstance(key, str) or not isinstance(value, str):
                self.add("option-type", where, f"the label {shown(key)}: {shown(value)} is not a pair of texts", "Put label keys and values into quotes.")
            elif is_template(value):
                self._template(value, where)
            elif problem := label_key_problem(key) or label_value_problem(value):
                self.add("match-value", where, f"the label {key}={value} {problem}")
        return tuple(sorted((named(key), named(value)) for key, value in labels.items()))

    def check_members(self, groups: tuple[NodeGroup, ...]) -> None:
        """A node that two groups with different configs list by name."""
        first: dict[str, NodeGroup] = {}
        for index, group in enumerate(groups):
            for node in group.nodes:
                other = first.setdefault(node, group)
                if other.config != group.config:
                    message = f"the node {node} is in the groups '{other.name}' (config {other.config}) and '{group.name}' (config {group.config})"
                    self.add("node-in-two-groups", f"mps_node_groups[{index}].nodes", message)
