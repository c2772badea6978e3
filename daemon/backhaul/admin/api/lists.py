"""What programs read: orders, stock, commands, events, deliveries and records."""

from functools import partial
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, defstruct

from backhaul.admin.api.endpoint import (
    Api,
    Call,
    Cursor,
    Limit,
    Number,
    number_of,
    page,
    reads,
)
from backhaul.admin.auth import NotFound
from backhaul.admin.filtering import Listing
from backhaul.admin.pages import commands, deliveries, events
from backhaul.core.clock import normalize
from backhaul.errors import BackhaulError
from backhaul.maintenance.search_indexer import detail_of
from backhaul.store.command_records import CommandDetail, ListedCommand
from backhaul.store.filters import Sort, parse_filter
from backhaul.store.read_models import Reader
from backhaul.store.read_records import (
    EventDetail,
    FoundObject,
    ListedDelivery,
    ListedEvent,
    ListedLevel,
    ListedWaitingRecord,
    OrderLine,
)
from backhaul.store.shown_fields import plain, shape

Where = Annotated[
    str,
    Meta(
        max_length=4_000,
        description="A filter such as `state=parked since=1h`, as on the dashboard.",
    ),
]
Time = Annotated[str, Meta(max_length=64, description="A time in RFC 3339.")]
Name = Annotated[str, Meta(min_length=1, max_length=255)]
DEFAULT_LIMIT = 50
MOST_FOUND = 2_000
"""The hits of a search that pages can reach."""


def page_of(item: type[Struct]) -> type[Struct]:
    """Return the type of one page of a list."""
    text = "One page of a list. `next` is the cursor of the next page, if there is one."
    return defstruct(
        f"{item.__name__}Page",
        [("items", list[item]), ("next", str | None)],  # type: ignore[valid-type]  # made at run time
        namespace={"__doc__": text},
    )


class OrdersQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which orders: those with all words of `q`, or else those that changed last."""

    q: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | None = None


class OneOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """An order by its number, name, external id or id; `store` if several have it."""

    order: Name
    store: Name | None = None


class Order(Struct, frozen=True):
    """An order of the mirror."""

    name: str
    store: str
    id: str
    external_id: str | None
    status: str | None
    financial_status: str | None
    fulfillment_status: str | None
    awaiting_confirmation: bool | None
    placed_at: str | None
    cancelled_at: str | None
    total_minor: int | None
    currency: str | None
    customer_id: str | None
    updated_at: str | None


class Entry(Struct, frozen=True):
    """One entry of an order's history, as `backhaul why` shows it."""

    at: str | None
    what: str
    name: str | None
    state: str | None
    detail: str


class OrderHistory(Order, frozen=True):
    """An order with its lines and its history, the oldest entry first.

    For an order that is not mirrored, `mirrored` says why.
    """

    lines: list[shape("OrderLine", OrderLine)]  # type: ignore[valid-type]  # made at run time
    timeline: list[Entry]
    mirrored: str | None = None


_FACTS = [
    name for name in Order.__struct_fields__ if name not in {"name", "store", "id"}
]


def _order(found: FoundObject) -> dict[str, Any]:
    facts = {name: found.facts.get(name) for name in _FACTS}
    awaits = facts["awaiting_confirmation"]
    facts["awaiting_confirmation"] = None if awaits is None else bool(awaits)
    return {"name": found.name, "store": found.store, "id": found.id, **facts}


async def list_orders(api: Api, call: Call) -> object:
    """List orders, those that changed last first, or search for them."""
    asked: OrdersQuery = call.asked
    read = _searched if asked.q else _changed
    return await api.read(partial(read, asked, number_of(asked.cursor)))


def _changed(asked: OrdersQuery, before: int | None, reader: Reader) -> object:
    rows = reader.latest_changes("order", asked.limit, before)
    found = (reader.object("order", each.store, each.id) for each in rows)
    if len(rows) == asked.limit:
        after: int | None = rows[-1].change
    else:
        after = reader.not_searched(before)
    items = [_order(each) for each in found if each is not None]
    return {"items": items, "next": None if after is None else str(after)}


def _searched(asked: OrdersQuery, skip: int | None, reader: Reader) -> object:
    first = min(skip or 0, MOST_FOUND)
    hits = reader.search(asked.q or "", "order", asked.limit + 1, first)
    found = (
        reader.object("order", each.store, each.id) for each in hits[: asked.limit]
    )
    items = [_order(each) for each in found if each is not None]
    after = first + asked.limit
    is_more = len(hits) > asked.limit and after < MOST_FOUND
    return {"items": items, "next": str(after) if is_more else None}


async def show_order(api: Api, call: Call) -> object:
    """Show one order with its lines and its whole history."""
    return await api.read(partial(_history, call.asked))


def _history(asked: OneOrder, reader: Reader) -> object:
    found = [
        each
        for each in reader.find_objects("order", asked.order)
        if asked.store in {None, each.store}
    ]
    if not found:
        raise NotFound(
            f"the mirror has no order {asked.order!r}; Backhaul searched the"
            f" {reader.searched_in('order')}"
        )
    if len(found) > 1:
        there = ", ".join(f"{each.id} of store {each.store}" for each in found)
        raise BackhaulError(
            f"several orders are called {asked.order!r}: {there}; give the id, and the"
            " parameter store"
        )
    (one,) = found
    whole = reader.object("order", one.store, one.id) or one
    entries = [
        {
            "at": each.at,
            "what": each.what,
            "name": each.name,
            "state": each.state,
            "detail": detail_of(each),
        }
        for each in reader.timeline("order", one)
    ]
    lines = [plain(each) for each in reader.order_lines(one.store, one.id)]
    mirrored = one.facts.get("mirrored")
    return {
        **_order(whole),
        "lines": lines,
        "timeline": entries,
        "mirrored": None if mirrored is None else str(mirrored),
    }


class StockQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which variants, by SKU and store."""

    sku: Name | None = None
    store: Name | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: Annotated[str, Meta(max_length=600)] | None = None


async def list_stock(api: Api, call: Call) -> object:
    """List the stock of variants, as the mirror has it, by store and variant."""
    asked: StockQuery = call.asked
    store, slash, variant = (asked.cursor or "").partition("/")
    if asked.cursor and not slash:
        raise BackhaulError(
            f"the cursor {asked.cursor!r} is not one of this list; use `next` of the"
            " page before"
        )
    rows = await api.read(
        lambda reader: reader.stock_levels(
            asked.sku, asked.store, asked.limit + 1, (store, variant)
        )
    )
    return page(
        [plain(each) for each in rows],
        asked.limit,
        lambda row: f"{row['store']}/{row['variant_id']}",
    )


class RowsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which rows, and in which order."""

    where: Where = ""
    sort: Literal["usual", "newest", "oldest"] = "usual"
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | None = None


async def _list(listing: Listing, api: Api, call: Call) -> dict[str, Any]:
    """Return one page of the rows of a list that match a filter.

    A search that finds little ends after some rows, with a place to continue.
    """
    asked: RowsQuery = call.asked
    wanted = parse_filter(asked.where, listing.allowed, api.services.clock.now())
    if listing.numbered:
        number_of(asked.cursor)

    stores = list(api.services.settings.stores)
    rows = await api.read(
        lambda reader: listing.find(
            reader, wanted, asked.limit + 1, asked.cursor, Sort(asked.sort), stores
        )
    )
    found = page(
        [plain(row) for row in rows.rows], asked.limit, lambda row: row[listing.key]
    )
    if rows.further is not None:
        found["next"] = rows.further
    return found


async def list_commands(api: Api, call: Call) -> object:
    """List commands: parked ones first, then the newest."""
    return await _list(commands.LISTING, api, call)


def moment(text: str | None, name: str) -> str | None:
    """Return a time as the store has it. Raises BackhaulError."""
    if text is None:
        return None
    try:
        return normalize(text)
    except ValueError as error:
        raise BackhaulError(f"{name}: {error}") from None


class OneCommand(Struct, frozen=True, forbid_unknown_fields=True):
    """A command by its id, or the first characters of the id."""

    id: Annotated[str, Meta(min_length=4, max_length=64)]


async def find_command(api: Api, id_: str) -> CommandDetail:
    """Return a command. Raises NotFound."""
    found = await api.read(lambda reader: reader.command(id_))
    if found is None:
        raise NotFound(
            f"no command has the id {id_!r}, or several ids begin with it; see"
            " /backhaul/v1/commands"
        )
    return found


async def show_command(api: Api, call: Call) -> object:
    """Show one command with its request, attempts, checks and decisions."""
    found = await find_command(api, call.asked.id)
    digests = (found.digest, found.request_digest)
    digest, request_digest = (each and each.hex() for each in digests)
    shown: Any = plain(found)
    return shown | {"digest": digest, "request_digest": request_digest}


async def list_events(api: Api, call: Call) -> object:
    """List events, the newest first."""
    return await _list(events.LISTING, api, call)


class OneRow(Struct, frozen=True, forbid_unknown_fields=True):
    """A row by its number."""

    id: Number


async def show_event(api: Api, call: Call) -> object:
    """Show one event with its headers and its body."""
    id_ = call.asked.id
    return _known(await api.read(lambda reader: reader.event(id_)), f"event {id_}")


def _known(found: Struct | None, name: str) -> object:
    if found is None:
        raise NotFound(f"there is no {name}")
    return plain(found)


async def list_deliveries(api: Api, call: Call) -> object:
    """List deliveries of change notifications to connections, the newest first."""
    return await _list(deliveries.LISTING, api, call)


class WaitingQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How many records at most."""

    limit: Limit = DEFAULT_LIMIT


async def list_waiting_records(api: Api, call: Call) -> object:
    """List records that wait for their order or SKU, the oldest first."""
    rows = await api.read(lambda reader: reader.waiting_records(call.asked.limit))
    return {"items": [plain(each) for each in rows], "next": None}


Level = shape("StockLevel", ListedLevel)
Command = shape("Command", ListedCommand)
WholeCommand = shape("CommandDetail", CommandDetail)
Event = shape("Event", ListedEvent)
WholeEvent = shape("EventDetail", EventDetail)
Delivery = shape("Delivery", ListedDelivery)
WaitingRecord = shape("WaitingRecord", ListedWaitingRecord)


ENDPOINTS = (
    reads("/orders", list_orders, page_of(Order), OrdersQuery),
    reads("/orders/{order}", show_order, OrderHistory, OneOrder),
    reads("/stock", list_stock, page_of(Level), StockQuery),
    reads("/commands", list_commands, page_of(Command), RowsQuery),
    reads("/commands/{id}", show_command, WholeCommand, OneCommand),
    reads("/events", list_events, page_of(Event), RowsQuery),
    reads("/events/{id}", show_event, WholeEvent, OneRow),
    reads("/deliveries", list_deliveries, page_of(Delivery), RowsQuery),
    reads("/records", list_waiting_records, page_of(WaitingRecord), WaitingQuery),
)
