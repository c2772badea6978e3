"""Writes an order as an EDIFACT message (ORDERS D.96A or D.01B)."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from backhaul_connectors.file_drop.edi.order_document import without_empty_end
from backhaul_sdk.fields import Unusable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from typing import TypeAlias

    from backhaul_connectors.file_drop.edi.order_document import Order
    from backhaul_connectors.file_drop.edi_settings import EdiSettings

    Element: TypeAlias = str | list[str]
    Written: TypeAlias = tuple[Element, ...]
    """A segment: its tag and its elements."""

ENCODINGS = {"UNOC": "iso8859-1", "UNOW": "utf-8"}
MOST_PART = 35
"""Most characters of a name, a street's line, a city and a number."""
ARTICLE_CODE = "SA"
GS1_QUALIFIER, GS1, OWN_LIST = "14", "9", "92"
MOST_NAMES, MOST_STREET = 5, 4
"""Most parts of a name and of a street."""
MOST_POSTAL = {"D96A": 9, "D01B": 17}
MOST_PROVINCE, MOST_COUNTRY, MOST_CURRENCY = 9, 3, 3


def edifact_order(
    order: Order, edi: EdiSettings, control: int, written_at: datetime
) -> bytes:
    """Return the interchange with one message. Raises Unusable if a value is too long.

    `control` is the reference of the interchange. `written_at` is in the time zone of
    the connection.
    """
    from pydifact.control.characters import Characters
    from pydifact.segments import Segment
    from pydifact.serializer import Serializer

    message: list[Written] = list(_message(order, edi))
    message.append(("UNT", str(len(message) + 1), "1"))
    segments = [_header(edi, control, written_at), *message]
    segments.append(("UNZ", "1", str(control)))
    made = [
        Segment(str(tag), *without_empty_end(elements)) for tag, *elements in segments
    ]
    characters = Characters.from_str("UNA:+.? '")
    text = Serializer(characters).serialize(
        made, with_una_header=True, break_lines=True
    )
    return text.encode(ENCODINGS[edi.charset])


def _header(edi: EdiSettings, control: int, written_at: datetime) -> Written:
    # Version 4 of the syntax has UTF-8, and years of four digits.
    is_new = edi.charset == "UNOW"
    day = written_at.strftime("%Y%m%d" if is_new else "%y%m%d")
    parties: list[Element] = [
        [edi.own_id, edi.own_qualifier],
        [edi.partner_id, edi.partner_qualifier],
    ]
    mark: list[Element] = [*([""] * 5), "1"] if edi.test else []
    syntax: Element = [edi.charset, "4" if is_new else "3"]
    time: Element = [day, written_at.strftime("%H%M")]
    return ("UNB", syntax, *parties, time, str(control), *mark)


def _message(order: Order, edi: EdiSettings) -> Iterator[Written]:
    release = edi.release
    type_ = ["ORDERS", "D", release[1:], "UN", edi.association]
    yield ("UNH", "1", type_)
    yield ("BGM", "220", _code(order.number, "order number"), "9")
    yield ("DTM", ["137", order.placed_at.strftime("%Y%m%d%H%M"), "203"])
    yield ("NAD", "BY", _party(edi.own_id, edi.own_qualifier))
    yield ("NAD", "SU", _party(edi.partner_id, edi.partner_qualifier))
    yield _delivery(order, release)
    yield from _contact(order)
    if order.currency:
        yield ("CUX", ["2", _code(order.currency, "currency", MOST_CURRENCY), "9"])
    code = next(iter(edi.article_codes), ARTICLE_CODE)
    for number, line in enumerate(order.lines, 1):
        sku = _code(line.sku, f"SKU of line {number}")
        yield ("LIN", str(number), "", [sku, code])
        if line.title:
            yield ("IMD", "F", "", ["", "", "", *_parts(line.title)[:2]])
        yield ("QTY", ["21", str(line.quantity), "PCE"])
    yield ("UNS", "S")
    yield ("CNT", ["2", str(len(order.lines))])


def _party(id_: str, qualifier: str) -> list[str]:
    return [id_, "", GS1 if qualifier == GS1_QUALIFIER else OWN_LIST]


def _delivery(order: Order, release: str) -> Written:
    """Return where the order is delivered to (NAD+DP)."""
    to = order.address
    names = _parts(to.name)
    street = [part for line in to.street for part in _parts(line)]
    if len(names) > MOST_NAMES or len(street) > MOST_STREET:
        raise Unusable(
            f"the name {to.name!r} or the street {', '.join(to.street)!r} of the"
            f" address is longer than EDIFACT allows ({MOST_NAMES} and {MOST_STREET}"
            f" parts of {MOST_PART} letters)"
        )
    most = MOST_POSTAL[release]
    if len(to.postal_code) > most or len(to.city) > MOST_PART:
        raise Unusable(
            f"the city {to.city!r} or the postal code {to.postal_code!r} is longer than"
            f" EDIFACT allows ({MOST_PART} and {most} letters)"
        )
    # The field is for codes; a part of a longer name would be another province.
    province = to.province if len(to.province) <= MOST_PROVINCE else ""
    country = _code(to.country, "country of the address", MOST_COUNTRY)
    return (
        *("NAD", "DP", "", "", names, street),
        *(to.city, province, to.postal_code, country),
    )


def _contact(order: Order) -> Iterator[Written]:
    to = order.address
    ways = [[to.phone, "TE"]] if to.phone else []
    ways += [[to.email, "EM"]] if to.email else []
    if ways:
        yield ("CTA", "DL", ["", *_parts(to.name)[:1]])
    for way in ways:
        yield ("COM", way)


def _code(value: str, name: str, most: int = MOST_PART) -> str:
    """Return the value. Raises Unusable if it is too long to be written."""
    if len(value) > most:
        raise Unusable(
            f"the {name}, {value!r}, is longer than the {most} letters of EDIFACT"
        )
    return value


def _parts(text: str) -> list[str]:
    """Return the text in parts of whole words, which a blank joins."""
    return wrap(text, MOST_PART, break_on_hyphens=False)
