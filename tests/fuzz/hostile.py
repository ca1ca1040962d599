# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Strategies that make what an attacker, a broken tool or a tired person would write."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Strategy = st.SearchStrategy[Any]

FRAGMENTS = (
    *("<script>alert(1)</script>", "</title></style>", '" onmouseover="x', "javascript:alert(1)", "<!--", "]]>", "<![CDATA[", "&lt;", "&#x1b;"),
    *("| --- |", "\n# heading", "\n- item", "```", "~~~~", "[a](http://b)", "![i](x)", "\\", "1. "),
    *("\x1b[31m", "\x1b]0;title\x07", "\r", "\x08", "\x00", "\x7f", "\x9b", "\u202e", "\u200b", "\ufeff", "\ud800", "\udfff", "\ufffe", "\u2028", "\u0430dmin"),
    *(
        "{{ lookup('pipe', 'id') }}",
        "{% for x in y %}",
        "{0}",
        "{what}",
        "%(a)s",
        "%s",
        "${HOME}",
        "$(id)",
        "`id`",
        "; rm -rf /",
        "' OR '1",
        "../../etc/passwd",
    ),
    *("nvidia.com/gpu", "mps-four", "none", "default", "a" * 63, "a" * 64, "x" * 253, "-a", "a-", "..", "A_b.c", "-" * 2_000, ": a" * 500),
)
TEXT: Strategy = st.text(alphabet=st.characters(codec=None), max_size=40) | st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=5), max_size=6).map("".join)
# Python refuses to write numbers of more than 4300 digits in decimals, but reads them in hexadecimals, as YAML may have them.
HUGE: Strategy = st.sampled_from([20_000, 60_000]).map(lambda bits: -(1 << bits) if bits > 30_000 else 1 << bits)
NUMBER: Strategy = st.integers() | st.sampled_from([0, 1, 2, 48, 49, -1, 2**63, 2**64, 10**18]) | st.floats() | HUGE
SCALAR: Strategy = st.none() | st.booleans() | NUMBER | TEXT
ANYTHING: Strategy = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT | st.integers() | st.booleans() | st.none(), inner, max_size=4), max_leaves=12
)


def fields(*names: str, of: Strategy = ANYTHING) -> Strategy:
    """Mappings with some of the names and anything below them, and now and then a name that nobody knows."""
    return st.dictionaries(st.sampled_from(names) | TEXT, of, max_size=len(names))


def nested(leaf: Any, depth: int) -> Any:
    """A value at the bottom of so many lists and mappings."""
    for level in range(depth):
        leaf = [leaf] if level % 2 else {"a": leaf}
    return leaf


DEEP: Strategy = st.builds(nested, SCALAR, st.sampled_from([5, 30, 300, 5_000]))
GROUP: Strategy = fields("name", "config", "nodes", "selector", "match", of=ANYTHING | st.lists(TEXT, max_size=4) | fields("product", "labels", "count"))
CONFIG: Strategy = fields("replicas", "rename_by_default", "mig_strategy", "fail_requests_greater_than_one")
CONFIGS: Strategy = ANYTHING | DEEP | st.dictionaries(TEXT | SCALAR, CONFIG, max_size=4)
GROUPS: Strategy = ANYTHING | DEEP | st.lists(GROUP, max_size=4)

# Texts of a config file: right ones, broken in one place or several, and those that want to be large.
_BASES = (
    "version: v1\n",
    "version: v1\nsharing:\n  mps:\n    renameByDefault: true\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n",
    "version: v1\nflags:\n  migStrategy: none\nsharing:\n  timeSlicing:\n    resources: [{name: nvidia.com/gpu, replicas: 10, devices: all}]\n",
    '{"version": "v1", "sharing": {"mps": {"resources": [{"name": "gpu", "replicas": 2}]}}}',
)
_PIECES = (
    *(
        "&a ",
        "*a",
        "<<: *a",
        "!!python/object/apply:os.system ['id']",
        "!!binary ",
        "%YAML 1.1\n---\n",
        "---\n",
        "...\n",
        "? ",
        "- ",
        ": ",
        "\t",
        "  ",
        "#",
        "|\n",
        ">-\n",
    ),
    *(
        "'",
        '"',
        "[",
        "]",
        "{",
        "}",
        ",",
        "replicas: 1e3",
        "replicas: 0x4",
        "Replicas: 4",
        "replicas: 010",
        "replicas: 4\n      replicas: 5",
        "mps: null",
        "0b1",
        "1_0",
        ".nan",
    ),
    *FRAGMENTS,
)


@st.composite
def _broken(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(_BASES))
    for _change in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(text)))
        cut = draw(st.integers(0, 6))
        text = text[:place] + draw(st.sampled_from(_PIECES) | st.text(max_size=3)) + text[place + cut :]
    return text


def _bomb(levels: int, width: int) -> str:
    lines = ["a0: &a0 [x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]" for level in range(1, levels)]
    return "\n".join(lines)


def _brackets(bracket: str, depth: int) -> str:
    return bracket * depth


CONFIG_TEXT: Strategy = st.one_of(
    _broken(),
    _broken(),
    _broken(),
    TEXT,
    st.builds(_bomb, st.integers(2, 12), st.integers(1, 12)),
    st.builds(_brackets, st.sampled_from(["[", "{", "- ", "a: {", "? ", "&a [", "!x ["]), st.sampled_from([3, 30, 1_000, 20_000])),
)
CONFIG_MAP: Strategy = st.dictionaries(TEXT | st.sampled_from(["mps-four", "none"]), CONFIG_TEXT, max_size=3)
CONTAINER: Strategy = fields(
    "name", "image", "resources", "env", "volumeMounts", "command", of=ANYTHING | fields("limits", "requests", "nvidia.com/gpu", "mountPath")
)
POD_SPEC: Strategy = fields("containers", "initContainers", "nodeSelector", "affinity", "volumes", "tolerations", of=ANYTHING | st.lists(CONTAINER, max_size=2))
MANIFEST: Strategy = ANYTHING | fields(
    "kind", "metadata", "spec", "items", of=ANYTHING | POD_SPEC | fields("template", "jobTemplate", of=fields("spec", of=POD_SPEC))
)
NODE: Strategy = ANYTHING | fields(
    "name",
    "labels",
    "allocatable",
    "kernel",
    of=ANYTHING | st.dictionaries(st.sampled_from(["nvidia.com/gpu.product", "nvidia.com/gpu.count", "nvidia.com/gpu.memory"]), TEXT),
)

_ROW = fields(
    *("node", "name", "verdict", "reason", "remedy", "code", "link", "config", "group", "source", "resource", "replicas", "allocatable", "labels", "passed"),
    *("severity", "message", "subject", "before", "after", "before_header", "evidence", "allocatable_before", "thread_percentage", "memory_mib"),
    of=TEXT | SCALAR | st.lists(fields("subject", "field", "value", "expected", of=TEXT), max_size=2),
)
RESULT: Strategy = ANYTHING | fields(
    "nodes", "drift", "findings", "plan_diff", "passed", "server", "namespace", "read_at", of=TEXT | st.lists(_ROW, max_size=3)
)
