# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: options that tell where the operator and its objects are, and which findings to go on with."""

from __future__ import annotations


class ModuleDocFragment:
    """Place of the operator's objects; accepted findings; requirements."""

    DOCUMENTATION = r"""
options:
  namespace:
    description:
      - The namespace that the GPU Operator runs in.
      - By default what the active ClusterPolicy says in its status; before it says so, where the operator's device plugin is.
    type: str
  config_map:
    description:
      - The ConfigMap that holds the configs.
      - By default the one that the active ClusterPolicy refers to, or V(mps-configs) when it refers to none.
    type: str
  policy:
    description:
      - The name of the ClusterPolicy.
      - By default the active one is found, whatever its name is. A name that is not the active policy's is an error,
        because the operator ignores all others.
    type: str
requirements:
  - python >= 3.11
  - kubernetes >= 24.2.0
  - PyYAML >= 3.11
"""

    ACCEPT = r"""
options:
  accept:
    description:
      - Codes of findings to go on with in spite of them. An accepted error becomes a warning.
      - Not every finding can be accepted. The list of all codes is in the collection's documentation.
    type: list
    elements: str
    default: []
"""
