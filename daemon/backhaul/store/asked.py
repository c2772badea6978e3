"""What a command asks for, in a form that people read."""

from __future__ import annotations

from msgspec import Struct

TIMES, MINUS = "\N{MULTIPLICATION SIGN}", "\N{MINUS SIGN}"


class AskedLine(Struct, frozen=True):
    """A line of a shipment, or the variant of an adjustment or a count.

    `quantity` is the number of units: a change for an adjustment.
    """

    sku: str | None
    title: str | None
    quantity: int | None


class Asked(Struct, frozen=True):
    """What a command asks for, as its payload says.

    A shipment without lines asks for all open units. `more_lines` counts the lines that
    were not read.
    """

    kind: str
    lines: tuple[AskedLine, ...] = ()
    more_lines: int = 0
    tracking_number: str | None = None
    tracking_company: str | None = None
    restock: bool = False
    restock_unshipped: bool = False
    reason: str | None = None
    is_damaged: bool = False

    def in_words(self) -> str:
        """Return one line, such as `2 x TEA-250; T1 (DHL)`."""
        if self.is_damaged:
            return "its payload is damaged in the database"
        return {
            "fulfill": self._shipment,
            "cancel": self._cancellation,
            "adjust": self._adjustment,
            "target": self._count,
        }[self.kind]()

    def parcel(self) -> str:
        """Return the parcel's number and carrier; empty if there is no number."""
        number, company = self.tracking_number, self.tracking_company
        return f"{number} ({company})" if number and company else number or ""

    def _shipment(self) -> str:
        units = [f"{each.quantity} {TIMES} {each.sku or '?'}" for each in self.lines]
        if self.more_lines:
            noun = "line" if self.more_lines == 1 else "lines"
            units.append(f"{self.more_lines} more {noun}")
        what = ", ".join(units) or "all open units"
        return f"{what}; {self.parcel() or 'no tracking number'}"

    def _cancellation(self) -> str:
        restock = "with restock" if self.restock else "without restock"
        if self.restock_unshipped:
            restock = "with restock of unshipped units"
        return f"cancel {restock}" + (f" ({self.reason})" if self.reason else "")

    def _adjustment(self) -> str:
        (line,) = self.lines
        change = "?" if line.quantity is None else f"{line.quantity:+,}"
        why = f" ({self.reason})" if self.reason else ""
        return f"{line.sku} {change.replace('-', MINUS)}{why}"

    def _count(self) -> str:
        (line,) = self.lines
        return f"{line.sku} = {line.quantity:,}" if line.quantity is not None else "?"
