# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the argument specs that modules share, and how a module runs."""

from __future__ import annotations

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import (
    AUTH_ARG_SPEC,
    Cluster,
    ClusterError,
    extract_sensitive_values_from_kubeconfig,
)
from ansible_collections.gpuops.mps.plugins.module_utils._secrets import kubeconfig_secrets

AUTH_OPTIONS: dict[str, t.Any] = AUTH_ARG_SPEC

# Where things are; the namespace is the operator's and is found from the ClusterPolicy when it is not given.
PLACE_OPTIONS: dict[str, t.Any] = {
    "namespace": {"type": "str"},
    "config_map": {"type": "str"},
    "policy": {"type": "str"},
}

ACCEPT_OPTIONS: dict[str, t.Any] = {"accept": {"type": "list", "elements": "str", "default": []}}

# Structure is checked by the declaration's parser, which says more than an argument spec can.
GROUP_OPTIONS: dict[str, t.Any] = {
    "node_groups": {"type": "list", "elements": "dict"},
    "on_left_group": {"type": "str", "choices": ["keep", "remove"], "default": "keep"},
}

DECLARATION_OPTIONS: dict[str, t.Any] = {
    "configs": {"type": "dict"},
    "default": {"type": "str"},
    **GROUP_OPTIONS,
    **PLACE_OPTIONS,
    **ACCEPT_OPTIONS,
}

WAIT_OPTIONS: dict[str, t.Any] = {
    "wait": {"type": "bool", "default": False},
    "wait_sleep": {"type": "int", "default": 5},
    "wait_timeout": {"type": "int", "default": 120},
}


class _Module(AnsibleModule):
    """A module that never prints the secrets of a kubeconfig, not even when it ends because an option is wrong.

    A kubeconfig as a whole cannot be no_log: then every name in it, and its path, would be cut out of every message.
    """

    def _return_formatted(self, kwargs: dict[str, t.Any]) -> None:
        kubeconfig = (self.params or {}).get("kubeconfig")
        self.no_log_values.update(kubeconfig_secrets(kubeconfig))
        if isinstance(kubeconfig, dict):
            self.no_log_values.update(extract_sensitive_values_from_kubeconfig(kubeconfig))
        super()._return_formatted(kwargs)


def run(function: t.Callable[[AnsibleModule, Cluster], dict[str, t.Any]], argument_spec: dict[str, t.Any], **module_options: t.Any) -> None:
    """Run a module: connect, call ``function``, exit with what it returns.

    ``function`` gets the module and the cluster and returns the result. In check mode the cluster sends every write as a
    dry run. A ClusterError becomes a failure with ``msg``, ``code``, ``remedy`` and ``subject``, never a traceback.
    A result with ``failed`` true ends the module as a failure that keeps all other values.
    """
    module = _Module(argument_spec={**AUTH_OPTIONS, **argument_spec}, supports_check_mode=True, **module_options)
    try:
        result = function(module, Cluster.connect(module.params, dry_run=module.check_mode))
    except ClusterError as error:
        module.fail_json(msg=f"{error.message}. {error.remedy}", code=error.code, remedy=error.remedy, subject=error.subject)
    if result.get("failed"):
        module.fail_json(**{name: value for name, value in result.items() if name != "failed"})
    module.exit_json(**result)
