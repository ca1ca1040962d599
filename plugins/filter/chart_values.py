# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters around the GPU Operator's Helm chart; documented in chart_values.yml and chart_images.yml."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.gpuops.mps.plugins.module_utils._chart_values import ChartValuesError, chart_images, chart_values


def chart_values_filter(
    user: t.Mapping[str, t.Any],
    config: t.Mapping[str, t.Any],
    chart: t.Mapping[str, t.Any] | None = None,
    registry: str = "",
    pull_secrets: t.Sequence[str] = (),
    proxy: t.Mapping[str, t.Any] | None = None,
) -> dict[str, t.Any]:
    """The values to pass to Helm; a contradiction in them is an error of the template."""
    try:
        return chart_values(user, config=config, chart=chart or {}, registry=registry, pull_secrets=pull_secrets, proxy=proxy)
    except ChartValuesError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """The filters of this file by name."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name and function of each filter."""
        return {"chart_values": chart_values_filter, "chart_images": chart_images}
