# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others keep on the objects that the collection writes is byte for byte the same afterwards.

Keys, binary keys, labels, annotations, taints, fields of the ClusterPolicy and the fields that other managers own are made
up, put onto a real API server, and compared after everything was written and after everything was removed again.
"""

from __future__ import annotations

import base64
import copy
import json
import os
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reliability import quiet
from tests.reliability.operations import CONFIGS, GROUPS, LABEL, MAP, MAP_PATH, NAMESPACE, POLICY_PATH
from tests.testbed.bed import TestBed

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster  # isort: skip
from ansible_collections.gpuops.mps.plugins.module_utils._writers import write_config_map, write_labels, write_policy  # isort: skip

NODE_PATH = "/api/v1/nodes/gpu-1"
OURS = "gpuops.mps/"
PLACE: dict[str, Any] = {"namespace": NAMESPACE, "config_map": MAP, "policy": None, "accept": []}

_NAME = st.from_regex(r"[a-z0-9]([-a-z0-9_.]{0,20}[a-z0-9])?", fullmatch=True)
_VALUE = st.from_regex(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?)?", fullmatch=True)
# What the API server stores as it came: any text that UTF-8 can hold.
_TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=60)
_ANNOTATIONS = st.dictionaries(_NAME.map("example.com/{}".format), _TEXT, max_size=4)
_LABELS = st.dictionaries(_NAME.map("example.com/{}".format), _VALUE, max_size=4)
# Lists whose entries have a name each, as the API server wants them.
_ENVIRONMENT = st.dictionaries(st.from_regex(r"[A-Z][A-Z_]{0,10}", fullmatch=True), _TEXT, max_size=3).map(
    lambda values: [{"name": name, "value": value} for name, value in values.items()]
)
_TAINTS = st.sets(_NAME, max_size=2).map(lambda names: [{"key": f"example.com/{name}", "value": "x", "effect": "PreferNoSchedule"} for name in sorted(names)])
FOREIGN: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {
        "data": st.dictionaries(_NAME.map("their-{}".format), _TEXT, max_size=4),
        "binary": st.dictionaries(_NAME.map("binary-{}".format), st.binary(max_size=40).map(lambda raw: base64.b64encode(raw).decode()), max_size=2),
        "annotations": _ANNOTATIONS,
        "labels": _LABELS,
        "environment": _ENVIRONMENT,
        "taints": _TAINTS,
    }
)


@pytest.fixture(scope="module")
def bed(two_nodes: TestBed) -> TestBed:
    """The bed on which nothing moves by itself."""
    return two_nodes


def write_everything(bed: TestBed, state: str) -> None:
    """All that the modules write, or its removal in the order of the remove playbook."""
    cluster = Cluster.connect({"kubeconfig": str(bed.kubeconfig)})

    def run(function: Any, **options: Any) -> None:
        module = SimpleNamespace(params={**PLACE, "state": state, **options}, check_mode=False, _diff=False, warn=lambda _text: None)
        result = function(module, cluster)
        assert not result.get("failed"), result

    steps = [
        lambda: run(write_config_map, configs=CONFIGS),
        lambda: run(write_policy, default="none", wait=False),
        lambda: run(write_labels, node_groups=GROUPS, on_left_group="keep", writes_per_second=0),
    ]
    for step in steps if state == "present" else reversed(steps):
        step()


def put_foreign(bed: TestBed, foreign: dict[str, Any]) -> None:
    """Others write what is theirs."""
    quiet.reset(bed)
    metadata = {"annotations": foreign["annotations"], "labels": foreign["labels"]}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MAP, **metadata}, "data": foreign["data"], "binaryData": foreign["binary"]}
    bed.api.post(MAP_PATH.rpartition("/")[0], body)
    bed.api.patch(POLICY_PATH, {"metadata": metadata, "spec": {"devicePlugin": {"env": foreign["environment"]}, "gfd": {"env": foreign["environment"]}}})
    bed.api.patch(NODE_PATH, {"metadata": metadata, "spec": {"taints": foreign["taints"]}})


def take_foreign(bed: TestBed, foreign: dict[str, Any]) -> None:
    """Others take it away again."""
    gone = {"annotations": dict.fromkeys(foreign["annotations"]), "labels": dict.fromkeys(foreign["labels"])}
    bed.api.patch(POLICY_PATH, {"metadata": gone, "spec": {"devicePlugin": {"env": None}, "gfd": {"env": None}}})
    bed.api.patch(NODE_PATH, {"metadata": gone, "spec": {"taints": None}})


def theirs(bed: TestBed) -> bytes:
    """The three objects without what is ours and without the server's own counters."""
    return json.dumps([without_ours(bed.api.get(path)) for path in (MAP_PATH, POLICY_PATH, NODE_PATH)], sort_keys=True).encode()


def without_ours(found: dict[str, Any]) -> dict[str, Any]:
    one = copy.deepcopy(found)
    metadata = one["metadata"]
    for counter in ("resourceVersion", "generation"):
        metadata.pop(counter, None)
    metadata["managedFields"] = [entry for entry in metadata.get("managedFields", []) if entry["manager"] != "gpuops.mps" and "subresource" not in entry]
    for entry in metadata["managedFields"]:
        entry.pop("time", None)
    metadata["annotations"] = {key: value for key, value in (metadata.get("annotations") or {}).items() if not key.startswith(OURS)}
    metadata.get("labels", {}).pop(LABEL, None)
    if "spec" in one and "devicePlugin" in one["spec"]:
        one["spec"]["devicePlugin"].pop("config", None)
    if one.get("kind") == "ConfigMap":
        one["data"] = {key: text for key, text in (one.get("data") or {}).items() if key not in CONFIGS}
    one.pop("status", None)
    return one


def stays(bed: TestBed, foreign: dict[str, Any]) -> None:
    """Write and remove everything beside the foreign content."""
    put_foreign(bed, foreign)
    try:
        before = theirs(bed)
        write_everything(bed, "present")
        assert set(CONFIGS) <= set(bed.api.get(MAP_PATH)["data"])
        assert theirs(bed) == before
        write_everything(bed, "absent")
        if bed.api.find(MAP_PATH) is not None:
            assert theirs(bed) == before
        else:
            assert not foreign["data"] and not foreign["binary"], "a map with keys of others was deleted"
    finally:
        take_foreign(bed, foreign)


@settings(max_examples=8, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(FOREIGN)
def test_what_others_wrote_stays(bed: TestBed, foreign: dict[str, Any]) -> None:
    stays(bed, foreign)


@pytest.mark.reliability
@settings(max_examples=int(os.environ.get("FOREIGN_EXAMPLES", "300")), deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(FOREIGN)
def test_whatever_others_wrote_stays(bed: TestBed, foreign: dict[str, Any]) -> None:
    stays(bed, foreign)
