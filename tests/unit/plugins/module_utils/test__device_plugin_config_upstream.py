# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The model of the device plugin's own parser."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._declaration import Strategy
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config_text import parse_text
from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config_upstream import Outcome, Refused, fold, outcome, resource_name

DATA = Path(__file__).resolve().parents[2] / "data"
VECTORS = [json.loads(line) for line in gzip.decompress((DATA / "parser-vectors.jsonl.gz").read_bytes()).splitlines()]


def of(text: str) -> Outcome:
    return outcome(parse_text(text))


def test_every_text_has_the_outcome_that_the_real_parser_had() -> None:
    for vector in VECTORS:
        found, real = of(vector["text"]), vector["real"]
        assert found.certain, vector["id"]
        assert (found.refusal is None) == real["accept"], vector["id"]
        if real["accept"]:
            resources = [{"name": name, "replicas": replicas} for name, replicas in found.resources] or None
            seen = (found.strategy.value, resources, found.rename_by_default, found.mig_strategy)
            assert seen == (real["strategy"], real["resources"], real["renameByDefault"], real.get("migStrategy")), vector["id"]


ENTRY = "{name: gpu, replicas: 4}"


def block(fields: str) -> str:
    return f"sharing: {{mps: {{{fields}}}}}"


def entry(fields: str) -> str:
    return block(f"resources: [{{name: gpu, replicas: 4, {fields}}}]")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "{}",
        "version: ''",
        "version: ~",
        "VERSION: v1",
        "sharing:",
        "sharing: {mps: null}",
        "flags: ~",
        "flags: {plugin: ~, gfd: ~, migStrategy: ~}",
        "flags: {plugin: {passDeviceSpecs: true, deviceListStrategy: [envvar, cdi-cri], deviceIDStrategy: uuid}}",
        "flags: {plugin: {deviceListStrategy: envvar, unknown: [1]}}",
        "flags: {gfd: {oneshot: false, sleepInterval: 60s, outputFile: x}}",
        "flags: {gfd: {sleepInterval: 1h2.5m}}",
        "flags: {gfd: {sleepInterval: 1000}}",
        "flags: {gfd: {sleepInterval: 1.5}}",
        "flags: {gfd: {sleepInterval: -.5s}}",
        "flags: {gfd: {sleepInterval: '0'}}",
        "flags: {mpsRoot: /x, failOnInitError: false}",
        "resources: {gpus: ~, mig: []}",
        "resources: {gpus: [{pattern: '*', name: gpu, x: 1}]}",
        "resources: {gpus: [{pattern: ~, name: gpu}]}",
        "imex: {channelIDs: []}",
        "imex: {channelIDs: [0], required: true}",
        "imex: {channelIDs: ~, required: ~}",
        entry("devices: all"),
        entry("devices: 2"),
        entry("devices: []"),
        entry("devices: [0, '1', '0:1', GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76]"),
        entry("devices: [MIG-8dcd427f-483b-b48f-d7e5-75fb19a52b76]"),
        entry("rename: mine"),
        entry("rename: nvidia.com/gpu.mine"),
        block(f"renameByDefault: ~, failRequestsGreaterThanOne: ~, resources: [{ENTRY}]"),
        "{1: x, true: x, 1.5: x}",
        "a: &a {b: 1}\nc: *a",
    ],
)
def test_accepted(text: str) -> None:
    assert of(text).refusal is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("text", "the file is a text where a mapping belongs"),
        ("[]", "the file is a list where a mapping belongs"),
        ("version: v2", "unknown version: v2"),
        ("version: true", "unknown version: true"),
        ("version: no", "unknown version: false"),
        ("version: 1.5", "unknown version: 1.5"),
        ("version: {}", "version is a mapping where a text belongs"),
        ("flags: 1", "flags is a number where a mapping belongs"),
        ("flags: {migStrategy: yes}", "flags.migStrategy is a boolean where a text belongs"),
        ("flags: {gdsEnabled: 1}", "flags.gdsEnabled is a number where a boolean belongs"),
        ("flags: {plugin: {deviceListStrategy: 1}}", "flags.plugin.deviceListStrategy is a number where a list belongs"),
        ("flags: {plugin: {deviceListStrategy: [1]}}", "flags.plugin.deviceListStrategy is a number where a text belongs"),
        ("flags: {plugin: x}", "flags.plugin is a text where a mapping belongs"),
        ("flags: {gfd: {sleepInterval: 60}, plugin: []}", "flags.plugin is a list where a mapping belongs"),
        ("flags: {gfd: {sleepInterval: infinite}}", "invalid duration: infinite"),
        ("flags: {gfd: {sleepInterval: '60'}}", "invalid duration: 60"),
        ("flags: {gfd: {sleepInterval: true}}", "flags.gfd.sleepInterval is a boolean where a text belongs"),
        ("resources: []", "resources is a list where a mapping belongs"),
        ("resources: {gpus: {}}", "resources.gpus is a mapping where a list belongs"),
        ("resources: {gpus: [~]}", "resources must have a 'pattern' field set"),
        ("resources: {mig: [{pattern: x}]}", "resources must have a 'name' field set"),
        ("resources: {gpus: [{pattern: 1, name: gpu}]}", "resources.gpus.pattern is a number where a text belongs"),
        ("resources: {gpus: [{pattern: x, name: ~}]}", "incorrect format for resource name 'nvidia.com/'"),
        ("imex: {channelIDs: [1]}", "imex.channelIDs must be [] or [0]"),
        ("imex: {channelIDs: [0, 0]}", "imex.channelIDs must be [] or [0]"),
        ("imex: {channelIDs: [false]}", "imex.channelIDs must be [] or [0]"),
        ("imex: {required: 1}", "imex.required is a number where a boolean belongs"),
        ("sharing: {timeSlicing: ~}", "no resources specified"),
        ("sharing: {mps: []}", "sharing.mps is a list where a mapping belongs"),
        (block("x: 1"), "no resources specified"),
        (block("resources: ~"), "no resources specified"),
        (block("Resources: [" + ENTRY + "]"), "no resources specified"),
        (block("resources: {}"), "sharing.mps.resources is a mapping where a list belongs"),
        (block(f"renameByDefault: 'true', resources: [{ENTRY}]"), "sharing.mps.renameByDefault is a text where a boolean belongs"),
        (block(f"failRequestsGreaterThanOne: 0, resources: [{ENTRY}]"), "sharing.mps.failRequestsGreaterThanOne is a number where a boolean belongs"),
        (block("resources: [~]"), "no resource name specified"),
        (block("resources: [x]"), "sharing.mps.resources is a text where a mapping belongs"),
        (block("resources: [{name: ~, replicas: 4}]"), "incorrect format for resource name 'nvidia.com/'"),
        (block("resources: [{name: 4, replicas: 4}]"), "sharing.mps.resources.name is a number where a text belongs"),
        (block("resources: [{name: gpu}]"), "no replicas specified"),
        (block("resources: [{name: gpu, replicas: ~}]"), "number of replicas must be >= 2"),
        (block("resources: [{name: gpu, replicas: 1}]"), "number of replicas must be >= 2"),
        (block("resources: [{name: gpu, replicas: yes}]"), "sharing.mps.resources.replicas is a boolean where a whole number belongs"),
        (block("resources: [{name: gpu, replicas: 4.5}]"), "sharing.mps.resources.replicas is a number where a whole number belongs"),
        (block("resources: [{name: gpu, replicas: 9223372036854775808}]"), "sharing.mps.resources.replicas is too large"),
        (block("resources: [{name: gpu, replicas: 1e21}]"), "sharing.mps.resources.replicas is a number where a whole number belongs"),
        (entry("devices: ~"), "devices must be a positive number"),
        (entry("devices: 0"), "devices must be a positive number"),
        (entry("devices: ALL"), "devices set as 'ALL' but the only valid string input is 'all'"),
        (entry("devices: {}"), "devices is a mapping where a whole number belongs"),
        (entry("devices: true"), "devices is a boolean where a whole number belongs"),
        (entry("devices: [-1]"), "unsupported device in devices list: -1"),
        (entry("devices: [foo]"), "unsupported device in devices list: foo"),
        (entry("devices: [true]"), "unsupported device in devices list: True"),
        (entry("rename: ~"), "incorrect format for resource name 'nvidia.com/'"),
        (entry("rename: 1"), "sharing.mps.resources.rename is a number where a text belongs"),
        ("a: .inf", "json: unsupported value: inf"),
        ("a: [{b: .nan}]", "json: unsupported value: nan"),
        ("{[a]: 1}", "invalid map key: a list or a mapping"),
        ("{~: 1}", "unsupported map key: null"),
        ("a: {<<: 1}", "map merge requires map or sequence of maps as the value"),
        ("a: {<<: [1]}", "map merge requires map or sequence of maps as the value"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    found = of(text)
    assert found.refusal == reason
    assert found.certain


def test_a_text_that_cannot_be_read_is_refused_or_uncertain() -> None:
    assert of("a: 1\n b: 1\n") == Outcome(refusal="mapping values are not allowed here")
    assert not of("{a:}").certain


def test_the_last_of_equal_keys_wins() -> None:
    assert of("version: v2\nversion: v1").refusal is None
    assert of("a: .inf\na: 1").refusal is None


def test_keys_that_differ_by_case_are_decoded_in_sorted_order_into_one_struct() -> None:
    assert of("flags: {migStrategy: none}\nFLAGS: {migStrategy: single}").mig_strategy == "none"
    assert of("flags: {}\nFLAGS: {migStrategy: single}").mig_strategy == "single"
    assert of(f"sharing: {{mps: ~, MPS: {{resources: [{ENTRY}]}}}}").strategy is Strategy.NONE
    assert of(f"sharing: {{mps: {{resources: [{ENTRY}]}}}}\nSharing: {{timeSlicing: {{resources: [{{name: gpu, replicas: 9}}]}}}}").resources == (
        ("nvidia.com/gpu", 4),
    )


def test_merged_keys_count_in_their_order() -> None:
    assert of("flags: {<<: {migStrategy: none}, migStrategy: single}").mig_strategy == "single"
    assert of("flags: {migStrategy: single, <<: {migStrategy: none}}").mig_strategy == "none"
    assert of("flags: {<<: [{migStrategy: none}, {migStrategy: single}]}").mig_strategy == "none"
    assert of("flags: {'<<': {migStrategy: none}}").mig_strategy is None


def test_mps_counts_whenever_it_is_there() -> None:
    both = f"sharing: {{mps: {{renameByDefault: true, resources: [{ENTRY}]}}, timeSlicing: {{resources: [{{name: gpu, replicas: 9}}]}}}}"
    assert of(both) == Outcome(strategy=Strategy.MPS, resources=(("nvidia.com/gpu", 4),), rename_by_default=True)
    sliced = "sharing: {timeSlicing: {failRequestsGreaterThanOne: true, resources: [{name: gpu, replicas: 9}]}}"
    assert of(sliced) == Outcome(strategy=Strategy.TIME_SLICING, resources=(("nvidia.com/gpu", 9),), fail_requests_greater_than_one=True)


def test_case_is_folded_as_encoding_json_folds_it() -> None:
    assert fold("re\u017fources") == fold("RESOURCES")
    assert fold("\u212aey") == fold("key")
    assert fold("mps") != fold("mps ")


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("gpu", "nvidia.com/gpu"),
        ("nvidia.com/gpu", "nvidia.com/gpu"),
        ("nvidia.com.gpu", "nvidia.com/nvidia.com.gpu"),
        ("nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.5gb"),
        ("g" * 52, "nvidia.com/" + "g" * 52),
    ],
)
def test_resource_names(text: str, full: str) -> None:
    assert resource_name(text) == full


@pytest.mark.parametrize("text", ["", "GPU", "gpu ", "gpu\n", "-gpu", "gpu-", "a..b", "amd.com/gpu", "nvidia.com//gpu", "nvidia.com/", "g" * 53, "\u00e9"])
def test_resource_names_that_are_refused(text: str) -> None:
    with pytest.raises(Refused):
        resource_name(text)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (Outcome(), "The device plugin would accept the text and share nothing: strategy none, one client per GPU."),
        (
            Outcome(strategy=Strategy.MPS, resources=(("nvidia.com/gpu", 4),)),
            "The device plugin would accept the text with strategy mps: nvidia.com/gpu with 4 replicas.",
        ),
        (
            Outcome(strategy=Strategy.TIME_SLICING, resources=(("a", 4), ("b", 5)), rename_by_default=True),
            "The device plugin would accept the text with strategy time-slicing: a with 4 replicas, b with 5 replicas, advertised under its .shared name.",
        ),
        (
            Outcome(refusal="x"),
            "The device plugin would refuse the text (x) and crash-loop, and so would GPU Feature Discovery and the MPS daemon.",
        ),
        (Outcome(refusal="x", certain=False), "Whether the device plugin would start with the text cannot be told."),
    ],
)
def test_the_outcome_in_a_sentence(found: Outcome, sentence: str) -> None:
    assert found.describe() == sentence
