# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run every static check: ``python -m tests.lint [name ...]``; without names all of them.

Each check runs even when an earlier one failed, so that one run shows everything; the exit code is 1 if any failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.lint.headers import files_without_header
from tests.lint.sanity import sanity_command
from tests.lint.tree import ROOT, build_tree

BIN = Path(sys.executable).parent


def run(*command: str, cwd: Path = ROOT, tree: Path | None = None) -> bool:
    """Run one program of this Python's environment; its output goes to the terminal. Returns whether it succeeded."""
    environment = dict(os.environ, PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}", ANSIBLE_NOCOLOR="1", PY_COLORS="0")
    if tree is not None:
        environment["ANSIBLE_COLLECTIONS_PATH"] = str(tree)
    return subprocess.run(command, cwd=cwd, env=environment, check=False).returncode == 0


def headers() -> bool:
    """Every source file carries the licence header."""
    missing = files_without_header()
    for name in missing:
        print(f"{name}: no 'SPDX-License-Identifier: GPL-3.0-or-later' in the first lines")
    return not missing


def ruff() -> bool:
    """Style and common mistakes of the Python code."""
    return run("ruff", "check", ".")


def mypy() -> bool:
    """Types of the plugins."""
    collection = build_tree()
    tree = collection.parents[2]
    names = sorted(str(path.relative_to(tree)) for path in (collection / "plugins").rglob("*.py"))
    return run("mypy", "--config-file", str(ROOT / "pyproject.toml"), *names, cwd=tree, tree=tree)


def yamllint() -> bool:
    """YAML files."""
    return run("yamllint", "--strict", ".")


def ansible_lint() -> bool:
    """Roles, playbooks and metadata, profile production, on the copied tree so that FQCNs resolve to this code."""
    collection = build_tree()
    return run("ansible-lint", "--offline", "--profile", "production", cwd=collection, tree=collection.parents[2])


def docs() -> bool:
    """Documentation of plugins and roles, and the guides."""
    collection = build_tree()
    command = ("antsibull-docs", "lint-collection-docs", "--plugin-docs", "--validate-collection-refs", "self", ".")
    return run(*command, cwd=collection, tree=collection.parents[2])


def changelog() -> bool:
    """Changelog fragments."""
    return run("antsibull-changelog", "lint")


def sanity() -> bool:
    """The sanity tests of ansible-test, without Docker."""
    collection = build_tree()
    return run(*sanity_command(BIN), cwd=collection, tree=collection.parents[2])


CHECKS: tuple[Callable[[], bool], ...] = (headers, ruff, yamllint, changelog, mypy, docs, ansible_lint, sanity)


def main(names: list[str]) -> int:
    """Run the named checks, print how long each took, return the exit code."""
    known = {check.__name__: check for check in CHECKS}
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(f"unknown checks: {', '.join(unknown)}; there are: {', '.join(known)}")
        return 2
    failed = []
    for name in names or known:
        print(f"--- {name}: {known[name].__doc__}", flush=True)
        started = time.monotonic()
        passed = known[name]()
        print(f"--- {name}: {'ok' if passed else 'FAILED'} ({time.monotonic() - started:.0f} s)", flush=True)
        if not passed:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
