# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: the reason that an agent's log gives for its failure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_case import LogKey


@dataclass(frozen=True)
class Reason:
    """A reason that stands in a log: its finding code, its words, and the line with the log that holds it."""

    code: str
    words: str
    line: str
    key: LogKey


# What the agents print, most telling first (k8s-device-plugin v0.17 to v0.20: cmd/*/main.go, internal/mps, api/config/v1).
# A group named "what" goes into the words.
_REASONS: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), code, words)
    for pattern, code, words in (
        (
            r"maximum allowed replicas exceeded: (?P<what>\d+ > \d+)",
            "daemon-refuses-replicas",
            "the MPS control daemon refuses the number of replicas ({what})",
        ),
        (r"setting SELinux|SELinux context|avc: +denied", "daemon-refused-by-selinux", "SELinux refuses the MPS control daemon its pipe directory"),
        (r"specified config (?P<what>\S+) does not exist", "agent-config-missing", "the config '{what}' is not a key of the mounted ConfigMap"),
        (
            r"specified config\s+does not exist",
            "agent-config-missing",
            "the default config is not a key of the mounted ConfigMap (the agent prints an empty name here)",
        ),
        (r"no configuration files available", "agent-config-missing", "the mounted ConfigMap has no keys"),
        (
            r"unable to parse config file.*?: (?P<what>[^:]+(?:: [^:]+)?)$",
            "agent-config-refused",
            "the agent cannot read the config: {what}",
        ),
        (r"mig-strategy=mixed is not supported", "mig-refuses-mps", "the ClusterPolicy's MIG strategy 'mixed' cannot go with MPS"),
        (r"mps is not supported for mig|mig.{0,40}(not supported|mps)|mps.{0,60}mig", "mig-refuses-mps", "MPS is refused because MIG is enabled on a GPU"),
        (
            r"error finding pid|no process found|panic: ",
            "sidecar-cannot-signal",
            "the config-manager sidecar cannot signal the MPS control daemon and exits",
        ),
    )
)

# The plugin prints this while it waits for the daemon; it is normal for a while and no crash.
_DAEMON_HEALTH = re.compile(r"error checking MPS daemon health|waiting for MPS daemon", re.IGNORECASE)

# A failed start is two lines: the error, and that it will be tried again (cmd/mps-control-daemon/main.go).
_FAILED_START = re.compile(r"failed to start (?:one or more )?MPS daemons?: ", re.IGNORECASE)
_LINES_OF_AN_ATTEMPT = 3


def explain(logs: Iterable[tuple[LogKey, str]]) -> Reason | None:
    """The most telling known reason in the logs, or None when no line is known."""
    texts = list(logs)
    for pattern, code, words in _REASONS:
        for key, text in texts:
            for line in reversed(text.splitlines()):
                found = pattern.search(line)
                if found:
                    return Reason(code, words.format(**found.groupdict()), line.strip(), key)
    return None


def waits_for_daemon(logs: Iterable[tuple[LogKey, str]]) -> Reason | None:
    """The plugin's last complaint that the MPS control daemon does not answer, when nothing came after it but retries."""
    for key, text in logs:
        for line in reversed(text.splitlines()):
            if _DAEMON_HEALTH.search(line):
                return Reason("plugin-waits-for-daemon", "the device plugin gets no answer from the MPS control daemon", line.strip(), key)
    return None


def failed_start(logs: Iterable[tuple[LogKey, str]]) -> Reason | None:
    """Why the daemon did not start the last time it tried; None when its log ends with something else."""
    for key, text in logs:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        for line in reversed(lines[-_LINES_OF_AN_ATTEMPT:]):
            if _FAILED_START.search(line):
                known = explain([(key, line)])
                return known or Reason("daemon-start-fails", "the MPS control daemon fails to start, and tries again every 30 s", line, key)
    return None


def last_line(logs: Iterable[tuple[LogKey, str]]) -> tuple[LogKey, str] | None:
    """The last line that is not empty of the first log that has one."""
    for key, text in logs:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if lines:
            return key, lines[-1]
    return None
