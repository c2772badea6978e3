"""The ledger as it is printed."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from backhaul.demo.comparison import ComparisonReport, Latency
from backhaul.demo.daemon_rows import Finding, Kind
from backhaul.demo.runner import SHOWN, Screen, _panel

NO_LATENCY = Latency(0, 0.0, 0.0)


def printed(*findings: Finding, mirrored: Latency = NO_LATENCY) -> list[str]:
    output = StringIO()
    ledger = ComparisonReport(3, 2, findings, mirrored, NO_LATENCY)
    Screen(Console(file=output, width=80)).show(ledger)
    return [" ".join(line.split()) for line in output.getvalue().splitlines()]


def test_every_row_is_there() -> None:
    lines = printed(mirrored=Latency(3, 0.0415, 0.2))
    rows = ["lost 0", "doubled 0", "unexpected 0", "differing 0", "parked 0"]
    rows += ["orders 3", "commands 2", "scanned to fulfilled none"]
    assert set(rows) <= set(lines)
    assert "placed to mirrored p50 42 ms, p99 200 ms of 3" in lines


def test_a_row_that_is_not_zero_is_explained() -> None:
    lines = printed(Finding(Kind.LOST, "order ord_1", "is at the store, not here"))
    assert "lost 1" in lines
    assert "lost: order ord_1: is at the store, not here" in lines


def test_many_findings_are_cut_short() -> None:
    many = [Finding(Kind.DIFFERING, f"order {n}", "status") for n in range(SHOWN + 5)]
    assert printed(*many)[-1] == "differing: and 5 more"


def test_the_screen_shows_what_happened_above_the_figures() -> None:
    output = StringIO()
    figures = [("placed", "12"), ("parked", "0")]
    done = ["12:00:01  #1001 placed", f"12:00:02  {'long ' * 30}"]
    Console(file=output, width=80).print(_panel(figures, done, 80))
    lines = output.getvalue().splitlines()
    assert lines[0].strip() == done[0]
    assert lines[1].rstrip().endswith("…")
    assert lines[2].strip() == "placed 12, parked 0"
    assert max(map(len, lines)) <= 80
