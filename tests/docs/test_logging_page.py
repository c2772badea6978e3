"""docs/logging.md lists exactly the actions that the code can log."""

from __future__ import annotations

import re
from pathlib import Path

from docs.log_actions import actions

PAGE = Path(__file__).resolve().parents[2] / "docs/logging.md"
# This action is composed when library log lines are forwarded.
FORWARDED = {"library.logged"}


def test_every_action_has_a_row_and_every_row_an_action() -> None:
    rows = re.findall(r"^\| `([a-z_.*]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(set(actions()) | FORWARDED)
