"""The printed form of the ledger."""

from __future__ import annotations

from io import StringIO

from msgspec.structs import replace
from rich.console import Console

from backhaul.demo.activity import Happening
from backhaul.demo.comparison import ComparisonReport, Latency
from backhaul.demo.daemon_rows import Finding, Kind
from backhaul.demo.screen import SHOWN, Screen, _panel

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


def test_the_screen_shows_the_figures_and_how_to_stop() -> None:
    output = StringIO()
    figures = [("placed", "12"), ("parked", "0")]
    Console(file=output, width=80).print(_panel(figures))
    lines = output.getvalue().splitlines()
    assert [line.strip() for line in lines[:2]] == ["placed 12", "parked 0"]
    assert lines[2].startswith("Ctrl-C")
    assert max(map(len, lines)) <= 80


def test_an_activity_line_fits_and_ends_with_its_link() -> None:
    url, path = "http://127.0.0.1:8751", "/events/7"
    short = Happening("2026-03-01T12:00:01.000Z", "main", "order #1 received", path)
    long = replace(short, text="long " * 30)
    for each in (short, long):
        line = each.fitted(url, 80)
        assert line.cell_len == 80
        assert line.plain.startswith("12:00:01  main  ")
        assert line.plain.endswith(f"  {path}")
        assert any(f"link {url}{path}" in str(span.style) for span in line.spans)
    assert "…" in long.fitted(url, 80).plain
    assert short.plain(url) == f"12:00:01  main  order #1 received  {url}{path}"
