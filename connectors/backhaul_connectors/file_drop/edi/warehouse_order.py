"""Writes an order as an X12 transaction set (940, warehouse shipping order)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from backhaul_connectors.file_drop.edi.order_document import without_empty_end
from backhaul_sdk.fields import Unusable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from backhaul_connectors.file_drop.edi.order_document import Order
    from backhaul_connectors.file_drop.edi_settings import EdiSettings

ENCODING = "ascii"
ARTICLE_CODE = "VN"
QUALIFIER = "ZZ"
"""Mutually defined: what an identification without a qualifier is."""
_CANDIDATES = ("*|\x1d", ">:\x1f", "~'\x1c", "^\x1e")
"""The delimiters of elements, components, segments and repetitions, the usual first.
X12 has no release character, so a file has delimiters that its texts do not contain."""
_MOST = {
    "order number": 22,
    "name": 60,
    "street": 55,
    "city": 30,
    "postal code": 15,
    "country of the address": 3,
    "phone number": 80,
    "e-mail address": 80,
    "SKU": 48,
}
"""Most characters of the elements in version 004010."""
MOST_TITLE, MOST_PROVINCE = 45, 2


class _Delimiters(NamedTuple):
    element: str
    component: str
    segment: str
    repetition: str


def x12_order(
    order: Order, edi: EdiSettings, control: int, written_at: datetime
) -> bytes:
    """Return the interchange with one transaction set.

    Raises Unusable if a value is too long. `control` is the number of the interchange
    and its group. `written_at` is in the time zone of the connection.
    """
    body = list(_set(order, edi))
    texts = "".join(value for segment in body for value in segment)
    chosen = _Delimiters(
        *(next(c for c in each if c not in texts) for each in _CANDIDATES)
    )
    number = f"{control:09}"
    segments = [
        _interchange(edi, number, written_at, chosen),
        _group(edi, control, written_at),
        ("ST", "940", "0001"),
        *body,
        ("SE", str(len(body) + 2), "0001"),
        ("GE", "1", str(control)),
        ("IEA", "1", number),
    ]
    lines = (chosen.element.join(without_empty_end(segment)) for segment in segments)
    text = "".join(f"{line}{chosen.segment}\n" for line in lines)
    return text.encode(ENCODING)


def _interchange(
    edi: EdiSettings, number: str, written_at: datetime, chosen: _Delimiters
) -> tuple[str, ...]:
    is_old = edi.x12_version < "004020"
    return (
        *("ISA", "00", " " * 10, "00", " " * 10),
        *(edi.own_qualifier or QUALIFIER, f"{edi.own_id:15}"),
        *(edi.partner_qualifier or QUALIFIER, f"{edi.partner_id:15}"),
        *(written_at.strftime("%y%m%d"), written_at.strftime("%H%M")),
        *("U" if is_old else chosen.repetition, f"00{edi.x12_version[2]}01"),
        *(number, "0", "T" if edi.test else "P", chosen.component),
    )


def _group(edi: EdiSettings, control: int, written_at: datetime) -> tuple[str, ...]:
    return (
        *("GS", "OW", edi.own_id, edi.partner_id),
        *(written_at.strftime("%Y%m%d"), written_at.strftime("%H%M")),
        *(str(control), "X", edi.x12_version),
    )


def _set(order: Order, edi: EdiSettings) -> Iterator[tuple[str, ...]]:
    to = order.address
    number = _fitting(order.number, "order number")
    yield ("W05", "N", number, number)
    yield ("N1", "ST", _fitting(to.name, "name"))
    if to.street:
        yield ("N3", *(_fitting(line, "street") for line in to.street))
    city, code = _fitting(to.city, "city"), _fitting(to.postal_code, "postal code")
    # A province is a code of two letters; others have no place in this segment.
    province = to.province if len(to.province) == MOST_PROVINCE else ""
    country = _fitting(to.country, "country of the address")
    yield ("N4", city, province, code, country)
    if to.phone or to.email:
        phone = _fitting(to.phone, "phone number")
        email = _fitting(to.email, "e-mail address")
        ways = [*(("TE", phone) if phone else ())]
        ways += ("EM", email) if email else ()
        yield ("PER", "DC", to.name, *ways)
    article = next(iter(edi.article_codes), ARTICLE_CODE)
    for at, line in enumerate(order.lines, 1):
        sku = _fitting(line.sku, "SKU")
        yield ("LX", str(at))
        yield ("W01", str(line.quantity), "EA", "", article, sku)
        if line.title:
            yield ("G69", line.title[:MOST_TITLE].strip())
    yield ("W76", str(sum(line.quantity for line in order.lines)))


def _fitting(value: str, name: str) -> str:
    """Return the value. Raises Unusable if it is too long to be written."""
    if len(value) > _MOST[name]:
        raise Unusable(
            f"the {name}, {value!r}, is longer than the {_MOST[name]} letters of X12"
        )
    return value
