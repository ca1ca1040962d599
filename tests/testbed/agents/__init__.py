# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated node agents: what kubelet and NVIDIA's pods do on a GPU node, without a GPU.

The model (every file but ``cluster_*``, ``node_agent`` and ``__main__``) is plain functions over frozen dataclasses.
It shares no code with the collection's plugins: both are held against the same executed vectors instead.
"""
