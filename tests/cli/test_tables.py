"""Tables fit a terminal: names stay whole, prose gives way, empty columns go."""

from __future__ import annotations

import pytest

from backhaul.cli import showing

ROW = {
    "job": "reconcile_incremental",
    "store": "wholesale",
    "when": "every 5m, give or take 30 seconds, never between two and four",
    "paused_at": None,
    "last_run_at": "2026-03-01T12:00:00.000Z",
    "outcome": "",
}
COLUMNS = tuple(ROW)


@pytest.fixture
def usual_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def printed(capsys: pytest.CaptureFixture[str], **changed: str) -> str:
    showing.table([ROW | changed], COLUMNS, "no jobs")
    return capsys.readouterr().out


@pytest.mark.usefixtures("usual_width")
def test_a_name_is_not_broken_into_pieces(capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(capsys)
    assert "reconcile_incremental" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.usefixtures("usual_width")
def test_an_empty_column_takes_no_room(capsys: pytest.CaptureFixture[str]) -> None:
    assert "paused" not in printed(capsys)
    assert "outcome" not in printed(capsys)
    assert "outcome" in printed(capsys, outcome="failed")


def test_where_all_is_narrow_nothing_is_cut_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    first_column = "".join(line[:11].strip() for line in printed(capsys).splitlines())
    assert "reconcile_incremental" in first_column
