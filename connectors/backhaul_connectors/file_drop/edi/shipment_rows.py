"""Makes the rows of shipments: what EDIFACT and X12 messages have in common."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct, field

from backhaul_connectors.file_drop.edi.articles import article
from backhaul_connectors.file_drop.edi.rows import Document, EdiRow, sender_of, units_of
from backhaul_connectors.file_drop.files import FileUnreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from backhaul_connectors.file_drop.edi.envelope import Message
    from backhaul_connectors.file_drop.edi.rows import Notes
    from backhaul_connectors.file_drop.edi_settings import EdiSettings


MOST_PARCELS = 200_000
"""Most parcels of one message: their names are in memory."""
MOST_ORDERS = 1_000
"""Most orders of a message that cancels or is empty that distinguish it."""
MOST_NAMED = 3


class References(Struct):
    """References and marks by their code, of a message or a part of it."""

    found: dict[str, list[str]] = field(default_factory=dict)

    def add(self, code: str, values: Iterable[str]) -> None:
        known = self.found.setdefault(code, [])
        known += [value for value in values if value and value not in known]


def first_of(codes: Iterable[str], scopes: Sequence[References]) -> list[str]:
    """Return the values of the first code that a scope has; the nearest scope first."""
    for code in codes:
        for scope in scopes:
            if values := scope.found.get(code):
                return values
    return []


class Parcels:
    """Names the parcels of a message, so that no two of them have the same name.

    Some senders give several packages the same number. A name depends only on the
    message, so a parcel keeps its name when the message comes again, also if it then
    has another tracking number.
    """

    def __init__(self) -> None:
        self._names = dict[tuple[str, ...], str]()
        self._used = set[str]()
        self._counts = Counter[str]()

    def name(self, order: str, package: str, tracking: Sequence[str]) -> str:
        """Return the name of the parcel with these numbers of an order and a package.

        `tracking` distinguishes packages that have the same number. Raises
        FileUnreadable if the message has too many parcels.
        """
        parcel = (order, package, *tracking)
        if parcel not in self._names:
            if len(self._names) >= MOST_PARCELS:
                raise FileUnreadable(
                    f"a message has more than {MOST_PARCELS:,} parcels. Ask the sender"
                    " to divide it into several messages"
                )
            self._names[parcel] = self._new_name(f"{order}/{package}")
        return self._names[parcel]

    def _new_name(self, plain: str) -> str:
        name = ""
        while not name or name in self._used:
            self._counts[plain] += 1
            count = self._counts[plain]
            name = f"{plain}#{count}" if count > 1 else plain
        self._used.add(name)
        return name


class Codes(Struct, frozen=True, kw_only=True):
    """The codes of a syntax that count if the settings have none."""

    articles: Sequence[str]
    orders: Sequence[str]
    tracking: Sequence[str]
    sscc: str


class Shipment(Document):
    """What the header of a message about a shipment says."""

    shipped_at: str = ""


class Item(Struct, kw_only=True):
    """An item that was shipped.

    `scopes` are the references of the item and of what contains it, the nearest first.
    `package` names what is its parcel. `problem` is why it cannot be used.
    """

    place: str
    articles: Mapping[str, str]
    quantity: str
    unit: str
    scopes: Sequence[References]
    package: str
    carrier: str
    problem: str = ""


class ShipmentRows:
    """Makes the rows of one message. `shipment` is filled in by its reader."""

    def __init__(
        self, message: Message, edi: EdiSettings, notes: Notes, shipment: Shipment
    ) -> None:
        self._message = message
        self._edi = edi
        self._notes = notes
        self._shipment = shipment
        self._parcels = Parcels()
        self._left_out = dict[str, None]()

    def row(self, item: Item, codes: Codes) -> Iterator[EdiRow]:
        """Yield the row of an item; none if nothing of it was shipped."""
        shipment, edi = self._shipment, self._edi
        if shipment.is_cancelled:
            self._leave_out(item.scopes, codes)
            return
        units, in_units = units_of(item.quantity, item.unit, edi)
        if units == "0" and not item.problem:
            self._notes.add(f"{item.place} ships 0 units, so it is left out")
            return
        sku, unknown = article(item.articles, edi.article_codes, codes.articles)
        orders = edi.order_codes or codes.orders
        order = "".join(first_of(orders, item.scopes)[:1])
        numbers = first_of(edi.tracking_codes or codes.tracking, item.scopes)
        if len(numbers) > 1:
            self._notes.add(
                f"{item.place} has {len(numbers)} package numbers; the tracking number"
                f" is the first one, {numbers[0]}"
            )
        tracking = ("".join(numbers[:1]), item.carrier)
        # A file for each carton of a document: the SSCC is all that distinguishes them.
        sscc = "".join(first_of([codes.sscc], item.scopes)[:1])
        package = f"{item.package}/{sscc}" if sscc else item.package
        values = {
            "order": order,
            "tracking_company": tracking[1],
            "tracking_number": tracking[0],
            "sku": sku,
            "quantity": units,
            "shipped_at": shipment.shipped_at,
            "sender": sender_of(self._message),
            "document": shipment.number,
            "parcel": self._parcels.name(order, package, tracking),
        }
        missing = self._missing(order, orders)
        problem = item.problem or in_units or unknown or missing
        part = (order,) if order else ()
        yield EdiRow(place=item.place, values=values, problem=problem, part=part)

    def rest(
        self, items: int, levels: Iterable[References], codes: Codes
    ) -> Iterator[EdiRow]:
        """Yield a row about a message that cancels, or that has no item.

        `levels` are the references of the message that can name its orders.
        """
        shipment = self._shipment
        problem = ""
        if not items:
            for level in levels:
                self._leave_out([level], codes)
        orders = tuple(self._left_out)
        if shipment.is_cancelled:
            problem = (
                f"the message cancels {shipment.title} {shipment.number}"
                f"{_of_orders(orders)}. Backhaul cannot take back a shipment; correct"
                " the order in the store"
            )
        elif not items:
            problem = (
                f"the message has no line or item, so nothing{_of_orders(orders)} was"
                " shipped"
            )
        if problem:
            sender = sender_of(self._message)
            values = {"document": shipment.number, "sender": sender}
            place = self._message.name
            # It is no row of these orders: another message can ship them.
            part = ("", *orders)
            yield EdiRow(place=place, values=values, problem=problem, part=part)

    def _leave_out(self, scopes: Sequence[References], codes: Codes) -> None:
        """Remember an order that a message names without shipping anything of it."""
        found = first_of(self._edi.order_codes or codes.orders, scopes)[:1]
        if len(self._left_out) < MOST_ORDERS:
            self._left_out |= dict.fromkeys(found)

    def _missing(self, order: str, codes: Sequence[str]) -> str:
        if not order:
            expected = ", ".join(codes)
            return f"nothing names the order: expected one of the codes {expected}"
        if not self._shipment.number:
            title = self._shipment.title
            return f"the {title} has no number, so its parcels have no key"
        return ""


def _of_orders(orders: Sequence[str]) -> str:
    if not orders:
        return ""
    more = ", …" if len(orders) > MOST_NAMED else ""
    what = "order" if len(orders) == 1 else "orders"
    return f" of the {what} {', '.join(orders[:MOST_NAMED])}{more}"
