# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the fields of nodes, pods and answers that a snapshot is made of, by their numbers. Pure.

Source of the numbers: kubernetes v1.37, k8s.io/api core/v1/generated.proto, k8s.io/apimachinery meta/v1/generated.proto,
runtime/generated.proto and api/resource/generated.proto. What C(_snapshot_build) reads of a node or of an agent's pod must be here.
"""

from __future__ import annotations

import functools
import json
import typing as t

from ansible_collections.gpuops.mps.plugins.module_utils._protobuf import Field, Object, flag, message, number, pair, raw, text, text_pair, time
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import CONFIG_LABEL

MAGIC = b"k8s\x00"
_CONFIG_LABEL = CONFIG_LABEL.encode()


def _quantity(data: bytes, start: int, end: int) -> str:
    return _QUANTITY(data, start, end).get("string", "")


def _owned_fields(data: bytes, start: int, end: int) -> t.Any:
    """What a field manager owns. Only the owner of the config label is ever asked for, and these are the longest texts of a node."""
    return _parsed(_FIELDS(data, start, end).get("raw", b"")) if data.find(_CONFIG_LABEL, start, end) >= 0 else {}


@functools.lru_cache(maxsize=256)
def _parsed(fields: bytes) -> t.Any:
    """One text for all nodes that a manager treats alike."""
    return json.loads(fields)


_QUANTITY = message({1: Field("string", text)})
_FIELDS = message({1: Field("raw", raw)})
_OWNER = message({1: Field("kind", text), 3: Field("name", text), 6: Field("controller", flag)})
_MANAGER = message({1: Field("manager", text), 4: Field("time", time), 7: Field("fieldsV1", _owned_fields), 8: Field("subresource", text)})
_METADATA = {
    1: Field("name", text),
    3: Field("namespace", text),
    5: Field("uid", text),
    6: Field("resourceVersion", text),
    8: Field("creationTimestamp", time),
    9: Field("deletionTimestamp", time),
    11: Field("labels", text_pair, "map"),
}
_POD_METADATA = message({**_METADATA, 13: Field("ownerReferences", _OWNER, "list")})
_NODE_METADATA = message({**_METADATA, 12: Field("annotations", text_pair, "map"), 17: Field("managedFields", _MANAGER, "list")})

_RESOURCES = message({1: Field("limits", pair(_quantity), "map"), 2: Field("requests", pair(_quantity), "map")})
_CONTAINER = message({8: Field("resources", _RESOURCES)})
_STATE = message(
    {
        1: Field("waiting", message({1: Field("reason", text), 2: Field("message", text)})),
        2: Field("running", message({1: Field("startedAt", time)})),
        3: Field("terminated", message({1: Field("exitCode", number), 3: Field("reason", text), 4: Field("message", text), 5: Field("startedAt", time)})),
    }
)
_CONTAINER_STATUS = message(
    {1: Field("name", text), 2: Field("state", _STATE), 3: Field("lastState", _STATE), 4: Field("ready", flag), 5: Field("restartCount", number)}
)
_CONDITION = message({1: Field("type", text), 2: Field("status", text)})
_POD_STATUS = message(
    {
        1: Field("phase", text),
        2: Field("conditions", _CONDITION, "list"),
        3: Field("message", text),
        4: Field("reason", text),
        7: Field("startTime", time),
        8: Field("containerStatuses", _CONTAINER_STATUS, "list"),
        10: Field("initContainerStatuses", _CONTAINER_STATUS, "list"),
    }
)
_POD_SPEC = message({2: Field("containers", _CONTAINER, "list"), 10: Field("nodeName", text)})
_POD = message({1: Field("metadata", _POD_METADATA), 2: Field("spec", _POD_SPEC), 3: Field("status", _POD_STATUS)})

_TAINT = message({1: Field("key", text), 2: Field("value", text), 3: Field("effect", text)})
_NODE_SPEC = message({4: Field("unschedulable", flag), 5: Field("taints", _TAINT, "list")})
_NODE_STATUS = message(
    {
        1: Field("capacity", pair(_quantity), "map"),
        2: Field("allocatable", pair(_quantity), "map"),
        4: Field("conditions", _CONDITION, "list"),
        7: Field("nodeInfo", message({4: Field("kernelVersion", text), 5: Field("osImage", text)})),
    }
)
_NODE = message({1: Field("metadata", _NODE_METADATA), 2: Field("spec", _NODE_SPEC), 3: Field("status", _NODE_STATUS)})

_LIST_METADATA = message({2: Field("resourceVersion", text), 3: Field("continue", text)})
_CAUSE = message({1: Field("reason", text), 2: Field("message", text), 3: Field("field", text)})
_DETAILS = message({1: Field("name", text), 3: Field("kind", text), 4: Field("causes", _CAUSE, "list")})
_STATUS = message({2: Field("status", text), 3: Field("message", text), 4: Field("reason", text), 5: Field("details", _DETAILS), 6: Field("code", number)})
_ENVELOPE = message({1: Field("type", message({2: Field("kind", text)})), 2: Field("raw", raw)})
_KINDS = {
    "NodeList": message({1: Field("metadata", _LIST_METADATA), 2: Field("items", _NODE, "list")}),
    "PodList": message({1: Field("metadata", _LIST_METADATA), 2: Field("items", _POD, "list")}),
    "PartialObjectMetadataList": message({1: Field("metadata", _LIST_METADATA), 2: Field("items", message({1: Field("metadata", _NODE_METADATA)}), "list")}),
    "Status": _STATUS,
}


def object_of(body: bytes) -> Object:
    """The list or the Status in an answer of the media type ``application/vnd.kubernetes.protobuf``, shaped as in JSON.

    Raises ValueError when it is none, or of a kind that is not read in this encoding.
    """
    if not body.startswith(MAGIC):
        raise ValueError("the answer does not begin as Kubernetes' protobuf does")
    try:
        envelope = _ENVELOPE(body, len(MAGIC), len(body))
        kind = envelope.get("type", {}).get("kind", "")
        if kind not in _KINDS:
            raise ValueError(f"the kind '{kind}' is not read as protobuf")
        content = envelope.get("raw", b"")
        found: Object = _KINDS[kind](content, 0, len(content))
    except IndexError as error:
        raise ValueError("the answer ends in the middle of a field") from error
    if kind.endswith("List"):
        found.setdefault("items", [])
    return found
