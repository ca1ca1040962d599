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


def run(function: t.Callable[[AnsibleModule, Cluster], dict[str, t.Any]], argument_spec: dict[str, t.Any], **module_options: t.Any) -> None:
    """Run a module: connect, call ``function``, exit with what it returns.

    ``function`` gets the module and the cluster and returns the result. In check mode the cluster sends every write as a
    dry run. A ClusterError becomes a failure with ``msg``, ``code``, ``remedy`` and ``subject``, never a traceback.
    A result with ``failed`` true ends the module as a failure that keeps all other values.
    """
    module = AnsibleModule(argument_spec={**AUTH_OPTIONS, **argument_spec}, supports_check_mode=True, **module_options)
    kubeconfig = module.params.get("kubeconfig")
    if isinstance(kubeconfig, dict):
        module.no_log_values.update(extract_sensitive_values_from_kubeconfig(kubeconfig))
    try:
        result = function(module, Cluster.connect(module.params, dry_run=module.check_mode))
    except ClusterError as error:
        module.fail_json(msg=f"{error.message}. {error.remedy}", code=error.code, remedy=error.remedy, subject=error.subject)
    if result.get("failed"):
        module.fail_json(**{name: value for name, value in result.items() if name != "failed"})
    module.exit_json(**result)
