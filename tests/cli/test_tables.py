"""Tables fit a terminal: names stay whole, and empty columns are omitted."""

from __future__ import annotations

import pytest

from backhaul.cli import output
from backhaul.cli.jobs import COLUMNS as JOB_COLUMNS
from backhaul.cli.jobs import shown as job_shown
from backhaul.core.clock import from_text

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
    output.table([ROW | changed], COLUMNS, "no jobs")
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


def test_a_narrow_table_is_not_cut_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    first_column = "".join(line[:11].strip() for line in printed(capsys).splitlines())
    assert "reconcile_incremental" in first_column


@pytest.mark.usefixtures("usual_width")
def test_the_jobs_of_a_store_fit_with_when_they_ran_and_will(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = from_text("2026-03-01T12:30:00.000Z")
    due = {"store": "main", "when": "at once", "outcome": "failed"}
    due |= {"next_run_at": "2026-03-01T13:20:00.000Z"}
    resting = due | {"job": "audit", "last_run_at": None, "paused_at": "2026-03-01"}
    rows = [job_shown(ROW | row, now) for row in (due, resting)]
    output.table(rows, JOB_COLUMNS, "no jobs")
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line and "─" not in line] == [
        "job store when last run next run",
        "reconcile_incremental main at once failed 30 min ago in 50 min",
        "audit main at once paused",
    ]
