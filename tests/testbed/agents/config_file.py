# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The device plugin's config file, parsed as leniently and refused as strictly as the real plugin does it.

Rules: k8s-device-plugin v0.20.0, api/config/v1 (v0.17.4 decides the same). Unknown keys are dropped, struct keys match without
regard to case, the hand-written unmarshalers match exactly, and an unmarshaler's error wins over a mere type error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeGuard

from tests.testbed.agents.go_yaml import NotJson, YamlError, go_number, to_json_value

PREFIX = "nvidia.com/"
GPU_RESOURCE = "nvidia.com/gpu"
MAX_NAME = 63
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
RAW_MAP = "map[string]json.RawMessage"


class ConfigError(ValueError):
    """The file is refused; the message is the parser's."""


class _TypeMismatch(ConfigError):
    """encoding/json's UnmarshalTypeError: the place is added on the way out of the outermost struct."""

    def __init__(self, value: str, wanted: str) -> None:
        super().__init__(value, wanted)
        self.value, self.wanted = value, wanted

    def at(self, place: str) -> ConfigError:
        return ConfigError(f"json: cannot unmarshal {self.value} into Go {place} of type {self.wanted}")


@dataclass(frozen=True)
class Entry:
    """One shared resource: full name and replicas per GPU (``devices`` and ``rename`` parse but never count)."""

    name: str
    replicas: int


@dataclass(frozen=True)
class SharingBlock:
    """``sharing.mps`` or ``sharing.timeSlicing``."""

    rename_by_default: bool = False
    fail_requests_greater_than_one: bool | None = None
    entries: tuple[Entry, ...] = ()

    @property
    def shares(self) -> bool:
        return any(entry.replicas > 1 for entry in self.entries)

    def entries_for(self, resource: str) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.name == resource)


@dataclass(frozen=True)
class Config:
    """What the plugin's processes keep of the file."""

    mig_strategy: str | None = None
    mps: SharingBlock | None = None
    time_slicing: SharingBlock = SharingBlock()

    @property
    def strategy(self) -> str:
        """``mps``, ``time-slicing`` or ``none``: MPS wins without a word when both are set."""
        if self.mps is not None and self.mps.shares:
            return "mps"
        return "time-slicing" if self.time_slicing.shares else "none"

    @property
    def sharing(self) -> SharingBlock:
        """The block that names the shared resources: MPS whenever it is not null."""
        return self.time_slicing if self.mps is None else self.mps


@lru_cache(maxsize=256)
def parse_config(text: str) -> Config:
    """The config in ``text`` (remembered: a fleet reads the same few files again and again). Raises ConfigError with the real parser's message."""
    try:
        document = to_json_value(text)
    except NotJson as error:
        raise ConfigError(f"unmarshal error: error converting YAML to JSON: json: {error}") from None
    except YamlError as error:
        raise ConfigError(f"unmarshal error: error converting YAML to JSON: yaml: {error}") from None
    try:
        return _decode_config(document)
    except _UnknownVersion as error:
        raise ConfigError(f"unknown version: {error}") from None
    except ConfigError as error:
        raise ConfigError(f"unmarshal error: error unmarshaling JSON: while decoding JSON: {error}") from None


class _UnknownVersion(ConfigError):
    pass


class _Fields:
    """Decodes one struct: keys in sorted order, the first type error kept until the end as encoding/json does."""

    def __init__(self) -> None:
        self.mismatch: ConfigError | None = None

    def keep(self, error: ConfigError) -> None:
        self.mismatch = self.mismatch or error


def _decode_config(document: Any) -> Config:
    fields = _Fields()
    found: dict[str, Any] = {}
    if document is not None and not isinstance(document, dict):
        raise _TypeMismatch(_kind(document), "v1.Config").at("value")
    for key, value in _struct_items(document, ("flags", "imex", "resources", "sharing", "version")):
        found[key] = _CONFIG_FIELDS[key](value, fields)
    if fields.mismatch:
        raise fields.mismatch
    version = found.get("version") or "v1"
    if version != "v1":
        raise _UnknownVersion(str(version))
    mps, time_slicing = found.get("sharing") or (None, None)
    return Config(found.get("flags"), mps, time_slicing or SharingBlock())


def _struct_items(value: Any, names: tuple[str, ...]) -> list[tuple[str, Any]]:
    """(field, value) for the keys that name a field, exactly or but for case, in the order of the JSON text."""
    by_fold = {name.casefold(): name for name in names}
    items = sorted((value or {}).items(), key=lambda item: item[0].encode())
    return [(by_fold[key.casefold()], item) for key, item in items if key.casefold() in by_fold]


def _version(value: Any, fields: _Fields) -> str | None:
    """A plain string field: the YAML library turns numbers and booleans into text for it."""
    if isinstance(value, dict | list):
        fields.keep(_TypeMismatch(_kind(value), "string").at("struct field Config.version"))
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return go_number(value) if isinstance(value, int | float) else value


STRING_FLAGS = ("migStrategy", "mpsRoot", "nvidiaDriverRoot", "nvidiaDevRoot", "deviceDiscoveryStrategy")
BOOL_FLAGS = ("failOnInitError", "gdrcopyEnabled", "gdsEnabled", "mofedEnabled", "useNodeFeatureAPI")


def _flags(value: Any, fields: _Fields) -> str | None:
    """``flags``: only migStrategy has a reader here, the rest is checked for its type."""
    if not _is_object(value, "struct field Config.flags", "v1.Flags", fields):
        return None
    mig_strategy: str | None = None
    for name, item in _struct_items(value, STRING_FLAGS + BOOL_FLAGS):
        wanted: type = str if name in STRING_FLAGS else bool
        if item is not None and not isinstance(item, wanted):
            fields.keep(_TypeMismatch(_kind(item), "string" if wanted is str else "bool").at(f"struct field Flags.flags.CommandLineFlags.{name}"))
        elif name == "migStrategy":
            mig_strategy = None if item is None else str(item)
    return mig_strategy


def _resources(value: Any, fields: _Fields) -> None:
    """``resources``: checked and then dropped (the plugin disables resource naming)."""
    if not _is_object(value, "struct field Config.resources", "v1.Resources", fields):
        return
    for name, items in _struct_items(value, ("gpus", "mig")):
        if items is None:
            continue
        if not isinstance(items, list):
            fields.keep(_TypeMismatch(_kind(items), "[]v1.Resource").at(f"struct field Resources.resources.{name}"))
            continue
        for item in items:
            _unmarshal_in(f"struct field Resources.resources.{name}", _named_pattern, item)


def _named_pattern(value: Any) -> None:
    raw = _raw_map(value)
    for key in ("pattern", "name"):
        if key not in raw:
            raise ConfigError(f"resources must have a '{key}' field set")
    _string(raw["pattern"])
    resource_name(_string(raw["name"]))


def _imex(value: Any, fields: _Fields) -> None:
    _is_object(value, "struct field Config.imex", "v1.Imex", fields)


def _sharing(value: Any, fields: _Fields) -> tuple[SharingBlock | None, SharingBlock | None] | None:
    if not _is_object(value, "struct field Config.sharing", "v1.Sharing", fields):
        return None
    mps, time_slicing = None, None
    for name, item in _struct_items(value, ("mps", "timeSlicing")):
        place = f"struct field Sharing.sharing.{name}"
        if name == "timeSlicing":  # a value, not a pointer: null reaches the unmarshaler too
            time_slicing = _unmarshal_in(place, _sharing_block, item)
        else:
            mps = None if item is None else _unmarshal_in(place, _sharing_block, item)
    return mps, time_slicing


_CONFIG_FIELDS: Mapping[str, Callable[[Any, _Fields], Any]] = {
    "flags": _flags,
    "imex": _imex,
    "resources": _resources,
    "sharing": _sharing,
    "version": _version,
}


def _unmarshal_in(place: str, unmarshal: Callable[[object], Any], value: Any) -> Any:
    """A hand-written unmarshaler inside a struct: its type errors get the struct's place, all its errors end the decoding."""
    try:
        return unmarshal(value)
    except _TypeMismatch as error:
        raise error.at(place) from None


def _sharing_block(value: Any) -> SharingBlock:
    raw = _raw_map(value)
    rename = _boolean(raw["renameByDefault"]) if "renameByDefault" in raw else None
    fail = _boolean(raw["failRequestsGreaterThanOne"]) if "failRequestsGreaterThanOne" in raw else None
    if "resources" not in raw:
        raise ConfigError("no resources specified")
    resources = raw["resources"]
    if resources is not None and not isinstance(resources, list):
        raise _TypeMismatch(_kind(resources), "[]v1.ReplicatedResource")
    entries = tuple(_entry(item) for item in resources or ())
    if not entries:
        raise ConfigError("no resources specified")
    return SharingBlock(bool(rename), fail, entries)


def _entry(value: Any) -> Entry:
    raw = _raw_map(value)
    if "name" not in raw:
        raise ConfigError("no resource name specified")
    name = resource_name(_string(raw["name"]))
    if "rename" in raw:
        resource_name(_string(raw["rename"]))
    if "devices" in raw:
        _devices(raw["devices"])
    if "replicas" not in raw:
        raise ConfigError("no replicas specified")
    replicas = _integer(raw["replicas"])
    if replicas < 2:
        raise ConfigError("number of replicas must be >= 2")
    return Entry(name, replicas)


def resource_name(name: str) -> str:
    """The full resource name; the prefix is added where it is missing. Raises ConfigError."""
    full = name if name.startswith(PREFIX) else PREFIX + name
    if len(full.encode()) > MAX_NAME:
        raise ConfigError(f"fully-qualified resource name must be {MAX_NAME} characters or less: {full}")
    if not SUBDOMAIN.fullmatch(full.removeprefix(PREFIX)):
        raise ConfigError(
            f"incorrect format for resource name '{full}': [a lowercase RFC 1123 subdomain must consist of lower case "
            "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', "
            r"regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')]"
        )
    return full


UUID = re.compile(r"(GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
DEVICE_INDEX = re.compile(r"[0-9]+(:[0-9]+)?")


def _devices(value: Any) -> None:
    """``devices``: has no effect in the end, but must be well formed."""
    if value is None or isinstance(value, str):
        if value != "all":
            raise ConfigError(f"devices set as '{value or ''}' but the only valid string input is 'all'")
    elif _is_number(value):
        if value != int(value) or value <= 0:
            raise ConfigError(f"devices set as '{go_number(value)}' but a device count must be > 0")
    elif isinstance(value, list):
        for item in value:
            _device(item)
    else:
        raise ConfigError(f"unrecognized type for devices spec: {_kind(value)}")


def _device(item: Any) -> None:
    if _is_number(item) and item == int(item) and item >= 0:
        return
    if isinstance(item, str) and (UUID.fullmatch(item) or DEVICE_INDEX.fullmatch(item)):
        return
    shown = item if isinstance(item, str) else go_number(item) if _is_number(item) else str(item)
    raise ConfigError(f"unsupported type for device in devices list: {shown}, {_go_type(item)}")


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _go_type(value: Any) -> str:
    return "string" if isinstance(value, str) else "float64" if _is_number(value) else _kind(value)


def _raw_map(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _TypeMismatch(_kind(value), RAW_MAP)
    return value


def _string(value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise _TypeMismatch(_kind(value), "string")
    return value or ""


def _boolean(value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise _TypeMismatch(_kind(value), "bool")
    return value


def _integer(value: Any) -> int:
    """A Go int: 4.0 is 4; 4.5 and what does not fit are named in the message, other types are not. null leaves 0."""
    if value is None:
        return 0
    if not _is_number(value):
        raise _TypeMismatch(_kind(value), "int")
    if value != int(value) or not -(2**63) <= value < 2**63:
        raise _TypeMismatch(f"number {go_number(value)}", "int")
    return int(value)


def _is_object(value: Any, place: str, wanted: str, fields: _Fields) -> bool:
    if value is not None and not isinstance(value, dict):
        fields.keep(_TypeMismatch(_kind(value), wanted).at(place))
    return isinstance(value, dict)


def _kind(value: Any) -> str:
    """encoding/json's word for the kind of a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else "number"
