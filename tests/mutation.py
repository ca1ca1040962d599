# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutation testing of the pure core: change the code in small ways and see whether the unit tests notice.

`python -m tests.mutation _limits _gpu _prediction` needs `pip install mutmut==3.8.1` in the same environment. It works in
`.cache/mutation`, on a copy laid out as the collection is imported, and ends with the mutants that no test noticed;
`cd .cache/mutation && mutmut show NAME` prints one of them. A file's tests are those of its own name, and TESTS_BESIDE.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
WORKSPACE = REPOSITORY / ".cache" / "mutation"
COLLECTION = Path("ansible_collections/gpuops/mps")
CORE = "plugins/module_utils"
UNIT_TESTS = "tests/unit/plugins/module_utils"
# Findings about a config and a node come out of a prediction, so each of the two has tests in the other's file.
TESTS_BESIDE = {"_prediction": ("_pair_checks",), "_pair_checks": ("_prediction",)}

# Few random examples, the same ones every time: a mutant must die of a test that dies every time.
CONFTEST = """
from hypothesis import settings

FEW = {"max_examples": 20, "derandomize": True, "database": None, "deadline": None}


def pytest_collection_modifyitems(items):
    for item in items:
        function = getattr(item, "obj", None)
        if hasattr(function, "_hypothesis_internal_use_settings"):
            function._hypothesis_internal_use_settings = settings(function._hypothesis_internal_use_settings, **FEW)
"""

SETTINGS = """
[tool.pytest.ini_options]
pythonpath = ["."]
addopts = "--import-mode=importlib -p no:cacheprovider"

[tool.mutmut]
source_paths = ["ansible_collections"]
only_mutate = {files}
pytest_add_cli_args_test_selection = {tests}
use_git_change_detection = false
use_setproctitle = false
"""


def main(arguments: list[str]) -> int:
    """Mutate the named files of the core; the status is mutmut's own."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("names", nargs="+", help="files of plugins/module_utils without .py, for example _limits")
    parser.add_argument("--workers", default="2", help="test processes at once")
    options = parser.parse_args(arguments)
    lay_out(options.names)
    mutmut = str(Path(sys.executable).with_name("mutmut"))
    status = subprocess.run([mutmut, "run", "--max-children", options.workers], cwd=WORKSPACE, check=False).returncode
    subprocess.run([mutmut, "results"], cwd=WORKSPACE, check=False)
    return status


def lay_out(names: list[str]) -> None:
    """Make the workspace anew: the collection under its import path, the unit tests, mutmut's settings."""
    shutil.rmtree(WORKSPACE, ignore_errors=True)
    leave_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "plugins", WORKSPACE / COLLECTION / "plugins", ignore=leave_out)
    shutil.copytree(REPOSITORY / "tests" / "unit", WORKSPACE / "tests" / "unit", ignore=leave_out)
    (WORKSPACE / "tests" / "unit" / "conftest.py").write_text(CONFTEST)
    files = [str(COLLECTION / CORE / f"{name}.py") for name in names]
    tests = [f"{UNIT_TESTS}/test_{name}.py" for name in dict.fromkeys(one for name in names for one in (name, *TESTS_BESIDE.get(name, ())))]
    (WORKSPACE / "pyproject.toml").write_text(SETTINGS.format(files=files, tests=tests))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
