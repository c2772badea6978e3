"""`backhaul quarantine edit`, `retry`, `correct` and `drop`: deciding about rows."""

from typing import Annotated, Any

import typer

from backhaul.cli import showing
from backhaul.cli.changing import change, who
from backhaul.cli.context import ConfigOption, JsonOption
from backhaul.cli.deciding import OptionalReason, ReasonOption

RowArgument = Annotated[int, typer.Argument(help="The row's number.")]


def edit(
    row: RowArgument,
    fields: Annotated[
        list[str],
        typer.Option("--set", metavar="NAME=VALUE", help="A field, and what it is."),
    ],
    kind: Annotated[
        str | None,
        typer.Option(help="What a row is that never became a record: fulfill, …"),
    ] = None,
    reason: OptionalReason = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Mend a row of a connector, field by field, and try it again.

    The fields are those of the record, such as `order` or `sku`; a list is JSON.
    """
    pairs = [text.partition("=") for text in fields]
    if wrong := [name for name, equals, _ in pairs if not equals or not name]:
        raise typer.BadParameter(f"say NAME=VALUE, not {wrong[0]!r}")
    asked = {"fields": {name: value for name, _, value in pairs}, "kind": kind}
    _change("edit", row, reason or "mended", config, as_json, asked)


def retry(
    row: RowArgument,
    reason: OptionalReason = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try a row again as it is, once what was missing is there."""
    _change("retry", row, reason or "tried again", config, as_json)


def correct(
    row: RowArgument,
    reason: OptionalReason = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a shipment's tracking number for an order that was shipped whole.

    Nothing is shipped. Where the store takes no further number for a fulfilled order,
    the command is rejected, and says so.
    """
    _change("correct", row, reason or "the number was corrected", config, as_json)


def drop_row(
    row: RowArgument,
    reason: ReasonOption,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a row up: it stays to be read, and is tried no more."""
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
        showing.json(done)
    else:
        typer.echo(f"row {row}: {done['state']}")
