# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: which parts of a kubeconfig nobody may see. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

try:
    import yaml
except ImportError:  # the file must import without PyYAML; a kubeconfig given as text is then not looked into
    yaml = None

# The fields of a user in a kubeconfig and of its auth provider, and the variables of its exec plugin
# (kubernetes, client-go tools/clientcmd/api/types.go). A field that names a file holds no secret.
_SECRET = re.compile(r"token|secret|password|passwd|key-?data|api_?key|access_?key|private_?key", re.IGNORECASE)
_FILE = re.compile(r"file$|path$", re.IGNORECASE)
# What is shorter is found in every second word of an output, and no secret.
_SHORTEST = 4


def kubeconfig_secrets(kubeconfig: object) -> frozenset[str]:
    """The secret values in a kubeconfig given as a mapping, or as the text of one where a path belongs."""
    if isinstance(kubeconfig, str) and is_content(kubeconfig):
        kubeconfig = _parsed(kubeconfig)
    return frozenset(value for value in _secrets(kubeconfig, 0) if len(value) >= _SHORTEST)


def is_content(kubeconfig: str) -> bool:
    """Whether a text is no path but the content of a kubeconfig, as ``lookup('file', ...)`` brings it."""
    return "\n" in kubeconfig.strip() or kubeconfig.lstrip().startswith("{")


def _parsed(text: str) -> object:
    if yaml is None:
        return None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _secrets(value: object, depth: int) -> Iterator[str]:
    if depth > 20:
        return
    if isinstance(value, Mapping):
        variable = str(value.get("name", "")) if isinstance(value.get("value"), str) else ""
        for key, inner in value.items():
            name = variable if key == "value" else str(key)
            if isinstance(inner, str) and _SECRET.search(name) and not _FILE.search(name):
                yield inner
            else:
                yield from _secrets(inner, depth + 1)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _secrets(inner, depth + 1)
