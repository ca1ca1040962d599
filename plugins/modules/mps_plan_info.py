#!/usr/bin/python
# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mps_plan_info
short_description: Plan what a sharing declaration changes on a cluster, without changing anything
version_added: 0.1.0
author:
  - gpuops.mps contributors (@gpuops)
description:
  - Reads the cluster once and tells for every GPU node which config it has and gets and why, what its labels and resources will
    be, how much memory and which part of the threads each client process gets, which running pods break, and which agents
    must be restarted.
  - Lists everything that stands against the declaration as findings with stable codes. The module fails on them only with
    O(fail_on_error), so that it can be a gate in CI, and always for a declaration that cannot be understood.
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
  configs:
    description:
      - The named configs. A name is a key of the ConfigMap and a value of the node label.
      - An empty mapping is a config without sharing. The other options are C(replicas) (clients for each GPU, 2 to 48),
        C(rename_by_default) (offer C(nvidia.com/gpu.shared) in place of C(nvidia.com/gpu)), C(mig_strategy) and
        C(fail_requests_greater_than_one).
      - The default and the groups may also name any other key that the ConfigMap has.
  update_strategy:
    description:
      - With V(in_place) a config's name is its key, and a changed config means that agents must be restarted.
      - With V(versioned) the key ends in a hash of its text, so that a changed config is a new key and a new label.
    type: str
    choices: [in_place, versioned]
    default: in_place
  workloads:
    description:
      - Whether to read the Deployments, StatefulSets, DaemonSets, Jobs, CronJobs, quotas and limit ranges of all namespaces, and to
        warn about those that the change breaks.
    type: bool
    default: true
  fail_on_error:
    description:
      - Whether to fail when a finding is an error.
    type: bool
    default: false
seealso:
  - module: gpuops.mps.mps_info
  - module: gpuops.mps.mps_validate
  - module: gpuops.mps.mps_rollout
"""

EXAMPLES = r"""
---
- name: Plan two clients for each GPU everywhere, four on T4
  gpuops.mps.mps_plan_info:
    configs:
      mps-two:
        replicas: 2
      mps-four:
        replicas: 4
    default: mps-two
    node_groups:
      - name: t4
        config: mps-four
        match:
          product: Tesla-T4
  register: planned

- name: Show each node's config and resources
  ansible.builtin.debug:
    msg: "{{ item.names | join(', ') }}: {{ item.config.after }}, {{ item.allocatable.after }}"
  loop: "{{ planned.plan.nodes }}"
  loop_control:
    label: "{{ item.names | length }} nodes"

- name: Fail a pipeline when the plan is refused or not empty
  gpuops.mps.mps_plan_info:
    configs:
      mps-two:
        replicas: 2
    default: mps-two
    fail_on_error: true
  register: gate
  failed_when: gate is failed or gate.plan_changed
"""

RETURN = r"""
plan:
  description: What would happen.
  type: dict
  returned: always
  contains:
    summary:
      description: Numbers first.
      type: dict
    config_map:
      description: The ConfigMap's keys that are added, changed and removed.
      type: dict
    policy:
      description: The fields of the active ClusterPolicy before and after, V(null) without one.
      type: dict
    nodes:
      description:
        - One entry for all GPU nodes that are alike in everything below, which are its C(names).
        - Each has C(group), C(label), C(config), C(source), C(allocatable) and C(labels) before and after, what its
          agents are C(running) (V(current), V(stale), V(unknown), V(none)), the C(steps) there, C(thread_percentage) and
          C(memory_mib) of each client process, and the C(gpu_pods) that break.
      type: list
      elements: dict
    groups:
      description: The nodes of every group.
      type: dict
    node_templates:
      description:
        - For each config and kind of node that the plan shares by MPS, what an autoscaler must know of nodes that do not exist yet. Each entry has
          C(config), C(product), C(gpus) per node, C(nodes), and C(advice) as the filter P(gpuops.mps.replica_advice#filter) gives it.
      type: list
      elements: dict
  sample:
    summary:
      nodes: 7
      nodes_changed: 2
      labels_changed: 2
      config_map_changed: true
      policy_changed: false
      operator_rolls: false
      gpu_pods: 0
      admitted: true
    config_map: {namespace: gpu-operator, name: mps-configs, exists: true, add: [mps-four], change: [], remove: []}
    policy: {name: cluster-policy, before: {name: mps-configs, default: mps-two}, after: {name: mps-configs, default: mps-two}}
    nodes: []
    groups: {t4: [gpu-t4-1, gpu-t4-2]}
plan_changed:
  description: Whether the plan would change anything.
  type: bool
  returned: always
  sample: true
admitted:
  description: Whether the plan may be carried out, that is, no finding is an error.
  type: bool
  returned: always
  sample: true
plan_diff:
  description: The plan as a list of diffs for people, each with C(before) and C(after).
  type: list
  elements: dict
  returned: always
  sample: []
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
    - code: replicas-above-cap
      severity: error
      path: mps_configs.mps-twenty.replicas
      message: "20 replicas on a Tesla V100, which takes 16 at most"
      remedy: "Use at most 16 replicas on these nodes."
      subject: node/gpu-v100-1
"""

from ansible_collections.gpuops.mps.plugins.module_utils._options import DECLARATION_OPTIONS, run
from ansible_collections.gpuops.mps.plugins.module_utils._readers import read_plan


def main() -> None:
    run(
        read_plan,
        {
            **DECLARATION_OPTIONS,
            "update_strategy": {"type": "str", "choices": ["in_place", "versioned"], "default": "in_place"},
            "workloads": {"type": "bool", "default": True},
            "fail_on_error": {"type": "bool", "default": False},
        },
    )


if __name__ == "__main__":
    main()
