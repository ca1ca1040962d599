#!/usr/bin/python
# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mps_operator_info
short_description: Tell what is installed of the NVIDIA GPU Operator, who manages it, and whether it is ready
version_added: 0.1.0
author:
  - gpuops.mps contributors (@gpuops)
description:
  - Finds the GPU Operator in any namespace and reads its Deployment, its ClusterPolicy, its DaemonSets and the labels of the nodes.
  - Judges readiness by what runs. The ClusterPolicy's state alone says C(ready) while old pods are still running, and a
    DaemonSet that wants no pod counts as complete for the Kubernetes API; neither is enough here.
  - Names the tool that manages the installation (Helm, OLM, Argo CD, Flux), so that nobody else writes to it.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.mps._attributes.info_module
  - gpuops.mps._attributes.actiongroup_mps
attributes:
  check_mode:
    details: In check mode O(wait) is ignored, because what would be waited for was not installed.
options:
  namespace:
    description:
      - The namespace that the operator belongs to when it is not installed yet.
      - An installed operator is found in whatever namespace it is; this one is preferred when there are several.
    type: str
    default: gpu-operator
  minimum_nodes:
    description:
      - How many GPU nodes there must be before the operator counts as ready.
      - Use V(0) for a cluster whose GPU nodes come and go with an autoscaler.
    type: int
    default: 1
  wait:
    description:
      - Whether to wait until the operator is ready, and to fail when it is not in time.
    type: bool
    default: false
  wait_sleep:
    description:
      - Seconds between two looks.
    type: int
    default: 5
  wait_timeout:
    description:
      - Seconds to wait at most.
    type: int
    default: 120
requirements:
  - python >= 3.11
  - kubernetes >= 24.2.0
seealso:
  - module: gpuops.mps.mps_info
"""

EXAMPLES = r"""
---
- name: Look at the GPU Operator
  gpuops.mps.mps_operator_info:
  register: operator

- name: Stop here unless Helm manages it
  ansible.builtin.assert:
    that: not operator.installed or operator.owner.kind == 'helm'

- name: Wait until every part of the operator runs
  gpuops.mps.mps_operator_info:
    wait: true
    wait_timeout: 900
"""

RETURN = r"""
installed:
  description: Whether the operator's Deployment exists.
  type: bool
  returned: success
  sample: true
namespace:
  description: The namespace of the operator, or the one that was asked for when it is not installed.
  type: str
  returned: success
  sample: gpu-operator
namespace_labels:
  description: Labels of this namespace; V(null) when it does not exist.
  type: dict
  returned: success
  sample:
    kubernetes.io/metadata.name: gpu-operator
    pod-security.kubernetes.io/enforce: privileged
version:
  description: Version of the operator, from its image or its chart.
  type: str
  returned: success
  sample: v25.3.4
supported:
  description: Whether this version can do MPS (v24.3.0 or later); V(null) when the version cannot be told.
  type: bool
  returned: success
  sample: true
owner:
  description: What manages the installation. V(null) when no known tool has left its mark.
  type: dict
  returned: success
  contains:
    kind:
      description: One of V(helm), V(olm), V(argocd) and V(flux).
      type: str
    name:
      description: Name of the release, the subscription's version or the application.
      type: str
    namespace:
      description: Its namespace, where the tool says it.
      type: str
  sample: {kind: helm, name: gpu-operator, namespace: gpu-operator}
policy:
  description: Name of the ClusterPolicy that the operator follows, V(null) when there is none.
  type: str
  returned: success
  sample: cluster-policy
config:
  description: The config map and the default config that the ClusterPolicy names now.
  type: dict
  returned: success
  sample: {name: mps-configs, default: mps-two}
gpu_nodes:
  description: Number of nodes that the operator takes for GPU nodes.
  type: int
  returned: success
  sample: 7
standalone_plugins:
  description: DaemonSets of NVIDIA's own device plugin chart, which must not run beside the operator.
  type: list
  elements: str
  returned: success
  sample: []
ready:
  description: Whether nothing is missing.
  type: bool
  returned: success
  sample: true
waiting_for:
  description: What is missing, in the order in which it comes about.
  type: list
  elements: str
  returned: always
  sample:
    - 'daemonset/nvidia-device-plugin-daemonset: 3 of 7 pods are available'
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import Cluster
from ansible_collections.gpuops.mps.plugins.module_utils._installation_reader import wait_for_installation
from ansible_collections.gpuops.mps.plugins.module_utils._options import WAIT_OPTIONS, run

ARGUMENT_SPEC: dict[str, t.Any] = {
    "namespace": {"type": "str", "default": "gpu-operator"},
    "minimum_nodes": {"type": "int", "default": 1},
    **WAIT_OPTIONS,
}


def operator_info(module: AnsibleModule, cluster: Cluster) -> dict[str, t.Any]:
    """Read, wait where that was asked for, and say what is missing when time is up."""
    waits = module.params["wait"] and not module.check_mode
    timeout = module.params["wait_timeout"] if waits else 0
    minimum_nodes = module.params["minimum_nodes"]
    installation = wait_for_installation(
        cluster, module.params["namespace"], minimum_nodes=minimum_nodes, timeout=timeout, pause=module.params["wait_sleep"]
    )
    result = installation.as_dict(minimum_nodes)
    if waits and not result["ready"]:
        reasons = "; ".join(result["waiting_for"])
        result.update(
            failed=True,
            msg=f"The GPU Operator on {cluster.server} is not ready after {timeout} seconds: {reasons}. "
            f"Look at 'kubectl get pods -n {installation.namespace}' and mend the first of these, then run again.",
        )
    return {"changed": False, **result}


def main() -> None:
    """Run the module."""
    run(operator_info, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
