# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_case import LogKey
from ansible_collections.gpuops.mps.plugins.module_utils._diagnosis_logs import explain, failed_start, last_line, waits_for_daemon
from ansible_collections.gpuops.mps.plugins.module_utils._findings import CATALOGUE

KEY = LogKey("gpu-operator", "pod", "container")
BEFORE = LogKey("gpu-operator", "pod", "container", previous=True)

# What the real programs print (k8s-device-plugin v0.17 to v0.20), with time stamps cut off.
LINES = [
    ("unable to load configs: error getting config: specified config mps-9 does not exist", "agent-config-missing", "'mps-9'"),
    ("error getting config: specified config  does not exist", "agent-config-missing", "default"),
    ("error getting config: no configuration files available", "agent-config-missing", "no keys"),
    (
        "unable to load config: unable to finalize config: unable to parse config file: error parsing config file: unmarshal error: error unmarshaling "
        "JSON: while decoding JSON: number of replicas must be >= 2",
        "agent-config-refused",
        "number of replicas must be >= 2",
    ),
    ("invalid MPS configuration: invalid device maximum allowed replicas exceeded: 49 > 48", "daemon-refuses-replicas", "49 > 48"),
    ("error setting SELinux context: operation not permitted", "daemon-refused-by-selinux", "SELinux"),
    ("using --mig-strategy=mixed is not supported with MPS", "mig-refuses-mps", "mixed"),
    ("sharing using MPS is not supported for MIG devices", "mig-refuses-mps", "MIG"),
    ("error finding pid: no process found", "sidecar-cannot-signal", "sidecar"),
    ("panic: runtime error: index out of range [0] with length 0", "sidecar-cannot-signal", "sidecar"),
]


@pytest.mark.parametrize(("line", "code", "words"), LINES)
def test_a_known_line_is_explained(line: str, code: str, words: str) -> None:
    reason = explain([(KEY, f"I1130 starting\nE1130 main.go:173] {line}\nI1130 exiting")])
    assert reason is not None and reason.code == code and words in reason.words and line in reason.line
    assert code in CATALOGUE


def test_the_more_telling_line_wins_wherever_it_stands() -> None:
    logs = [(KEY, "error finding pid: no process found"), (BEFORE, "allowed replicas exceeded: 20 > 16\nmaximum allowed replicas exceeded: 20 > 16")]
    reason = explain(logs)
    assert reason is not None and reason.code == "daemon-refuses-replicas" and reason.key == BEFORE


def test_an_unknown_log_has_no_explanation_but_a_last_line() -> None:
    logs = [(BEFORE, "\n"), (KEY, "first\nlast\n\n")]
    assert explain(logs) is None and last_line(logs) == (KEY, "last")
    assert last_line([]) is None


def test_a_plugin_that_waits_says_so() -> None:
    text = "Failed to start plugin: error waiting for MPS daemon: error checking MPS daemon health: exit status 1\nRetrying in 30s"
    reason = waits_for_daemon([(KEY, text)])
    assert reason is not None and reason.code == "plugin-waits-for-daemon"
    assert waits_for_daemon([(KEY, "Registered device plugin for 'nvidia.com/gpu' with Kubelet")]) is None


def test_a_start_that_failed_last_counts_and_an_earlier_one_does_not() -> None:
    failed = "Failed to start MPS daemons: exit status 1\nFailed to start one or more MPS daemons. Retrying in 30s..."
    reason = failed_start([(KEY, failed)])
    assert reason is not None and reason.code == "daemon-start-fails"
    assert failed_start([(KEY, failed + "\nStarting\nMPS daemon\nis healthy")]) is None


def test_a_failed_start_with_a_known_reason_gets_its_code() -> None:
    reason = failed_start([(KEY, "Failed to start MPS daemons: error setting SELinux context: x")])
    assert reason is not None and reason.code == "daemon-refused-by-selinux"


@given(st.lists(st.text(), max_size=4))
def test_any_log_can_be_read(texts: list[str]) -> None:
    logs = [(KEY, text) for text in texts]
    for read in (explain, failed_start, waits_for_daemon, last_line):
        read(logs)
