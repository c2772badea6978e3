"""`backhaul mappings`: what names of the back office mean in the store."""

import csv
import sys
from pathlib import Path
from typing import Annotated, TextIO

import msgspec
import typer

from backhaul.cli import context, output
from backhaul.cli.context import (
    ConfigOption,
    JsonOption,
    LimitOption,
    OptionalReason,
    example,
    one_store,
    reader,
)
from backhaul.cli.daemon_client import change, who
from backhaul.connect.new_mappings import require_usable, rows_waiting
from backhaul.errors import BackhaulError
from backhaul.store.mappings import (
    ListedMapping,
    MappingKind,
    NameMapping,
    require_valid,
)
from backhaul_sdk.files import formula_safe

mappings = typer.Typer(
    no_args_is_help=True,
    help="Translate SKUs and carrier names of the back office to those of the store.",
)
COLUMNS = ("store", "kind", "alias", "name", "connection")
EVERY = 1_000_000
StoreOption = Annotated[
    str | None,
    typer.Option("--store", help="The store; required if there are several stores."),
]
DefaultStoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="The store of rows whose column store is empty or missing; required for"
        " such rows if there are several stores.",
    ),
]
ConnectionOption = Annotated[
    str,
    typer.Option("--connection", help="Only for records of this connection."),
]
DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", help="Show what would happen, and change nothing."),
]


@mappings.command("list", epilog=example("mappings list", "mappings list --words lamp"))
def list_mappings(
    config: ConfigOption = None,
    store: Annotated[
        str | None, typer.Option("--store", help="Only of this store.")
    ] = None,
    words: Annotated[
        str | None, typer.Option(help="Only mappings whose names contain this text.")
    ] = None,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """List the mappings, newest first."""
    with reader(config) as known:
        rows = known.mappings(store, words, limit)
    columns = ("id", "store", "kind", "alias", "name", "connection", "created_by")
    none = "there are no mappings; add one: backhaul mappings add sku ALIAS NAME"
    output.print_list(rows, columns, none if words is None else "none matches", as_json)


@mappings.command(
    "add",
    epilog=example(
        "mappings add sku LAMP-2 LAMP-02", 'mappings add carrier "DHL Paket" DHL'
    ),
)
def add_mapping(
    kind: Annotated[MappingKind, typer.Argument(help="sku or carrier.")],
    alias: Annotated[str, typer.Argument(help="The name in the back office.")],
    name: Annotated[str, typer.Argument(help="What it means in the store.")],
    store: StoreOption = None,
    connection: ConnectionOption = "",
    reason: OptionalReason = None,
    dry_run: DryRunOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a mapping, and retry the quarantined rows that it is for.

    Backhaul refuses a mapping whose alias is a SKU of the store. If the store
    gets such a SKU later, Backhaul ignores the mapping. Commands that exist
    already do not change.
    """
    settings = context.settings(config)
    if connection:
        context.require_known(connection, settings.connectors, "--connection")
    mapping = NameMapping(kind, alias.strip(), name.strip(), connection)
    require_valid(mapping)
    at = one_store(settings, store)
    _add(config, {at: [mapping]}, reason, as_json=as_json, dry_run=dry_run)


@mappings.command("remove", epilog=example("mappings remove 3"))
def remove_mapping(
    mapping: Annotated[
        int, typer.Argument(help="The mapping's number (id).", max=10**18)
    ],
    reason: OptionalReason = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a mapping. Commands that exist already do not change."""
    with reader(config) as known:
        newest = known.mappings(None, None, 1, mapping + 1)
    if not newest or newest[0].id != mapping:
        raise BackhaulError(
            f"there is no mapping {mapping}; see: backhaul mappings list"
        )
    asked = {"id": mapping, "store": newest[0].store, "reason": reason or ""}
    done = change(config, "mappings/remove", {**asked, "who": who()})
    if as_json:
        output.json(done)
    else:
        typer.echo(f"the mapping of {done['alias']} to {done['name']} was removed")


@mappings.command("import", epilog=example("mappings import mappings.csv --dry-run"))
def import_mappings(
    file: Annotated[
        Path,
        typer.Argument(
            help="A CSV file with the columns alias and name, and optionally kind,"
            " connection and store.",
            exists=True,
            dir_okay=False,
        ),
    ],
    store: DefaultStoreOption = None,
    reason: OptionalReason = None,
    dry_run: DryRunOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add the mappings of a CSV file.

    If a row cannot be read, the command adds nothing. It adds the mappings
    of one store after the other. If Backhaul refuses a mapping, for example
    because the store has no such SKU, the command adds no mapping of this
    store, and stops; mappings of the stores before it stay. The columns
    `kind` (default: sku), `connection` and `store` are optional.
    """
    settings = context.settings(config)
    by_store: dict[str, list[NameMapping]] = {}
    for line, row in _rows_of(file):
        try:
            kind = MappingKind(row.get("kind") or MappingKind.SKU)
            mapping = NameMapping(
                kind, row["alias"], row["name"], row.get("connection", "")
            )
            require_valid(mapping)
            at = one_store(settings, row.get("store") or store)
        except (BackhaulError, ValueError) as error:
            raise BackhaulError(f"{file}, line {line}: {error}") from None
        by_store.setdefault(at, []).append(mapping)
    if not by_store:
        raise BackhaulError(f"{file} contains no mapping")
    _add(config, by_store, reason, as_json=as_json, dry_run=dry_run)


def _rows_of(file: Path) -> list[tuple[int, dict[str, str]]]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            table = csv.DictReader(stream, restval="")
            names = [name.strip().lower() for name in table.fieldnames or ()]
            if missing := {"alias", "name"} - {*names}:
                raise BackhaulError(
                    f"{file} has no column {', '.join(sorted(missing))}; its first line"
                    f" must name the columns, such as {','.join(COLUMNS)}"
                )
            table.fieldnames = names
            return [
                (
                    table.line_num,
                    {name: _cell(row[name] or "") for name in names},
                )
                for row in table
            ]
    except (UnicodeDecodeError, csv.Error) as error:
        raise BackhaulError(f"{file} is not a CSV file in UTF-8: {error}") from None


def _cell(text: str) -> str:
    """Return a cell without the apostrophe that `export` writes before a formula."""
    text = text.strip()
    bare = text.removeprefix("'")
    return bare if text != bare and formula_safe(bare) == text else text


@mappings.command("export", epilog=example("mappings export --out mappings.csv"))
def export_mappings(
    out: Annotated[
        Path | None, typer.Option(help="The file to write. Default: standard output.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write all mappings as CSV, in the form that `mappings import` reads."""
    with reader(config) as known:
        rows = known.mappings(None, None, EVERY)
    if as_json:
        output.json(rows)
        return
    if out is None:
        _write(sys.stdout, rows)
        return
    try:
        with out.open("x", encoding="utf-8", newline="") as stream:
            _write(stream, rows)
    except FileExistsError:
        raise BackhaulError(f"{out} exists already; choose another name") from None
    typer.echo(f"wrote {len(rows):,} mappings to {out}")


def _write(stream: TextIO, rows: list[ListedMapping]) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([formula_safe(getattr(row, name)) for name in COLUMNS])


def _add(
    config: Path | None,
    by_store: dict[str, list[NameMapping]],
    reason: str | None,
    *,
    as_json: bool,
    dry_run: bool,
) -> None:
    total = {"added": 0, "retried": 0}
    for store, given in by_store.items():
        if dry_run:
            done = {"added": len(given), "retried": _retried(config, store, given)}
        else:
            asked = {"store": store, "mappings": msgspec.to_builtins(given)}
            asked |= {"reason": reason or "", "who": who()}
            done = change(config, "mappings/add", asked)
        total = {name: total[name] + done[name] for name in total}
    if as_json:
        output.json(total)
        return
    would = "would be " if dry_run else ""
    count, rows = total["added"], total["retried"]
    typer.echo(f"{count:,} {'mapping' if count == 1 else 'mappings'} {would}added")
    typer.echo(f"{rows:,} quarantined {'row' if rows == 1 else 'rows'} {would}retried")


def _retried(config: Path | None, store: str, given: list[NameMapping]) -> int:
    """Return how many rows new mappings would retry. Raises BackhaulError."""
    with reader(config) as known:
        require_usable(store, given, known)
        return len(rows_waiting(store, given, known))
