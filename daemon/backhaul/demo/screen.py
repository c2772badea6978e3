"""The terminal of a demo: lines of what happens, figures, and the comparison."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from backhaul.demo.activity import Activity
from backhaul.demo.daemon_rows import (
    Kind,
    read_progress,
    read_totals,
    recent_latency_seconds,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from backhaul.core.clock import Clock
    from backhaul.demo.comparison import ComparisonReport, Latency
    from backhaul.demo.daemon_rows import Finding
    from backhaul.demo.program_pair import Pair
    from backhaul.demo.simulation import ShopFloor

LIVE_SECONDS, LINES_SECONDS = 0.5, 5.0
SHOWN = 20
"""Findings of one kind that are printed; the rest is counted."""

Figures = list[tuple[str, str]]


class _Terminal(Console):
    def on_broken_pipe(self) -> None:
        # rich would raise SystemExit inside our tasks; so both programs are stopped.
        raise BrokenPipeError


class Screen:
    """The terminal, or whatever the output goes to."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or _Terminal(highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """Print a line."""
        self.console.print(Text(text))

    def welcome(self, pair: Pair) -> None:
        """Say where everything is, and what may be tried."""
        for name, text in _places(pair):
            self.console.print(Text(f"{name:<32}", style="dim").append(text, "not dim"))

    async def follow(
        self, pair: Pair, floor: ShopFloor, clock: Clock, *, lines: bool = False
    ) -> None:
        """Show how the work goes, for ever. Cancel to stop.

        On a terminal, or with `lines`, each event gets a line.
        """
        database, activity = pair.home.database, Activity(pair.home.database)
        if not self.console.is_terminal:
            while True:
                for _ in range(round(LINES_SECONDS / LIVE_SECONDS)):
                    await clock.sleep(LIVE_SECONDS)
                    for each in activity.latest() if lines else ():
                        self.say(each.plain(pair.admin_url))
                self.say(_line(_figures(database, floor)))
        with Live(console=self.console, transient=True) as live:
            while True:
                for each in activity.latest():
                    line = each.fitted(pair.admin_url, self.console.width)
                    live.console.print(line, soft_wrap=True)
                live.update(_panel(_figures(database, floor)))
                await clock.sleep(LIVE_SECONDS)

    def summarize(self, report: ComparisonReport, figures: Figures) -> None:
        """Print the figures, one a line, and explain what went wrong."""
        for name, value in figures:
            line = Text(f"{name:<22}", style="dim").append(value, "not dim")
            self.console.print(line)
        for kind in Kind:
            self._explain(kind, report.of(kind))

    def say_busy(self, busy: Iterable[str]) -> None:
        """Print what still moved when time was up."""
        for what in busy:
            self.say(f"not quiet when time was up: {what}")

    def show(self, report: ComparisonReport) -> None:
        """Print the comparison, and explain each row that is not zero."""
        figures = [
            ("orders", str(report.orders)),
            ("commands", str(report.commands)),
            ("placed to mirrored", _spoken(report.mirrored)),
            ("scanned to fulfilled", _spoken(report.fulfilled)),
        ]
        self.show_findings(report.findings, figures)

    def show_findings(self, findings: Sequence[Finding], figures: Figures) -> None:
        """Print how many there are of each kind, then figures, then each finding."""
        table = Table(
            title="comparison of both sides", box=box.SIMPLE_HEAD, show_header=False
        )
        table.add_column()
        table.add_column(justify="right")
        by_kind = {kind: [f for f in findings if f.kind is kind] for kind in Kind}
        for kind, found in by_kind.items():
            style = "red" if found else ""
            table.add_row(kind.value, Text(str(len(found)), style=style))
        for name, value in figures:
            table.add_row(name, value)
        self.console.print(table)
        for kind, found in by_kind.items():
            self._explain(kind, found)

    def _explain(self, kind: Kind, found: Sequence[Finding]) -> None:
        for finding in found[:SHOWN]:
            self.say(str(finding))
        if len(found) > SHOWN:
            self.say(f"{kind}: and {len(found) - SHOWN} more")


def _places(pair: Pair) -> Figures:
    backhaul = _command()
    config = pair.home.config
    tryton = pair.tryton
    return [
        ("the store's shop page", pair.access.shop_url),
        ("the store's dashboard", pair.access.control_url),
        ("the daemon's dashboard", pair.admin_url),
        ("", "both login pages name the file that holds the login token"),
        ("webhooks are received at", pair.public_url),
        ("CSV files are read from", str(pair.home.drop)),
        *([("Tryton is at", f"{tryton.server.url} (user admin)")] if tryton else []),
        ("try, in another terminal", f"{backhaul} why order 1001 --config {config}"),
        ("", status_command(config)),
        ("", f"{backhaul} commands list --config {config}"),
    ]


def status_command(config: Path) -> str:
    """Return what an operator types to see the status of a daemon."""
    return f"{_command()} status --config {config}"


def _command() -> str:
    """Return how the person can call us, in any folder and with any PATH."""
    if shutil.which("backhaul"):
        return "backhaul"
    called = sys.argv[0]
    if called.endswith(".py"):
        return f"{sys.executable} -m backhaul"
    return str(Path(called).absolute())


def _figures(database: Path, floor: ShopFloor) -> Figures:
    """Return what is shown while the work goes on."""
    progress = read_progress(database)
    latency = recent_latency_seconds(database)
    return [
        ("placed", str(len(floor.placements))),
        ("mirrored", str(progress.mirrored)),
        ("fulfilled", str(progress.fulfilled)),
        ("cancelled", str(progress.cancelled)),
        ("adjusted", str(progress.adjusted)),
        ("waiting", str(progress.waiting)),
        ("parked", str(progress.parked)),
        ("placed to mirrored", "-" if latency is None else _milliseconds(latency)),
    ]


def _line(figures: Figures) -> str:
    return ", ".join(f"{name} {value}" for name, value in figures)


def _panel(figures: Figures) -> RenderableType:
    """Return the figures, which stay below the lines of what happened."""
    hint = "Ctrl-C stops both programs and shows a summary; times are UTC"
    half = len(figures) // 2
    lines = [_line(figures[:half]), _line(figures[half:])]
    return Group(*(Text(each, "bold") for each in lines), Text(hint, "dim"))


def summary_of(database: Path, floor: ShopFloor, report: ComparisonReport) -> Figures:
    """Return what was received and pushed, and how the two databases differ."""
    progress, (webhooks, _) = read_progress(database), read_totals(database)
    counts = {
        "orders placed": len(floor.placements),
        "orders received": progress.mirrored,
        "webhooks received": webhooks,
        "fulfillments pushed": progress.fulfilled,
        "cancellations pushed": progress.cancelled,
        "stock adjusted": progress.adjusted,
        **{kind.value: len(report.of(kind)) for kind in Kind},
    }
    return [(name, f"{number:,}") for name, number in counts.items()]


def _spoken(latency: Latency) -> str:
    if not latency.count:
        return "none"
    p50, p99 = _milliseconds(latency.p50), _milliseconds(latency.p99)
    return f"p50 {p50}, p99 {p99} of {latency.count}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
