#!/usr/bin/python
# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mps_info
short_description: Tell which sharing config every GPU node has, where it comes from, and what the node offers
version_added: 0.1.0
author:
  - gpuops.mps contributors (@gpuops)
description:
  - Reads the cluster once and returns a summary, the active ClusterPolicy, the ConfigMap with each key's meaning, and for every
    GPU node its GPUs, its config and where that comes from, its agents, what it offers and which pods use its GPUs.
  - The C(nodes) can be given to M(gpuops.mps.mps_validate) to check a declaration without access to the cluster.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.mps._attributes.info_module
  - gpuops.mps._attributes.actiongroup_mps
  - gpuops.mps._place
options:
  compute_modes:
    description:
      - Whether to ask C(nvidia-smi) in the device plugin's pod on each GPU node for the compute modes. Needs the right to run commands in pods.
    type: bool
    default: false
  raw:
    description:
      - Whether to return the Node, ClusterPolicy and ConfigMap objects too, as the API has them.
      - A Node object has about 20 KB.
    type: bool
    default: false
seealso:
  - module: gpuops.mps.mps_plan_info
  - module: gpuops.mps.mps_verify_info
"""

EXAMPLES = r"""
---
- name: Look at the GPU nodes
  gpuops.mps.mps_info:
  register: sharing

- name: Show each node's config
  ansible.builtin.debug:
    msg: "{{ item.name }}: {{ item.gpus.count }} x {{ item.gpus.product }}, {{ item.config }} by {{ item.source }}"
  loop: "{{ sharing.nodes }}"
  loop_control:
    label: "{{ item.name }}"
"""

RETURN = r"""
summary:
  description: Numbers first.
  type: dict
  returned: success
  contains:
    nodes:
      description: Number of GPU nodes.
      type: int
    gpus:
      description: Number of physical GPUs, as far as the labels tell.
      type: int
    by_config:
      description: Number of nodes for each config, with an empty name for no config.
      type: dict
    by_product:
      description: Number of nodes for each product, without C(-SHARED).
      type: dict
    gpu_pods:
      description: Number of pods that use GPUs.
      type: int
    stale:
      description: Nodes whose agents run something else than their config says.
      type: list
      elements: str
    stale_resources:
      description: By node, resources of NVIDIA that nothing offers any more. They stay at 0 until kubelet starts again.
      type: dict
  sample: {nodes: 7, gpus: 23, by_config: {mps-two: 6, none: 1}, by_product: {Tesla-T4: 2}, gpu_pods: 3, stale: [], stale_resources: {}}
cluster:
  description: The API server and the operator.
  type: dict
  returned: success
  sample: {server: "https://api.example.com:6443", version: v1.37.2, namespace: gpu-operator, operator: v25.3.4, device_plugin: 0.17.4}
policy:
  description: The active ClusterPolicy, V(null) without one.
  type: dict
  returned: success
  sample: {name: cluster-policy, state: ready, config_name: mps-configs, config_default: mps-two, mig_strategy: single, owners: []}
config_map:
  description: The ConfigMap and what each key means, V(null) when it does not exist. A key that cannot be understood has findings.
  type: dict
  returned: success
  sample:
    name: mps-configs
    namespace: gpu-operator
    configs:
      mps-two: {strategy: mps, replicas: 2, rename_by_default: false, managed: true, findings: []}
nodes:
  description: Every GPU node, by name.
  type: list
  elements: dict
  returned: success
  contains:
    name:
      description: Name of the node.
      type: str
    gpus:
      description: Product without C(-SHARED), count, memory in MiB of one whole GPU, architecture, compute capability, MIG.
      type: dict
    label:
      description: The config label, V(null) for none.
      type: str
    config:
      description: The config in force, V(null) for none.
      type: str
    source:
      description: V(label), V(default) or V(none).
      type: str
    running:
      description: What the agents run against the config, V(current), V(stale), V(unknown) or V(none).
      type: str
    agents:
      description: The newest pod of each agent, V(null) where there is none.
      type: dict
    capacity:
      description: The node's C(nvidia.com/) resources.
      type: dict
    allocatable:
      description: The part of them that pods can ask for.
      type: dict
    gpu_pods:
      description: Pods that use the node's GPUs.
      type: list
      elements: dict
    ready:
      description: Whether the node is ready.
      type: bool
    schedulable:
      description: Whether the node is not cordoned.
      type: bool
    kernel:
      description: Its kernel.
      type: str
    labels:
      description: Its labels, without those of Node Feature Discovery.
      type: dict
  sample:
    - name: gpu-t4-1
      gpus: {product: Tesla-T4, count: 2, memory_mib: 15360, architecture: turing, compute: "7.5", mig_enabled: false, mixed: false}
      label: mps-four
      config: mps-four
      source: label
      running: current
      agents:
        gpu-feature-discovery: {name: gpu-feature-discovery-abcde, ready: true, created: "2026-11-30T12:00:00Z"}
        mps-control-daemon: {name: nvidia-device-plugin-mps-control-daemon-abcde, ready: true, created: "2026-11-30T12:00:05Z"}
        device-plugin: {name: nvidia-device-plugin-daemonset-abcde, ready: true, created: "2026-11-30T12:00:09Z"}
      capacity: {nvidia.com/gpu: 8}
      allocatable: {nvidia.com/gpu: 8}
      gpu_pods: []
      ready: true
      schedulable: true
      kernel: 6.8.0-60-generic
      labels: {nvidia.com/gpu.product: Tesla-T4-SHARED}
compute_modes:
  description: By node, the compute mode of each GPU, V(null) where nobody could be asked.
  type: dict
  returned: when O(compute_modes) is true
  sample: {gpu-t4-1: [default, default]}
left_exclusive:
  description: Nodes with a GPU in the compute mode EXCLUSIVE_PROCESS, though no MPS control daemon runs there.
  type: list
  elements: str
  returned: when O(compute_modes) is true
  sample: []
raw:
  description: The API objects.
  type: dict
  returned: when O(raw) is true
  contains:
    nodes:
      description: Node objects.
      type: list
      elements: dict
    policies:
      description: ClusterPolicy objects.
      type: list
      elements: dict
    config_map:
      description: The ConfigMap object.
      type: dict
  sample: {nodes: [], policies: [], config_map: null}
"""

from ansible_collections.gpuops.mps.plugins.module_utils._options import PLACE_OPTIONS, run
from ansible_collections.gpuops.mps.plugins.module_utils._readers import read_sharing


def main() -> None:
    run(read_sharing, {**PLACE_OPTIONS, "compute_modes": {"type": "bool", "default": False}, "raw": {"type": "bool", "default": False}})


if __name__ == "__main__":
    main()
