# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster in memory with the methods that the writers use, for properties over thousands of clusters.

What a real API server does is tested on the test bed; this one stores objects by path and knows merge patches, versions
and dry runs.
"""

from __future__ import annotations

import builtins
import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import ClusterError, Listing, Page
from ansible_collections.gpuops.mps.plugins.module_utils._selectors import parse_selector

Object = dict[str, Any]


class MemoryCluster:
    """Objects by path. C(writes) counts those that were stored."""

    server = "https://memory"
    server_time = "2026-11-30T10:40:00Z"

    def __init__(self, objects: dict[str, Object], *, dry_run: bool = False) -> None:
        self.objects = objects
        self.dry_run = dry_run
        self.writes = 0

    def get(self, path: str, *, query: object = (), metadata_only: bool = False) -> Object | None:
        return copy.deepcopy(self.objects.get(path))

    def list(self, path: str, **selectors: Any) -> Listing:
        return Listing(next(self.pages(path, **selectors)).items, "1")

    def pages(
        self, path: str, *, label_selector: str | None = None, field_selector: str | None = None, metadata_only: bool = False, protobuf: bool = False
    ) -> Iterator[Page]:
        selector = parse_selector(label_selector) if label_selector else None
        found = [item for where, item in self.objects.items() if where.rpartition("/")[0] == path]
        fitting = [item for item in found if selector is None or selector.matches(item["metadata"].get("labels") or {})]
        yield Page(tuple(copy.deepcopy(fitting)), "1")

    def create(self, path: str, body: Object) -> Object:
        return self._store(f"{path}/{body['metadata']['name']}", merged({"metadata": {"namespace": path.split("/")[4]}}, body))

    def merge_patch(self, path: str, body: Object, *, resource_version: str | None = None) -> Object:
        current = self.objects.get(path)
        if current is None:
            raise ClusterError(f"{path} does not exist", code="cluster-rejected", remedy="", status=404)
        if resource_version not in (None, current["metadata"]["resourceVersion"]):
            raise ClusterError(f"{path} was changed", code="changed-meanwhile", remedy="Run again.", status=409)
        return self._store(path, merged(current, body))

    def patch_seen(
        self, path: str, body: Object, *, seen: Object, unchanged: Callable[[Object], bool], done: Callable[[Object], bool], metadata_only: bool = False
    ) -> Object:
        current = self.objects[path]
        if seen["resourceVersion"] != current["metadata"]["resourceVersion"] and not unchanged(current):
            if done(current):
                return current
            raise ClusterError(f"{path} was changed", code="changed-meanwhile", remedy="Run again.", status=409)
        return self._store(path, merged(current, body))

    def json_patch(self, path: str, operations: Iterable[Object], **_options: Any) -> Object:
        """Tests, additions and removals two levels below metadata or on it."""
        item = copy.deepcopy(self.objects[path])
        for operation in operations:
            *way, key = (step.replace("~1", "/") for step in operation["path"].strip("/").split("/"))
            place = item
            for step in way:
                place = place[step]
            if operation["op"] == "test" and place.get(key) != operation["value"]:
                raise ClusterError(f"{path}: the test failed", code="cluster-rejected", remedy="", status=422)
            if operation["op"] == "add":
                place[key] = operation["value"]
            if operation["op"] == "remove":
                del place[key]
        return self._store(path, item)

    def delete(self, path: str, **_preconditions: Any) -> bool:
        if not self.dry_run:
            self.writes += 1
            del self.objects[path]
        return True

    def merge(self, path: str, patch: Object) -> None:
        """A change by somebody else."""
        self._store(path, merged(self.objects[path], patch))

    def each(self, function: Callable[[Any], Any], items: Iterable[Any], **_pace: Any) -> builtins.list[Any]:
        return [function(item) for item in items]

    def _store(self, path: str, item: Object) -> Object:
        stored = copy.deepcopy(item)
        stored["metadata"]["resourceVersion"] = str(int(stored["metadata"].get("resourceVersion", "0")) + 1)
        if not self.dry_run:
            self.writes += 1
            self.objects[path] = stored
        return stored


def merged(target: Any, patch: Any) -> Any:
    """The result of a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
