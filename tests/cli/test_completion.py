"""The shell completes commands and options."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("backhaul doc", {"doctor"}),
        ("backhaul commands s", {"show"}),
        ("backhaul doctor --tr", {"--trust-host-key"}),
    ],
)
def test_a_partial_word_is_completed(typed: str, completed: set[str]) -> None:
    words = typed.split()
    asked = {
        "_BACKHAUL_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words) - 1),
    }
    script = "from backhaul.__main__ import main; import sys; "
    script += "sys.argv = ['backhaul']; main()"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | asked,
    )
    assert set(done.stdout.split()) == completed, done.stderr
