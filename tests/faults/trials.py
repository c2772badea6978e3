"""How long the fault suites run, with which seed, and how they say what they saw."""

from __future__ import annotations

import os
import random
import sys
from typing import TYPE_CHECKING

from scenes import leftovers

if TYPE_CHECKING:
    import pytest

LONG = os.environ.get("FAULTS") == "long"
SEED = int(os.environ.get("SEED", "1"))


def chances(seed: int = SEED) -> random.Random:
    """Return the random generator for times and sizes, from the seed alone."""
    return random.Random(seed)  # noqa: S311 - repeatable, and guards nothing


def tell(
    capsys: pytest.CaptureFixture[str], failures: int, attempts: int, more: str = ""
) -> None:
    """Report the failures of all attempts, and the bound by the rule of three."""
    bound = "" if failures else f", below {3 / attempts:.2%} at 95 %"
    said = f"seed {SEED}: {failures}/{attempts}{bound} {more}"
    leftovers.add_report(said)
    with capsys.disabled():
        sys.stdout.write(f" {said} ")
