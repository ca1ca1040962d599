# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: catalogue entries for findings about what a config would do on a node's GPUs, and of workload manifests."""

from __future__ import annotations

from ansible_collections.gpuops.mps.plugins.module_utils._catalogue import CatalogueEntry

ENTRIES: tuple[CatalogueEntry, ...] = ()
