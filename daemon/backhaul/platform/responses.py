"""Responses of the platform, and their bodies: an object, its rows, or a list page."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from backhaul.core import strict_json
from backhaul.core.clock import SystemClock
from backhaul.core.outcome import describe
from backhaul.errors import Unusable
from backhaul_sdk.retry_after import wait_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx


T = TypeVar("T")
_COUNTS = 2**63
"""Above every list length that a database could store."""
_DAY = timedelta(days=1)


class Response(msgspec.Struct, frozen=True):
    """A complete HTTP response."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    received_at: datetime | None = None

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        """Return the document. Raises Unusable."""
        return strict_json.decode(self.body)

    def problem(self) -> dict[str, Any] | None:
        """Return the JSON object of a refusal; None if it has none."""
        try:
            return strict_json.decode_object(self.body)
        except Unusable:
            return None

    def said(self) -> str:
        """Return the status and the platform's own words, for operators."""
        return f"{self.status} {describe(self.problem())}".rstrip()

    def retry_after_seconds(self) -> float | None:
        """Return the wait that `Retry-After` asks for; None if it states none."""
        asked, date = (self.headers.get(name, "") for name in ("retry-after", "date"))
        return wait_seconds(asked, date, self.received_at or SystemClock().now())


async def end_if_followed(response: httpx.Response) -> None:
    """Close the connection if bytes came after a response, or if that cannot be seen.

    They would be taken for the next response. Only the hidden parser knows of them.
    """
    with suppress(AttributeError):
        stream: Any = response.stream
        connection = stream._stream._httpcore_stream._stream._connection
        if not connection._h11_state.trailing_data[0]:
            return
    if line := response.extensions.get("network_stream"):
        await line.aclose()


class _Wrapped(msgspec.Struct):
    data: list[msgspec.Raw]
    meta: msgspec.Raw = msgspec.Raw(b"{}")


class Listing(msgspec.Struct, frozen=True):
    """One page. `total`, `has_more` and `dated` are None if the platform omits them.

    `dated` is the platform's own clock, in whole seconds.
    """

    rows: tuple[bytes, ...]
    total: int | None = None
    has_more: bool | None = None
    dated: datetime | None = None


def read_page(answer: Response) -> Listing:
    """Read a page. Raises Unusable.

    Members of `meta` in another form than the contract's count as missing.
    """
    try:
        return _read(answer.body, _date(answer))
    except Unusable:
        # One row with half an emoji must not hide the others.
        if (body := strict_json.replace_half_surrogates(answer.body)) == answer.body:
            raise
        return _read(body, _date(answer))


def _read(body: bytes, dated: datetime | None) -> Listing:
    try:
        if body.lstrip()[:1] == b"[":
            bare = msgspec.json.decode(body, type=list[msgspec.Raw])
            return Listing(tuple(map(bytes, bare)), dated=dated)
        wrapped = msgspec.json.decode(body, type=_Wrapped)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unusable(f"the platform's response contains no list: {error}") from None
    meta = _decoded(wrapped.meta, dict[str, msgspec.Raw]) or {}
    rows = tuple(map(bytes, wrapped.data))
    total, has_more = (
        _decoded(meta.get("total"), int),
        _decoded(meta.get("hasMore"), bool),
    )
    return Listing(rows, _count(total), has_more, dated)


def _decoded(said: msgspec.Raw | None, shape: type[T]) -> T | None:
    try:
        return None if said is None else msgspec.json.decode(said, type=shape)
    except msgspec.MsgspecError:
        return None


def joined(parts: Sequence[Listing]) -> Listing:
    """Join parts to one page, with the last `has_more` and the first date."""
    rows = tuple(row for part in parts for row in part.rows)
    return replace(parts[-1], rows=rows, dated=parts[0].dated)


def _count(total: int | None) -> int | None:
    """Return a list's length as stated; None for an impossible one."""
    return total if total is not None and 0 <= total < _COUNTS else None


def _date(answer: Response) -> datetime | None:
    """Return the response's date; None if it is at the edge of the calendar."""
    try:
        dated = parsedate_to_datetime(answer.headers.get("date", ""))
        # A date with the zone -0000 is parsed without a zone.
        dated = dated.astimezone(UTC) if dated.tzinfo else dated.replace(tzinfo=UTC)
        return dated if dated - _DAY < dated < dated + _DAY else None
    except (ValueError, OverflowError):
        return None


class _Named(msgspec.Struct):
    id: str | int


def read_object(answer: Response, object_id: str) -> bytes:
    """Return the object's bytes, wrapped in `data` or bare. Raises Unusable.

    A response about another object is not accepted.
    """
    raw = _inner(answer)
    try:
        found = str(msgspec.json.decode(raw, type=_Named).id)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Unusable(f"the platform's response contains no object: {error}") from None
    if found != object_id:
        raise Unusable(
            f"Backhaul asked for {object_id}, but the platform's response is about"
            f" {found}"
        )
    return raw


def rows(answer: Response) -> list[bytes]:
    """Return the bytes of each row of a list. Raises Unusable."""
    try:
        found = msgspec.json.decode(_inner(answer), type=list[msgspec.Raw])
    except msgspec.MsgspecError as error:
        raise Unusable(f"the platform's response contains no list: {error}") from None
    return [bytes(row) for row in found]


def _inner(answer: Response) -> bytes:
    answer.json()  # refuses a body that is not strict JSON
    body = strict_json.replace_half_surrogates(answer.body)
    try:
        wrapped = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        return body
    return bytes(wrapped.get("data", body))
