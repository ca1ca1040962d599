# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: JSON in annotations. Pure."""

from __future__ import annotations

import json
import typing as t

Kind = t.TypeVar("Kind", dict[t.Any, t.Any], list[t.Any])


def annotated(annotations: t.Mapping[str, str], name: str, kind: type[Kind]) -> Kind:
    """The JSON value of an annotation, an object or a list.

    Anybody may write annotations, so what is of another kind, no JSON, or nested beyond reason is an empty one.
    """
    try:
        value = json.loads(annotations.get(name) or "null")
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, kind) else kind()
