"""What programs read: orders, stock, commands, events, deliveries and records."""

from functools import partial
from typing import Annotated, Any

from msgspec import Meta, Struct, defstruct

from backhaul.admin.api.endpoint import (
    Api,
    Call,
    Cursor,
    Endpoint,
    Limit,
    Number,
    number_of,
    page,
)
from backhaul.admin.auth import NotFound
from backhaul.core.clock import normalize
from backhaul.core.lifecycle import Kind, State
from backhaul.errors import BackhaulError
from backhaul.maintenance.search_indexer import detail_of
from backhaul.store.filters import Filter
from backhaul.store.inbox import EventState
from backhaul.store.operators import Scope
from backhaul.store.read_models import Reader
from backhaul.store.read_records import (
    CommandDetail,
    EventDetail,
    FoundObject,
    ListedCommand,
    ListedDelivery,
    ListedEvent,
    ListedLevel,
    ListedWaitingRecord,
    OrderLine,
)
from backhaul.store.shown_fields import plain, shape

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


class CommandsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which commands. `order` is a name or id, `since` a time of planning."""

    state: State | None = None
    kind: Kind | None = None
    store: Name | None = None
    order: Name | None = None
    since: Time | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | None = None


async def list_commands(api: Api, call: Call) -> object:
    """List commands: parked ones first, then the newest."""
    asked: CommandsQuery = call.asked
    since = moment(asked.since, "since")

    def read(reader: Reader) -> list[ListedCommand]:
        about = _id_of(reader, asked.order)
        wanted = Filter(
            state=asked.state,
            kind=asked.kind,
            store=asked.store,
            object=about,
            since=since,
        )
        return reader.commands(wanted, asked.limit + 1, asked.cursor)

    rows = [plain(each) for each in await api.read(read)]
    return page(rows, asked.limit, lambda row: row["id"])


def moment(text: str | None, name: str) -> str | None:
    """Return a time as the store has it. Raises BackhaulError."""
    if text is None:
        return None
    try:
        return normalize(text)
    except ValueError as error:
        raise BackhaulError(f"{name}: {error}") from None


def _id_of(reader: Reader, name: str | None) -> str | None:
    """Return the id of an order by its name. Raises BackhaulError."""
    if name is None:
        return None
    found = {each.id for each in reader.find_objects("order", name)}
    if len(found) == 1:
        return found.pop()
    what = "no order is" if not found else "several orders are"
    raise BackhaulError(f"order: {what} called {name!r}; give the id of an order")


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


class EventsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which events. `order` is a name or id, `since` a time of arrival."""

    state: EventState | None = None
    topic: Name | None = None
    order: Name | None = None
    since: Time | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | None = None


async def list_events(api: Api, call: Call) -> object:
    """List events, the newest first."""
    asked: EventsQuery = call.asked
    before, since = number_of(asked.cursor), moment(asked.since, "since")

    def read(reader: Reader) -> list[ListedEvent]:
        about = _id_of(reader, asked.order)
        wanted = Filter(state=asked.state, topic=asked.topic, object=about, since=since)
        return reader.events(wanted, asked.limit + 1, before)

    return page([plain(each) for each in await api.read(read)], asked.limit, _id)


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


class DeliveriesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which deliveries of change notifications."""

    connection: Name | None = None
    state: State | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | None = None


async def list_deliveries(api: Api, call: Call) -> object:
    """List deliveries of change notifications to connections, the newest first."""
    asked: DeliveriesQuery = call.asked
    before = number_of(asked.cursor)
    wanted = Filter(connector=asked.connection, state=asked.state)
    rows = await api.read(
        lambda reader: reader.deliveries(wanted, asked.limit + 1, before)
    )
    return page([plain(each) for each in rows], asked.limit, lambda row: row["seq"])


class WaitingQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How many records at most."""

    limit: Limit = DEFAULT_LIMIT


async def list_waiting_records(api: Api, call: Call) -> object:
    """List records that wait for their order or SKU, the oldest first."""
    rows = await api.read(lambda reader: reader.waiting_records(call.asked.limit))
    return {"items": [plain(each) for each in rows], "next": None}


def _id(row: Any) -> object:
    return row["id"]


Level = shape("StockLevel", ListedLevel)
Command = shape("Command", ListedCommand)
WholeCommand = shape("CommandDetail", CommandDetail)
Event = shape("Event", ListedEvent)
WholeEvent = shape("EventDetail", EventDetail)
Delivery = shape("Delivery", ListedDelivery)
WaitingRecord = shape("WaitingRecord", ListedWaitingRecord)


def _get(path: str, handler: Any, asked: type[Struct], answer: Any) -> Endpoint:
    return Endpoint(
        method="GET",
        path=path,
        needs=Scope.READ,
        handler=handler,
        asked=asked,
        answer=answer,
    )


ENDPOINTS = (
    _get("/orders", list_orders, OrdersQuery, page_of(Order)),
    _get("/orders/{order}", show_order, OneOrder, OrderHistory),
    _get("/stock", list_stock, StockQuery, page_of(Level)),
    _get("/commands", list_commands, CommandsQuery, page_of(Command)),
    _get("/commands/{id}", show_command, OneCommand, WholeCommand),
    _get("/events", list_events, EventsQuery, page_of(Event)),
    _get("/events/{id}", show_event, OneRow, WholeEvent),
    _get("/deliveries", list_deliveries, DeliveriesQuery, page_of(Delivery)),
    _get("/records", list_waiting_records, WaitingQuery, page_of(WaitingRecord)),
)
