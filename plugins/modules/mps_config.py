#!/usr/bin/python
# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mps_config
short_description: Write GPU sharing configs into the ConfigMap of the NVIDIA GPU Operator's device plugin
version_added: 0.1.0
author:
  - gpuops.mps contributors (@gpuops)
description:
  - Creates the ConfigMap and its keys, changes keys whose text means something else, and removes keys that this module wrote
    earlier and that are no longer declared.
  - Everything else in the map stays, foreign keys, labels and annotations included. A text that means the same as the
    declared config is left as it is, with its comments and other settings.
  - A key that a node's label or the default of the ClusterPolicy still uses is not removed. That is an error which lists the users.
  - Running pods do not notice a changed text. M(gpuops.mps.mps_rollout) restarts them node by node.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.mps._attributes
  - gpuops.mps._attributes.actiongroup_mps
  - gpuops.mps._place
  - gpuops.mps._place.accept
  - gpuops.mps._declaration
attributes:
  check_mode:
    support: full
    details: The write is sent to the API server as a dry run, so what the server would refuse is refused in check mode too.
  diff_mode:
    support: full
    details: Shows the keys that change, with their texts.
  idempotent:
    support: full
options:
  configs:
    description:
      - The named configs, required with O(state=present). A name is a key of the ConfigMap and a value of the node label.
      - An empty mapping is a config without sharing. The other options are C(replicas) (clients for each GPU, 2 to 48),
        C(rename_by_default) (offer C(nvidia.com/gpu.shared) in place of C(nvidia.com/gpu)), C(mig_strategy) and
        C(fail_requests_greater_than_one).
  state:
    description:
      - With V(absent) the keys that this module wrote are removed, and the map itself once it holds no other key.
      - Both are refused while something refers to them.
    type: str
    choices: [present, absent]
    default: present
seealso:
  - module: gpuops.mps.mps_policy
  - module: gpuops.mps.mps_nodes
  - module: gpuops.mps.mps_rollout
"""

EXAMPLES = r"""
---
- name: Offer exclusive GPUs, two and four clients for each GPU
  gpuops.mps.mps_config:
    configs:
      none: {}
      mps-two:
        replicas: 2
      mps-four:
        replicas: 4
        rename_by_default: true

- name: Show what another number of replicas would change
  gpuops.mps.mps_config:
    configs:
      none: {}
      mps-two:
        replicas: 3
  check_mode: true
  diff: true

- name: Remove what was written
  gpuops.mps.mps_config:
    state: absent
"""

RETURN = r"""
config_map:
  description: The ConfigMap and what happens to its keys.
  type: dict
  returned: always
  contains:
    namespace:
      description: Namespace of the operator.
      type: str
    name:
      description: Name of the map.
      type: str
    exists:
      description: Whether the map was there before.
      type: bool
    add:
      description: Keys that are added.
      type: list
      elements: str
    change:
      description: Keys whose text changes.
      type: list
      elements: str
    remove:
      description: Keys that are removed.
      type: list
      elements: str
  sample: {namespace: gpu-operator, name: mps-configs, exists: true, add: [mps-four], change: [], remove: []}
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
    - code: key-in-use
      severity: error
      path: mps-configs.mps-eight
      message: "the key 'mps-eight' of the ConfigMap 'mps-configs' cannot be removed: it is used by the label of 'gpu-07'"
      remedy: "Keep the key, or give its users another config first."
      subject: configmap/gpu-operator/mps-configs
"""

from ansible_collections.gpuops.mps.plugins.module_utils._options import ACCEPT_OPTIONS, PLACE_OPTIONS, run
from ansible_collections.gpuops.mps.plugins.module_utils._writers import write_config_map


def main() -> None:
    run(
        write_config_map,
        {
            "configs": {"type": "dict"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            **PLACE_OPTIONS,
            **ACCEPT_OPTIONS,
        },
        required_if=[("state", "present", ["configs"])],
    )


if __name__ == "__main__":
    main()
