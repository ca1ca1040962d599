# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.mps.plugins.module_utils._report import make_report
from ansible_collections.gpuops.mps.plugins.module_utils._report_markdown import write_markdown
from tests.unit.reports import GOOD, PROOF, RESULTS, ROLLOUT, VERIFICATION

TEXT = write_markdown(make_report(VERIFICATION, ROLLOUT, PROOF))


def test_it_shows_what_a_person_needs() -> None:
    assert TEXT.startswith("# GPU sharing\n\n**not right**: 1 of 2 GPU nodes verified, 1 broken")
    assert "| gpu-1 | verified | Tesla-T4-SHARED | mps-four | 4 | 2 → 8 | 25 | 3840 | passed |" in TEXT
    assert "### gpu-2: broken at daemon-ready" in TEXT and "What to do: Choose fewer replicas" in TEXT
    assert "- replicas: 2\n+ replicas: 4\n" in TEXT
    assert "[policy-put-back](<https://" in TEXT


@given(st.text(alphabet=st.sampled_from("|`*_[]<>#\\\n- 1.a"), max_size=30))
def test_a_value_stays_in_its_cell_and_is_no_markup(value: str) -> None:
    text = write_markdown(make_report({"nodes": [{**GOOD, "config": value, "verdict": "broken", "reason": value}]}))
    row = next(line for line in text.splitlines() if line.startswith("| gpu-1 |"))
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 10
    assert not re.search(r"(?<!\\)(?:\\\\)*[<`*\[]", row)


@pytest.mark.parametrize(
    ("line", "start"),
    [("-" * 5_000, "\\-\\-\\-"), ("- " * 2_500, "\\- - -"), ("1. first", "1\\. first"), ("+1) x", "\\+1) x"), ("=== a", "\\=\\=\\= a"), ("12 GPUs", "12 GPUs")],
)
def test_a_line_makes_no_list_however_it_begins(line: str, start: str) -> None:
    text = write_markdown(make_report({"nodes": [{**GOOD, "verdict": "broken", "reason": line}]}))
    assert f"\n\n{start}" in text


@given(st.text(alphabet=st.sampled_from("`~ab\n"), max_size=30))
def test_a_fence_is_longer_than_what_it_holds(value: str) -> None:
    text = write_markdown(make_report({}, {"plan_diff": [{"before_header": "x", "before": value, "after": f"{value}c"}]}))
    fences = [line for line in text.splitlines() if re.fullmatch(r"`{3,}(diff)?", line)]
    assert len(fences) == 2 and fences[0] == f"{fences[1]}diff"


@given(RESULTS, RESULTS, RESULTS)
def test_any_results_make_a_text(verification: object, rollout: object, proof: object) -> None:
    assert write_markdown(make_report(verification, rollout, proof)).endswith("\n")
