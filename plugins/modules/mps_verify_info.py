#!/usr/bin/python
# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mps_verify_info
short_description: Tell for every GPU node whether sharing is really on, and if not, which link of the chain is broken
version_added: 0.1.0
author:
  - gpuops.mps contributors (@gpuops)
description:
  - Judges every GPU node by what it should be. The labels, the allocatable number under the right name, the agents' pods and the content
    they run must all be as the node's config makes them. A ClusterPolicy that is C(ready) proves none of that.
  - A node that is not right gets the first broken link of the chain from the ClusterPolicy to the resource, with its evidence and a remedy.
    Logs are read for broken nodes only, of at most 20 nodes and at most 4 logs each.
  - With a declaration (O(configs), O(default), O(node_groups)) the nodes are held against it. Without one they are held against what the cluster says itself
    by its ClusterPolicy, its ConfigMap and the nodes' labels.
  - The number of requests does not depend on the number of nodes, apart from the pages of lists, and from what O(limits) reads.
  - The device plugin's complaint that it cannot check the MPS daemon's health is normal for 30 to 90 seconds after a start. Such a
    node is V(waiting), not V(broken), until O(patience) has passed.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.mps._attributes.info_module
  - gpuops.mps._attributes.actiongroup_mps
  - gpuops.mps._place
  - gpuops.mps._place.accept
  - gpuops.mps._declaration
  - gpuops.mps._declaration.groups
  - gpuops.mps._declaration.default
options:
  update_strategy:
    description:
      - How the names of the keys are made, as O(gpuops.mps.mps_rollout#module:update_strategy). Only used with O(configs).
    type: str
    choices: [in_place, versioned]
    default: in_place
  nodes:
    description:
      - Judge only these nodes. All GPU nodes by default.
    type: list
    elements: str
  limits:
    description:
      - Whose thread percentage and memory limit to ask the MPS control daemon for, by a command in its pod.
      - V(doubtful) asks only where the daemon started before its config last changed, and so may still apply old limits.
      - Where nobody may be asked, the node keeps the finding C(daemon-limits-unproven).
    type: str
    choices: [never, doubtful, all]
    default: doubtful
  patience:
    description:
      - Seconds that a deviation may take after the start of the agent concerned before it counts as broken.
    type: int
    default: 180
  log_lines:
    description:
      - How many of the last lines to read of a broken agent's log. V(0) reads no logs.
    type: int
    default: 20
  wait:
    description:
      - Whether to wait as long as a node is V(waiting).
    type: bool
    default: false
  wait_timeout:
    description:
      - Seconds to wait at most.
    type: int
    default: 120
  fail_on:
    description:
      - Fail when a node has one of these verdicts, or when there is drift.
      - The values that the module returns are the same when it fails.
    type: list
    elements: str
    choices: [waiting, stale, broken, drift]
    default: []
seealso:
  - module: gpuops.mps.mps_proof
  - module: gpuops.mps.mps_plan_info
"""

EXAMPLES = r"""
---
- name: Is sharing on as the cluster itself says
  gpuops.mps.mps_verify_info:
  register: verification

- name: Show the nodes that are not right
  ansible.builtin.debug:
    msg: "{{ item.names | join(', ') }}: {{ item.reason }} {{ item.remedy }}"
  loop: "{{ verification.nodes | rejectattr('verdict', 'equalto', 'verified') }}"
  loop_control:
    label: "{{ item.names | first }}"

- name: Wait until every node is as declared, and fail if one is not
  gpuops.mps.mps_verify_info:
    configs:
      none: {}
      mps-four:
        replicas: 4
    default: none
    node_groups:
      - name: t4
        config: mps-four
        match:
          product: Tesla-T4
    wait: true
    wait_timeout: 600
    fail_on: [waiting, stale, broken]
"""

RETURN = r"""
verified:
  description: Whether every node is as expected.
  type: bool
  returned: success
  sample: true
clean:
  description: Whether every node is as expected and nothing has drifted.
  type: bool
  returned: success
  sample: true
summary:
  description: How many nodes there are of each verdict, how many share by MPS, and how many clients they can take.
  type: dict
  returned: success
  sample: {nodes: 6, verified: 5, waiting: 0, stale: 0, broken: 1, sharing: 4, clients: 52}
nodes:
  description: The verdicts, sorted by the name of the first node; nodes that are alike in everything below are told once.
  type: list
  elements: dict
  returned: success
  contains:
    names:
      description: Names of the nodes, sorted.
      type: list
      elements: str
    verdict:
      description: V(verified), V(waiting), V(stale) (an agent still runs older content, a restart helps) or V(broken).
      type: str
    link:
      description: The first broken link of the chain, V(null) on a verified node.
      type: str
    code:
      description: The code of the finding for it.
      type: str
    reason:
      description: What is wrong, in words.
      type: str
    remedy:
      description: What to do.
      type: str
    evidence:
      description: What was seen, as subject, field, value and expected value.
      type: list
      elements: dict
    findings:
      description: The findings about these nodes.
      type: list
      elements: dict
    config:
      description: The config that the node runs, V(null) without one.
      type: str
    source:
      description: Where the config comes from, V(label), V(default) or V(none).
      type: str
    group:
      description: The node's group in the declaration.
      type: str
    strategy:
      description: The sharing strategy that the config makes.
      type: str
    replicas:
      description: Clients per GPU.
      type: int
    resource:
      description: The resource's name that the node offers.
      type: str
    allocatable:
      description: How many of it each node offers now.
      type: int
    thread_percentage:
      description: The share of threads that each client process gets, in percent.
      type: int
    memory_mib:
      description: The memory limit of each client process in MiB.
      type: int
    labels:
      description: The labels that tell about sharing, as they are.
      type: dict
  sample:
    - names: [gpu-t4-1]
      verdict: broken
      link: daemon-ready
      code: daemon-refuses-replicas
      reason: the MPS control daemon refuses the number of replicas (49 > 48)
      remedy: Choose fewer replicas for this node.
      evidence:
        - subject: pod/gpu-operator/nvidia-device-plugin-mps-control-daemon-x7f2p
          field: log of mps-control-daemon-ctr
          value: 'invalid device maximum allowed replicas exceeded: 49 > 48'
          expected: ''
drift:
  description: What is not as declared, or was changed since the last rollout, in the ClusterPolicy, the ConfigMap and the nodes' labels.
  type: list
  elements: dict
  returned: success
  sample: []
findings:
  description: All findings, those that many nodes share once.
  type: list
  elements: dict
  returned: success
  sample: []
namespace:
  description: The operator's namespace.
  type: str
  returned: success
  sample: gpu-operator
server:
  description: The API server.
  type: str
  returned: success
  sample: https://192.0.2.10:6443
read_at:
  description: The time of the verdicts, RFC 3339.
  type: str
  returned: success
  sample: '2026-11-30T22:00:00+00:00'
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_verification import Reading, verify_cluster
from ansible_collections.gpuops.mps.plugins.module_utils._options import DECLARATION_OPTIONS, run

ARGUMENT_SPEC: dict[str, t.Any] = {
    **DECLARATION_OPTIONS,
    "update_strategy": {"type": "str", "choices": ["in_place", "versioned"], "default": "in_place"},
    "nodes": {"type": "list", "elements": "str"},
    "limits": {"type": "str", "choices": ["never", "doubtful", "all"], "default": "doubtful"},
    "patience": {"type": "int", "default": 180},
    "log_lines": {"type": "int", "default": 20},
    "wait": {"type": "bool", "default": False},
    "wait_timeout": {"type": "int", "default": 120},
    "fail_on": {"type": "list", "elements": "str", "choices": ["waiting", "stale", "broken", "drift"], "default": []},
}


def verify(module: AnsibleModule, cluster: Cluster) -> dict[str, t.Any]:
    """Judge the nodes, and fail where the user asked for that."""
    options = module.params
    reading = Reading(limits=options["limits"], log_lines=options["log_lines"], patience=options["patience"])
    return verify_cluster(cluster, options, reading)


def main() -> None:
    """Run the module."""
    run(verify, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
