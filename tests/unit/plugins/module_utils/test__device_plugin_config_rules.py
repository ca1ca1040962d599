# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every finding about the text under one key: code, place, remedy."""

from __future__ import annotations

import re

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._device_plugin_config import read_config

GOOD = "version: v1\nsharing:\n  mps:\n    resources:\n      - name: nvidia.com/gpu\n        replicas: 4\n"

# Every finding about a text: the code, where it is (below the key) and a text that has it.
FINDINGS = [
    ("config-empty", "", ""),
    ("config-empty", "", "# nothing here\n"),
    ("config-empty", "", "null\n"),
    ("config-empty", "", "---\n...\n"),
    ("config-too-large", "", "#" * 131_073),
    ("config-too-large", "", "[" * 30),
    ("config-not-a-mapping", "", "- version: v1\n"),
    ("config-not-a-mapping", "", "version:v1\n"),
    ("yaml-syntax", "", "version: v1\n  sharing: x\n"),
    ("yaml-syntax", "", "copy: *s\n"),
    ("yaml-syntax", "", "%YAML 1.2\n---\nversion: v1\n"),
    ("yaml-syntax", "", "version: v1\u2028\n"),
    ("yaml-syntax", "", "version: v1\x00\n"),
    ("yaml-syntax", "", "{sharing:{}}"),
    ("yaml-tab", "", "version: v1\nsharing:\n\tmps: x\n"),
    ("yaml-tab", "", '{\n\t"version": "v1"\n}'),
    ("yaml-notation", "", "version: &v v1\n"),
    ("yaml-notation", "", "version: !!str v1\n"),
    ("yaml-notation", "", "%YAML 1.1\n---\nversion: v1\n"),
    ("yaml-notation", "flags", "version: v1\nflags: {<<: {migStrategy: none}}\n"),
    ("several-documents", "", "version: v1\n---\nversion: v1\n"),
    ("several-documents", "", "{version: v1}\n}"),
    ("unrendered-template", "", "{% if gpu %}\nversion: v1\n"),
    ("unrendered-template", "", "{{ config }}"),
    ("unrendered-template", "", "'{{ config }}'"),
    ("unrendered-template", "version", "version: '{{ version }}'\n"),
    ("unrendered-template", "flags.migStrategy", "version: v1\nflags: {migStrategy: '${MIG}'}\n"),
    ("unrendered-template", "sharing.mps.resources[0].replicas", GOOD.replace("4", "{{ replicas }}")),
    ("unrendered-template", "sharing.mps.resources[0].replicas", GOOD.replace("4", "'%(replicas)s'")),
    ("unrendered-template", "sharing.mps.resources[0].name", GOOD.replace("nvidia.com/gpu", "'<% name %>'")),
    ("unrendered-template", "sharing", "version: v1\nsharing: {'{{ a }}': 1}\n"),
    ("pasted-manifest", "", "apiVersion: v1\nkind: ConfigMap\ndata: {}\n"),
    ("pasted-manifest", "", "kind: ConfigMap\ndata: {}\n"),
    ("pasted-manifest", "", "kind: ConfigMap\nmetadata: {}\n"),
    ("pasted-manifest", "", "apiVersion: v1\n"),
    ("unknown-key", "data", "version: v1\ndata: {}\n"),
    ("duplicate-key", "version", "version: v1\nversion: v1\n"),
    ("duplicate-key", "sharing.mps", GOOD + "  MPS: {}\n"),
    ("unknown-key", "sharing.mpss", GOOD.replace("mps", "mpss")),
    ("unknown-key", "sharing.mps.resources[0].Replicas", GOOD.replace("replicas", "Replicas")),
    ("unknown-key", "flags.plugin.device", "version: v1\nflags: {plugin: {device: x}}\n"),
    ("misplaced-key", "renameByDefault", "version: v1\nrenameByDefault: true\n"),
    ("misplaced-key", "flags.renameByDefault", "version: v1\nflags: {renameByDefault: true}\n"),
    ("misplaced-key", "flags.deviceListStrategy", "version: v1\nflags: {deviceListStrategy: envvar}\n"),
    ("misplaced-key", "sharing.mps.replicas", GOOD.replace("    resources", "    replicas: 4\n    resources")),
    ("misplaced-key", "flags.sharing", "version: v1\nflags: {sharing: {}}\n"),
    ("key-spelling", "sharing.mps", GOOD.replace("mps", "MPS")),
    ("key-spelling", "flags.migStrategy", "version: v1\nflags: {MigStrategy: none}\n"),
    ("key-spelling", "flags.plugin.passDeviceSpecs", "version: v1\nflags: {plugin: {PASSDEVICESPECS: true}}\n"),
    ("key-spelling", "version", GOOD.replace("version", "VERSION")),
    ("unknown-key", "sharing.mp\u017f", GOOD.replace("mps", "mp\u017f")),  # read as mps by Go, and as nobody means it
    ("unknown-key", "flags.<<", 'version: v1\nflags: {"<<": {migStrategy: none}}\n'),
    ("wrong-type", "version", "version: [v1]\n"),
    ("wrong-type", "flags", "flags: none\n"),
    ("wrong-type", "flags.plugin", "flags: {plugin: 1}\n"),
    ("wrong-type", "flags.gdsEnabled", "flags: {gdsEnabled: 'true'}\n"),
    ("wrong-type", "flags.migStrategy", "flags: {migStrategy: 1}\n"),
    ("wrong-type", "flags.migStrategy", "flags: {migStrategy: []}\n"),
    ("wrong-type", "sharing", "sharing: true\n"),
    ("wrong-type", "sharing.mps", "sharing: {mps: []}\n"),
    ("wrong-type", "sharing.mps", "sharing: {mps: true}\n"),
    ("wrong-type", "sharing.mps.resources", "sharing: {mps: {resources: 4}}\n"),
    ("wrong-type", "sharing.mps.resources[0].name", "version: v1\nsharing: {mps: {resources: [{name: [nvidia.com/gpu], replicas: 4}]}}\n"),
    ("wrong-type", "sharing.mps.renameByDefault", GOOD.replace("    resources", "    renameByDefault: 'true'\n    resources")),
    ("wrong-type", "sharing.mps.resources", "sharing: {mps: {resources: {name: nvidia.com/gpu, replicas: 4}}}\n"),
    ("wrong-type", "sharing.mps.resources[0]", "sharing: {mps: {resources: [nvidia.com/gpu]}}\n"),
    ("wrong-type", "sharing.mps.resources[0].name", GOOD.replace("nvidia.com/gpu", "4")),
    ("wrong-type", "sharing.mps.resources[0].replicas", GOOD.replace("4", "'4'")),
    ("wrong-type", "sharing.mps.resources[0].replicas", GOOD.replace("4", "true")),
    ("wrong-type", "sharing.mps.resources[0].replicas", GOOD.replace("4", "4.5")),
    ("wrong-type", "sharing.mps.resources[0].replicas", GOOD.replace("4", "1e1")),
    ("wrong-type", "sharing.mps.resources[0].replicas", GOOD.replace("4", "4__0")),
    ("value-spelling", "sharing.mps.resources[0].replicas", GOOD.replace("4", "0x10")),
    ("value-spelling", "sharing.mps.resources[0].replicas", GOOD.replace("4", "+4")),
    ("value-spelling", "sharing.mps.resources[0].replicas", GOOD.replace("4", "1_0")),
    ("value-spelling", "sharing.mps.resources[0].replicas", GOOD.replace("4", "0b100")),
    ("value-spelling", "sharing.mps.resources[0].name", GOOD.replace("nvidia.com/gpu", "gpu")),
    ("value-spelling", "sharing.mps.renameByDefault", GOOD.replace("    resources", "    renameByDefault: yes\n    resources")),
    ("value-spelling", "sharing.mps.failRequestsGreaterThanOne", GOOD.replace("    resources", "    failRequestsGreaterThanOne: ~\n    resources")),
    ("value-spelling", "flags.migStrategy", "version: v1\nflags: {migStrategy: null}\n"),
    ("version-missing", "version", GOOD.replace("version: v1\n", "")),
    ("version-missing", "version", GOOD.replace("v1", "")),
    ("version-missing", "version", GOOD.replace("v1", "''")),
    ("version-unknown", "version", "version: v2\n"),
    ("version-unknown", "version", "version: 1\n"),
    ("version-unknown", "version", "version: \u201cv1\u201d\n"),
    ("mig-strategy-unknown", "flags.migStrategy", "flags: {migStrategy: None}\n"),
    ("mig-strategy-unknown", "flags.migStrategy", "flags: {migStrategy: ''}\n"),
    ("mig-mixed-with-mps", "flags.migStrategy", GOOD + "flags: {migStrategy: mixed}\n"),
    ("flag-overridden", "flags.plugin.deviceListStrategy", "version: v1\nflags: {plugin: {deviceListStrategy: envvar}}\n"),
    ("flag-overridden", "flags.mpsRoot", "version: v1\nflags: {mpsRoot: /run/nvidia/mps}\n"),
    ("option-outside-declaration", "flags.gdsEnabled", "version: v1\nflags: {gdsEnabled: true}\n"),
    ("option-outside-declaration", "imex", "version: v1\nimex: {channelIDs: [0]}\n"),
    ("resources-section-dropped", "resources", "version: v1\nresources: {gpus: []}\n"),
    ("both-strategies", "sharing", GOOD + "  timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}\n"),
    ("sharing-is-none", "sharing", "version: v1\nsharing:\n"),
    ("sharing-is-none", "sharing", "version: v1\nsharing: {}\n"),
    ("sharing-is-none", "sharing.mps", "version: v1\nsharing:\n  mps:\n"),
    ("no-resources", "sharing.timeSlicing", "version: v1\nsharing:\n  timeSlicing:\n"),
    ("no-resources", "sharing.mps.resources", "version: v1\nsharing: {mps: {}}\n"),
    ("no-resources", "sharing.mps.resources", "version: v1\nsharing: {mps: {resources: null}}\n"),
    ("no-resources", "sharing.mps.resources", "version: v1\nsharing: {mps: {resources: []}}\n"),
    ("several-resources", "sharing.mps.resources", GOOD + "      - {name: nvidia.com/gpu, replicas: 4}\n"),
    ("field-dropped", "sharing.mps.resources[0].devices", GOOD + "        devices: all\n"),
    ("field-dropped", "sharing.mps.resources[0].rename", GOOD + "        rename: nvidia.com/mine\n"),
    ("resource-name", "sharing.mps.resources[0].name", "version: v1\nsharing: {mps: {resources: [{replicas: 4}]}}\n"),
    ("resource-name", "sharing.mps.resources[0].name", GOOD.replace("gpu", "gpus")),
    ("resource-name", "sharing.mps.resources[0].name", GOOD.replace("gpu", "GPU")),
    ("resource-name", "sharing.mps.resources[0].name", GOOD.replace("nvidia.com/gpu", "nvidia.com.gpu")),
    ("resource-name", "sharing.mps.resources[0].name", GOOD.replace("gpu", "g" * 60)),
    ("resource-name-mig", "sharing.mps.resources[0].name", GOOD.replace("gpu", "mig-1g.10gb")),
    ("replicas-missing", "sharing.mps.resources[0].replicas", "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu}]}}\n"),
    ("replicas-below-two", "sharing.mps.resources[0].replicas", GOOD.replace("4", "1")),
    ("replicas-below-two", "sharing.mps.resources[0].replicas", GOOD.replace("4", "-4")),
    ("replicas-octal", "sharing.mps.resources[0].replicas", GOOD.replace("4", "010")),
    ("replicas-octal", "sharing.mps.resources[0].replicas", GOOD.replace("4", "0o10")),
    ("replicas-octal", "sharing.mps.resources[0].replicas", GOOD.replace("4", "08")),
    ("replicas-above-every-cap", "sharing.mps.resources[0].replicas", GOOD.replace("4", "49")),
    ("refused-upstream", "", "version: v1\nimex: {channelIDs: [3]}\n"),
    ("refused-upstream", "", "version: v1\nresources: []\n"),
    ("fail-requests-ignored", "sharing.mps.failRequestsGreaterThanOne", GOOD.replace("    resources", "    failRequestsGreaterThanOne: no\n    resources")),
]


@pytest.mark.parametrize(("code", "path", "text"), FINDINGS)
def test_what_is_wrong_is_named_with_its_place(code: str, path: str, text: str) -> None:
    where = f"key.{path}" if path else "key"
    found = [(one.code, one.path) for one in read_config("key", text).findings]
    assert (code, where) in found


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        (GOOD.replace("mps", "mpss"), "sharing.mpss", "Did you mean 'mps'?"),
        (GOOD.replace("mps", "multiProcessService"), "sharing.multiProcessService", "Did you mean 'mps'?"),
        (GOOD.replace("mps", "time-slicing"), "sharing.time-slicing", "Did you mean 'timeSlicing'?"),
        (GOOD.replace("replicas", "replica"), "sharing.mps.resources[0].replica", "Did you mean 'replicas'?"),
        ("version: v1\nflags: {renameByDefault: true}\n", "flags.renameByDefault", "Move 'renameByDefault' to sharing.mps."),
        ("version: v1\nflags: {passDeviceSpecs: true}\n", "flags.passDeviceSpecs", "Move 'passDeviceSpecs' to flags.plugin."),
        ("version: v1\nmigStrategy: none\n", "migStrategy", "Move 'migStrategy' to flags."),
        ("flags: {version: v1}\n", "flags.version", "Move 'version' to the top level."),
        ("sharing: {flags: {}}\n", "sharing.flags", "Move 'flags' to the top level."),
        ("flags: {sharing: {}}\n", "flags.sharing", "Move 'sharing' to the top level."),
        ("flags: {oneshot: true}\n", "flags.oneshot", "Move 'oneshot' to flags.gfd."),
        ("mps: {}\n", "mps", "Move 'mps' to sharing."),
        ("timeSlicing: {}\n", "timeSlicing", "Move 'timeSlicing' to sharing."),
        ("sharing: {mps: {name: gpu}}\n", "sharing.mps.name", "Move 'name' to sharing.mps.resources[]."),
        ("sharing: {mps: {resources: [{renameByDefault: true}]}}\n", "sharing.mps.resources[0].renameByDefault", "Move 'renameByDefault' to sharing.mps."),
        ("sharing: {multi-process: {}}\n", "sharing.multi-process", "Did you mean 'mps'?"),
        ("sharing: {timeSlice: {}}\n", "sharing.timeSlice", "Did you mean 'timeSlicing'?"),
        ("sharing: {timesliced: {}}\n", "sharing.timesliced", "Did you mean 'timeSlicing'?"),
        ("multiProcess: {}\n", "multiProcess", "Remove it. Known here: version, flags, resources, sharing, imex."),
        ("sharing: {MPS: {}}\n", "sharing.mps", "Write 'mps'."),
        (GOOD.replace("4", "1e1"), "sharing.mps.resources[0].replicas", "Write 10."),
        (GOOD.replace("nvidia.com/gpu", "gpu"), "sharing.mps.resources[0].name", "Write nvidia.com/gpu."),
        ("sharing: {mps: {resources: {name: gpu}}}\n", "sharing.mps.resources", "Begin each resource with '- '."),
        ("sharing: {mps: {renameByDefault: on}}\n", "sharing.mps.renameByDefault", "Write true or false."),
        ("sharing: {mps: {renameByDefault: 1}}\n", "sharing.mps.renameByDefault", "Write true or false, without quotes."),
        ("flags: {migStrategy: ~}\n", "flags.migStrategy", "Remove the key, or write none, single or mixed."),
        (
            GOOD + "        memoryGB: 2\n",
            "sharing.mps.resources[0].memoryGB",
            "It belongs to a fork of the device plugin. Memory per client follows from the replicas: the GPU's memory divided by them.",
        ),
        ("version: v1\nx: 1\n", "x", "Remove it. Known here: version, flags, resources, sharing, imex."),
        (GOOD.replace("4", "0x4"), "sharing.mps.resources[0].replicas", "Write 4."),
        (GOOD.replace("4", "'4'"), "sharing.mps.resources[0].replicas", "Write a number from 2 on, without quotes."),
    ],
)
def test_the_remedy_is_about_the_case_at_hand(text: str, path: str, words: str) -> None:
    remedies = [found.remedy for found in read_config("key", text).findings if found.path == f"key.{path}"]
    assert remedies[0] == words


@pytest.mark.parametrize(
    ("flag", "code"),
    [
        ("failOnInitError: true", "flag-overridden"),
        ("mpsRoot: /x", "flag-overridden"),
        ("plugin: {passDeviceSpecs: true}", "flag-overridden"),
        ("plugin: {deviceListStrategy: [envvar]}", "flag-overridden"),
        ("plugin: {deviceIDStrategy: uuid}", "flag-overridden"),
        ("gfd: {sleepInterval: 60s}", "flag-overridden"),
        ("plugin: {cdiAnnotationPrefix: x}", "option-outside-declaration"),
        ("gfd: {noTimestamp: true}", "option-outside-declaration"),
        ("nvidiaDriverRoot: /", "option-outside-declaration"),
    ],
)
def test_flags_say_who_decides(flag: str, code: str) -> None:
    reading = read_config("key", f"version: v1\nflags: {{{flag}}}\n")
    assert [(found.code, found.severity) for found in reading.findings] == [(code, "info")]
    assert reading.config is not None


@pytest.mark.parametrize("text", ["flags:\n", "flags: {}\n", "flags: {migStrategy: none}\n", "flags: {migStrategy: single}\n", "flags: {migStrategy: mixed}\n"])
def test_flags_that_nothing_is_to_be_said_about(text: str) -> None:
    assert read_config("key", "version: v1\n" + text).findings == ()


@pytest.mark.parametrize(
    ("spelling", "codes"),
    [
        ("4", []),
        ("48", []),
        ("+48", ["value-spelling"]),
        ("1_6", ["value-spelling"]),
        ("0x1f", ["value-spelling"]),
        ("0b11", ["value-spelling"]),
        ("4.00", ["value-spelling"]),
        ("+4.0", ["wrong-type"]),
        ("4.", ["wrong-type"]),
        ("4_", ["wrong-type"]),
        ("0X4", ["wrong-type"]),
        ("+010", ["replicas-octal"]),
        ("0_7", ["replicas-octal"]),
        ("0O7", ["replicas-octal"]),
        ("09", ["replicas-octal"]),
        ("0", ["replicas-below-two"]),
        ("0x1", ["replicas-below-two"]),
        ("0x31", ["replicas-above-every-cap"]),
        ("~", ["wrong-type"]),
        ("[4]", ["wrong-type"]),
    ],
)
def test_spellings_of_a_number(spelling: str, codes: list[str]) -> None:
    assert [found.code for found in read_config("key", GOOD.replace("4", spelling)).findings] == codes


def test_time_slicing_knows_no_cap() -> None:
    assert read_config("key", GOOD.replace("mps", "timeSlicing").replace("4", "49")).findings == ()


EVERYTHING = """\
version: v2
x: 1
flags:
  renameByDefault: true
  migStrategy: All
  mpsRoot: 4
resources: {}
imex: {}
sharing:
  MPS:
    failRequestsGreaterThanOne: no
    resources:
      - name: gpus
        devices: all
        replicas: 1
        replicas: "4"
      - gpu
  timeSlicing:
---
y: 1
"""


def test_everything_is_found_in_one_pass_with_its_line() -> None:
    found = [(one.code, one.path.removeprefix("key."), int(re.findall(r"\(line (\d+)\)", one.message)[0])) for one in read_config("key", EVERYTHING).findings]
    assert sorted(found, key=lambda one: one[2]) == [
        ("version-unknown", "version", 1),
        ("unknown-key", "x", 2),
        ("misplaced-key", "flags.renameByDefault", 4),
        ("mig-strategy-unknown", "flags.migStrategy", 5),
        ("wrong-type", "flags.mpsRoot", 6),
        ("resources-section-dropped", "resources", 7),
        ("option-outside-declaration", "imex", 8),
        ("key-spelling", "sharing.mps", 10),
        ("both-strategies", "sharing", 10),
        ("value-spelling", "sharing.mps.failRequestsGreaterThanOne", 11),
        ("fail-requests-ignored", "sharing.mps.failRequestsGreaterThanOne", 11),
        ("several-resources", "sharing.mps.resources", 13),
        ("resource-name", "sharing.mps.resources[0].name", 13),
        ("field-dropped", "sharing.mps.resources[0].devices", 14),
        ("duplicate-key", "sharing.mps.resources[0].replicas", 16),
        ("wrong-type", "sharing.mps.resources[0].replicas", 16),
        ("wrong-type", "sharing.mps.resources[1]", 17),
        ("no-resources", "sharing.timeSlicing", 18),
        ("several-documents", "key", 19),
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (GOOD.replace("4", "1"), 6),
        ("version: v1\nsharing:\n  mps:\n    resources:\n", 4),
        ("version: v1\nsharing:\n  mps:\n    renameByDefault: false\n", 4),
    ],
)
def test_the_line_is_named(text: str, line: int) -> None:
    (found,) = read_config("key", text).findings
    assert f"(line {line})" in found.message


def test_a_mapping_where_a_list_belongs_is_told_how_a_list_begins() -> None:
    (mapping,) = read_config("key", "version: v1\nsharing: {mps: {resources: {name: nvidia.com/gpu}}}\n").findings
    (number,) = read_config("key", "version: v1\nsharing: {mps: {resources: 4}}\n").findings
    assert "'- '" in mapping.remedy
    assert "'- '" not in number.remedy


def test_a_name_that_is_read_otherwise_is_quoted_as_it_is_read() -> None:
    (short,) = read_config("key", GOOD.replace("nvidia.com/gpu", "gpus")).findings
    (full,) = read_config("key", GOOD.replace("nvidia.com/gpu", "nvidia.com/gpus")).findings
    assert "(read as nvidia.com/gpus)" in short.message
    assert "read as" not in full.message


@pytest.mark.parametrize("text", ["", "null", "# nothing", "'{{ config }}'", "- a", "version: v1\nsharing: {mps: {}}\n", GOOD.replace("4", "'4'")])
def test_one_mistake_has_one_finding(text: str) -> None:
    assert len(read_config("key", text).findings) == 1


@pytest.mark.parametrize(
    ("text", "typographic"),
    [
        ("version: \u201cv1\u201d\n", True),
        ("version: \u2018v1\u2019\n", True),
        ("version: vX\n", False),
        (GOOD.replace("nvidia.com/gpu", "\u201cgpu\u201d"), True),
        (GOOD.replace("nvidia.com/gpu", "GPUX"), False),
    ],
)
def test_typographic_quotes_are_named(text: str, typographic: bool) -> None:
    (found,) = read_config("key", text).findings
    assert ("typographic" in found.message) == typographic


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("'4'", "a text in quotes ('4')"),
        ("four", "a text ('four')"),
        ("true", "a boolean ('true')"),
        ("~", "null ('~')"),
        ("", "null"),
        ("[4]", "a list"),
        ("{a: 4}", "a mapping"),
    ],
)
def test_a_wrong_type_says_what_it_is(value: str, kind: str) -> None:
    (found,) = read_config("key", GOOD.replace("4", value)).findings
    assert found.message.startswith(f"this is {kind} where a whole number belongs (line 6)")
