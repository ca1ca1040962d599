#!/usr/bin/python
# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mps_rollout
short_description: Roll GPU sharing out node by node, verify it, and take it back where it fails
version_added: 0.1.0
author:
  - gpuops.mps contributors (@gpuops)
description:
  - Plans what is declared, refuses what cannot work, writes the ConfigMap and the ClusterPolicy, and then changes the GPU
    nodes batch by batch. On each node the config label is written, and GPU Feature Discovery, the MPS control daemon and
    the device plugin are restarted in this order, each one only after the step before it has shown its effect.
  - A node counts as done when its labels, the daemon's limits and its allocatable resources are as predicted. A batch that
    does not get there in time goes back to its former config, is verified there, and the task fails with the reason.
  - The state of a rollout lies in annotations on the nodes, on the ConfigMap and on the Lease C(gpuops-mps-rollout). A run
    that was ended anywhere is continued by running the task again.
  - A changed name or default in the ClusterPolicy makes the operator replace the agents on all nodes by itself. For the time
    of the rollout the module therefore sets C(spec.daemonsets.updateStrategy) to V(OnDelete) in the same patch, restarts the
    agents in batches, and puts the field back at every end. Where Argo CD or Flux keeps the policy this is not possible;
    the finding C(rollout-not-paced) says so before anything is written.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.mps._attributes
  - gpuops.mps._attributes.actiongroup_mps
  - gpuops.mps._place
  - gpuops.mps._place.accept
  - gpuops.mps._declaration
  - gpuops.mps._declaration.groups
  - gpuops.mps._declaration.default
attributes:
  check_mode:
    support: full
    details: Returns the plan and the batches, and writes nothing.
  diff_mode:
    support: full
    details: Shows for each batch the nodes, the predicted labels and resources, the pods that would break and the usual duration.
  idempotent:
    support: full
options:
  default:
    description:
      - An empty text clears the default of the ClusterPolicy.
  canary:
    description:
      - The nodes that are changed first, in a batch of their own - either names of nodes, or one number or percentage.
      - Without it there is no canary.
    type: list
    elements: str
    default: []
  batch_size:
    description: How many nodes are changed at a time, as a number or as a percentage of all GPU nodes.
    type: str
    default: "1"
  max_failures:
    description:
      - How many nodes may fail without stopping the rollout. Each of them goes back to its former config by itself.
      - Counts as 0 where nodes can only go back together, which the finding C(rollout-returns-whole) says beforehand.
    type: int
    default: 0
  pause:
    description: Seconds to wait between two batches.
    type: int
    default: 0
  order:
    description: Names of groups in the order in which their nodes are changed. Nodes of other groups follow.
    type: list
    elements: str
    default: []
  disruption:
    description:
      - What to do about running pods that use GPUs on nodes where they would not survive the change.
      - V(refuse) fails before anything is written, and lists the pods.
      - V(wait) waits on each node until no such pod is left.
      - V(drain) cordons the node, evicts these pods as far as disruption budgets allow, and uncordons it at every end.
        A node that somebody else has cordoned stays cordoned.
      - V(allow) goes on.
      - Where batches cannot hold because a tool keeps the ClusterPolicy, V(wait) and V(drain) are refused like V(refuse).
    type: str
    choices: [refuse, wait, drain, allow]
    default: refuse
  drain_timeout:
    description: How many seconds a node's GPU pods may take to end with O(disruption=wait) and O(disruption=drain).
    type: int
    default: 600
  update_strategy:
    description:
      - V(in_place) keeps the names of the configs as keys and restarts the agents when a text changes.
      - V(versioned) puts a hash of the content into the key, so that an edit never changes what a label means. Old versions
        are removed when nothing refers to them any more.
    type: str
    choices: [in_place, versioned]
    default: in_place
  projection_timeout:
    description: How many seconds O(update_strategy=versioned) gives kubelet to bring a new key into running pods before labels refer to it.
    type: int
    default: 90
  wait_timeout:
    description: How many seconds one node may take to be verified, and again as many to go back.
    type: int
    default: 600
  batches:
    description:
      - Stop after so many batches with RV(ignore:state=in_progress), so that something of your own can be checked between them.
        Run the task again to go on. Until then the rollout is under way, and the policy's update strategy stays V(OnDelete)
        where the rollout has set it.
      - V(0) carries the rollout out to its end.
    type: int
    default: 0
  rollback:
    description:
      - Take the last rollout back as a whole - labels, ConfigMap and ClusterPolicy.
      - O(configs), O(default) and O(node_groups) are not needed then.
      - A rollback neither waits for running GPU pods nor drains. Where some would not survive it, it is refused unless O(disruption=allow).
    type: bool
    default: false
  takeover:
    description: Take the Lease although another run holds it. Only when it is certain that the other run has ended.
    type: bool
    default: false
  lease_duration:
    description: After how many seconds without a sign of life a run counts as ended, so that another one may continue its rollout.
    type: int
    default: 30
  slice:
    description:
      - Used by the action plugin, which runs the module again and again for a few seconds to show progress.
    type: dict
    suboptions:
      seconds:
        description: End with RV(ignore:state=in_progress) after so many seconds; V(0) does not.
        type: int
        default: 0
      holder:
        description: The name under which all slices of one task hold the Lease.
        type: str
      number:
        description: How many slices there were before.
        type: int
        default: 0
seealso:
  - module: gpuops.mps.mps_plan_info
  - module: gpuops.mps.mps_verify_info
"""

EXAMPLES = r"""
---
- name: Show what a rollout would do
  gpuops.mps.mps_rollout:
    configs:
      none: {}
      mps-four: {replicas: 4}
    default: none
    node_groups:
      - {name: t4, config: mps-four, match: {product: Tesla-T4}}
  check_mode: true
  diff: true

- name: Roll out with one canary, then a tenth of the nodes at a time
  gpuops.mps.mps_rollout:
    configs:
      none: {}
      mps-four: {replicas: 4}
    default: none
    node_groups:
      - {name: t4, config: mps-four, match: {product: Tesla-T4}}
    canary: ["1"]
    batch_size: 10%
    disruption: drain

- name: Take the last rollout back
  gpuops.mps.mps_rollout:
    rollback: true
"""

RETURN = r"""
---
state:
  description:
    - How it ended. V(verified) when every node is as declared, V(returned) when what failed was taken back, V(failed) when
      some node could be brought nowhere, V(refused) when nothing was written, V(in_progress) when O(batches) were
      carried out and more are left, V(planned) in check mode when something would change.
  returned: always
  type: str
  sample: verified
rollout:
  description: The id of the rollout, as in the nodes' annotations.
  returned: when something was written
  type: str
  sample: 20260801T201530Z-3f9a1c
plan:
  description: The plan as M(gpuops.mps.mps_plan_info) returns it.
  returned: always
  type: dict
  sample: {summary: {nodes: 6, nodes_changed: 2}}
batches:
  description: The batches with their nodes, predicted labels and resources, the pods that break and the usual duration in seconds.
  returned: always
  type: list
  elements: dict
  sample:
    - batch: 1
      nodes:
        - {name: gpu-01, group: t4, config: {before: none, after: mps-four}, allocatable: {before: {nvidia.com/gpu: 2}, after: {nvidia.com/gpu: 8}}}
      gpu_pods: []
      estimated_seconds: 60
nodes:
  description: Every GPU node, what it got and how it ended.
  returned: always
  type: list
  elements: dict
  contains:
    name: {description: The node., type: str, returned: always}
    group: {description: The group it belongs to., type: str, returned: always}
    config: {description: The key that it uses., type: str, returned: always}
    source: {description: 'Why: label, default or none.', type: str, returned: always}
    replicas: {description: Clients for each GPU., type: int, returned: always}
    allocatable_before: {description: GPU resources before this rollout., type: dict, returned: always}
    allocatable_after: {description: 'GPU resources now, or as predicted where the node''s change is still to come.', type: dict, returned: always}
    thread_percentage: {description: Threads for each client in percent., type: int, returned: always}
    memory_mib: {description: Memory for each client process in MiB., type: int, returned: always}
    verdict:
      description: One of verified, returned, failed, unchanged, planned (in check mode), waiting, changing, returning, skipped, gone.
      type: str
      returned: always
    reason: {description: Why it is not verified., type: str, returned: always}
  sample:
    - name: gpu-01
      group: t4
      config: mps-four
      source: label
      replicas: 4
      allocatable_before: {nvidia.com/gpu: 2}
      allocatable_after: {nvidia.com/gpu: 8}
      thread_percentage: 25
      memory_mib: 3840
      verdict: verified
      reason: ""
batches_done:
  description: How many batches this run has carried to their end.
  returned: when something was written
  type: int
  sample: 2
findings:
  description: What is wrong or worth knowing, each with a stable code, a severity, a message and a remedy.
  returned: always
  type: list
  elements: dict
  sample: [{code: rollout-held, severity: info, path: spec.daemonsets.updateStrategy, message: "...", remedy: "...", subject: clusterpolicy/cluster-policy}]
progress:
  description: What was shown while waiting - which nodes, at which link of the chain, how long and what for.
  returned: always
  type: list
  elements: str
  sample: ["batch 1 of 3: gpu-01 at mps-control-daemon for 4 s: the pod nvidia-device-plugin-mps-control-daemon-x2x4z is not ready"]
"""

from ansible_collections.gpuops.mps.plugins.module_utils._options import DECLARATION_OPTIONS, run
from ansible_collections.gpuops.mps.plugins.module_utils._rollout_module import ROLLOUT_OPTIONS, rollout


def main() -> None:
    """Run the module."""
    run(
        lambda module, cluster: rollout(cluster, module.params, check_mode=module.check_mode),
        {**DECLARATION_OPTIONS, **ROLLOUT_OPTIONS},
        required_if=[("rollback", False, ("configs",))],
    )


if __name__ == "__main__":
    main()
