"""`backfill` shows its progress: a bar in a terminal, otherwise occasional lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from backhaul.cli.reconcile import LINE_ROWS
from scenes.daemon import backhaul
from scenes.large_store import Platform, serving
from scenes.terminal import terminal_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.programs

ORDERS = LINE_ROWS + 100
COMMAND = ("backfill", "--kind", "orders")
BAR = re.compile(r"main orders +[━╸╺]+ +(\d+)/(\d+|\?)")


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    with serving(Platform(2_000_000, 2_000_000 + ORDERS - 1), tmp_path) as config:
        yield config


def test_at_a_terminal_a_bar_grows_to_its_end(config: Path) -> None:
    screen = "\n".join(terminal_lines(*COMMAND, config=config, columns=100, lines=24))
    shown = [(int(done), total) for done, total in BAR.findall(screen)]
    done = [number for number, _ in shown]
    assert done == sorted(done)
    assert len(set(done)) > 2
    assert shown[-1] == (ORDERS, f"{ORDERS}")
    assert f" of {ORDERS} orders" not in screen


def test_progress_without_a_terminal_is_plain_lines(config: Path) -> None:
    said = backhaul(*COMMAND, config=config)
    assert said.code == 0, said.err
    printed = [line for line in said.err.splitlines() if line.startswith("main: ")]
    assert printed == [f"main: {n} of {ORDERS} orders" for n in (LINE_ROWS, ORDERS)]
    assert not {"\x1b", "\r", "━"} & set(said.out + said.err)


def test_json_output_shows_no_progress(config: Path) -> None:
    said = backhaul(*COMMAND, "--json", config=config)
    assert [walk["read"] for walk in said.json()] == [ORDERS]
    assert f" of {ORDERS} orders" not in said.err
    assert "━" not in said.err
