"""`backhaul events` and `backhaul quarantine`: lists and decisions."""

from typing import Annotated, Any

import msgspec
import typer
from msgspec.structs import asdict

from backhaul.cli import output
from backhaul.cli.context import (
    ConfigOption,
    JsonOption,
    LimitOption,
    OptionalReason,
    ReasonOption,
    SinceOption,
    example,
    reader,
)
from backhaul.cli.daemon_client import change, who
from backhaul.core.clock import SystemClock
from backhaul.errors import BackhaulError
from backhaul.store.filters import (
    NO_FILTER,
    QUARANTINE,
    Filter,
    FilterError,
    parse_filter,
)
from backhaul.store.inbox import EventState, Selection

events = typer.Typer(no_args_is_help=True, help="Inbound events from the platform.")
quarantine = typer.Typer(
    no_args_is_help=True, help="Events and records that could not be used."
)

EventStateOption = Annotated[
    EventState | None, typer.Option("--state", help="Only events in this state.")
]


@events.command("list", epilog=example("events list --state unhandled"))
def list_events(
    config: ConfigOption = None,
    state: EventStateOption = None,
    topic: Annotated[str | None, typer.Option(help="Show only this topic.")] = None,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """List events, newest first."""
    with reader(config) as known:
        rows = known.events(state, topic, limit)
    columns = ("id", "received_at", "topic", "about", "state", "detail")
    output.print_list(rows, columns, "no events", as_json)


@events.command("show", epilog=example("events show 1234"))
def show_event(
    event: Annotated[int, typer.Argument(help="The event's number (id).")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one event with its headers and its raw body."""
    with reader(config) as known:
        found = known.event(event)
    if found is None:
        raise BackhaulError(f"there is no event {event}; see: backhaul events list")
    _show(asdict(found), as_json)


def _filter(text: str) -> Filter:
    try:
        return parse_filter(text, QUARANTINE, SystemClock().now())
    except FilterError as error:
        raise typer.BadParameter(str(error)) from None


WhereOption = Annotated[
    Filter | None,
    typer.Option(
        "--where",
        metavar="FILTER",
        parser=_filter,
        help="Only rows that match, such as 'reason=unknown_sku since=1h'. Fields:"
        f" {', '.join(QUARANTINE)}. Other words are searched in the rows.",
    ),
]


@quarantine.command(
    "list",
    epilog=example(
        "quarantine list --where 'reason=unknown_sku since=1h'",
        "quarantine list --groups",
    ),
)
def list_quarantine(
    config: ConfigOption = None,
    where: WhereOption = None,
    groups: Annotated[
        bool, typer.Option("--groups", help="Count the rows by their reason.")
    ] = False,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """List quarantined events and records, newest first.

    Without `state=` in the filter, the list has the open rows.
    """
    wanted = where or NO_FILTER
    none = "no row matches" if where else "nothing is in quarantine"
    with reader(config) as known:
        if groups:
            found = known.quarantine_counts(wanted, limit).groups
            columns: tuple[str, ...] = ("rows", "reason_class", "subject", "last_at")
            output.print_list(found, columns, none, as_json)
            return
        rows = known.quarantine(limit, None, wanted)
    columns = ("id", "at", "name", "about", "locator", "reason_class", "reason")
    output.print_list(rows, columns, none, as_json)


@quarantine.command("show", epilog=example("quarantine show 4"))
def show_quarantined(
    row: Annotated[int, typer.Argument(help="The row's number (id).")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one quarantined row as it arrived, with the reason."""
    with reader(config) as known:
        found = known.quarantined(row)
    if found is None:
        raise BackhaulError(
            f"there is no quarantined row {row}; see: backhaul quarantine list"
        )
    shown = asdict(found)
    del shown["payload"], shown["store"]
    _show(shown, as_json)


def _show(found: dict[str, object], as_json: bool) -> None:
    if as_json:
        output.json(found)
    else:
        output.record(found.items())


def reprocess(
    ids: Annotated[
        list[int] | None,
        typer.Argument(help="Numbers (ids) of events.", show_default=False),
    ] = None,
    config: ConfigOption = None,
    state: EventStateOption = None,
    since: SinceOption = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Reprocess every stored event.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Fold stored events again, after an upgrade or a corrected setting.

    If the mirror already contains an event, folding the event again changes
    nothing. A quarantined event leaves the quarantine if Backhaul can fold it
    now.
    """
    selection = Selection(tuple(ids or ()), state, since)
    if everything == (selection != Selection()):
        raise typer.BadParameter(
            "choose events by number, --state or --since; or give --all alone"
        )
    asked = {**msgspec.to_builtins(selection), "who": who()}
    states = change(config, "events/refold", asked)
    if as_json:
        output.json(states)
        return
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    typer.echo(f"reprocessed: {counts or 'no event matches'}")


RowArgument = Annotated[int, typer.Argument(help="The row's number (id).")]


def edit(
    row: RowArgument,
    fields: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A field and its new value. Repeat the option for several fields.",
        ),
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            help="Kind of the record, required if the row has none yet:"
            " fulfill (shipment), cancel (cancellation), adjust (stock adjustment),"
            " level (stock count) or track (status of a parcel)."
        ),
    ] = None,
    reason: OptionalReason = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Edit fields of a quarantined record and try the record again.

    Examples of fields are `order` and `sku`. Write a list as JSON.
    """
    pairs = [text.partition("=") for text in fields]
    if wrong := [name for name, equals, _ in pairs if not equals or not name]:
        raise typer.BadParameter(f"must be NAME=VALUE, not {wrong[0]!r}")
    asked = {"fields": {name: value for name, _, value in pairs}, "kind": kind}
    _change("edit", row, reason or "edited", config, as_json, asked)


def retry(
    row: RowArgument,
    reason: OptionalReason = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try a row again without changes, for example after its order has arrived."""
    _change("retry", row, reason or "tried again", config, as_json)


def correct(
    row: RowArgument,
    reason: OptionalReason = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a shipment's tracking number for an order that is already fulfilled.

    Backhaul plans a fulfill command that adds the tracking number and ships no
    units. If the store does not accept a second tracking number for a fulfilled
    order, this fulfill command becomes `rejected`, with that reason.
    """
    _change("correct", row, reason or "the number was corrected", config, as_json)


def drop_row(
    row: RowArgument,
    reason: ReasonOption,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Discard a row: it stays readable and is not tried again."""
    _change("drop", row, reason, config, as_json)


def _change(
    verb: str,
    row: int,
    reason: str,
    config: ConfigOption,
    as_json: bool,
    more: dict[str, Any] | None = None,
) -> None:
    asked = {"row": row, "who": who(), "reason": reason, **(more or {})}
    done = change(config, f"quarantine/{verb}", asked)
    if as_json:
        output.json(done)
    else:
        typer.echo(f"row {row}: {done['state']}")
