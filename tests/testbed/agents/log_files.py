# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Container logs as files in CRI format, which KWOK serves to `kubectl logs`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

ROTATE_BYTES = 256 * 1024
WAITING_LINES = 200


class PodLogs:
    """One directory per pod; per container a file for the current run and one for the run before.

    Until `create` has been called the lines wait in memory: most pods of a fleet are never read.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._waiting: dict[str, list[str]] | None = {}
        self._sizes: dict[str, int] = {}

    def current(self, container: str) -> Path:
        return self.directory / f"{container}.log"

    def previous(self, container: str) -> Path:
        return self.directory / f"{container}.previous.log"

    def create(self, containers: tuple[str, ...]) -> None:
        """The files, empty ones too, so that reading the log of a container that has not run yet is no error."""
        waiting, self._waiting = self._waiting or {}, None
        self.directory.mkdir(parents=True, exist_ok=True)
        for name in containers:
            self.current(name).touch()
            self.previous(name).touch()
            self._write(name, waiting.get(name, []))

    def rotate(self, container: str) -> None:
        """The container starts again: its log so far becomes the previous one."""
        if self._waiting is None:
            self.current(container).replace(self.previous(container))
            self.current(container).touch()
            self._sizes[container] = 0

    def append(self, container: str, lines: tuple[str, ...]) -> None:
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
        entries = [f"{stamp} stdout F {line}\n" for text in lines for line in text.split("\n")]
        if self._waiting is None:
            self._write(container, entries)
        else:
            kept = self._waiting.setdefault(container, [])
            kept.extend(entries)
            del kept[:-WAITING_LINES]

    def _write(self, container: str, entries: list[str]) -> None:
        mode = "w" if self._sizes.get(container, 0) > ROTATE_BYTES else "a"
        with self.current(container).open(mode, encoding="utf-8") as file:
            file.writelines(entries)
            self._sizes[container] = file.tell()

    def tail(self, container: str, lines: int) -> str:
        """The last lines without their time stamps, for the termination message."""
        text = self.current(container).read_text(encoding="utf-8").splitlines()[-lines:]
        return "\n".join(line.split(" ", 3)[-1] for line in text)

    def remove(self) -> None:
        for path in self.directory.glob("*.log"):
            path.unlink(missing_ok=True)
        if self.directory.exists():
            self.directory.rmdir()
