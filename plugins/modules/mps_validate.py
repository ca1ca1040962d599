#!/usr/bin/python
# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mps_validate
short_description: Validate GPU sharing before anything is written to a cluster
version_added: 0.1.0
author:
  - gpuops.mps contributors (@gpuops)
description:
  - Checks a declaration of GPU sharing, the texts of an existing ConfigMap, and workload manifests, together or alone.
  - Runs on the controller as an action plugin. It needs no cluster and no credentials, and writes nothing.
  - The device plugin ignores unknown keys and drops fields without an error, and only the MPS daemon knows how many clients a GPU
    takes. A mistake takes a node's GPUs away, often not before its next reboot. This action finds such mistakes beforehand.
  - Fails with all findings at once. Every finding has a stable code, which the catalogue of findings in this collection's
    documentation explains.
attributes:
  action:
    description: Has a corresponding action plugin, so some parts of the options can be executed on the controller.
    support: full
  check_mode:
    description: Can run in check mode and return what it would return otherwise.
    support: full
  diff_mode:
    description: Returns details on what has changed when in diff mode.
    support: N/A
    details: Nothing is ever changed.
options:
  configs:
    description:
      - The named configs, as in the variable C(mps_configs) of the role P(gpuops.mps.mps#role).
      - A mapping of names to mappings with C(replicas), C(rename_by_default), C(mig_strategy) and
        C(fail_requests_greater_than_one). A config without C(replicas) shares nothing.
    type: raw
    aliases: [mps_configs]
  default:
    description:
      - The config of GPU nodes without a label, as in C(mps_default).
      - It must be one of O(configs) or a key of O(config_map_data), where one of these is given.
    type: raw
    aliases: [mps_default]
  node_groups:
    description:
      - Which nodes get which config, as in C(mps_node_groups).
      - A list of mappings with C(name), C(config), and at least one of C(nodes), C(selector) and C(match).
    type: raw
    aliases: [mps_node_groups]
  nodes:
    description:
      - The GPU nodes to check the declaration against.
      - A list of mappings with C(name) and C(labels), and where known C(allocatable) and C(kernel), as
        M(gpuops.mps.mps_info) returns them. Node objects of M(kubernetes.core.k8s_info) will do too.
      - Nodes without a label of C(nvidia.com/) are left out.
    type: raw
  config_map_data:
    description:
      - The data of a ConfigMap, key to text, as it stands in the cluster or in a file.
      - Every text is read strictly. What the device plugin would accept and understand otherwise than it looks is an error,
        which says what the device plugin would do with the text.
    type: raw
  manifests:
    description:
      - Workload manifests, a list of mappings. Objects that make no pods are left alone.
    type: raw
  policy_mig_strategy:
    description:
      - The value of C(spec.mig.strategy) in the ClusterPolicy, which beats the one of a config.
      - Leave it out or empty when the policy sets none or is not known.
    type: str
    choices: ["", none, single, mixed]
  plugin_version:
    description:
      - The version of NVIDIA's device plugin, such as V(v0.17.4). What depends on it is said carefully when it is not given.
    type: str
  accept:
    description:
      - Codes of findings to go on with. An accepted error becomes a warning.
      - Findings about what cannot work or is not understood cannot be accepted.
    type: list
    elements: str
    default: []
requirements:
  - python >= 3.11
  - PyYAML
seealso:
  - module: gpuops.mps.mps_plan_info
  - module: gpuops.mps.mps_info
"""

EXAMPLES = r"""
---
- name: Validate a declaration before anything else happens
  gpuops.mps.mps_validate:
    configs:
      none: {}
      mps-four: {replicas: 4}
    default: none
    node_groups:
      - {name: t4, config: mps-four, match: {product: Tesla-T4}}

- name: Validate it against the labels of two nodes
  gpuops.mps.mps_validate:
    configs:
      mps-sixteen: {replicas: 16}
    default: mps-sixteen
    plugin_version: v0.17.4
    nodes:
      - name: gpu-07
        labels:
          nvidia.com/gpu.present: "true"
          nvidia.com/gpu.product: Tesla-V100-SXM2-16GB
          nvidia.com/gpu.count: "1"
          nvidia.com/gpu.memory: "16384"
          nvidia.com/gpu.compute.major: "7"
          nvidia.com/gpu.compute.minor: "0"

- name: Validate the texts of an existing ConfigMap
  gpuops.mps.mps_validate:
    config_map_data:
      none: |
        version: v1
      mps-four: |
        version: v1
        sharing:
          mps:
            resources:
              - name: nvidia.com/gpu
                replicas: 4
  register: existing

- name: Show what the device plugin makes of them
  ansible.builtin.debug:
    var: existing.configs

- name: Go on although a key holds an option that the device plugin ignores
  gpuops.mps.mps_validate:
    config_map_data:
      mps-two: |
        version: v1
        comment: two clients per GPU
        sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}
    accept: [unknown-key]

- name: Validate a workload that is to run on shared GPUs
  gpuops.mps.mps_validate:
    manifests:
      - apiVersion: v1
        kind: Pod
        metadata: {name: client}
        spec:
          containers:
            - name: cuda
              image: registry.example.com/cuda:12
              resources: {limits: {nvidia.com/gpu: 1}}
"""

RETURN = r"""
findings:
  description:
    - Everything that was found, the worst first. Returned when the action fails, too.
  returned: always
  type: list
  elements: dict
  contains:
    code:
      description: The finding's stable code.
      type: str
      returned: always
      sample: replicas-above-every-cap
    severity:
      description: V(error), V(warning) or V(info). Any error makes the action fail.
      type: str
      returned: always
      sample: error
    path:
      description: Where in the declaration. For texts of a ConfigMap it begins with the key.
      type: str
      returned: always
      sample: mps_configs.mps-four.replicas
    message:
      description: What is wrong.
      type: str
      returned: always
      sample: "100 replicas: no GPU takes more than 48 MPS clients"
    remedy:
      description: What to do about it.
      type: str
      returned: always
      sample: Use at most 48, or at most 16 on Volta and older.
    subject:
      description: The object concerned, or empty.
      type: str
      returned: always
      sample: node/gpu-07
configs:
  description:
    - The configs by name, as far as they are understood. Returned when the action fails, too.
    - Of a text that the device plugin would read otherwise than it looks, this is what the device plugin reads.
  returned: always
  type: dict
  contains:
    strategy:
      description: V(none), V(mps) or V(time-slicing).
      type: str
      returned: always
      sample: mps
    replicas:
      description: Clients per physical GPU, or null without sharing.
      type: int
      returned: always
      sample: 4
    rename_by_default:
      description: Whether the shared resource is advertised as C(nvidia.com/gpu.shared).
      type: bool
      returned: always
      sample: false
    mig_strategy:
      description: The MIG strategy of the config itself, or null.
      type: str
      returned: always
      sample: none
    fail_requests_greater_than_one:
      description: What the config says about requests for more than one, or null.
      type: bool
      returned: always
      sample: null
  sample:
    mps-four:
      strategy: mps
      replicas: 4
      rename_by_default: false
      mig_strategy: none
      fail_requests_greater_than_one: null
"""
