# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the collection importable under plain pytest, and choose the size of the property tests.

Run `make venv` once; it puts kubernetes.core beside this collection in `.cache/collections`.

Property tests: the profile is named by the environment variable HYPOTHESIS_PROFILE. Under `dev` (the default) every
property runs at most 50 examples, also where a test sets more, so that a developer waits seconds. Under `ci` every
test runs the number it sets itself.
"""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import HealthCheck, settings

from tests.collections_tree import link_checkout

DEVELOPER_EXAMPLES = 50
COLLECTIONS = link_checkout()
# Two ways in: plain imports by sys.path, Ansible's own plugin loader by its variable.
if str(COLLECTIONS) not in sys.path:
    sys.path.insert(0, str(COLLECTIONS))
os.environ["ANSIBLE_COLLECTIONS_PATH"] = str(COLLECTIONS)

settings.register_profile("dev", max_examples=DEVELOPER_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Cut the examples a test asks for down to the developer's number, unless the `ci` profile runs."""
    if os.environ.get("HYPOTHESIS_PROFILE", "dev") != "dev":
        return
    for item in items:
        function = getattr(item, "obj", None)
        wanted = getattr(function, "_hypothesis_internal_use_settings", None)
        if wanted is not None and wanted.max_examples > DEVELOPER_EXAMPLES:
            function = getattr(function, "__func__", function)
            function._hypothesis_internal_use_settings = settings(wanted, max_examples=DEVELOPER_EXAMPLES)
