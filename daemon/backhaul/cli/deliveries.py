"""`backhaul deliveries`: change notifications for the connections, and decisions."""

from typing import Annotated

import typer

from backhaul.cli import output
from backhaul.cli.bulk import DryRunOption, How, YesOption, decide_many
from backhaul.cli.context import (
    ConfigOption,
    JsonOption,
    LimitOption,
    ReasonOption,
    StateOption,
    example,
    reader,
)
from backhaul.cli.where import where_option, with_options
from backhaul.errors import BackhaulError
from backhaul.store.bulk import BulkVerb
from backhaul.store.filters import DELIVERIES, NO_FILTER, Filter
from backhaul.store.shown_fields import fields

deliveries = typer.Typer(
    no_args_is_help=True, help="Change notifications for the connections."
)
WhereOption = Annotated[
    Filter | None,
    where_option(
        DELIVERIES,
        "state=parked connector=erp since=1d",
        "the topic, the object, the connection and the reason",
    ),
]
NumbersArgument = Annotated[
    list[int] | None,
    typer.Argument(metavar="DELIVERY", help="Numbers (seq) of deliveries."),
]


@deliveries.command(
    "list",
    epilog=example(
        "deliveries list --state parked",
        "deliveries list --where 'connector=erp order=1001'",
    ),
)
def list_deliveries(
    config: ConfigOption = None,
    state: StateOption = None,
    where: WhereOption = None,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """List deliveries, newest first."""
    wanted = with_options(where, state=state)
    with reader(config) as known:
        rows = known.deliveries(wanted, limit)
    none = "no deliveries"
    if wanted != NO_FILTER:
        none = "no delivery matches; without a filter: backhaul deliveries list"
    columns = ("seq", "at", "connection", "topic", "about", "state", "reason")
    output.print_list(rows, columns, none, as_json)


@deliveries.command("show", epilog=example("deliveries show 17"))
def show_delivery(
    delivery: Annotated[int, typer.Argument(help="The delivery's number (seq).")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one delivery with its attempts, and the object as it is now."""
    with reader(config) as known:
        found = known.delivery(delivery)
    if found is None:
        raise BackhaulError(
            f"there is no delivery {delivery}; see: backhaul deliveries list"
        )
    attempts = [fields(each) for each in found.attempts]
    if as_json:
        more = {"tries": attempts, "document": found.document}
        output.json({**fields(found.row), **more})
        return
    output.record(fields(found.row).items())
    columns = ("kind", "number", "started_at", "finished_at", "state", "reason")
    output.table(attempts, columns, "no attempt is recorded")


@deliveries.command(
    "retry",
    epilog=example(
        'deliveries retry 17 18 --reason "the ERP lacks them"',
        "deliveries retry --where state=parked --reason 'was down'",
    ),
)
def retry(
    reason: ReasonOption,
    numbers: NumbersArgument = None,
    where: WhereOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Deliver parked or rejected deliveries again.

    Caution: if the back office already received a delivery, it receives this
    delivery a second time.
    """
    how = How(config, reason, as_json, yes, dry_run)
    decide_many("deliveries", BulkVerb.RESEND, _selected(numbers, where), how)


@deliveries.command(
    "discard", epilog=example('deliveries discard 17 --reason "entered manually"')
)
def discard(
    reason: ReasonOption,
    numbers: NumbersArgument = None,
    where: WhereOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Discard parked deliveries: Backhaul does not deliver them again."""
    how = How(config, reason, as_json, yes, dry_run)
    decide_many("deliveries", BulkVerb.DISCARD, _selected(numbers, where), how)


def _selected(numbers: list[int] | None, where: Filter | None) -> Filter:
    if bool(numbers) == (where is not None):
        raise typer.BadParameter("choose deliveries by number, or by --where FILTER")
    return where or Filter(ids=tuple(numbers or ()))
