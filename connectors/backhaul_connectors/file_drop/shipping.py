"""Makes the shipments of a file: the rows of one parcel become one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from backhaul_connectors.file_drop.cells import key_of
from backhaul_connectors.file_drop.order_index import MOST_ROWS
from backhaul_connectors.file_drop.shipments import Placed, shipment_of
from backhaul_sdk import Bad

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backhaul_connectors.file_drop.csv_rows import Position
    from backhaul_connectors.file_drop.order_index import OrderIndex, Siblings
    from backhaul_sdk import Record

    ReadRow: TypeAlias = Callable[[Position], Placed | Bad | None]

NO_ARTICLE = (
    "the row names no article, but other rows of this file name articles of order "
    "{order}, so nobody knows whether it means everything else; retry ships everything "
    "that is left of the order, drop ships nothing"
)
SEVERAL_PARCELS = (
    "{count} parcels of this file hold the whole order {order}, so nobody knows which "
    "articles are in which parcel; name sku and quantity in each row and drop the file "
    "again, or retry one of the rows to ship everything in that parcel, and drop the "
    "others"
)
CROWDED = (
    f"the file has more than {MOST_ROWS:,} rows of order {{order}}, which are too many "
    "to tell its parcels apart; split the order's rows into several files"
)


def shipments(
    rows: Sequence[tuple[int, Placed | Bad | None]],
    orders: OrderIndex,
    read_row: ReadRow,
) -> list[Record | Bad]:
    """Return the shipments that begin in these rows, each with its number.

    A row that is None was left out. `read_row` reads the row at a position, for parcels
    whose rows lie apart.
    """
    if not rows:
        return []
    related = orders.siblings(rows[0][0], rows[-1][0])
    known = dict(rows)
    made: list[Record | Bad] = []
    for number, row in rows:
        if row is None:
            continue
        if isinstance(row, Bad):
            made.append(row)
        elif number not in related:
            made.append(_crowded(row))
        elif related[number].parcel[0][0].number == number:
            made.append(_shipment(related[number], known, read_row))
    return made


def _shipment(
    siblings: Siblings, known: Mapping[int, Placed | Bad | None], read_row: ReadRow
) -> Record | Bad:
    rows: list[Placed] = []
    for entry, ordinal in siblings.parcel:
        row = known.get(entry.number) or read_row(entry.position)
        if isinstance(row, Bad):
            return row
        if row is not None:
            rows.append(Placed(row.row, row.origin, ordinal))
    return shipment_of(rows, siblings.beside, _question(rows[0], siblings))


def _question(placed: Placed, siblings: Siblings) -> str:
    """Return what an operator decides before the shipment of a whole order leaves."""
    order = placed.row.order
    if placed.row.line is not None:
        return ""
    if siblings.names_articles:
        return NO_ARTICLE.format(order=order)
    if siblings.whole_parcels > 1:
        return SEVERAL_PARCELS.format(count=siblings.whole_parcels, order=order)
    return ""


def _crowded(placed: Placed) -> Bad:
    origin = placed.origin
    return Bad(
        key=key_of("crowded", [origin.file, origin.row]),
        raw=origin.raw,
        reason=CROWDED.format(order=placed.row.order),
        locator=origin.locator,
    )
