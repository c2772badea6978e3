"""A row of a file of shipments, and the shipment that rows of one parcel make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul_connectors.file_drop.cells import key_of, same
from backhaul_sdk import Fulfillment, Line, Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul_connectors.file_drop.cells import Origin

MOST_RAW = 20_000
"""Characters of the rows of one parcel that are kept for an operator."""


class ShipmentRow(Struct, frozen=True):
    """What a row says: `line` is None where it names no article.

    `named` are the values of the key columns; they identify the row where one of them
    is not empty. All other rows are identified by their content.
    """

    order: str
    tracking_company: str | None
    tracking_number: str | None
    line: Line | None
    shipped_at: str | None
    named: tuple[str, ...] = ()

    def __call__(self, origin: Origin) -> Fulfillment:
        """Return the shipment of this row alone."""
        return shipment_of([Placed(self, origin)])

    @property
    def has_key(self) -> bool:
        return any(self.named)

    @property
    def same_order(self) -> str:
        return same(self.order).lstrip("#")

    @property
    def same_number(self) -> str:
        return same(self.tracking_number or "").replace(" ", "")

    def content(self) -> list[object]:
        """Return what identifies a row without key columns."""
        line = self.line
        return [
            self.same_order,
            same(self.tracking_company or ""),
            self.same_number,
            [] if line is None else [[same(line.sku), line.quantity]],
            self.shipped_at,
            *([list(self.named)] if self.named else []),
        ]

    def key(self, ordinal: int = 0) -> str:
        """Return the row's key; `ordinal` equal rows stand before it in the file."""
        if self.has_key:
            return key_of("shipment", self.named)
        return numbered(key_of("fulfillment", self.content()), ordinal)

    def earlier_key(self, ordinal: int = 0) -> str:
        """Return the key that versions without parts gave the row; else an empty text.

        They counted equal rows once, and made key columns a part of the content.
        """
        return "" if ordinal else key_of("fulfillment", self.content())

    def parcel(self) -> list[object] | None:
        """Return what the rows of one parcel have in common; None for a row alone."""
        names_article = self.line is not None
        if self.same_number:
            company = same(self.tracking_company or "")
            return [self.same_order, self.same_number, company, names_article]
        if self.has_key:
            return [self.same_order, list(self.named), names_article]
        return None


def numbered(key: str, ordinal: int) -> str:
    """Return the key of the row that `ordinal` equal rows stand before."""
    return f"{key}#{ordinal}" if ordinal else key


class Placed(Struct, frozen=True):
    """A row with its place; `ordinal` equal rows stand before it in the file."""

    row: ShipmentRow
    origin: Origin
    ordinal: int = 0


def shipment_of(
    rows: Sequence[Placed], beside: Sequence[str] = (), question: str = ""
) -> Fulfillment:
    """Return the one shipment that the rows of a parcel make.

    `beside` are the keys of the other rows of its order in the file. A `question` is
    what an operator decides before it is carried out.
    """
    first = rows[0].row
    parts = _parts(rows)
    lines = tuple(line for part in parts for line in part.lines)
    times = [placed.row.shipped_at for placed in rows if placed.row.shipped_at]
    return Fulfillment(
        key=_key([part.key for part in parts]),
        order=first.order,
        tracking_company=first.tracking_company,
        tracking_number=first.tracking_number,
        lines=lines,
        everything=not lines,
        shipped_at=min(times, default=None),
        parts=parts if len(parts) > 1 or parts[0].earlier_keys else (),
        beside=tuple(beside),
        by_content=not all(placed.row.has_key for placed in rows),
        question=question,
        locator=rows[0].origin.locator,
        raw=_raw(rows),
    )


def _parts(rows: Sequence[Placed]) -> tuple[Part, ...]:
    """Return the parts, one for each key. Rows without article say the same once."""
    by_key: dict[str, list[Placed]] = {}
    for placed in rows:
        ordinal = placed.ordinal if placed.row.line else 0
        by_key.setdefault(placed.row.key(ordinal), []).append(placed)
    return tuple(_part(key, group) for key, group in by_key.items())


def _part(key: str, rows: Sequence[Placed]) -> Part:
    lines = tuple(placed.row.line for placed in rows if placed.row.line is not None)
    earlier = tuple(placed.row.earlier_key(placed.ordinal) for placed in rows)
    is_new = any(each != key for each in earlier if each)
    return Part(key=key, lines=lines, earlier_keys=earlier if is_new else ())


def _key(keys: Sequence[str]) -> str:
    return keys[0] if len(keys) == 1 else key_of("parcel", sorted(keys))


def _raw(rows: Sequence[Placed]) -> str:
    """Return the rows below their header, of which each origin has a copy."""
    raws = [placed.origin.raw for placed in rows]
    if len(raws) == 1:
        return raws[0]
    header = len(rows[0].origin.header) + 1
    return "\n".join([raws[0], *(raw[header:] for raw in raws[1:])])[:MOST_RAW]
