# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the shape of one catalogue entry.

Kept apart from the findings so that the files with the entries and the catalogue that gathers them import in one direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class CatalogueEntry:
    """What one finding code means, the single source of its page in the documentation.

    ``code`` is stable, lower-case words joined by hyphens. ``title`` is one sentence without a full stop and is the
    default message. ``example`` is a literal snippet. ``source`` names the upstream code or document behind ``why``.
    ``acceptable`` says whether a user may go on in spite of an error by naming the code.
    """

    code: str
    severity: Severity
    title: str
    meaning: str
    example: str
    why: str
    source: str
    remedy: str
    acceptable: bool = False
