# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-test sanity without a container, also where only a Python package index can be reached."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

DOWNLOAD_SECONDS = 10
# ansible-test runs this file in an empty virtual environment with the packages to install as arguments,
# beside two switches that only get-pip knows. The pip of ensurepip may be too old to use the system's certificates by itself.
BOOTSTRAP = """\
import ensurepip
import ssl
import subprocess
import sys

ensurepip.bootstrap()
arguments = [argument for argument in sys.argv[1:] if argument not in ("--no-setuptools", "--no-wheel")]
authorities = ssl.get_default_verify_paths().cafile
certificates = ["--cert", authorities] if authorities else []
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install", *certificates, *arguments]))
"""
PIP_VERSION_PROGRAM = (
    "import types; from ansible_test._internal.python_requirements import get_venv_packages as packages; "
    "print(packages(types.SimpleNamespace(version='{version}'))['pip'])"
)


def sanity_command(programs: Path) -> tuple[str, ...]:
    """Return the command line; provides for pip first.

    ``programs`` is the folder that holds ansible-test.
    """
    provide_pip_bootstrap(programs)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return ("ansible-test", "sanity", "--python", version, "--color", "no")


def provide_pip_bootstrap(programs: Path) -> None:
    """Put a pip bootstrap where ansible-test looks for it, if its own cannot be downloaded.

    ansible-test downloads get-pip from a host of the Ansible project; behind a proxy that offers package indexes only this fails,
    and ensurepip does the same from files that Python ships.
    """
    version = pip_version(programs)
    cached = Path(f"~/.ansible/test/cache/get_pip_{version.replace('.', '_')}.py").expanduser()
    if cached.exists() or can_download(f"https://ci-files.testing.ansible.com/ansible-test/get-pip-{version}.py"):
        return
    cached.parent.mkdir(parents=True, exist_ok=True)
    cached.write_text(BOOTSTRAP, encoding="utf-8")


def pip_version(programs: Path) -> str:
    """Return the version of pip that this ansible-test puts into its virtual environments."""
    program = PIP_VERSION_PROGRAM.format(version=f"{sys.version_info.major}.{sys.version_info.minor}")
    return subprocess.run([str(programs / "python"), "-c", program], check=True, capture_output=True, text=True).stdout.strip()


def can_download(url: str) -> bool:
    """Return whether the address answers within a few seconds."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=DOWNLOAD_SECONDS):
            return True
    except (urllib.error.URLError, OSError):
        return False
