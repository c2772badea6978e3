"""Every parser of outside input gets nearly valid input, for minutes each."""

from __future__ import annotations

import os
from time import monotonic
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, seed, settings

from faults.trials import SEED, tell
from fuzzing.inputs import near
from fuzzing.test_parsers import TARGETS

if TYPE_CHECKING:
    from fuzzing.targets import Target

SECONDS = float(os.environ.get("FUZZ_SECONDS", "600"))
"""For each of the parsers."""
BATCH = 2_000
CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large]

pytestmark = [
    pytest.mark.faults,
    pytest.mark.long,
    pytest.mark.timeout(SECONDS + 600),
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda each: each.name)
def test_nearly_valid_input_is_understood_or_refused(
    target: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    began, cases, batches = monotonic(), 0, 0

    @settings(
        max_examples=BATCH, deadline=None, database=None, suppress_health_check=CHECKS
    )
    @given(data=near(target.seeds))
    def feed(data: bytes) -> None:
        nonlocal cases
        cases += 1
        target.take(data)

    while batches == 0 or monotonic() - began < SECONDS:
        seed(SEED + batches)(feed)()
        batches += 1
    tell(capsys, 0, cases, target.name)
