# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what modules say about themselves."""

from __future__ import annotations


class ModuleDocFragment:
    """Attributes that all modules share, and those of readers."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and return the changes it would make without making them.
  diff_mode:
    description: Returns details on what has changed, or would change, when in diff mode.
  idempotent:
    description: When run twice with the same arguments outside of check mode, the second run changes nothing.
"""

    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and return the changes it would make without making them.
    support: full
    details: The module only reads, so it does the same in check mode.
  diff_mode:
    description: Returns details on what has changed, or would change, when in diff mode.
    support: N/A
    details: The module changes nothing.
  idempotent:
    description: When run twice with the same arguments outside of check mode, the second run changes nothing.
    support: full
"""

    ACTIONGROUP_MPS = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/gpuops.mps.mps) in C(module_defaults) to set the authentication options once, also for the modules of kubernetes.core.
    support: full
    membership:
      - gpuops.mps.mps
"""
