"""`backhaul events` and `backhaul quarantine`: lists and decisions."""

from typing import Annotated, Any

import msgspec
import typer

from backhaul.cli import output
from backhaul.cli.bulk import DryRunOption, YesOption, confirm, print_preview
from backhaul.cli.context import (
    ConfigOption,
    FollowOption,
    JsonOption,
    LimitOption,
    OptionalReason,
    OrderOption,
    SinceOption,
    example,
    object_id,
    reader,
    reader_of,
    settings,
)
from backhaul.cli.daemon_client import change, who
from backhaul.cli.where import where_option, with_options
from backhaul.connect.quarantine_retry import preview
from backhaul.errors import BackhaulError
from backhaul.store.filters import EVENTS, NO_FILTER, QUARANTINE, Filter
from backhaul.store.inbox import EventState, Selection
from backhaul.store.read_records import ListedEvent, ListedQuarantine
from backhaul.store.records import ROW_STATES, RowVerb
from backhaul.store.shown_fields import fields

events = typer.Typer(no_args_is_help=True, help="Inbound events from the platform.")
quarantine = typer.Typer(
    no_args_is_help=True, help="Events and records that could not be used."
)

EventStateOption = Annotated[
    EventState | None, typer.Option("--state", help="Only events in this state.")
]


EventsWhereOption = Annotated[
    Filter | None,
    where_option(
        EVENTS,
        "state=unhandled since=1h",
        "the topic, the ids and the detail, and in the body of events that failed or"
        " wait",
    ),
]
WhereOption = Annotated[
    Filter | None,
    where_option(QUARANTINE, "reason=unknown_sku since=1h", "the text of the rows"),
]


@events.command(
    "list",
    epilog=example(
        "events list --state unhandled",
        "events list --order 1001 --since 2h",
        "events list --where 'kind=order state=stale since=1d'",
        "events list --follow",
    ),
)
def list_events(
    config: ConfigOption = None,
    state: EventStateOption = None,
    topic: Annotated[str | None, typer.Option(help="Show only this topic.")] = None,
    order: OrderOption = None,
    since: SinceOption = None,
    where: EventsWhereOption = None,
    limit: LimitOption = 20,
    follow: FollowOption = False,
    as_json: JsonOption = False,
) -> None:
    """List events, newest first. With --follow, the newest one is the last line."""
    known_settings = settings(config)
    with reader_of(known_settings) as known:
        about = object_id(known, "order", order)
        wanted = with_options(
            where, state=state, topic=topic, since=since, object=about
        )
        rows = known.events(wanted, limit)

    def read(number: int) -> list[ListedEvent]:
        with reader_of(known_settings) as known:
            return known.events(wanted, number)

    columns = ("id", "received_at", "topic", "about", "state", "reason")
    if follow:
        output.follow(read, columns, shown=limit, as_json=as_json)
        return
    output.print_list(rows, columns, _no_events(wanted), as_json)


def _no_events(wanted: Filter) -> str:
    if wanted == NO_FILTER:
        return "no events"
    return "no event matches; without a filter: backhaul events list"


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
    _show(fields(found), as_json)


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
    follow: FollowOption = False,
    as_json: JsonOption = False,
) -> None:
    """List quarantined events and records, newest first.

    Without `state=` in the filter, the list has the open rows. With --follow,
    the newest one is the last line.
    """
    wanted, known_settings = where or NO_FILTER, settings(config)
    none = "no row matches" if where else "nothing is in quarantine"
    if groups:
        with reader_of(known_settings) as known:
            found = known.quarantine_counts(wanted, limit).groups
        columns: tuple[str, ...] = (
            "rows",
            "reason_class",
            "subject",
            "reason",
            "last_at",
        )
        output.print_list(found, columns, none, as_json)
        return

    def read(number: int) -> list[ListedQuarantine]:
        with reader_of(known_settings) as known:
            return known.quarantine(number, None, wanted)

    columns = ("id", "at", "name", "about", "locator", "reason")
    if follow:
        output.follow(read, columns, shown=limit, as_json=as_json)
        return
    output.print_list(read(limit), columns, none, as_json)


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
    """Apply (fold) stored events to the mirror again.

    Do this after an upgrade, or after you corrected a setting. If the mirror
    already contains an event, nothing changes. A quarantined event leaves the
    quarantine if Backhaul can apply it now.
    """
    selection = Selection(tuple(ids or ()), state, since)
    if everything == (selection != Selection()):
        raise typer.BadParameter(
            "choose events by number, --state or --since; or give --all alone"
        )
    asked = {**msgspec.to_builtins(selection), "who": who()}
    states = change(config, "events/reprocess", asked)
    if as_json:
        output.json(states)
        return
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    typer.echo(f"reprocessed: {counts or 'no event matches'}")


RowArgument = Annotated[int, typer.Argument(help="The row's number (id).")]
RowsArgument = Annotated[
    list[int] | None,
    typer.Argument(metavar="ROW", help="Numbers (ids) of rows."),
]


def edit(
    fields: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A field and its new value. Repeat the option for several fields.",
        ),
    ],
    rows: RowsArgument = None,
    where: WhereOption = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="Kind of the record. "
            "Required if the row has no kind yet. Allowed only with one "
            "row. The kinds are: fulfill (shipment), cancel (cancellation), adjust"
            " (stock adjustment), level (stock count) or track (status of a parcel)."
        ),
    ] = None,
    reason: OptionalReason = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Edit fields of quarantined records and try the records again.

    Examples of fields are `order` and `sku`. Write a list as JSON. With several
    rows or --where, every row gets the same value.
    """
    pairs = [text.partition("=") for text in fields]
    if wrong := [name for name, equals, _ in pairs if not equals or not name]:
        raise typer.BadParameter(f"must be NAME=VALUE, not {wrong[0]!r}")
    asked: dict[str, Any] = {"fields": {name: value for name, _, value in pairs}}
    if is_one := _is_one(rows, where, dry_run):
        asked["kind"] = kind
    elif kind is not None:
        raise typer.BadParameter("--kind is only for one row", param_hint="--kind")
    asked["reason"] = reason or "edited"
    _change(
        RowVerb.EDIT, rows, where, asked, _How(config, as_json, yes, dry_run, is_one)
    )


def retry(
    rows: RowsArgument = None,
    where: WhereOption = None,
    reason: OptionalReason = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try rows again without changes, for example after their order has arrived.

    With several rows or --where, the command first shows what will happen, and
    asks for confirmation. Events are processed again.
    """
    is_one = _is_one(rows, where, dry_run)
    asked = {"reason": reason or "tried again"}
    _change(
        RowVerb.RETRY, rows, where, asked, _How(config, as_json, yes, dry_run, is_one)
    )


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
    asked = {"reason": reason or "the number was corrected"}
    _change_one("correct", row, asked, config, as_json)


def discard_rows(
    rows: RowsArgument = None,
    where: WhereOption = None,
    reason: OptionalReason = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Discard rows: they stay readable and are not tried again.

    With several rows or --where, the command first shows what will happen, and
    asks for confirmation.
    """
    is_one = _is_one(rows, where, dry_run)
    if reason is None and not dry_run:
        raise typer.BadParameter("give a reason; the audit log keeps it: --reason TEXT")
    asked = {"reason": reason}
    _change(
        RowVerb.DISCARD, rows, where, asked, _How(config, as_json, yes, dry_run, is_one)
    )


class _How(msgspec.Struct, frozen=True):
    """The options of a change; `is_one` if it is of one row, without a preview."""

    config: ConfigOption
    as_json: bool
    yes: bool
    dry_run: bool
    is_one: bool


def _is_one(rows: list[int] | None, where: Filter | None, dry_run: bool) -> bool:
    if bool(rows) == (where is not None):
        raise typer.BadParameter("choose rows by number, or by --where FILTER")
    return rows is not None and len(rows) == 1 and not dry_run


_ONE = {RowVerb.RETRY: "retry", RowVerb.EDIT: "edit", RowVerb.DISCARD: "discard"}
"""The names of the actions on one row."""


def _change(
    verb: RowVerb,
    rows: list[int] | None,
    where: Filter | None,
    asked: dict[str, Any],
    how: _How,
) -> None:
    if rows and how.is_one:
        _change_one(_ONE[verb], rows[0], asked, how.config, how.as_json)
        return
    wanted = where or Filter(ids=tuple(rows or ()))
    with reader(how.config) as known:
        shown = preview(verb, known.quarantine_selected(wanted))
    if how.dry_run or not shown.changed:
        print_preview(shown, how.as_json)
        return
    if not how.yes:
        confirm(verb.value, shown)
    done = change(
        how.config,
        "quarantine/change",
        {
            **asked,
            "verb": verb.value,
            "where": wanted.in_words(),
            "expected": shown.stores,
            "who": who(),
        },
    )
    _print_changed(done, how.as_json)


def _print_changed(done: dict[str, Any], as_json: bool) -> None:
    if as_json:
        output.json(done)
        return
    for name, words in ROW_STATES.items():
        if done[name]:
            typer.echo(f"{done[name]:,} {words}")
    if done["unchanged"]:
        typer.echo(f"{done['unchanged']:,} could not be changed:")
    for each in done["problems"]:
        typer.echo(f"  row {each['row']}: {each['problem']}")


def _change_one(
    verb: str, row: int, asked: dict[str, Any], config: ConfigOption, as_json: bool
) -> None:
    done = change(config, f"quarantine/{verb}", {"row": row, "who": who(), **asked})
    if as_json:
        output.json(done)
    else:
        typer.echo(f"row {row}: {done['state']}")
