# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every finding about the text under one key: code, place, remedy."""

from __future__ import annotations

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
    ("key-spelling", "version", GOOD.replace("version", "VERSION")),
    ("wrong-type", "version", "version: [v1]\n"),
    ("wrong-type", "flags", "flags: none\n"),
    ("wrong-type", "flags.plugin", "flags: {plugin: 1}\n"),
    ("wrong-type", "flags.gdsEnabled", "flags: {gdsEnabled: 'true'}\n"),
    ("wrong-type", "flags.migStrategy", "flags: {migStrategy: 1}\n"),
    ("wrong-type", "flags.migStrategy", "flags: {migStrategy: []}\n"),
    ("wrong-type", "sharing", "sharing: true\n"),
    ("wrong-type", "sharing.mps", "sharing: {mps: []}\n"),
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


def test_the_line_is_named() -> None:
    (found,) = read_config("key", GOOD.replace("4", "1")).findings
    assert "(line 6)" in found.message


@pytest.mark.parametrize("text", ["", "null", "# nothing", "'{{ config }}'", "- a", "version: v1\nsharing: {mps: {}}\n", GOOD.replace("4", "'4'")])
def test_one_mistake_has_one_finding(text: str) -> None:
    assert len(read_config("key", text).findings) == 1
