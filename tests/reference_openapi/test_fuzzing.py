"""Schemathesis finds no failure with examples, bounds, random input and sequences."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from reference_openapi.fuzzing import fuzz

if TYPE_CHECKING:
    from pathlib import Path

    from scenes.reference_shop import Shop

LONG = os.environ.get("FAULTS") == "long"
EXAMPLES = "300" if LONG else "5"
SEED = () if LONG else ("--seed", "20260301")
pytestmark = [pytest.mark.timeout(3600 if LONG else 600), pytest.mark.faults]


@pytest.mark.parametrize("phases", ["examples,coverage", "fuzzing", "stateful"])
async def test_fuzzing_finds_no_failure(
    dinar_shop: Shop, tmp_path: Path, phases: str
) -> None:
    outcome = await fuzz(dinar_shop, tmp_path, phases, "-n", EXAMPLES, *SEED)
    assert outcome.code == 0, outcome.text


async def test_fuzzing_within_limits_finds_no_failure(
    limited_shop: Shop, tmp_path: Path
) -> None:
    outcome = await fuzz(limited_shop, tmp_path, "fuzzing", "-n", "2", *SEED)
    assert outcome.code == 0, outcome.text
