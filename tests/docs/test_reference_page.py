"""docs/reference-server.md names every option, quirk, fault and control route."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from backhaul_reference.arguments import parser
from backhaul_reference.control.routes import ENDPOINTS
from backhaul_reference.platform import faults, quirks

PAGE = Path(__file__).resolve().parents[2] / "docs/reference-server.md"
TEXT = PAGE.read_text("utf-8")
OPTIONS = [option for action in parser()._actions for option in action.option_strings]
LEVERS = [*quirks.NAMES, *faults.HTTP, *faults.WEBHOOKS]


@pytest.mark.parametrize("option", [o for o in OPTIONS if o.startswith("--")])
def test_option_is_named(option: str) -> None:
    if not option.startswith(("--help", "--no-")):
        assert f"`{option}`" in TEXT


@pytest.mark.parametrize("lever", LEVERS)
def test_lever_is_named(lever: str) -> None:
    assert re.search(rf"`{lever}(=[A-Z,]+)?`", TEXT)


def test_routes_are_named() -> None:
    last = {f"/{e.path.rsplit('/', 1)[-1]}" for e in ENDPOINTS}
    assert [part for part in sorted(last) if part not in TEXT] == []
