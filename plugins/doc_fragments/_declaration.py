# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the options of a declaration."""

from __future__ import annotations


class ModuleDocFragment:
    """The configs, the default, the groups, and what happens to nodes that leave a group."""

    DOCUMENTATION = r"""
options:
  configs:
    description:
      - The named configs. A name is a key of the ConfigMap and a value of the node label.
      - An empty mapping is a config without sharing. The other options are C(replicas) (clients for each GPU, 2 to 48),
        C(rename_by_default) (offer C(nvidia.com/gpu.shared) in place of C(nvidia.com/gpu)), C(mig_strategy) and
        C(fail_requests_greater_than_one).
    type: dict
"""

    GROUPS = r"""
options:
  node_groups:
    description:
      - Which nodes get a label, and which. Each group has a C(name) and a C(config), and selects nodes by C(nodes) (names),
        C(selector) (label selectors, all of which must hold) or C(match) (C(product), C(memory_at_least) and
        C(memory_at_most) in MiB, C(architecture), C(count), C(labels)).
      - A group selects the same nodes whether sharing is on or off. Products are compared without the C(-SHARED) that
        sharing adds, in C(match) and in selectors on C(nvidia.com/gpu.product) alike.
    type: list
    elements: dict
  on_left_group:
    description:
      - What happens to the label of a node that is in no group any more, if this collection wrote the label.
      - Labels that somebody else wrote on nodes outside of all groups are never touched.
    type: str
    choices: [keep, remove]
    default: keep
"""

    DEFAULT = r"""
options:
  default:
    description:
      - The config of GPU nodes without a label. Leaves the default of the ClusterPolicy as it is when not given.
    type: str
"""
