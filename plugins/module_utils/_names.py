# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: what Kubernetes allows as names, label keys and label values."""

from __future__ import annotations

import re

_VALUE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?\Z")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*\Z")


def name_problem(name: str) -> str | None:
    """Why ``name`` cannot name a config, which is a ConfigMap key and a node label's value at once; None when it can.

    A ConfigMap key allows 253 characters and any ends, a label value 63 and only letters and digits at its ends
    (Kubernetes, apimachinery validation); the config-manager finds a node's config by the label's value.
    """
    if not name:
        return "is empty"
    if len(name) > 63:
        return f"has {len(name)} characters; a label value has at most 63"
    if not _VALUE.match(name):
        return "is no label value: letters, digits, '-', '_' and '.', with a letter or digit at both ends"
    return None


def label_value_problem(value: str) -> str | None:
    """Why ``value`` cannot be a label's value (an empty one can); None when it can."""
    return name_problem(value) if value else None


def label_key_problem(key: str) -> str | None:
    """Why ``key`` cannot be a label's key: an optional DNS subdomain and a slash before a name; None when it can."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _SUBDOMAIN.match(prefix)):
        return f"has the prefix '{prefix}', which is no DNS subdomain"
    problem = name_problem(name)
    return f"has the name '{name}', which {problem}" if problem else None


def node_name_problem(name: str) -> str | None:
    """Why ``name`` cannot be a node's name, a DNS subdomain of at most 253 characters; None when it can."""
    if len(name) > 253 or not _SUBDOMAIN.match(name):
        return "is no node name: lower-case letters, digits, '-' and '.', with a letter or digit at both ends, at most 253 characters"
    return None
