"""What an attempt really sent and what came back, kept within bounds to be shown."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from backhaul_reference.documents import Document, decode_stored, encode_text
from backhaul_reference.state.database import Rows

BODY_BYTES = 4096
MOST_HEADERS = 40
VALUE_CHARACTERS = 500
REDACTED = "(redacted)"
SECRET = {"authorization", "cookie", "proxy-authenticate", "proxy-authorization"} | {
    "set-cookie",
    "www-authenticate",
}
Headers = list[list[str]]

OF_DELIVERY = """SELECT a.number, a.request_url, a.request_headers, a.response_headers,
  a.response_body, a.response_cut FROM delivery_attempt a
JOIN delivery d ON d.seq = a.delivery_seq
WHERE d.subscription_id = ? AND d.id = ? ORDER BY a.seq"""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer; what was never sent or never came is None."""

    url: str | None = None
    sent: Headers | None = None
    answered: Headers | None = None
    body: bytes = b""
    cut: bool = False

    def columns(self) -> Document:
        return {
            "request_url": self.url,
            "request_headers": _stored(self.sent),
            "response_headers": _stored(self.answered),
            "response_body": self.body,
            "response_cut": self.cut,
        }


NOTHING = Exchange()


def _stored(headers: Headers | None) -> str | None:
    return None if headers is None else encode_text(headers)


def bounded(headers: Iterable[tuple[str, str]]) -> Headers:
    """Headers as they are kept: not too many, not too long, no credentials."""
    some = islice(headers, MOST_HEADERS)
    return [[_cut(name), _value(name, text)] for name, text in some]


def _value(name: str, text: str) -> str:
    return REDACTED if name.lower() in SECRET else _cut(text)


def _cut(text: str) -> str:
    if text.isascii() and len(text) <= VALUE_CHARACTERS:
        return str(text)  # aiohttp names headers by a kind of str of its own
    # A header may hold bytes that are no UTF-8.
    printable = text.encode("utf-8", "replace").decode()
    whole = len(printable) <= VALUE_CHARACTERS
    return printable if whole else printable[:VALUE_CHARACTERS] + "…"


def of_delivery(
    rows: Rows, subscription_id: str, delivery_id: str
) -> dict[int, Exchange]:
    """Each attempt's exchange by its number; older attempts may have none."""
    found = rows.all(OF_DELIVERY, (subscription_id, delivery_id))
    return {
        row["number"]: Exchange(
            url=row["request_url"],
            sent=_read(row["request_headers"]),
            answered=_read(row["response_headers"]),
            body=row["response_body"] or b"",
            cut=bool(row["response_cut"]),
        )
        for row in found
    }


def _read(text: str | None) -> Headers | None:
    return None if text is None else decode_stored(text)
