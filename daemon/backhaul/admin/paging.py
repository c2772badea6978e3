"""Long lists, a page at a time: from where one was, back to what is older."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from msgspec import Struct

if TYPE_CHECKING:
    from backhaul.admin.desk import Visit

BEFORE = "before"
_LARGEST = 2**63 - 1


class Pager(Struct, frozen=True):
    """Where the next page is, and the first; None where one is there already."""

    older: str | None
    newest: str | None


def before(visit: Visit) -> int | None:
    """Return the number of the row that the page is to begin after."""
    asked = visit.asked(BEFORE) or ""
    is_number = asked.isascii() and asked.isdigit()
    return min(int(asked[:19]), _LARGEST) if is_number else None


def turned(
    visit: Visit, rows: list[dict[str, Any]], most: int, key: str = "id"
) -> tuple[list[dict[str, Any]], Pager]:
    """Return the page's rows, and where to go on.

    `rows` are one more than a page holds, where there are so many; the row's `key`
    is what the next page begins after.
    """
    older = rows[most - 1][key] if len(rows) > most else None
    return rows[:most], pager(visit, older)


def pager(visit: Visit, older: object) -> Pager:
    """Return the links of a page after which `older` goes on, if anything does."""
    newest = _address(visit, None) if visit.asked(BEFORE) else None
    return Pager(None if older is None else _address(visit, older), newest)


def _address(visit: Visit, key: object) -> str:
    kept = [(n, v) for n, v in visit.request.query.items() if n != BEFORE and v]
    query = urlencode([*kept, (BEFORE, key)] if key is not None else kept)
    return f"{visit.request.path}?{query}" if query else visit.request.path
