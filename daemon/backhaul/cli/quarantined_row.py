"""`backhaul quarantine show`: one row with its fields, and what its names may mean."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import asdict

from backhaul.cli import output
from backhaul.cli.context import ConfigOption, JsonOption, reader
from backhaul.connect.quarantine_fields import (
    alike,
    fields_of,
    near_of,
    open_articles,
)
from backhaul.connect.quarantine_retry import preview
from backhaul.errors import BackhaulError
from backhaul.store import shown_fields
from backhaul.store.records import RowVerb

if TYPE_CHECKING:
    from backhaul.connect.quarantine_fields import RowFields
    from backhaul.store.read_records import NearMatch, QuarantineDetail


def show_quarantined(
    row: Annotated[int, typer.Argument(help="The row's number (id).")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one quarantined row: its fields, and which field is invalid.

    If the invalid field contains an unknown SKU, order or carrier, the command
    also shows similar names (near matches). For a shipment it shows what the
    order has to ship.
    """
    with reader(config) as known:
        found = known.quarantined(row)
        if found is None:
            raise BackhaulError(
                f"there is no quarantined row {row}; see: backhaul quarantine list"
            )
        form = fields_of(found)
        near = near_of(known, found, form)
        to_ship = open_articles(known, found, form)
        others = preview(RowVerb.EDIT, known.quarantine_selected(alike(found)))
    shown = shown_fields.fields(found)
    del shown["payload"], shown["store"]
    fields = [
        {"field": f.name, "value": f.value, "column": f.column, "invalid": f.problem}
        for f in form.fields
        if f.value or f.problem
    ]
    if as_json:
        marked = [each | {"invalid": bool(each["invalid"])} for each in fields]
        more = {"kind": form.kind, "fields": marked}
        offered = {"near_matches": near, "to_ship": to_ship}
        lists = {name: [asdict(e) for e in found] for name, found in offered.items()}
        output.json({**shown, **more, **lists})
        return
    output.record(shown.items())
    if fields:
        columns = ("field", "value", "column", "invalid")
        output.table([_marked(each) for each in fields], columns, "")
    if to_ship and found.state == "open":
        typer.echo("to ship in this order:")
        output.table(to_ship, ("name", "title", "detail"), "")
    _print_near(found, form, near, others.changed)


def _marked(field: dict[str, Any]) -> dict[str, Any]:
    return field | {"invalid": "invalid" if field["invalid"] else ""}


def _print_near(
    found: QuarantineDetail, form: RowFields, near: list[NearMatch], rows: int
) -> None:
    """Print near matches, and the commands that edit the row or all like it."""
    invalid = form.invalid
    if invalid is None or found.state != "open":
        return
    if near:
        typer.echo("near matches:")
        output.table(near, ("name", "title", "detail"), "")
    value = shlex.quote(near[0].name) if near else "VALUE"
    typer.echo(
        f"edit it:  backhaul quarantine edit {found.id} --set {invalid.name}={value}"
    )
    if rows > 1:
        where = shlex.quote(alike(found).in_words())
        name = "sku" if invalid.name.endswith("sku") else invalid.name
        typer.echo(
            f"edit all {rows:,} rows with this reason:  backhaul quarantine edit"
            f" --where {where} --set {name}={value}"
        )
    if invalid.input.near == "sku":
        typer.echo(
            "remember it:  backhaul mappings add sku"
            f" {shlex.quote(invalid.value)} {value} --store {found.store}"
        )
