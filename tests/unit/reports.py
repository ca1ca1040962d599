# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results as a playbook would hand them to a report: two nodes, one broken, with everything a report can show."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

GOOD: dict[str, Any] = {
    "names": ["gpu-1"],
    "verdict": "verified",
    "link": None,
    "code": None,
    "reason": "",
    "remedy": "",
    "evidence": [],
    "config": "mps-four",
    "source": "label",
    "group": "t4",
    "strategy": "mps",
    "replicas": 4,
    "resource": "nvidia.com/gpu",
    "allocatable": 8,
    "thread_percentage": 25,
    "memory_mib": 3840,
    "labels": {"nvidia.com/gpu.product": "Tesla-T4-SHARED"},
}
BROKEN: dict[str, Any] = {
    **GOOD,
    "names": ["gpu-2"],
    "verdict": "broken",
    "link": "daemon-ready",
    "code": "daemon-refuses-replicas",
    "reason": "the MPS control daemon refuses the number of replicas (49 > 48)",
    "remedy": "Choose fewer replicas for this node.",
    "evidence": [{"subject": "pod/x", "field": "log", "value": "49 > 48", "expected": ""}],
    "allocatable": 0,
    "memory_mib": 313,
    "thread_percentage": 2,
}
DRIFT = {
    "code": "policy-put-back",
    "severity": "warning",
    "message": "'helm' put it back",
    "remedy": "Set it there.",
    "subject": "clusterpolicy/x",
    "path": "y",
}
VERIFICATION: dict[str, Any] = {
    "server": "https://cluster",
    "namespace": "gpu-operator",
    "read_at": "2026-11-30T10:00:00Z",
    "nodes": [GOOD, BROKEN],
    "drift": [DRIFT],
    "findings": [DRIFT, {**DRIFT, "code": "daemon-refuses-replicas", "severity": "error", "message": "49 > 48"}],
}
ROLLOUT: dict[str, Any] = {
    "nodes": [{"name": "gpu-1", "allocatable_before": {"nvidia.com/gpu": 2}}],
    "plan_diff": [
        {"before_header": "configmap", "after_header": "configmap", "before": "replicas: 2\n", "after": "replicas: 4\n"},
        {"before_header": "same", "after_header": "same", "before": "x", "after": "x"},
    ],
}
PROOF: dict[str, Any] = {"passed": False, "nodes": [{"node": "gpu-1", "passed": True}], "findings": [{**DRIFT, "code": "proof-timeout", "severity": "error"}]}

# Any value at any place of a result: what a playbook's variables can become.
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_NAMES = [*GOOD, "name", "passed", "severity", "message", "subject", "before", "after", "before_header"]
_FIELDS = st.dictionaries(st.sampled_from(_NAMES), ANYTHING, max_size=8)
RESULTS: st.SearchStrategy[Any] = ANYTHING | st.fixed_dictionaries(
    {}, optional={key: ANYTHING | st.lists(_FIELDS, max_size=3) for key in ("nodes", "drift", "findings", "plan_diff", "diff", "passed", "server", "read_at")}
)
