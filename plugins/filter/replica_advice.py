# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter replica_advice; its documentation is in replica_advice.yml."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.gpuops.mps.plugins.module_utils._advice import AdviceError, GpuModel, advise_clients, advise_memory

_FIELDS = frozenset({"memory_mib", "compute", "count", "product"})
# What mps_info tells of a node's GPUs besides; no part of the advice.
_IGNORED = frozenset({"architecture", "driver", "mig_enabled", "mixed"})


def replica_advice(
    gpu: object, memory_per_client: object = None, clients: object = None, config: str = "mps", rename_by_default: bool = False
) -> dict[str, Any]:
    """The advice for a GPU as plain data. Raises AnsibleFilterError for a need that cannot be met or input that is not understood."""
    model = _model(gpu)
    if (memory_per_client is None) == (clients is None):
        raise AnsibleFilterError("replica_advice: give either memory_per_client (MiB) or clients")
    try:
        if memory_per_client is not None:
            need = _whole_number(memory_per_client, "memory_per_client")
            return advise_memory(model, need, config=config, rename_by_default=rename_by_default).as_dict()
        return advise_clients(model, _whole_number(clients, "clients"), config=config, rename_by_default=rename_by_default).as_dict()
    except AdviceError as error:
        raise AnsibleFilterError(f"replica_advice: {error}") from error


def _model(gpu: object) -> GpuModel:
    if not isinstance(gpu, Mapping):
        raise AnsibleFilterError(f"replica_advice: the input is a mapping with memory_mib, compute and count, not {type(gpu).__name__}")
    unknown = sorted(set(gpu) - _FIELDS - _IGNORED)
    if unknown:
        raise AnsibleFilterError(f"replica_advice: unknown field {', '.join(map(str, unknown))}; there are {', '.join(sorted(_FIELDS))}")
    memory = gpu.get("memory_mib")
    product = gpu.get("product")
    return GpuModel(
        memory_mib=None if memory is None else _whole_number(memory, "memory_mib") or None,
        compute=_compute(gpu.get("compute")),
        count=_whole_number(gpu.get("count", 1), "count", least=1),
        product=None if product is None else str(product),
    )


def _compute(value: object) -> tuple[int, int]:
    """A compute capability as text or number (``7.5``), or as a pair."""
    text = ".".join(str(part) for part in value) if isinstance(value, (list, tuple)) else str(value)
    found = re.fullmatch(r"(\d{1,2})\.(\d)", text)
    if found is None:
        raise AnsibleFilterError(f"replica_advice: compute is a compute capability such as '7.5', not {value!r}")
    return int(found[1]), int(found[2])


def _whole_number(value: object, field: str, *, least: int = 0) -> int:
    text = str(value)
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,9}", text, re.ASCII) or int(text) < least:
        raise AnsibleFilterError(f"replica_advice: {field} is a whole number of at least {least}, not {value!r}")
    return int(text)


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"replica_advice": replica_advice}
