# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real copy of the checkout at a path that ansible-test accepts.

ansible-test resolves links before it looks for ``ansible_collections/<namespace>/<name>`` in its own path, so a linked tree is refused:
the files that git knows of, or would add, are copied instead. The copy is outside of the checkout, in whose git all of its files
would be ignored ones, which the tools leave out.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuops-mps"
TREE = CACHE / "tree" / hashlib.sha256(str(ROOT).encode()).hexdigest()[:8]


def collection_files(root: Path = ROOT) -> list[Path]:
    """Return the paths, relative to ``root``, of all files that are tracked or would be added by git and still exist."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root, check=True, capture_output=True, text=True
    ).stdout
    return sorted(Path(name) for name in listing.split("\0") if name and (root / name).is_file())


def find_kubernetes_core() -> Path:
    """Return the folder of the installed kubernetes.core; raises FileNotFoundError that names the searched folders."""
    folders = [folder for folder in os.environ.get("ANSIBLE_COLLECTIONS_PATH", "").split(":") if folder]
    folders += [str(ROOT / ".cache" / "collections"), "~/.ansible/collections", "/usr/share/ansible/collections"]
    for folder in folders:
        candidate = Path(folder).expanduser() / "ansible_collections" / "kubernetes" / "core"
        if (candidate / "plugins").is_dir():
            return candidate.resolve()
    raise FileNotFoundError(f"kubernetes.core is in none of {', '.join(folders)}: run 'make venv' or set ANSIBLE_COLLECTIONS_PATH")


def build_tree(tree: Path = TREE) -> Path:
    """Copy the collection below ``tree``, put kubernetes.core beside it and return the collection's folder there."""
    collection = tree / "ansible_collections" / "gpuops" / "mps"
    wanted = collection_files()
    remove_others(collection, set(wanted))
    for name in wanted:
        copy_if_changed(ROOT / name, collection / name)
    neighbour = tree / "ansible_collections" / "kubernetes" / "core"
    if not neighbour.is_dir():
        shutil.copytree(find_kubernetes_core(), neighbour, ignore=shutil.ignore_patterns("tests", "docs", "__pycache__"))
    return collection


def remove_others(collection: Path, wanted: set[Path]) -> None:
    """Delete what an earlier copy left behind, ansible-test's own output included."""
    for path in [path for path in collection.rglob("*") if path.is_file() or path.is_symlink()]:
        if path.relative_to(collection) not in wanted:
            path.unlink()


def copy_if_changed(source: Path, target: Path) -> None:
    """Copy one file unless size and time of modification say that the copy is current."""
    if target.exists():
        old, new = target.stat(), source.stat()
        if (old.st_size, int(old.st_mtime)) == (new.st_size, int(new.st_mtime)):
            return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
