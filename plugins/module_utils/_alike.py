# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what many nodes have in common is told once, so that a result does not grow with the cluster. Pure."""

from __future__ import annotations

import json
import typing as t


def told_once(rows: t.Iterable[tuple[str, t.Mapping[str, t.Any]]]) -> list[dict[str, t.Any]]:
    """Rows of (node's name, JSON data) as one entry for each set of nodes with equal data: C(names) first, then the data.

    Entries come in the order of their first node, names in the order of the rows. ansible-core looks at each value of a
    result several times on both sides, which on thousands of nodes takes longer than reading them.
    """
    entries: dict[str, dict[str, t.Any]] = {}
    for name, data in rows:
        entries.setdefault(json.dumps(data, sort_keys=True), {"names": [], **data})["names"].append(name)
    return list(entries.values())
