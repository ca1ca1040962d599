#!/usr/bin/python
# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mps_nodes
short_description: Label many GPU nodes with their sharing config at once
version_added: 0.1.0
author:
  - gpuops.mps contributors (@gpuops)
description:
  - Writes the label C(nvidia.com/device-plugin.config) of the nodes of every group, several nodes at a time.
  - All nodes are read in pages of 500, then exactly the labels that differ are written. A run without differences writes nothing.
  - Every write is bound to what was read. A label that somebody else changes meanwhile is left alone and reported for that node.
  - The label must name a key of the ConfigMap.
  - A running MPS control daemon does not notice a changed label. M(gpuops.mps.mps_rollout) restarts it and verifies the node;
    use this module where that is done by other means.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.mps._attributes
  - gpuops.mps._attributes.actiongroup_mps
  - gpuops.mps._place
  - gpuops.mps._place.accept
  - gpuops.mps._declaration.groups
attributes:
  check_mode:
    support: full
    details: Sends no write at all, also no dry run.
  diff_mode:
    support: full
    details: Shows one line for each node whose label changes.
  idempotent:
    support: full
options:
  node_groups:
    description:
      - Which nodes get a label, and which. Each group has a C(name) and a C(config), and selects nodes by C(nodes) (names),
        C(selector) (label selectors, all of which must hold) or C(match) (C(product), C(memory_at_least) and
        C(memory_at_most) in MiB, C(architecture), C(count), C(labels)).
      - A group selects the same nodes whether sharing is on or off. Products are compared without the C(-SHARED) that
        sharing adds, in C(match) and in selectors on C(nvidia.com/gpu.product) alike.
      - With O(state=absent) the C(config) of a group may be left out.
    required: true
  state:
    description:
      - With V(absent) the label of the groups' nodes is removed, whoever wrote it. Nothing else on a node is touched.
    type: str
    choices: [present, absent]
    default: present
  writes_per_second:
    description:
      - How many nodes are labelled in one second at most. Every write of a node reaches all watchers of nodes in the cluster.
      - The pace falls below this by itself while the API server answers slowly or says that it has too much to do.
      - Use V(0) for no limit but that.
    type: int
    default: 400
seealso:
  - module: gpuops.mps.mps_info
  - module: gpuops.mps.mps_rollout
"""

EXAMPLES = r"""
---
- name: Four clients on every T4, exclusive GPUs on one node
  gpuops.mps.mps_nodes:
    node_groups:
      - name: t4
        config: mps-four
        match:
          product: Tesla-T4
      - name: lab
        config: none
        nodes: [gpu-a100-1]

- name: Remove the labels of a pool
  gpuops.mps.mps_nodes:
    state: absent
    node_groups:
      - name: pool
        selector: ["pool=inference"]
"""

RETURN = r"""
nodes:
  description: The nodes whose label changes, or could not be changed.
  type: list
  elements: dict
  returned: always
  contains:
    node:
      description: Name of the node.
      type: str
    group:
      description: Its group, V(null) for a node that left all groups.
      type: str
    before:
      description: The label before, V(null) for none.
      type: str
    after:
      description: The label as wanted, V(null) for none.
      type: str
    changed:
      description: Whether the label was written, or would be in check mode.
      type: bool
    error:
      description: Why the label was not written.
      type: str
  sample:
    - {node: gpu-t4-1, group: t4, before: null, after: mps-four, changed: true}
groups:
  description: The nodes of every group.
  type: dict
  returned: always
  sample: {t4: [gpu-t4-1, gpu-t4-2]}
findings:
  description: Everything that stands against the change or is worth knowing, the worst first.
  type: list
  elements: dict
  returned: always
  contains:
    code:
      description: Stable code of the finding.
      type: str
    severity:
      description: V(error), V(warning) or V(info). Nothing is written while there is an error.
      type: str
    path:
      description: Where in the options or in the cluster.
      type: str
    message:
      description: What is wrong.
      type: str
    remedy:
      description: What to do.
      type: str
    subject:
      description: The object concerned.
      type: str
  sample:
    - code: group-empty
      severity: warning
      path: mps_node_groups.t4
      message: "no GPU node belongs to the group 't4'"
      remedy: "Compare with gpuops.mps.mps_info, which lists the products and labels of the nodes."
      subject: node/gpu-07
"""

from ansible_collections.gpuops.mps.plugins.module_utils._options import ACCEPT_OPTIONS, GROUP_OPTIONS, PLACE_OPTIONS, run
from ansible_collections.gpuops.mps.plugins.module_utils._writers import write_labels


def main() -> None:
    run(
        write_labels,
        {
            **GROUP_OPTIONS,
            "node_groups": {"type": "list", "elements": "dict", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "writes_per_second": {"type": "int", "default": 400},
            **PLACE_OPTIONS,
            **ACCEPT_OPTIONS,
        },
    )


if __name__ == "__main__":
    main()
