# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter fleet_summary; its documentation is in fleet_summary.yml."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from ansible.errors import AnsibleFilterError

from ansible_collections.gpuops.mps.plugins.module_utils._report_fleet import summarise_fleet


def fleet_summary(variables: object, clusters: object, finished: object) -> dict[str, Any]:
    """The summary as plain data. Raises AnsibleFilterError for anything but a mapping and two lists."""
    if not isinstance(variables, Mapping):
        raise AnsibleFilterError(f"fleet_summary: the input is hostvars, not {type(variables).__name__}")
    for name, hosts in (("clusters", clusters), ("finished", finished)):
        if not isinstance(hosts, (list, tuple)):
            raise AnsibleFilterError(f"fleet_summary: {name} is a list of hosts, not {type(hosts).__name__}")
    return summarise_fleet(variables, cast("list[str]", clusters), cast("list[str]", finished)).as_dict()


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"fleet_summary": fleet_summary}
