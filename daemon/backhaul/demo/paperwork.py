"""Clerks: they collect rows, and drop them into the daemon's folder as CSV files."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul.demo.causes import Cause
from backhaul.demo.home import COURIER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.demo.causes import Placement

COMPANY = "City Couriers"
FULFILLMENTS = ("fulfillments", ("order", "tracking_company", "tracking_number"))
CANCELLATIONS = ("cancellations", ("order", "restock", "reason"))
STOCK_DELTAS = ("stock-deltas", ("document", "sku", "adjustment", "reason"))


class Clerk:
    """Writes one kind of file. `said` hears of each row once its file lies there."""

    def __init__(
        self,
        folder: Path,
        form: tuple[str, Sequence[str]],
        said: Callable[[Cause], None],
    ) -> None:
        self._folder = folder
        self._name, self._columns = form
        self._said = said
        self._rows: list[tuple[Sequence[object], Cause]] = []
        self._files = 0

    def note(self, row: Sequence[object], cause: Cause) -> None:
        """Put a row on the desk; where it will stand is not known yet."""
        self._rows.append((row, cause))

    async def work(self, every_seconds: float, clock: Clock) -> None:
        """Hand in what has come up, for ever. Cancel to stop."""
        while True:
            await clock.sleep(every_seconds)
            self.hand_in()

    def hand_in(self) -> None:
        """Write a file of all rows on the desk; it appears whole under its name."""
        if not self._rows:
            return
        rows, self._rows = self._rows, []
        self._files += 1
        target = self._folder / f"{self._name}-{self._files:04}.csv"
        scratch = target.with_suffix(".tmp")
        with scratch.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self._columns)
            writer.writerows(row for row, _ in rows)
        scratch.rename(target)
        for line, (_, cause) in enumerate(rows, start=2):
            self._said(replace(cause, locator=f"{target.name}:{line}"))


def parcel(order: Placement) -> tuple[Sequence[object], Cause]:
    """Return the courier's row for an order that was picked up, and what it means."""
    tracking = f"CC{order.number:06}"
    cause = Cause(
        kind="fulfill",
        instance=COURIER,
        locator="",
        order_id=order.order_id,
        tracking_company=COMPANY,
        tracking_number=tracking,
    )
    return (order.number, COMPANY, tracking), cause


def cancellation(order: Placement) -> tuple[Sequence[object], Cause]:
    """Return the office's row for an order whose goods go back on the shelf."""
    cause = Cause(kind="cancel", instance=COURIER, locator="", order_id=order.order_id)
    return (f"#{order.number}", "yes", "customer"), cause


def count(document: str, sku: str, delta: int) -> tuple[Sequence[object], Cause]:
    """Return the stock keeper's row for a difference that was counted."""
    cause = Cause(kind="adjust", instance=COURIER, locator="", sku=sku, delta=delta)
    return (document, sku, delta, "STOCK_COUNT"), cause
