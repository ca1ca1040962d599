# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Container logs as files in CRI format, which KWOK serves to `kubectl logs`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

ROTATE_BYTES = 256 * 1024


class PodLogs:
    """One directory per pod; per container a file for the current run and one for the run before."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def current(self, container: str) -> Path:
        return self.directory / f"{container}.log"

    def previous(self, container: str) -> Path:
        return self.directory / f"{container}.previous.log"

    def create(self, containers: tuple[str, ...]) -> None:
        """Empty files, so that reading the log of a container that has not run yet is no error."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for name in containers:
            self.current(name).touch()
            self.previous(name).touch()

    def rotate(self, container: str) -> None:
        """The container starts again: its log so far becomes the previous one."""
        self.current(container).replace(self.previous(container))
        self.current(container).touch()

    def append(self, container: str, lines: tuple[str, ...]) -> None:
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
        path = self.current(container)
        mode = "w" if path.exists() and path.stat().st_size > ROTATE_BYTES else "a"
        with path.open(mode, encoding="utf-8") as file:
            file.writelines(f"{stamp} stdout F {line}\n" for text in lines for line in text.split("\n"))

    def tail(self, container: str, lines: int) -> str:
        """The last lines without their time stamps, for the termination message."""
        text = self.current(container).read_text(encoding="utf-8").splitlines()[-lines:]
        return "\n".join(line.split(" ", 3)[-1] for line in text)

    def remove(self) -> None:
        for path in self.directory.glob("*.log"):
            path.unlink(missing_ok=True)
        if self.directory.exists():
            self.directory.rmdir()
