# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of the module mps_plan_info: kubernetes.core looks a relative kubeconfig up in files/ and decrypts it with Ansible Vault."""

from __future__ import annotations

from ansible_collections.kubernetes.core.plugins.action.k8s_info import ActionModule as KubernetesActionModule


class ActionModule(KubernetesActionModule):
    """The action of gpuops.mps.mps_plan_info."""
