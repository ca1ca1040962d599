# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Validates a declaration, config texts and workload manifests on the controller."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.gpuops.mps.plugins.module_utils._limits import PluginVersion
from ansible_collections.gpuops.mps.plugins.module_utils._validation import Request, Validation, as_data, report, validate

# The shapes of these are the very thing that is validated, with better messages than an argument spec has.
ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "configs": {"type": "raw", "aliases": ["mps_configs"]},
    "default": {"type": "raw", "aliases": ["mps_default"]},
    "node_groups": {"type": "raw", "aliases": ["mps_node_groups"]},
    "nodes": {"type": "raw"},
    "config_map_data": {"type": "raw"},
    "manifests": {"type": "raw"},
    "policy_mig_strategy": {"type": "str", "choices": ["", "none", "single", "mixed"]},
    "plugin_version": {"type": "str"},
    "accept": {"type": "list", "elements": "str", "default": []},
}


class ActionModule(ActionBase):
    """Needs no connection and changes nothing, so check mode makes no difference."""

    _requires_connection = False
    TRANSFERS_FILES = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Fails with every finding, which are returned as data whether it fails or not."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
        result.update(as_result(validate(_request(options))))
        return result


def _request(options: dict[str, Any]) -> Request:
    version = PluginVersion.parse(options["plugin_version"]) if options["plugin_version"] else None
    if options["plugin_version"] and version is None:
        raise AnsibleActionFail(f"plugin_version '{options['plugin_version']}' is no version such as v0.17.4")
    return Request(
        configs=options["configs"],
        default=options["default"],
        groups=options["node_groups"],
        nodes=options["nodes"],
        config_map_data=options["config_map_data"],
        manifests=options["manifests"],
        mig_strategy=options["policy_mig_strategy"] or None,
        plugin_version=version,
        accept=options["accept"],
    )


def as_result(validation: Validation) -> dict[str, Any]:
    """The task's result; warnings are shown as warnings by Ansible itself."""
    warnings = [found for found in validation.findings if found.severity == "warning"]
    return {
        "changed": False,
        "failed": bool(validation.errors),
        "msg": report(validation.errors) if validation.errors else "nothing stands against going on",
        "warnings": [f"{found.code} at {found.path}: {found.message}. {found.remedy}" for found in warnings],
        "findings": [found.as_dict() for found in validation.findings],
        "configs": {config.name: as_data(config) for config in validation.configs},
    }
