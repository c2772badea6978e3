"""An order as exported EDI files need it, and the letters that they may contain."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from backhaul_sdk.fields import Unusable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import tzinfo

    from backhaul_sdk import Change

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_BLANKS = re.compile(rf"(?:{_CONTROLS.pattern}|\s)+")


def _pairs(written: str) -> dict[str, str]:
    return {pair[0]: pair[2:] for pair in written.split()}


_PLAIN = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′", "'"),  # noqa: RUF001 - signs that texts contain
        **dict.fromkeys("“”„‟″", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),  # noqa: RUF001 - signs that texts contain
        **_pairs("…=... €=EUR ß=ss æ=ae Æ=AE œ=oe Œ=OE ø=o Ø=O ł=l Ł=L đ=d Đ=D"),
        **_pairs("\u0131=i ð=d Ð=D þ=th Þ=Th"),
    }
)
"""Letters and signs that no accent distinguishes from plain ones."""


Element = TypeVar("Element", bound=Sequence[str])
"""An element of a segment: a text, or the components of one."""


class Address(Struct, frozen=True):
    """Where an order is delivered to; absent parts are empty."""

    name: str
    street: tuple[str, ...]
    city: str
    province: str
    postal_code: str
    country: str
    phone: str
    email: str


class OrderLine(Struct, frozen=True):
    sku: str
    title: str
    quantity: int


class Order(Struct, frozen=True):
    """An order; `placed_at` is in the time zone of the connection."""

    number: str
    placed_at: datetime
    currency: str
    address: Address
    lines: tuple[OrderLine, ...]


def without_empty_end(elements: Sequence[Element]) -> list[Element]:
    """Return the elements of a segment without the empty ones at its end."""
    found = list(elements)
    while found and not any(found[-1]):
        found.pop()
    return found


def order_of(change: Change, zone: tzinfo, encoding: str) -> Order:
    """Return the order of a change, in letters of an encoding.

    Raises Unusable if the number, the address, all lines or a SKU are missing, or if
    one of them has letters that the encoding does not have.
    """
    document = change.document
    texts = _Texts(encoding)
    number = document.get("number") or document.get("name") or document.get("id")
    items = document.get("items") or ()
    lines = tuple(_lines(items, texts))
    if not lines:
        raise Unusable("the order has no items, so there is nothing to send")
    return Order(
        number=texts.code(str(number or "").removeprefix("#"), "order number"),
        placed_at=_placed_at(document, change.occurred_at, zone),
        currency=texts.code(document.get("currency"), "currency", required=False),
        address=_address(document, texts),
        lines=lines,
    )


def _lines(items: Any, texts: _Texts) -> Iterator[OrderLine]:
    for number, item in enumerate(items, 1):
        title = texts.text(item.get("title"), "title", replaced=True)
        quantity = item.get("quantity")
        if not isinstance(quantity, int) or quantity < 1:
            raise Unusable(f"item {number} has the quantity {quantity!r}")
        sku = texts.code(item.get("sku"), f"SKU of item {number} ({title})")
        yield OrderLine(sku, title, quantity)


def _address(document: Mapping[str, Any], texts: _Texts) -> Address:
    found = document.get("shippingAddress") or {}
    if not any(found.values()):
        raise Unusable("the order has no shipping address; set it in the store")
    customer = document.get("customer") or {}

    def part(*names: str) -> str:
        value = next((found[name] for name in names if found.get(name)), "")
        return texts.text(value, f"{names[0]} of the address")

    street = (part("address1", "line1"), part("address2", "line2"))
    return Address(
        name=part("name") or texts.text(customer.get("name"), "name of the customer"),
        street=tuple(filter(None, street)),
        city=part("city"),
        province=part("province"),
        postal_code=part("zip", "postalCode"),
        country=part("country"),
        phone=part("phone"),
        email=texts.text(document.get("email"), "e-mail address"),
    )


def _placed_at(document: Mapping[str, Any], otherwise: str, zone: tzinfo) -> datetime:
    for written in (document.get("placedAt"), otherwise):
        try:
            return datetime.fromisoformat(str(written)).astimezone(zone)
        except ValueError:
            continue
    raise Unusable(f"the time {otherwise!r} of the change is not a time")


class _Texts:
    """Brings texts into the letters of an encoding."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding

    def code(self, value: object, name: str, *, required: bool = True) -> str:
        """Return a number or code unchanged. Raises Unusable if that is impossible."""
        text = "" if value is None else str(value).strip()
        if required and not text:
            raise Unusable(f"the {name} is missing; set it in the store")
        if _CONTROLS.search(text) or not self._has(text):
            raise Unusable(
                f"the {name} is {text!r}, which has letters that the file cannot"
                " contain; change it in the store"
            )
        return text

    def text(self, value: object, name: str, *, replaced: bool = False) -> str:
        """Return a text on one line.

        A letter that the encoding does not have loses its accent. One without a plain
        form is refused, or `replaced` by a question mark.
        """
        plain = _BLANKS.sub(" ", "" if value is None else str(value)).strip()
        if self._has(plain):
            return plain
        found = "".join(map(self._letter, plain))
        if "\0" in found and not replaced:
            raise Unusable(
                f"the {name} is {plain!r}, which has letters that the file cannot"
                ' contain; set edi.charset = "UNOW" if the partner reads UTF-8, or send'
                " this order to the partner yourself"
            )
        return found.replace("\0", "?")

    def _letter(self, letter: str) -> str:
        if self._has(letter):
            return letter
        decomposed = unicodedata.normalize("NFKD", letter.translate(_PLAIN))
        plain = "".join(c for c in decomposed if not unicodedata.combining(c))
        return plain if plain and self._has(plain) else "\0"

    def _has(self, text: str) -> bool:
        try:
            text.encode(self._encoding)
        except UnicodeEncodeError:
            return False
        return True
