# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make `.cache/collections`, the tree Ansible finds the collections in: kubernetes.core, and this checkout as gpuops.mps.

`python -m tests.collections_tree`. kubernetes.core comes out of PyPI's `ansible` package, which carries it, because the
collection server may be out of reach where package registries are not; only kubernetes.core is unpacked from it.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
TREE = REPOSITORY / ".cache" / "collections" / "ansible_collections"
ANSIBLE_PACKAGE = "ansible==14.5.0"  # carries kubernetes.core 6.6.0
WANTED = "ansible_collections/kubernetes/core/"
# Kept beside what was unpacked, so that another pin is unpacked again.
SOURCE = "unpacked-from"


def link_checkout() -> Path:
    """Put this checkout into the tree as gpuops.mps; returns the path that Ansible is to be given."""
    link = TREE / "gpuops" / "mps"
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_symlink() and link.readlink() != REPOSITORY:  # the checkout was moved or copied
        link.unlink(missing_ok=True)
    with contextlib.suppress(FileExistsError):  # there already, or another process was faster
        link.symlink_to(REPOSITORY, target_is_directory=True)
    return TREE.parent


def main() -> None:
    """Make the tree or what is missing of it."""
    link_checkout()
    source = TREE.parent / SOURCE
    if not source.exists() or source.read_text() != ANSIBLE_PACKAGE:
        _unpack_kubernetes_core(TREE / "kubernetes" / "core")
        source.write_text(ANSIBLE_PACKAGE)
    print(TREE.parent)


def _unpack_kubernetes_core(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=TREE.parent) as scratch:
        print(f"fetching {ANSIBLE_PACKAGE} for kubernetes.core", flush=True)
        # The package wants a newer ansible-core than Python 3.11 can have; the collection itself does not.
        options = ["--quiet", "--no-deps", "--ignore-requires-python", "--only-binary=:all:", f"--dest={scratch}"]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, ANSIBLE_PACKAGE], check=True)
        (wheel,) = Path(scratch).glob("ansible-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(scratch, [name for name in archive.namelist() if name.startswith(WANTED)])
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        (Path(scratch) / WANTED).rename(target)


if __name__ == "__main__":
    main()
