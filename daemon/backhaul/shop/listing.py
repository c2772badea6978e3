"""A page of a list as it came, wrapped in `data` with `meta`, or bare."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import msgspec

from backhaul.errors import Unusable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.shop.transport import Answer


_COUNTS = 2**63
"""Above all counts: what a database holds is less."""
_DAY = timedelta(days=1)


class _Meta(msgspec.Struct, rename="camel"):
    page: int | None = None
    total: int | None = None
    has_more: bool | None = None


class _Wrapped(msgspec.Struct):
    data: list[msgspec.Raw]
    meta: _Meta | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """One page. `total`, `has_more` and `dated` are None where nothing is said.

    `dated` is the platform's own clock, in whole seconds.
    """

    rows: tuple[bytes, ...]
    total: int | None = None
    has_more: bool | None = None
    dated: datetime | None = None


def read(answer: Answer) -> Listing:
    """Read a page. Raises Unusable."""
    dated = _date(answer)
    try:
        if answer.body.lstrip()[:1] == b"[":
            bare = msgspec.json.decode(answer.body, type=list[msgspec.Raw])
            return Listing(tuple(map(bytes, bare)), dated=dated)
        wrapped = msgspec.json.decode(answer.body, type=_Wrapped)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unusable(f"the answer holds no list: {error}") from None
    meta = wrapped.meta or _Meta()
    rows = tuple(map(bytes, wrapped.data))
    return Listing(rows, _count(meta.total), meta.has_more, dated)


def joined(parts: Sequence[Listing]) -> Listing:
    """Make one page of its parts: as the last one says, read when the first one was."""
    rows = tuple(row for part in parts for row in part.rows)
    return replace(parts[-1], rows=rows, dated=parts[0].dated)


def _count(total: int | None) -> int | None:
    """Return what is said of a list's length; an unsigned -1 is no count."""
    return total if total is not None and 0 <= total < _COUNTS else None


def _date(answer: Answer) -> datetime | None:
    """Return when it was said; None unless the days around it are times as well."""
    try:
        dated = parsedate_to_datetime(answer.headers.get("date", ""))
        # One with the zone -0000 comes without any.
        dated = dated.astimezone(UTC) if dated.tzinfo else dated.replace(tzinfo=UTC)
        return dated if dated - _DAY < dated < dated + _DAY else None
    except (ValueError, OverflowError):
        return None
