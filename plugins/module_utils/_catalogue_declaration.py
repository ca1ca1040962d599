# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: catalogue entries for findings about a declaration, a device plugin config file, or a call of the validating action."""

from __future__ import annotations

from ansible_collections.gpuops.mps.plugins.module_utils._catalogue import CatalogueEntry

ENTRIES: tuple[CatalogueEntry, ...] = (
    CatalogueEntry(
        code="accept-unknown-code",
        severity="error",
        title="A code named in accept is not the code of any finding",
        meaning="The option that lists findings to go on with names a code that does not exist.",
        example="accept: [replica-above-cap]",
        why="A misspelt code accepts nothing: the run would stop at the finding all the same, or a later run would.",
        source="This collection: findings are accepted by name only.",
        remedy="Use the code exactly as it is printed with the finding.",
    ),
    CatalogueEntry(
        code="accept-impossible",
        severity="error",
        title="A code named in accept belongs to a finding that cannot be accepted",
        meaning="The finding describes something that cannot work or cannot be understood, so there is nothing to go on with.",
        example="accept: [yaml-syntax]",
        why="Going on would write a config that no component of the stack can use.",
        source="This collection: only findings about risk can be accepted.",
        remedy="Remove the code from the list and correct what the finding names.",
    ),
)
