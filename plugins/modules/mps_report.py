#!/usr/bin/python
# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The module is an action plugin of the same name; this file holds its documentation.

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mps_report
short_description: Write a report about GPU sharing as data, Markdown, HTML and JUnit
version_added: 0.1.0
author:
  - gpuops.mps contributors (@gpuops)
description:
  - Writes what M(gpuops.mps.mps_verify_info) found, with what a rollout changed and what a proof showed, into files on the controller.
  - The HTML file stands alone, without scripts or other files, and can be read on a phone, light and dark. The JUnit file shows each
    node as a test in a CI system.
  - A file that would differ in nothing but the time at which the cluster was read is left as it is.
extends_documentation_fragment:
  - gpuops.mps._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  verification:
    description:
      - The result of M(gpuops.mps.mps_verify_info).
    type: dict
    required: true
  rollout:
    description:
      - The result of M(gpuops.mps.mps_rollout) or M(gpuops.mps.mps_plan_info), to show what changed or would change.
    type: dict
  proof:
    description:
      - The result of M(gpuops.mps.mps_proof).
    type: dict
  folder:
    description:
      - The folder on the controller. It is created when it does not exist.
    type: path
    required: true
  name:
    description:
      - The name of the files without their ending. Reports of several clusters need different names.
    type: str
    default: gpu-sharing
  title:
    description:
      - The title of the report.
    type: str
    default: GPU sharing
  forms:
    description:
      - Which files to write. The endings are C(.json), C(.md), C(.html) and C(.xml).
    type: list
    elements: str
    choices: [json, markdown, html, junit]
    default: [json, markdown, html]
  findings_url:
    description:
      - Where the pages about findings are. The code of a finding is put behind it.
    type: str
    default: https://github.com/gpuops/gpuops.mps/blob/main/docs/docsite/rst/findings.rst#
notes:
  - Runs on the controller, whatever the host of the task is.
seealso:
  - module: gpuops.mps.mps_verify_info
"""

EXAMPLES = r"""
---
- name: Look at every GPU node
  gpuops.mps.mps_verify_info:
  register: verification

- name: Write the report
  gpuops.mps.mps_report:
    verification: "{{ verification }}"
    folder: "{{ playbook_dir }}/reports"
    title: GPU sharing on {{ inventory_hostname }}
    name: "{{ inventory_hostname }}"
    forms: [html, junit]
"""

RETURN = r"""
files:
  description: The files of the report.
  type: list
  elements: str
  returned: success
  sample: [reports/gpu-sharing.html]
state:
  description: V(clean), V(drifted), V(not right), V(not proven), or V(unknown) when no node was verified.
  type: str
  returned: success
  sample: clean
counts:
  description: How many nodes there are of each verdict, how many share by MPS, and how many clients they take.
  type: dict
  returned: success
  sample: {nodes: 6, verified: 6, waiting: 0, stale: 0, broken: 0, sharing: 4, clients: 52}
"""
