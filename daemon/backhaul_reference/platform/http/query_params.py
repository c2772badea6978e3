"""Query parameters: pages, limits and filters."""

from collections.abc import Collection

from multidict import MultiMapping

from backhaul_reference.platform import formats
from backhaul_reference.platform.problems import Flaw, invalid
from backhaul_reference.platform.state.database import Window

MAX_LIMIT = 100
MAX_PAGE = 1_000_000
MAX_SEARCH = 200
MAX_TEXT = 255
Query = MultiMapping[str]


def window(query: Query, *, sortable: bool = False) -> Window:
    """Read page, limit and, if supported, `updatedSince` and `sort`."""
    flaws: list[Flaw] = []
    page = _number(query, "page", 1, MAX_PAGE, flaws)
    limit = _number(query, "limit", 20, MAX_LIMIT, flaws)
    since = _since(query, flaws) if sortable else None
    by_update = _by_update(query, flaws) if sortable else False
    if flaws:
        raise invalid(flaws)
    return Window(page, limit, since, by_update)


def _number(
    query: Query, name: str, default: int, highest: int, flaws: list[Flaw]
) -> int:
    text = query.get(name)
    if text is None:
        return default
    # isdigit alone accepts digits of other scripts.
    digits = text.isascii() and text.isdigit() and len(text) <= 10
    if digits and 1 <= int(text) <= highest:
        return int(text)
    flaws.append(Flaw(f"/{name}", "OUT_OF_RANGE", f"must be 1 to {highest}"))
    return default


def _since(query: Query, flaws: list[Flaw]) -> int | None:
    text = query.get("updatedSince")
    if text is None:
        return None
    try:
        # An unescaped + of an offset arrives as a space.
        return formats.from_text(text.replace(" ", "+"))
    except ValueError:
        flaws.append(Flaw("/updatedSince", "BAD_FORMAT", "must be RFC 3339"))
        return None


def _by_update(query: Query, flaws: list[Flaw]) -> bool:
    text = query.get("sort", "createdAt")
    if text not in {"createdAt", "updatedAt"}:
        flaws.append(Flaw("/sort", "NOT_ALLOWED", "must be createdAt or updatedAt"))
    return text == "updatedAt"


def choice(query: Query, name: str, allowed: Collection[str]) -> str | None:
    """Read a filter with an enumeration value in any case; 422 for another value."""
    text = query.get(name)
    if text is None:
        return None
    by_folded = {word.upper(): word for word in allowed}
    if text.upper() not in by_folded:
        words = ", ".join(allowed)
        raise invalid([Flaw(f"/{name}", "NOT_ALLOWED", f"must be one of {words}")])
    return by_folded[text.upper()]


def text(query: Query, name: str) -> str | None:
    """Read a filter by exact text."""
    value = query.get(name)
    if value is not None and len(value) > MAX_TEXT:
        detail = f"must be at most {MAX_TEXT} long"
        raise invalid([Flaw(f"/{name}", "TOO_LONG", detail)])
    return value


def search(query: Query) -> str | None:
    value = query.get("search")
    if value is not None and len(value) > MAX_SEARCH:
        detail = f"must be at most {MAX_SEARCH} long"
        raise invalid([Flaw("/search", "TOO_LONG", detail)])
    return value.casefold() if value else None
