#!/usr/bin/python
# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mps_policy
short_description: Refer the active ClusterPolicy of the NVIDIA GPU Operator to a ConfigMap of sharing configs
version_added: 0.1.0
author:
  - gpuops.mps contributors (@gpuops)
description:
  - Sets C(spec.devicePlugin.config.name) and C(spec.devicePlugin.config.default) of the active ClusterPolicy, and nothing else.
  - The policy is found by itself, whatever its name and namespace are. A cluster without one, or one whose GPUs belong to a
    GPUCluster, is an error. No policy is ever created.
  - The map and the default's key must exist. What was written is compared with what the API server stored, because an old CRD
    drops the field and answers with success.
  - When Helm or a GitOps tool keeps the policy, a warning shows what to commit there.
  - A change makes the operator replace the pods of three DaemonSets on all GPU nodes by itself.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.mps._attributes
  - gpuops.mps._attributes.actiongroup_mps
  - gpuops.mps._place
  - gpuops.mps._place.accept
attributes:
  check_mode:
    support: full
    details: The write is sent to the API server as a dry run, so a field that an old CRD would drop is seen in check mode too.
  diff_mode:
    support: full
    details: Shows the two fields.
  idempotent:
    support: full
options:
  default:
    description:
      - The key that GPU nodes without a label get. An empty text clears it, so that such nodes do not share.
      - Leaves the default as it is when not given.
    type: str
  state:
    description:
      - With V(absent) both fields are cleared, and nothing else.
    type: str
    choices: [present, absent]
    default: present
  wait:
    description:
      - Whether to wait until the operator has replaced the pods of the three DaemonSets.
      - The state of the ClusterPolicy is not enough for that, it says C(ready) while old pods still run.
    type: bool
    default: false
  wait_sleep:
    description:
      - Seconds between two looks.
    type: int
    default: 5
  wait_timeout:
    description:
      - Seconds to wait at most. What was not done by then is an error.
    type: int
    default: 120
seealso:
  - module: gpuops.mps.mps_config
  - module: gpuops.mps.mps_rollout
"""

EXAMPLES = r"""
---
- name: Share every GPU without a label between two clients
  gpuops.mps.mps_policy:
    config_map: mps-configs
    default: mps-two
    wait: true
    wait_timeout: 600

- name: Use labels only
  gpuops.mps.mps_policy:
    config_map: mps-configs
    default: ""

- name: Go back to a device plugin without configs
  gpuops.mps.mps_policy:
    state: absent
"""

RETURN = r"""
policy:
  description: The active ClusterPolicy and its two fields, empty text for an unset one.
  type: dict
  returned: always
  contains:
    name:
      description: Name of the policy.
      type: str
    before:
      description: The fields as they were.
      type: dict
    after:
      description: The fields as they are now, or would be in check mode.
      type: dict
  sample:
    name: cluster-policy
    before: {name: "", default: ""}
    after: {name: mps-configs, default: mps-two}
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
    - code: policy-owned-elsewhere
      severity: warning
      path: spec.devicePlugin.config
      message: "the ClusterPolicy belongs to the Helm release 'gpu-operator'"
      remedy: "Put these values into the release."
      subject: clusterpolicy/cluster-policy
"""

from ansible_collections.gpuops.mps.plugins.module_utils._options import ACCEPT_OPTIONS, PLACE_OPTIONS, WAIT_OPTIONS, run
from ansible_collections.gpuops.mps.plugins.module_utils._writers import write_policy


def main() -> None:
    run(
        write_policy,
        {
            "default": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            **PLACE_OPTIONS,
            **ACCEPT_OPTIONS,
            **WAIT_OPTIONS,
        },
    )


if __name__ == "__main__":
    main()
