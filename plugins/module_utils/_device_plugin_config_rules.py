# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the strict rules for a device plugin config file, over its nodes.

The device plugin ignores unknown keys, takes the last of duplicates and drops fields without an error; each of these is a
finding here. The tables of fields follow k8s-device-plugin v0.20.0, api/config/v1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import MIG_STRATEGIES, is_template
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config_text import Mapping, Node, Scalar, Sequence
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config_upstream import (
    FLAGS,
    GFD_FLAGS,
    PLUGIN_FLAGS,
    RESOURCE,
    Check,
    Refused,
    fold,
    kind_of,
    resource_name,
    to_json,
)
from ansible_collections.gpuops.mps.plugins.module_utils._findings import Finding, closest, finding
from ansible_collections.gpuops.mps.plugins.module_utils._limits import REPLICAS_FROM_TURING, PluginVersion, honours_fail_requests

_TOP = ("version", "flags", "resources", "sharing", "imex")
_SHARING = ("mps", "timeSlicing")
_BLOCK = ("renameByDefault", "failRequestsGreaterThanOne", "resources")
_ENTRY = ("name", "replicas", "devices", "rename")
_MANIFEST = ("apiVersion", "kind", "metadata", "data")

# Where a key belongs that was found somewhere else, and keys of other tools or pages that mean one of ours.
_PLACES = {
    **dict.fromkeys(_ENTRY, "sharing.mps.resources[]"),
    **dict.fromkeys(_BLOCK, "sharing.mps"),
    **dict.fromkeys(_SHARING, "sharing"),
    **dict.fromkeys(GFD_FLAGS, "flags.gfd"),
    **dict.fromkeys(PLUGIN_FLAGS, "flags.plugin"),
    **dict.fromkeys(FLAGS, "flags"),
    "version": "the top level",
    "flags": "the top level",
    "sharing": "the top level",
}
_FORKS = {
    "memorygb": "It belongs to a fork of the device plugin. Memory per client follows from the replicas: the GPU's memory divided by them.",
}
_SYNONYMS = {"multiprocessservice": "mps", "multiprocess": "mps"}

# Flags that the operator sets by environment variables, which win over the file (gpu-operator, controllers/object_controls.go).
_OVERRIDDEN = ("failOnInitError", "mpsRoot", "plugin.passDeviceSpecs", "plugin.deviceListStrategy", "plugin.deviceIDStrategy", "gfd.sleepInterval")

_QUOTES = "\u201c\u201d\u2018\u2019"
_PLAIN_NUMBER = re.compile(r"[1-9][0-9]*\Z")
_CLEAR_NUMBER = re.compile(r"(?:\+?[1-9][0-9]*(?:_[0-9]+)*|0x[0-9a-fA-F]+|0b[01]+|[1-9][0-9]*\.0+)\Z")
_OCTAL = re.compile(r"[-+]?0(?:[0-9_]|[oO])")


@dataclass
class Rules:
    """Walks one file and collects what is wrong with it; ``key`` is the ConfigMap key, the first part of every path."""

    key: str
    plugin_version: PluginVersion | None = None
    findings: list[Finding] = field(default_factory=list)

    def add(self, code: str, path: str, message: str, line: int | None = None, remedy: str | None = None) -> None:
        """Adds a finding at ``path`` below the key."""
        where = f"{self.key}.{path}" if path else self.key
        at = f" (line {line})" if line else ""
        self.findings.append(finding(code, where, f"{message}{at}", remedy=remedy))

    def judge(self, root: Node) -> None:
        """The whole file."""
        if not isinstance(root, Mapping):
            self._not_a_mapping(root)
            return
        self._manifest(root)
        fields = self._fields(root, "", _TOP, folds=True, known_elsewhere=_MANIFEST)
        self._version(fields.get("version"), root)
        mig_strategy = self._flags(fields.get("flags"))
        if "resources" in fields:
            self.add("resources-section-dropped", "resources", "the section 'resources' at the top level is dropped", fields["resources"].line)
        if "imex" in fields:
            self.add("option-outside-declaration", "imex", "'imex' is not about sharing", fields["imex"].line)
        if "sharing" in fields:
            self._sharing(fields["sharing"], mig_strategy)

    def _not_a_mapping(self, root: Node) -> None:
        if isinstance(root, Scalar) and is_template(root.text):
            self._template(root, "")
        else:
            self.add("config-not-a-mapping", "", f"the config is {self._kind(root)} where a mapping belongs", root.line)

    def _manifest(self, root: Mapping) -> None:
        found = [key.text for key, _value in root.entries if isinstance(key, Scalar) and key.text in _MANIFEST]
        if len(found) > 1 or "apiVersion" in found:
            self.add("pasted-manifest", "", f"the value holds {', '.join(found)}: it is a whole Kubernetes manifest, not a config file", root.line)
        elif found:
            self._unknown(found[0], found[0], root.line, _TOP)

    # Keys

    def _fields(self, node: Mapping, path: str, names: tuple[str, ...], *, folds: bool = False, known_elsewhere: tuple[str, ...] = ()) -> dict[str, Node]:
        """The values by the canonical name of their key; everything else about the keys becomes findings."""
        found: dict[str, Node] = {}
        for key, value in node.entries:
            name = self._field(key, path, names, folds)
            if name is None:
                continue
            if name in found:
                self.add("duplicate-key", _join(path, name), f"'{name}' is there more than once", key.line)
            if name in names:
                found[name] = value
            elif name not in known_elsewhere:
                self._unknown(name, _join(path, name), key.line, names)
        return found

    def _field(self, key: Node, path: str, names: tuple[str, ...], folds: bool) -> str | None:
        """A key's canonical name, or as it was written when it is none of ``names``; None when it cannot be a name."""
        if not isinstance(key, Scalar):
            self.add("unrendered-template", path, "a list or a mapping stands where a key belongs, as from two braces of a template", key.line)
            return None
        if is_template(key.text):
            self._template(key, path)
            return None
        if key.plain and key.text == "<<":
            self.add("yaml-notation", path, "'<<' merges another mapping", key.line)
            return None
        name = next((name for name in names if fold(name) == fold(key.text)), None)
        if name is None or name == key.text or not folds or not key.text.isascii():
            return key.text
        self.add("key-spelling", _join(path, name), f"'{key.text}' is read as '{name}'", key.line, f"Write '{name}'.")
        return name

    def _unknown(self, name: str, path: str, line: int, names: tuple[str, ...]) -> None:
        """A key that the device plugin ignores: misspelt, misplaced or of another tool."""
        ignored = f"the device plugin ignores '{name}' and everything below it"
        place = _PLACES.get(name)  # never one of the names that belong here
        suggestion = _SYNONYMS.get(name.lower().replace("-", "")) or closest(name, names)
        if place:
            self.add("misplaced-key", path, f"'{name}' does not belong here; {ignored}", line, f"Move '{name}' to {place}.")
        elif fork := _FORKS.get(name.lower()):
            self.add("unknown-key", path, f"unknown key '{name}'; {ignored}", line, fork)
        elif suggestion in names:
            self.add("unknown-key", path, f"unknown key '{name}'; {ignored}", line, f"Did you mean '{suggestion}'?")
        else:
            hint = f"Remove it. Known here: {', '.join(names)}."
            self.add("unknown-key", path, f"unknown key '{name}'; {ignored}", line, hint)

    # Values

    def _template(self, node: Scalar, path: str) -> None:
        self.add("unrendered-template", path, f"'{node.text}' is a template that was not rendered", node.line)

    @staticmethod
    def _kind(node: Node) -> str:
        if isinstance(node, Scalar):
            quoted = "" if node.plain else " in quotes"
            return f"{kind_of(node.value)}{quoted}"
        return "a list" if isinstance(node, Sequence) else "a mapping"

    def _wrong_type(self, node: Node, path: str, wanted: str, remedy: str | None = None) -> None:
        if isinstance(node, Scalar) and is_template(node.text):
            self._template(node, path)
            return
        if isinstance(node, Mapping) and node.entries and not isinstance(node.entries[0][0], Scalar):
            self.add("unrendered-template", path, "this looks like a template in two braces that was not rendered", node.line)
            return
        shown = f" ('{node.text}')" if isinstance(node, Scalar) and node.text else ""
        self.add("wrong-type", path, f"this is {self._kind(node)}{shown} where {wanted} belongs", node.line, remedy)

    def _mapping(self, node: Node, path: str) -> Mapping | None:
        if isinstance(node, Mapping):
            return node
        self._wrong_type(node, path, "a mapping")
        return None

    def _boolean(self, node: Node, path: str) -> bool | None:
        """True or False, None for null; other spellings than true and false are pointed out."""
        if isinstance(node, Scalar) and (isinstance(node.value, bool) or node.value is None):
            if node.text not in ("true", "false"):
                read = "not set" if node.value is None else str(node.value).lower()
                self.add("value-spelling", path, f"'{node.text}' is read as {read}", node.line, "Write true or false.")
            return node.value
        self._wrong_type(node, path, "true or false", "Write true or false, without quotes.")
        return None

    # Sections

    def _version(self, node: Node | None, root: Mapping) -> None:
        if node is None:
            self.add("version-missing", "version", "there is no 'version', which the device plugin takes as v1", root.line)
        elif isinstance(node, Scalar) and node.value in (None, ""):
            self.add("version-missing", "version", "'version' is empty, which the device plugin takes as v1", node.line)
        elif not isinstance(node, Scalar):
            self._wrong_type(node, "version", "v1")
        elif is_template(node.text):
            self._template(node, "version")
        elif node.value != "v1":
            quotes = " The quotes around it are typographic ones and belong to the text." if set(node.text) & set(_QUOTES) else ""
            self.add("version-unknown", "version", f"the version is '{node.text}'; the only one is v1.{quotes}", node.line)

    def _flags(self, node: Node | None) -> str | None:
        """The MIG strategy, if the file has a valid one."""
        if node is None or (isinstance(node, Scalar) and node.value is None):
            return None
        mapping = self._mapping(node, "flags")
        if mapping is None:
            return None
        fields = self._fields(mapping, "flags", tuple(FLAGS), folds=True)
        for name, value in fields.items():
            if name in ("plugin", "gfd"):
                self._nested_flags(value, name)
            elif name != "migStrategy":
                self._flag(value, name, FLAGS[name])
        return self._mig_strategy(fields.get("migStrategy"))

    def _nested_flags(self, node: Node, group: str) -> None:
        mapping = self._mapping(node, f"flags.{group}")
        if mapping is None:
            return
        checks = PLUGIN_FLAGS if group == "plugin" else GFD_FLAGS
        for name, value in self._fields(mapping, f"flags.{group}", tuple(checks), folds=True).items():
            self._flag(value, f"{group}.{name}", checks[name])

    def _flag(self, node: Node, name: str, check: Check) -> None:
        """A flag that has nothing to do with sharing: the type must be right, and who really decides is said."""
        path = f"flags.{name}"
        try:
            check(to_json(node), path)
        except Refused as error:
            self.add("wrong-type", path, str(error), node.line)
            return
        if name in _OVERRIDDEN:
            self.add("flag-overridden", path, f"the operator sets '{name}' itself; what the file says has no effect", node.line)
        else:
            self.add("option-outside-declaration", path, f"'{name}' is not about sharing", node.line)

    def _mig_strategy(self, node: Node | None) -> str | None:
        path = "flags.migStrategy"
        if node is None:
            return None
        if isinstance(node, Scalar) and node.value is None:
            self.add("value-spelling", path, f"'{node.text}' is read as not set", node.line, "Remove the key, or write none, single or mixed.")
            return None
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            self._wrong_type(node, path, "none, single or mixed")
            return None
        if is_template(node.text):
            self._template(node, path)
        elif node.text not in MIG_STRATEGIES:
            self.add("mig-strategy-unknown", path, f"'{node.text}' is no MIG strategy; the parser takes it, the device plugin ends at its start", node.line)
        else:
            return node.text
        return None

    def _sharing(self, node: Node, mig_strategy: str | None) -> None:
        if isinstance(node, Scalar) and node.value is None:
            self.add("sharing-is-none", "sharing", "'sharing' is empty: nothing is shared", node.line)
            return
        mapping = self._mapping(node, "sharing")
        if mapping is None:
            return
        before = len(self.findings)
        fields = self._fields(mapping, "sharing", _SHARING, folds=True)
        if not fields and len(self.findings) == before:
            self.add("sharing-is-none", "sharing", "'sharing' is empty: nothing is shared", node.line)
        if len(fields) == 2:
            self.add("both-strategies", "sharing", "'mps' and 'timeSlicing' are both there; the device plugin shares by MPS and ignores the other", node.line)
        for name, block in fields.items():
            self._block(block, name)
        if "mps" in fields and mig_strategy == "mixed":
            self.add("mig-mixed-with-mps", "flags.migStrategy", "the device plugin refuses MPS with the MIG strategy mixed")

    def _block(self, node: Node, name: str) -> None:
        path = f"sharing.{name}"
        if isinstance(node, Scalar) and node.value is None:
            if name == "mps":
                self.add("sharing-is-none", path, "'mps' is empty: MPS is off and nothing is shared", node.line)
            else:
                self.add("no-resources", path, "'timeSlicing' is empty, which the device plugin refuses", node.line)
            return
        mapping = self._mapping(node, path)
        if mapping is None:
            return
        fields = self._fields(mapping, path, _BLOCK)
        if "renameByDefault" in fields:
            self._boolean(fields["renameByDefault"], f"{path}.renameByDefault")
        if "failRequestsGreaterThanOne" in fields:
            self._fail_requests(fields["failRequestsGreaterThanOne"], name)
        self._resources(fields.get("resources"), name, mapping)

    def _fail_requests(self, node: Node, name: str) -> None:
        path = f"sharing.{name}.failRequestsGreaterThanOne"
        if self._boolean(node, path) is not False or name != "mps":
            return
        if self.plugin_version is not None and honours_fail_requests(self.plugin_version):
            self.add("fail-requests-off", path, "false lets a container take several replicas, which may all be of one GPU", node.line)
        else:
            self.add(
                "fail-requests-ignored", path, "false has an effect only from device plugin v0.20 on; before, larger requests fail all the same", node.line
            )

    def _resources(self, node: Node | None, name: str, block: Mapping) -> None:
        path = f"sharing.{name}.resources"
        if node is None or (isinstance(node, Scalar) and node.value is None):
            self.add("no-resources", path, "there is no list of resources to share", (node or block).line)
        elif not isinstance(node, Sequence):
            self._wrong_type(node, path, "a list", "Begin each resource with '- '." if isinstance(node, Mapping) else None)
        elif not node.items:
            self.add("no-resources", path, "the list of resources to share is empty", node.line)
        else:
            if len(node.items) > 1:
                self.add("several-resources", path, f"there are {len(node.items)} entries where one belongs", node.line)
            for index, entry in enumerate(node.items):
                self._entry(entry, f"{path}[{index}]", name)

    def _entry(self, node: Node, path: str, block: str) -> None:
        mapping = self._mapping(node, path)
        if mapping is None:
            return
        fields = self._fields(mapping, path, _ENTRY)
        for dropped in ("devices", "rename"):
            if dropped in fields:
                self.add("field-dropped", f"{path}.{dropped}", f"the device plugin drops '{dropped}'", fields[dropped].line)
        self._name(fields.get("name"), f"{path}.name", mapping)
        self._replicas(fields.get("replicas"), f"{path}.replicas", block, mapping)

    def _name(self, node: Node | None, path: str, entry: Mapping) -> None:
        if node is None:
            self.add("resource-name", path, "the entry has no 'name'; the device plugin refuses it", entry.line)
            return
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            self._wrong_type(node, path, RESOURCE)
        elif is_template(node.text):
            self._template(node, path)
        elif node.text == "gpu":
            self.add("value-spelling", path, f"'gpu' is read as {RESOURCE}", node.line, f"Write {RESOURCE}.")
        elif node.text != RESOURCE:
            self.add(*_other_resource(node.text, path), line=node.line)

    def _replicas(self, node: Node | None, path: str, block: str, entry: Mapping) -> None:
        if node is None:
            self.add("replicas-missing", path, "the entry has no 'replicas'; the device plugin refuses it", entry.line)
            return
        if not isinstance(node, Scalar) or not isinstance(node.value, (int, float)) or isinstance(node.value, bool):
            self._wrong_type(node, path, "a whole number", "Write a number from 2 on, without quotes.")
            return
        if _OCTAL.match(node.text):
            self.add("replicas-octal", path, f"'{node.text}' looks octal and is read as {node.value:g}", node.line)
        elif isinstance(node.value, float) and not node.value.is_integer():
            self._wrong_type(node, path, "a whole number")
        elif node.value < 2:
            self.add("replicas-below-two", path, f"{node.text} replicas: the device plugin refuses fewer than 2", node.line)
        elif block == "mps" and node.value > REPLICAS_FROM_TURING:
            self.add("replicas-above-every-cap", path, f"{node.text} replicas: no GPU takes more than {REPLICAS_FROM_TURING} MPS clients", node.line)
        elif not _PLAIN_NUMBER.match(node.text):
            self._number_spelling(node, path)

    def _number_spelling(self, node: Scalar, path: str) -> None:
        remedy = f"Write {node.value:.0f}."
        if _CLEAR_NUMBER.match(node.text):
            self.add("value-spelling", path, f"'{node.text}' is read as {node.value:.0f}", node.line, remedy)
        else:
            self._wrong_type(node, path, "a plain decimal number", remedy)


def _other_resource(text: str, path: str) -> tuple[str, str, str]:
    """Code, path and message for a resource name that is not the GPU."""
    try:
        full = resource_name(text)
    except Refused as error:
        quotes = "; the typographic quotes belong to the text" if set(text) & set(_QUOTES) else ""
        return "resource-name", path, f"the device plugin refuses the name: {error}{quotes}"
    if full.startswith("nvidia.com/mig-"):
        return "resource-name-mig", path, f"'{text}' is a MIG device, which MPS cannot share"
    read = "" if full == text else f" (read as {full})"
    return "resource-name", path, f"'{text}'{read} names no resource that the device plugin has; nothing is replicated and the node's GPUs are not advertised"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
