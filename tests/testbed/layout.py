# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where one test bed keeps what, and which ports it uses."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import secrets
import socket
from dataclasses import asdict, dataclass, fields
from pathlib import Path

# Below the range the kernel hands out by itself, so that an outgoing connection never sits on a bed's port.
PORT_RANGE = range(20000, 32000)
USERS = {
    # user name: groups. The cluster's own machinery, its administrator, and people who may do nothing until roles are bound to them.
    "admin": "system:masters",
    "testbed:launcher": "system:masters",
    "testbed:agents": "system:masters",
    "testbed:kwok": "system:masters",
    "testbed:operator-runner": "system:masters",
    "system:kube-controller-manager": "system:masters",
    "system:kube-scheduler": "system:masters",
    "reader": "people",
    "operator": "people",
    "installer": "people",
}


class LayoutError(Exception):
    """The bed's name or directory cannot be used."""


@dataclass(frozen=True)
class Ports:
    """The bed's TCP ports on 127.0.0.1."""

    etcd: int
    etcd_peer: int
    apiserver: int
    kwok: int


def state_home() -> Path:
    """Return the directory that holds one directory per bed."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "gpuops-mps" / "testbed"


@dataclass(frozen=True)
class Layout:
    """The files of the bed in `directory`."""

    directory: Path

    @classmethod
    def of(cls, name: str) -> Layout:
        """Return the layout of the bed called `name`. Raises LayoutError."""
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?", name):
            raise LayoutError(f"{name!r} cannot name a test bed: use lower-case letters, digits and hyphens.")
        return cls(state_home() / name)

    @property
    def name(self) -> str:
        """The bed's name."""
        return self.directory.name

    @property
    def certificates(self) -> Path:
        """The directory of the certificates and keys."""
        return self.directory / "certificates"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.directory / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """The API server's audit log, one JSON object a line."""
        return self.directory / "audit.log"

    @property
    def server(self) -> str:
        """The API server's address."""
        return f"https://127.0.0.1:{self.ports().apiserver}"

    def component_kubeconfig(self, user: str) -> Path:
        """The kubeconfig of one of USERS."""
        return self.kubeconfig if user == "admin" else self.directory / "kubeconfigs" / f"{user.rpartition(':')[2]}.kubeconfig"

    def ports(self) -> Ports:
        """Return the bed's ports, chosen at the first call and kept in a file from then on."""
        path = self.directory / "ports.json"
        if not path.exists():
            names = [field.name for field in fields(Ports)]
            _write_whole(path, json.dumps(dict(zip(names, _free_ports(len(names)), strict=True))))
        return Ports(**json.loads(path.read_text()))

    def tokens(self) -> dict[str, str]:
        """Return user name -> bearer token, made at the first call."""
        path = self.directory / "tokens.csv"
        if not path.exists():
            lines = [f'{secrets.token_urlsafe(24)},{user},{user},"{groups}"' for user, groups in USERS.items()]
            _write_whole(path, "\n".join(lines) + "\n")
        return {line.split(",")[1]: line.split(",")[0] for line in path.read_text().splitlines()}

    def write_kubeconfigs(self) -> None:
        """Write the kubeconfig of every user."""
        for user, token in self.tokens().items():
            path = self.component_kubeconfig(user)
            path.parent.mkdir(exist_ok=True)
            _write_whole(path, kubeconfig_text(self.server, self.certificates / "ca.crt", user, token))


def kubeconfig_text(server: str, authority: Path, user: str, token: str) -> str:
    """Return a kubeconfig (JSON, which is YAML) with one cluster, one user and one context."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": user}}],
        "current-context": "testbed",
    }
    return json.dumps(content, indent=2) + "\n"


def port_is_free(port: int) -> bool:
    """Tell whether a server could listen on the loopback port now."""
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def write_json(path: Path, value: object) -> None:
    """Write a dataclass or plain value as JSON, whole or not at all."""
    plain = asdict(value) if hasattr(value, "__dataclass_fields__") else value  # type: ignore[call-overload]
    _write_whole(path, json.dumps(plain, indent=2) + "\n")


def _free_ports(count: int) -> list[int]:
    candidates = random.SystemRandom().sample(PORT_RANGE, 200)
    return [port for port in candidates if port_is_free(port)][:count]


def _write_whole(path: Path, text: str) -> None:
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_text(text)
    unfinished.chmod(0o600)
    unfinished.replace(path)
