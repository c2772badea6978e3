"""Shows a running demo and the comparison at its end."""

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

from backhaul.demo.daemon_rows import Kind, read_progress, recent_latency_seconds

if TYPE_CHECKING:
    from rich.console import RenderableType

    from backhaul.core.clock import Clock
    from backhaul.demo.comparison import ComparisonReport, Latency
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

    async def follow(self, pair: Pair, floor: ShopFloor, clock: Clock) -> None:
        """Show how the work goes, for ever. Cancel to stop."""
        if not self.console.is_terminal:
            while True:
                await clock.sleep(LINES_SECONDS)
                self.say(_line(_figures(pair.home.database, floor)))
        with Live(console=self.console, transient=True) as live:
            while True:
                live.update(_panel(_figures(pair.home.database, floor)))
                await clock.sleep(LIVE_SECONDS)

    def show(self, report: ComparisonReport) -> None:
        """Print the comparison, and explain each row that is not zero."""
        table = Table(
            title="comparison of both sides", box=box.SIMPLE_HEAD, show_header=False
        )
        table.add_column()
        table.add_column(justify="right")
        for kind in Kind:
            count = len(report.of(kind))
            table.add_row(kind.value, Text(str(count), style="red" if count else ""))
        table.add_row("orders", str(report.orders))
        table.add_row("commands", str(report.commands))
        table.add_row("placed to mirrored", _spoken(report.mirrored))
        table.add_row("scanned to fulfilled", _spoken(report.fulfilled))
        self.console.print(table)
        for kind in Kind:
            self._explain(report, kind)

    def _explain(self, report: ComparisonReport, kind: Kind) -> None:
        found = report.of(kind)
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
        ("", f"{backhaul} status --config {config}"),
        ("", f"{backhaul} commands list --config {config}"),
    ]


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
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, _ in figures:
        table.add_column(name, justify="right")
    table.add_row(*(value for _, value in figures))
    return Group(table, Text("Ctrl-C stops both programs", style="dim"))


def _spoken(latency: Latency) -> str:
    if not latency.count:
        return "none"
    p50, p99 = _milliseconds(latency.p50), _milliseconds(latency.p99)
    return f"p50 {p50}, p99 {p99} of {latency.count}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
