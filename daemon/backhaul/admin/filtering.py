"""Lists with a filter: the box, its terms and selects, counts, pages and downloads."""

from __future__ import annotations

import csv
from io import StringIO
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode

import msgspec
from aiohttp import web
from msgspec import Struct
from msgspec.structs import asdict

from backhaul.admin.context import CURSOR, Pager, cursor_of, paginate
from backhaul.store.filters import (
    FilterError,
    Sort,
    parse_filter,
    terms_of,
    value_of,
    with_term,
)
from backhaul_sdk.files import formula_safe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.admin.context import PageContext, PageRequest
    from backhaul.store.filters import Allowed, Filter, Span
    from backhaul.store.operators import SavedView
    from backhaul.store.read_models import Reader

PAGE_ROWS = 100
MOST_COUNTED = 10_000
MOST_EXPORTED = 50_000
WHERE, SHOWN, SORT = "where", "was", "sort"
"""Parameters of the address: the filter, the filter that a form showed, the order."""
_NAMES = {"instance": "connection", "target": "object_id"}
"""The names of fields in downloads, where they differ."""


class ReadRows(Protocol):
    """Reads the rows of a list that match a filter."""

    def __call__(
        self,
        reader: Reader,
        wanted: Filter,
        limit: int,
        after: str | None = None,
        sort: Sort = Sort.USUAL,
        within: Span | None = None,
        /,
    ) -> Sequence[Struct]:
        """Return at most `limit` rows behind the cursor `after`."""
        ...


class FoundRows(Struct, frozen=True):
    """Rows of a list; `further` is where the next page continues the search.

    It is None at the end of the list, and where there are rows enough for a page.
    """

    rows: Sequence[Struct]
    further: str | None = None


class FindRows(Protocol):
    """Finds the rows of a list that match a filter, of the stores with these names."""

    def __call__(
        self,
        reader: Reader,
        wanted: Filter,
        limit: int,
        after: str | None,
        sort: Sort,
        stores: Sequence[str],
        *,
        whole: bool = False,
    ) -> FoundRows:
        """Return at most `limit` rows behind a cursor.

        If no index answers the filter, only a part of the list is searched, unless the
        caller asks for the `whole` list.
        """
        ...


def by_number(name: str, read: ReadRows) -> FindRows:
    """Return how rows with growing numbers are found, in the list of this name."""

    def find(
        reader: Reader,
        wanted: Filter,
        limit: int,
        after: str | None,
        sort: Sort,
        stores: Sequence[str],
        *,
        whole: bool = False,
    ) -> FoundRows:
        if whole:
            return FoundRows(read(reader, wanted, limit, after, sort))
        within = reader.searched(name, wanted, after, sort)
        rows = read(reader, wanted, limit, after, sort, within)
        is_cut = len(rows) < limit and within.more
        return FoundRows(rows, str(within.continues(sort)) if is_cut else None)

    return find


class Listing(Struct, frozen=True):
    """A list: its address without `/`, its fields, and how its rows are found.

    `selects` are the fields that have a select beside the box, and `views` names and
    filters of built-in views. `key` is the field of a
    row after which the next page begins; only a `numbered` one is a number.
    """

    name: str
    title: str
    allowed: Allowed
    row: type[Struct]
    find: FindRows
    selects: tuple[str, ...] = ()
    sorts: tuple[Sort, ...] = (Sort.USUAL, Sort.OLDEST)
    views: tuple[tuple[str, str], ...] = ()
    key: str = "id"
    numbered: bool = True


class Choice(Struct, frozen=True):
    """A link that changes the filter; `count` is a text, empty if it is unknown."""

    label: str
    address: str
    is_current: bool
    count: str = ""


class Select(Struct, frozen=True):
    """A select beside the box: a field, its values, and the one that is chosen."""

    name: str
    values: Sequence[str]
    chosen: str | None


class FilterBox(Struct, frozen=True):
    """The box with the text of a filter, and everything beside it."""

    listing: Listing
    text: str
    sort: Sort
    selects: Sequence[Select]
    saved: Sequence[SavedView]
    error: str = ""

    @property
    def path(self) -> str:
        """The path of the page."""
        return f"/{self.listing.name}"

    @property
    def fields(self) -> Sequence[str]:
        """The names of the fields."""
        return list(self.listing.allowed)

    def address(self, **terms: str | None) -> str:
        """Return the address of the page under the filter with other terms."""
        text = self.text
        for name, value in terms.items():
            text = with_term(text, name, value)
        return self.address_of(text, self.sort)

    def address_of(self, text: str, sort: Sort) -> str:
        """Return the address of the page for the text of a filter, in an order."""
        return address_of(self.listing.name, text, sort.value)

    @property
    def chips(self) -> list[Choice]:
        """The terms, each with the address of the page without it."""
        return [
            Choice(term, self.address_of(rest, self.sort), is_current=True)
            for term, rest in terms_of(self.text)
        ]

    @property
    def sorts(self) -> list[Choice]:
        """The orders of the list."""
        return [
            Choice(
                _SORTS[each],
                self.address_of(self.text, each),
                each is self.sort,
            )
            for each in self.listing.sorts
        ]

    @property
    def counts_all(self) -> bool:
        """Whether the number of all rows in a state is true: no other term is given."""
        return not with_term(self.text, "state", None)

    def states(self, counts: Mapping[str, int]) -> list[Choice]:
        """Return the states; few of them have a count, which ends above 10,000."""
        chosen = value_of(self.text, "state")
        found = [
            Choice(each, self.address(state=each), each == chosen, _count(counts, each))
            for each in self.listing.allowed["state"]
        ]
        return [Choice("any", self.address(state=None), chosen is None), *found]

    @property
    def query(self) -> str:
        """The filter as the parameters of another address."""
        return urlencode({WHERE: self.text})

    def views(self) -> list[Choice]:
        """Return the built-in views and those that the user saved."""
        saved = [(view.name, view.filter, view.sort) for view in self.saved]
        built_in = [(name, text, Sort.USUAL.value) for name, text in self.listing.views]
        return [
            Choice(
                name,
                address_of(self.listing.name, text, sort),
                (text, sort) == (self.text, self.sort.value),
            )
            for name, text, sort in [*built_in, *saved]
        ]

    @property
    def view_shown(self) -> SavedView | None:
        """The saved view that the page shows, if it shows one."""
        shown = (self.text, self.sort.value)
        found = [view for view in self.saved if (view.filter, view.sort) == shown]
        return found[0] if found else None


def address_of(list_: str, text: str, sort: str) -> str:
    """Return the address of a list for the text of a filter, in an order."""
    asked = {WHERE: text} if text else {}
    asked |= {SORT: sort} if sort != Sort.USUAL else {}
    return f"/{list_}?{urlencode(asked)}" if asked else f"/{list_}"


_SORTS = {
    Sort.USUAL: "usual order",
    Sort.NEWEST: "newest first",
    Sort.OLDEST: "oldest first",
    Sort.LOWEST: "lowest stock first",
}


def _count(counts: Mapping[str, int], state: str) -> str:
    found = counts.get(state)
    if found is None:
        return ""
    return f"{MOST_COUNTED:,}+" if found > MOST_COUNTED else f"{found:,}"


async def open_box(
    context: PageContext,
    page_request: PageRequest,
    listing: Listing,
    known: Mapping[str, Sequence[str]] | None = None,
) -> tuple[FilterBox, Filter | None]:
    """Return the box of a page and its filter, which is None if the text is wrong.

    `known` has the values of selects that the fields themselves do not limit.
    """
    text = _text_of(page_request, listing.allowed)
    values = {**listing.allowed, **(known or {})}
    selects = [
        Select(name, values[name], value_of(text, name)) for name in listing.selects
    ]
    who, name = page_request.user.name, listing.name
    saved = await context.services.store.read(
        lambda reader: reader.saved_views(who, name)
    )
    box = FilterBox(listing, text, _sort_of(page_request, listing), selects, saved)
    try:
        wanted = parse_filter(text, listing.allowed, context.services.clock.now())
    except FilterError as error:
        return msgspec.structs.replace(box, error=str(error)), None
    return box, wanted


def _text_of(page_request: PageRequest, allowed: Allowed) -> str:
    """Return the text of the filter; a select that was changed replaces its term."""
    query = page_request.request.query
    text, shown = query.get(WHERE, "").strip(), query.get(SHOWN, "")
    for name in allowed:
        if name not in query:
            continue
        value = query[name].strip() or None
        if value != value_of(shown, name):
            text = with_term(text, name, value)
    return text


def _sort_of(page_request: PageRequest, listing: Listing) -> Sort:
    found = [each for each in listing.sorts if each == page_request.query(SORT)]
    return found[0] if found else Sort.USUAL


async def show_rows(
    context: PageContext,
    page_request: PageRequest,
    listing: Listing,
    known: Mapping[str, Sequence[str]] | None = None,
    **more: Any,
) -> web.Response:
    """Show one page of a list, with the counts of its states."""
    box, wanted = await open_box(context, page_request, listing, known)
    if SHOWN in page_request.request.query:
        return page_request.redirect(box.address())
    if wanted is None:
        return context.page(page_request, listing.name, 422, box=box, **more)
    after = _cursor(page_request, listing)
    stores = list(context.services.settings.stores)

    def read(reader: Reader) -> tuple[FoundRows, dict[str, int]]:
        limit = PAGE_ROWS + 1
        found = listing.find(reader, wanted, limit, after, box.sort, stores)
        # A filter has no counts: to find all that match may take seconds.
        return found, reader.state_counts(listing.name) if box.counts_all else {}

    found, counts = await context.services.store.read(read)
    rows, pager = paginate(page_request, list(found.rows), PAGE_ROWS, listing.key)
    if found.further is not None:
        pager = _further(page_request, found.further, pager)
    return context.page(
        page_request,
        listing.name,
        box=box,
        rows=rows,
        pager=pager,
        continues=found.further is not None,
        counts=counts,
        **more,
    )


def _cursor(page_request: PageRequest, listing: Listing) -> str | None:
    if not listing.numbered:
        return page_request.query(CURSOR)
    number = cursor_of(page_request)
    return None if number is None else str(number)


def _further(page_request: PageRequest, end: str, pager: Pager) -> Pager:
    """Return the links of a page that did not search the whole list."""
    kept = {
        name: value
        for name, value in page_request.request.query.items()
        if value and name != CURSOR
    }
    query = urlencode({**kept, CURSOR: end})
    return Pager(f"{page_request.request.path}?{query}", pager.newest)


async def download(
    context: PageContext, page_request: PageRequest, listing: Listing
) -> web.Response:
    """Return the rows that match the filter of a page as a CSV or JSON file."""
    text = page_request.query(WHERE) or ""
    wanted = parse_filter(text, listing.allowed, context.services.clock.now())
    sort = _sort_of(page_request, listing)
    stores = list(context.services.settings.stores)
    found_rows = await context.services.store.read(
        lambda reader: listing.find(
            reader, wanted, MOST_EXPORTED, None, sort, stores, whole=True
        )
    )
    form = page_request.request.match_info["form"]
    name = f"{listing.name.rpartition('/')[2]}.{form}"
    found = [_named(asdict(row)) for row in found_rows.rows]
    names = list(_named(dict.fromkeys(listing.row.__struct_fields__)))
    return web.Response(
        body=as_csv(names, found) if form == "csv" else msgspec.json.encode(found),
        content_type="text/csv" if form == "csv" else "application/json",
        charset="utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    return {_NAMES.get(name, name): value for name, value in row.items()}


def as_csv(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a CSV file; no cell of it is a formula for a spreadsheet."""
    stream = StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([formula_safe(as_cell(value)) for value in row.values()])
    return stream.getvalue().encode()


def as_cell(value: object) -> str:
    """Return a value as the text of a cell or an input; None is empty."""
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


def number_of(after: str | None) -> int | None:
    """Return the cursor of a list with numbered rows."""
    return None if after is None else int(after)


def checked_rows(page_request: PageRequest, prefix: str) -> list[str]:
    """Return the ids of the rows whose checkboxes are checked."""
    names = page_request.request.query
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
