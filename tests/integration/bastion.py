# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bastion: an SSH server on loopback with a home directory and an environment of its own, for Ansible's real ssh connection.

Commands run in a process with nothing of this one's environment, so that what works there is what a bastion has.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import asyncssh

START_SECONDS = 30.0


@dataclass
class Bastion:
    """A running bastion. C(commands) are the command lines that it was asked to run."""

    directory: Path
    port: int = 0
    commands: list[str] = field(default_factory=list)
    guests: list[asyncssh.SSHServerConnection] = field(default_factory=list)

    @property
    def home(self) -> Path:
        """The home directory on the bastion."""
        return self.directory / "home"

    @property
    def host_variables(self) -> dict[str, Any]:
        """How an inventory names it, with a Python that has the library kubernetes."""
        known = f"-F /dev/null -o StrictHostKeyChecking=yes -o UserKnownHostsFile={self.directory / 'known_hosts'}"
        return {
            "ansible_connection": "ssh",
            "ansible_host": "127.0.0.1",
            "ansible_port": self.port,
            "ansible_ssh_private_key_file": str(self.directory / "client"),
            "ansible_ssh_common_args": known,
            "mps_python": sys.executable,
        }

    def give_kubeconfig(self, kubeconfig: Path) -> None:
        """Put a kubeconfig where clients look for it, on the bastion only."""
        (self.home / ".kube").mkdir(mode=0o700, exist_ok=True)
        (self.home / ".kube" / "config").write_bytes(kubeconfig.read_bytes())

    async def run(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Run one command line."""
        command = process.command or ""
        self.commands.append(command)
        environment = {"HOME": str(self.home), "PATH": os.defpath, "LANG": "C.UTF-8"}
        child = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", command, cwd=self.home, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        await process.redirect(stdin=child.stdin, stdout=child.stdout, stderr=child.stderr)
        status = await child.wait()
        await process.stdout.drain()
        process.exit(status)
        await process.wait_closed()


class _Door(asyncssh.SSHServer):
    """Remembers who has come in: ssh keeps its connections open for the next task, and would keep them when all is over."""

    def __init__(self, bastion: Bastion) -> None:
        self._bastion = bastion

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._bastion.guests.append(conn)


def _make_keys(directory: Path) -> None:
    """A key pair for each side; the file of a private key is its owner's only, or ssh refuses it."""
    for name in ("client", "server"):
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(str(directory / name))
        key.write_public_key(str(directory / f"{name}.pub"))
        (directory / name).chmod(0o600)


async def _listen(bastion: Bastion) -> asyncssh.SSHAcceptor:
    return await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[str(bastion.directory / "server")],
        authorized_client_keys=str(bastion.directory / "client.pub"),
        server_factory=partial(_Door, bastion),
        process_factory=bastion.run,
        sftp_factory=True,
        line_editor=False,
        encoding=None,
    )


async def _close(bastion: Bastion, server: asyncssh.SSHAcceptor) -> None:
    server.close()
    await server.wait_closed()
    for guest in bastion.guests:
        guest.close()
        await guest.wait_closed()


@contextlib.contextmanager
def bastion(directory: Path) -> Iterator[Bastion]:
    """Start a bastion whose files are in `directory`, and stop it with everything that is connected."""
    started = Bastion(directory)
    started.home.mkdir(parents=True)
    _make_keys(directory)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(_listen(started), loop).result(START_SECONDS)
    started.port = server.get_port()
    public = (directory / "server.pub").read_text(encoding="utf-8")
    (directory / "known_hosts").write_text(f"[127.0.0.1]:{started.port} {public}", encoding="utf-8")
    try:
        yield started
    finally:
        asyncio.run_coroutine_threadsafe(_close(started, server), loop).result(START_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
