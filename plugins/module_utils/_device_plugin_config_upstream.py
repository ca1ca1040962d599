# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what the device plugin itself makes of a config file's text.

k8s-device-plugin v0.17 to v0.20: api/config/v1/config.go, sharing.go, replicas.go, flags.go and resources.go; the text is
decoded by sigs.k8s.io/yaml without strictness, then by encoding/json. Unknown keys are ignored, the last of two equal keys
wins, only the first document counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from collections.abc import Mapping as MappingType
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config_text import Mapping, Node, Scalar, Sequence, Text

RESOURCE = "nvidia.com/gpu"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_DURATION = re.compile(r"[-+]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|\u00b5s|\u03bcs|ms|s|m|h))+)\Z")
_DEVICE = re.compile(r"(?:[0-9]+(?::[0-9]+)?|(?:MIG-)?(?:GPU-)?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?:/[0-9]+/[0-9]+)?)\Z")


@dataclass(frozen=True)
class Outcome:
    """What the device plugin does with a text.

    ``refusal`` is None when it starts with the config; ``certain`` is False when that cannot be told from the text.
    ``resources`` are the entries of the block that counts, as (full name, replicas), after ``devices`` and ``rename`` were
    dropped. ``mig_strategy`` is the file's own, which the ClusterPolicy overrides.
    """

    refusal: str | None = None
    certain: bool = True
    strategy: Strategy = Strategy.NONE
    resources: tuple[tuple[str, int], ...] = ()
    rename_by_default: bool = False
    fail_requests_greater_than_one: bool | None = None
    mig_strategy: str | None = None

    def describe(self) -> str:
        """One sentence for a finding: what the device plugin would do with the whole text."""
        if not self.certain:
            return "Whether the device plugin would start with the text cannot be told."
        if self.refusal is not None:
            return f"The device plugin would refuse the text ({self.refusal}) and crash-loop, and so would GPU Feature Discovery and the MPS daemon."
        if self.strategy is Strategy.NONE:
            return "The device plugin would accept the text and share nothing: strategy none, one client per GPU."
        renamed = ", advertised under its .shared name" if self.rename_by_default else ""
        entries = ", ".join(f"{name} with {replicas} replicas" for name, replicas in self.resources)
        return f"The device plugin would accept the text with strategy {self.strategy.value}: {entries}{renamed}."


class Refused(Exception):
    """The device plugin refuses the text; the message says why."""


@dataclass(frozen=True)
class _Block:
    """One of the two blocks under ``sharing``."""

    resources: tuple[tuple[str, int], ...] = ()
    rename_by_default: bool = False
    fail_requests_greater_than_one: bool | None = None


def outcome(text: Text) -> Outcome:
    """What the device plugin does with a text that was read."""
    if text.problem is not None:
        return Outcome(refusal=text.problem.reason, certain=text.problem.upstream_refuses)
    try:
        document = to_json(text.root) if text.root is not None else None
        _refuse_infinite(document)
        return _decode_config(document)
    except Refused as error:
        return Outcome(refusal=str(error))


def to_json(node: Node) -> Any:
    """The node as sigs.k8s.io/yaml converts it: keys become texts, numbers JSON numbers, later keys win."""
    if isinstance(node, Scalar):
        return _number(node.value) if isinstance(node.value, float) else node.value
    if isinstance(node, Sequence):
        return [to_json(item) for item in node.items]
    found: dict[str, Any] = {}
    for key, value in node.entries:
        if isinstance(key, Scalar) and key.plain and key.text == "<<":
            _merge(value, found)
        else:
            found[_key_text(key)] = to_json(value)
    return found


def _merge(value: Node, found: dict[str, Any]) -> None:
    sources = value.items[::-1] if isinstance(value, Sequence) else (value,)
    for source in sources:
        if not isinstance(source, Mapping):
            raise Refused("map merge requires map or sequence of maps as the value")
        found.update(to_json(source))


def _key_text(key: Node) -> str:
    if not isinstance(key, Scalar):
        raise Refused("invalid map key: a list or a mapping")
    if key.value is None:
        raise Refused("unsupported map key: null")
    if isinstance(key.value, bool):
        return "true" if key.value else "false"
    return str(key.value)


def _number(value: float) -> int | float:
    """A float as JSON carries it: without an exponent below 1e21, so that 2.0 is the integer 2."""
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def _refuse_infinite(value: Any) -> None:
    """JSON has no infinity and no NaN, wherever in the document they are left after duplicates are gone."""
    if isinstance(value, float) and not math.isfinite(value):
        raise Refused(f"json: unsupported value: {value}")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _refuse_infinite(item)


def _decode_config(document: Any) -> Outcome:
    fields = _struct(document, "the file", ("version", "flags", "resources", "sharing", "imex"))
    version, mig_strategy = "", None
    blocks: tuple[_Block, _Block | None] = (_Block(), None)
    for name, value in fields:
        if name == "version":
            version = _coerced_text(value, version)
        elif name == "flags":
            mig_strategy = _decode_flags(value, mig_strategy)
        elif name == "resources":
            _decode_resources(value)
        elif name == "sharing":
            blocks = _decode_sharing(value, blocks)
        else:
            _decode_imex(value)
    if version not in ("", "v1"):
        raise Refused(f"unknown version: {version}")
    return _effective(blocks, mig_strategy)


def _effective(blocks: tuple[_Block, _Block | None], mig_strategy: str | None) -> Outcome:
    """sharing.go: the MPS block counts whenever it is there, time-slicing otherwise."""
    time_slicing, mps = blocks
    block, strategy = (mps, Strategy.MPS) if mps is not None else (time_slicing, Strategy.TIME_SLICING)
    return Outcome(
        strategy=strategy if block.resources else Strategy.NONE,
        resources=block.resources,
        rename_by_default=block.rename_by_default,
        fail_requests_greater_than_one=block.fail_requests_greater_than_one,
        mig_strategy=mig_strategy,
    )


def fold(key: str) -> str:
    """A key as encoding/json compares it where it ignores case: with its two letters from outside ASCII."""
    return key.upper().replace("\u017f", "S").replace("\u212a", "K")


def _struct(value: Any, where: str, names: tuple[str, ...]) -> list[tuple[str, Any]]:
    """The known fields in the order in which encoding/json meets them: sorted by the key as written."""
    if value is None:
        return []
    if not isinstance(value, dict):
        raise Refused(f"{where} is {kind_of(value)} where a mapping belongs")
    by_fold = {fold(name): name for name in names}
    return [(by_fold[fold(key)], value[key]) for key in sorted(value) if fold(key) in by_fold]


def kind_of(value: Any) -> str:
    """What a decoded value is, for people."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    return "a text" if isinstance(value, str) else "a list" if isinstance(value, list) else "a mapping"


def _coerced_text(value: Any, current: str) -> str:
    """sigs.k8s.io/yaml turns numbers and booleans into text where a plain string field is filled."""
    if value is None:
        return current
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    return _typed(value, str, "version")


def _typed(value: Any, wanted: type, where: str) -> Any:
    """``value`` if it is of the type ``wanted``; bool is no int."""
    if isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)):
        return value
    words: dict[type, str] = {str: "a text", bool: "a boolean", int: "a whole number", list: "a list", dict: "a mapping"}
    raise Refused(f"{where} is {kind_of(value)} where {words[wanted]} belongs")


def _texts(value: Any, where: str) -> None:
    for item in _typed(value, list, where):
        _typed(item, str, where)


def _device_list_strategy(value: Any, where: str) -> None:
    if not isinstance(value, str):
        _texts(value, where)


def _duration(value: Any, where: str) -> None:
    """flags.go: a Go duration, or a bare number of nanoseconds; "infinite" only from v0.19 on."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return
    if not _DURATION.match(_typed(value, str, where)):
        raise Refused(f"invalid duration: {value}")


def _text(value: Any, where: str) -> None:
    _typed(value, str, where)


def _boolean(value: Any, where: str) -> None:
    _typed(value, bool, where)


Check = Callable[[Any, str], None]

PLUGIN_FLAGS: MappingType[str, Check] = {
    "passDeviceSpecs": _boolean,
    "deviceListStrategy": _device_list_strategy,
    "deviceIDStrategy": _text,
    "cdiAnnotationPrefix": _text,
    "nvidiaCTKPath": _text,
    "containerDriverRoot": _text,
    "sharedDevicesAllocationPolicy": _text,
}
GFD_FLAGS: MappingType[str, Check] = {
    "oneshot": _boolean,
    "noTimestamp": _boolean,
    "sleepInterval": _duration,
    "outputFile": _text,
    "machineTypeFile": _text,
}


def _nested(checks: MappingType[str, Check]) -> Check:
    def check(value: Any, where: str) -> None:
        _check_fields(value, where, checks)

    return check


FLAGS: MappingType[str, Check] = {
    "migStrategy": _text,
    "failOnInitError": _boolean,
    "gdrcopyEnabled": _boolean,
    "gdsEnabled": _boolean,
    "mofedEnabled": _boolean,
    "useNodeFeatureAPI": _boolean,
    "mpsRoot": _text,
    "nvidiaDriverRoot": _text,
    "nvidiaDevRoot": _text,
    "deviceDiscoveryStrategy": _text,
    "plugin": _nested(PLUGIN_FLAGS),
    "gfd": _nested(GFD_FLAGS),
}


def _check_fields(value: Any, where: str, checks: MappingType[str, Check]) -> None:
    for name, item in _struct(value, where, tuple(checks)):
        if item is not None:
            checks[name](item, f"{where}.{name}")


def _decode_flags(value: Any, current: str | None) -> str | None:
    """The file's migStrategy; every other flag is only checked for its type."""
    _check_fields(value, "flags", FLAGS)
    for _name, item in _struct(value, "flags", ("migStrategy",)):
        current = item
    return current


def _decode_resources(value: Any) -> None:
    """The top-level ``resources``: must be well-formed although the whole section is dropped afterwards."""
    for name, entries in _struct(value, "resources", ("gpus", "mig")):
        for entry in _typed(entries, list, f"resources.{name}") if entries is not None else ():
            fields = _raw_fields(entry, f"resources.{name}")
            for required in ("pattern", "name"):
                if required not in fields:
                    raise Refused(f"resources must have a '{required}' field set")
                if fields[required] is not None:
                    _text(fields[required], f"resources.{name}.{required}")
            resource_name(fields["name"] or "")


def _decode_imex(value: Any) -> None:
    """imex.go: the only channel is 0."""
    for name, item in _struct(value, "imex", ("channelIDs", "required")):
        if item is None:
            continue
        if name == "required":
            _boolean(item, "imex.required")
        elif any(isinstance(channel, bool) or channel != 0 for channel in _typed(item, list, "imex.channelIDs")) or len(item) > 1:
            raise Refused("imex.channelIDs must be [] or [0]")


def _decode_sharing(value: Any, current: tuple[_Block, _Block | None]) -> tuple[_Block, _Block | None]:
    time_slicing, mps = current
    for name, item in _struct(value, "sharing", ("timeSlicing", "mps")):
        if name == "timeSlicing":
            # Not a pointer in Go: its unmarshaler runs for null too, and finds no resources.
            time_slicing = _decode_block(item, "sharing.timeSlicing")
        else:
            mps = _decode_block(item, "sharing.mps") if item is not None else None
    return time_slicing, mps


def _raw_fields(value: Any, where: str) -> dict[str, Any]:
    """The fields of a hand-written unmarshaler: keys count letter by letter, null is an empty mapping."""
    return {} if value is None else _typed(value, dict, where)


def _decode_block(value: Any, where: str) -> _Block:
    fields = _raw_fields(value, where)
    rename = fields.get("renameByDefault")
    fail = fields.get("failRequestsGreaterThanOne")
    for name, item in (("renameByDefault", rename), ("failRequestsGreaterThanOne", fail)):
        if item is not None:
            _boolean(item, f"{where}.{name}")
    entries = fields.get("resources")
    if entries is not None:
        _typed(entries, list, f"{where}.resources")
    if not entries:
        raise Refused("no resources specified")
    return _Block(tuple(_decode_entry(entry, f"{where}.resources") for entry in entries), bool(rename), fail)


def _decode_entry(value: Any, where: str) -> tuple[str, int]:
    fields = _raw_fields(value, where)
    if "name" not in fields:
        raise Refused("no resource name specified")
    name = resource_name(_typed(fields["name"], str, f"{where}.name") if fields["name"] is not None else "")
    if "devices" in fields:
        _decode_devices(fields["devices"])
    if "replicas" not in fields:
        raise Refused("no replicas specified")
    replicas = fields["replicas"]
    if replicas is not None:
        _typed(replicas, int, f"{where}.replicas")
    if not replicas or replicas < 2:
        raise Refused("number of replicas must be >= 2")
    if replicas >= 2**63:
        raise Refused(f"{where}.replicas is too large")
    if "rename" in fields:
        resource_name(_typed(fields["rename"], str, f"{where}.rename") if fields["rename"] is not None else "")
    return name, replicas


def resource_name(text: str) -> str:
    """The full name that the device plugin makes of ``text``: at most 63 characters, lower case, one prefix."""
    full = text if text.startswith("nvidia.com/") else f"nvidia.com/{text}"
    if len(full.encode()) > 63:
        raise Refused(f"fully-qualified resource name must be 63 characters or less: {full}")
    if not _NAME.match(full.removeprefix("nvidia.com/")):
        raise Refused(f"incorrect format for resource name '{full}'")
    return full


def _decode_devices(value: Any) -> None:
    """replicas.go: all, a positive count, or a list of indices and UUIDs; whatever it says is dropped afterwards."""
    if isinstance(value, list):
        for device in value:
            if not _is_device(device):
                raise Refused(f"unsupported device in devices list: {device}")
    elif isinstance(value, str):
        if value != "all":
            raise Refused(f"devices set as '{value}' but the only valid string input is 'all'")
    elif value is None or _typed(value, int, "devices") <= 0:
        raise Refused("devices must be a positive number")


def _is_device(device: Any) -> bool:
    if isinstance(device, int) and not isinstance(device, bool):
        return device >= 0
    return isinstance(device, str) and bool(_DEVICE.match(device))
