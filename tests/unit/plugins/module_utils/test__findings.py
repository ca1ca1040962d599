# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings, and how they are accepted."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils import _findings as findings_module
from ansible_collections.gpuops.mps.plugins.module_utils._findings import CATALOGUE, Finding, check_accept, closest, finding, is_final, split_accepted


def test_a_finding_takes_its_texts_from_the_catalogue() -> None:
    found = finding("unknown-key", "key.x", subject="configmap/a/b")
    entry = CATALOGUE["unknown-key"]
    assert found == Finding("unknown-key", "error", "key.x", entry.title, entry.remedy, "configmap/a/b")
    assert found.as_dict() == {
        "code": "unknown-key",
        "severity": "error",
        "path": "key.x",
        "message": entry.title,
        "remedy": entry.remedy,
        "subject": "configmap/a/b",
    }


def test_own_texts_are_taken_literally_without_values() -> None:
    found = finding("unknown-key", "x", "a {b}", remedy="c {d}")
    assert (found.message, found.remedy) == ("a {b}", "c {d}")


def test_values_fill_the_texts() -> None:
    found = finding("unknown-key", "x", "a {b}", remedy="c {b}", b=1)
    assert (found.message, found.remedy) == ("a 1", "c 1")


def test_an_unknown_code_is_a_defect() -> None:
    with pytest.raises(KeyError):
        finding("no-such-code", "x")


def test_a_code_cannot_be_in_the_catalogue_twice() -> None:
    entry = CATALOGUE["unknown-key"]
    with pytest.raises(ValueError, match="unknown-key is in the catalogue twice"):
        findings_module._gather(((entry,), (entry,)))


def test_accepted_findings_are_softened_and_say_so() -> None:
    error = finding("unknown-key", "x")
    standing, accepted = split_accepted([error], ["unknown-key"])
    assert standing == ()
    assert (accepted[0].severity, accepted[0].message) == ("warning", f"{error.message} (accepted by name)")


def test_what_cannot_be_accepted_stands() -> None:
    errors = [finding("yaml-syntax", "x"), finding("unknown-key", "y")]
    assert split_accepted(errors, ["yaml-syntax"]) == (tuple(errors), ())


def test_an_accepted_warning_becomes_information() -> None:
    _standing, accepted = split_accepted([finding("version-missing", "x")], ["version-missing"])
    assert accepted[0].severity == "info"


def test_only_errors_that_cannot_be_accepted_are_final() -> None:
    assert is_final(finding("yaml-syntax", "x"))
    assert not is_final(finding("unknown-key", "x"))
    assert not is_final(finding("version-missing", "x"))


def test_codes_in_accept_are_checked() -> None:
    found = check_accept(["unknown-key", "unknown-keys", "zzz", "yaml-syntax", "version-missing"], "options.accept")
    assert [(one.code, one.path) for one in found] == [
        ("accept-unknown-code", "options.accept[1]"),
        ("accept-unknown-code", "options.accept[2]"),
        ("accept-impossible", "options.accept[3]"),
    ]
    assert found[0].message == "'unknown-keys' is not the code of any finding; did you mean 'unknown-key'?"
    assert found[1].message == "'zzz' is not the code of any finding"
    assert CATALOGUE["yaml-syntax"].remedy in found[2].message


@pytest.mark.parametrize(
    ("word", "found"),
    [("replica", "replicas"), ("Rename_By_Default", "renameByDefault"), ("rename-by-default", "renameByDefault"), ("zzz", None), ("", None)],
)
def test_the_closest_word(word: str, found: str | None) -> None:
    assert closest(word, ["replicas", "renameByDefault"]) == found
