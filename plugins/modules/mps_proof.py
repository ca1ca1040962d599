#!/usr/bin/python
# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mps_proof
short_description: Prove with clients on the GPUs that MPS works, and remove them whatever happens
version_added: 0.1.0
author:
  - gpuops.mps contributors (@gpuops)
description:
  - Runs NVIDIA's vectorAdd sample on GPUs that should be shared by MPS, looks into the running clients, and removes them, also after
    a failure, a timeout, Ctrl-C or a cancelled job. What a killed run has left behind is removed by the next one.
  - A sample that passes proves CUDA and not MPS, so each client must have the MPS environment, get an answer from the MPS control daemon,
    and have the thread percentage and the memory limit that its node's config makes. On a time-sliced or exclusive node the proof fails.
  - Images that cannot be pulled, clients that cannot be scheduled, and clients that hang are told apart from failures of MPS.
  - What a node should be is taken from the cluster itself, from its ClusterPolicy, its ConfigMap and the nodes' labels.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.mps._attributes
  - gpuops.mps._attributes.actiongroup_mps
  - gpuops.mps._place
attributes:
  check_mode:
    support: full
    details: Returns what would be created and where. Nothing is proven.
  diff_mode:
    support: none
    details: Everything that is created is removed again.
  idempotent:
    support: none
    details: Every run creates clients and removes them.
options:
  form:
    description:
      - V(thorough) runs several clients at once on each chosen node, bound to it, within the Pod Security level C(restricted). It
        also looks for EXCLUSIVE_PROCESS and a running server in the MPS control daemon's pod.
      - V(document) runs the Deployment of NVIDIA's documentation as it stands, wherever the scheduler puts it. It has C(hostPID), which the Pod
        Security level C(baseline) forbids.
    type: str
    choices: [thorough, document]
    default: thorough
  per:
    description:
      - Whether to prove one node for each group of equal nodes (same config, product and number of GPUs), or every node.
      - Only used with O(form=thorough), and not with O(nodes).
    type: str
    choices: [group, node]
    default: group
  nodes:
    description:
      - Prove exactly these nodes. Only used with O(form=thorough).
    type: list
    elements: str
  replicas:
    description:
      - Replicas of the Deployment. As many as there is room for must run.
      - Only used with O(form=document).
    type: int
    default: 5
  resource:
    description:
      - The resource that the Deployment asks for. By default the one that the nodes offer.
      - Only used with O(form=document).
    type: str
  node_selector:
    description:
      - The node selector of the Deployment. Only used with O(form=document).
    type: dict
    default:
      nvidia.com/gpu.sharing-strategy: mps
  tolerations:
    description:
      - The tolerations of the clients.
    type: list
    elements: dict
    default:
      - key: nvidia.com/gpu
        operator: Exists
        effect: NoSchedule
  workload_namespace:
    description:
      - The namespace that the clients run in. It must exist.
    type: str
    default: default
  image:
    description:
      - The image with the sample. Without access to NVIDIA's registry name a copy in your own.
    type: str
    default: nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda11.7.1-ubuntu20.04
  pull_secrets:
    description:
      - Names of pull secrets in O(workload_namespace).
    type: list
    elements: str
    default: []
  run_as_user:
    description:
      - The user id of the clients. Only used with O(form=thorough).
      - One MPS server serves one user at a time. A client of another user waits until the clients of the first have ended, so use
        the user of your own workloads when they keep running.
    type: int
    default: 1000
  wait_timeout:
    description:
      - Seconds that the clients may take until all of them run and have passed.
    type: int
    default: 300
seealso:
  - module: gpuops.mps.mps_verify_info
"""

EXAMPLES = r"""
---
- name: Prove one node of each group of equal nodes
  gpuops.mps.mps_proof:

- name: Prove every node, with an image from a mirror
  gpuops.mps.mps_proof:
    per: node
    image: registry.example.com/nvidia/cuda-sample:vectoradd-cuda11.7.1-ubuntu20.04
    pull_secrets: [mirror]
    workload_namespace: gpu-tests

- name: The verification workload of NVIDIA's documentation
  gpuops.mps.mps_proof:
    form: document
    replicas: 5
"""

RETURN = r"""
passed:
  description: Whether everything was proven. V(null) in check mode.
  type: bool
  returned: always
  sample: true
nodes:
  description: What was found on each node.
  type: list
  elements: dict
  returned: always
  contains:
    node:
      description: Name of the node, empty for clients that no node took.
      type: str
    passed:
      description: Whether nothing speaks against the node.
      type: bool
    config:
      description: The config that the node runs.
      type: str
    resource:
      description: The resource that the clients asked for.
      type: str
    clients:
      description: How many clients ran at the same time.
      type: int
    together:
      description: Whether two clients were sure to share a GPU.
      type: bool
    limits:
      description: The answers of a client to the questions for thread percentage and memory, and its pipe directory.
      type: dict
    findings:
      description: What speaks against the node.
      type: list
      elements: dict
  sample:
    - node: gpu-t4-1
      passed: true
      config: mps-four
      resource: nvidia.com/gpu
      clients: 3
      together: true
      limits:
        thread_percentage: '25.0'
        memory: 3840M
        pipe_directory: /mps/nvidia.com/gpu/pipe
      findings: []
findings:
  description: All findings, those about objects that could not be removed included.
  type: list
  elements: dict
  returned: always
  sample: []
would_create:
  description: The manifests that a run would create, the one of a node once.
  type: list
  elements: dict
  returned: in check mode
  sample: []
would_use:
  description: How many clients a run would have at most on each node.
  type: dict
  returned: in check mode
  sample: {gpu-t4-1: 3}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_proof_run import prove_cluster
from ansible_collections.gpuops.mps.plugins.module_utils._options import PLACE_OPTIONS, run
from ansible_collections.gpuops.mps.plugins.module_utils._proof import IMAGE, NODE_SELECTOR, TOLERATIONS

ARGUMENT_SPEC: dict[str, t.Any] = {
    **PLACE_OPTIONS,
    "form": {"type": "str", "choices": ["thorough", "document"], "default": "thorough"},
    "per": {"type": "str", "choices": ["group", "node"], "default": "group"},
    "nodes": {"type": "list", "elements": "str"},
    "replicas": {"type": "int", "default": 5},
    "resource": {"type": "str"},
    "node_selector": {"type": "dict", "default": dict(NODE_SELECTOR)},
    "tolerations": {"type": "list", "elements": "dict", "default": [dict(one) for one in TOLERATIONS]},
    "workload_namespace": {"type": "str", "default": "default"},
    "image": {"type": "str", "default": IMAGE},
    "pull_secrets": {"type": "list", "elements": "str", "default": [], "no_log": False},  # names only
    "run_as_user": {"type": "int", "default": 1000},
    "wait_timeout": {"type": "int", "default": 300},
}


def prove(module: AnsibleModule, cluster: Cluster) -> dict[str, t.Any]:
    """Run the clients, or say in check mode which."""
    return prove_cluster(cluster, module.params, check_mode=module.check_mode)


def main() -> None:
    """Run the module."""
    run(prove, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
