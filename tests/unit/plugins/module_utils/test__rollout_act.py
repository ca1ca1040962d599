# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout does with nodes when it may not go on; the rest of it is tested on the test bed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_act import Hands
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_mark import CHANGING, EMPTYING, FORWARD, ROLLOUT_ANNOTATION, Former, Mark, write_annotation
from ansible_collections.gpuops.mps.plugins.module_utils._snapshot import Node
from tests.unit.clusters import gpu_node

FORMER = Former("a", "a", "label", "old", True)


def marked(name: str, state: str, **fields: Any) -> Node:
    mark = Mark("r1", FORWARD, state, "b", "b", "new", FORMER, **fields)
    return gpu_node(name, annotations={ROLLOUT_ANNOTATION: write_annotation(mark)})


def test_nodes_that_nobody_has_touched_are_given_back_as_far_as_rights_reach() -> None:
    patches: dict[str, Any] = {}

    def patch_seen(path: str, body: dict[str, Any], **_options: Any) -> dict[str, Any]:
        if path.endswith("refused"):
            raise ClusterError("no", code="cluster-forbidden", remedy="", status=403)
        patches[path.rpartition("/")[2]] = body
        return {"metadata": {"name": path.rpartition("/")[2], "resourceVersion": "8"}}

    nodes = [
        marked("refused", EMPTYING, cordoned=True),
        marked("ours", EMPTYING, cordoned=True),
        marked("theirs", EMPTYING),
        marked("touched", CHANGING, cordoned=True, touched=True),
        gpu_node("free"),
    ]
    live: Any = SimpleNamespace(nodes={node.name: node for node in nodes}, wrote_node=lambda *_unused: None)
    cluster: Any = SimpleNamespace(patch_seen=patch_seen)
    Hands(cluster, live, lambda: 0.0).let_go()
    released = {"metadata": {"annotations": {ROLLOUT_ANNOTATION: None}}}
    assert patches == {"ours": {**released, "spec": {"unschedulable": None}}, "theirs": released}
