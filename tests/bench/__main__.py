"""`python -m bench [ROW…]`: runs rows, shows a table, writes JSON on request."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.table import Table

from bench import machine, reference
from bench.backfill import backfill
from bench.files import files
from bench.fold import fold
from bench.fold_large import fold_large, start
from bench.history import history
from bench.idle_stores import idle_stores
from bench.ingest import ingest, ingest_at_256, ingest_folding
from bench.ingest_peers import ingest_peers
from bench.overview import overview, pages
from bench.postgres import append_postgres, fold_large_postgres, fold_postgres
from bench.push import push
from bench.push_far import push_far
from bench.recovery import recovery
from bench.results import CountsDisagreeError, Rounds, Scale
from bench.scan import scan
from bench.scan_lines import scan_lines
from bench.servers import DiedError
from bench.sql_pull import sql_pull
from bench.startup import newcomer, startup
from bench.sustained import burst, storm_of_changes, sustained

Row: TypeAlias = Callable[[Scale], Rounds]

ROWS: dict[str, Row] = {
    "ingest": ingest,
    "ingest-256": ingest_at_256,
    "ingest-folding": ingest_folding,
    "ingest-peers": ingest_peers,
    "sustained": sustained,
    "storm-of-changes": storm_of_changes,
    "burst": burst,
    "fold": fold,
    "fold-large": fold_large,
    "start": start,
    "history": history,
    "recovery": recovery,
    "overview": overview,
    "pages": pages,
    "reference-page": reference.page,
    "reference-page-uncached": reference.page_uncached,
    "reference-product": reference.product,
    "reference-order": reference.order,
    "reference-order-webhooks": reference.order_webhooks,
    "reference-adjustment": reference.adjustment,
    "backfill": backfill,
    "push": push,
    "push-far": push_far,
    "append-postgres": append_postgres,
    "fold-postgres": fold_postgres,
    "fold-large-postgres": fold_large_postgres,
    "idle-stores": idle_stores,
    "scan": scan,
    "scan-lines": scan_lines,
    "files": files,
    "sql-pull": sql_pull,
    "startup": startup,
    "newcomer": newcomer,
}
DIRECTORY = Path("var/bench")

app = typer.Typer(add_completion=False)


def _run(rows: list[str], scale: Scale, console: Console) -> tuple[dict[str, Any], int]:
    """Run the rows; a row whose counts disagree has no figures, only a reason."""
    results: dict[str, Any] = {}
    failed = 0
    for name in rows:
        try:
            rounds = ROWS[name](scale)
        except (CountsDisagreeError, DiedError) as error:
            failed += 1
            results[name] = {"failed": str(error)}
            console.print(f"{name}: {error}", style="bold red")
            continue
        results[name] = [figure.to_json() for figure in rounds.figures.values()]
        console.print(_table(name, rounds))
        for remark in rounds.remarks:
            console.print(f"{name}: {remark}", style="yellow")
    return results, failed


def _table(name: str, rounds: Rounds) -> Table:
    table = Table("", "median", "lowest", "highest", "", title=name)
    for column in table.columns[1:4]:
        column.justify = "right"
    for figure in rounds.figures.values():
        values = (figure.median, min(figure.values), max(figure.values))
        table.add_row(figure.name, *map(_shown, values), figure.unit)
    return table


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def known(names: list[str] | None) -> list[str]:
    """Rows by name, or all whose names begin with a word: `reference`."""
    found: dict[str, None] = {}
    for name in names or ():
        group = [row for row in ROWS if row.startswith(f"{name}-")]
        rows = [name] if name in ROWS else group
        if not rows:
            raise typer.BadParameter(f"no such row: {name}")
        found |= dict.fromkeys(rows)
    return list(found or ROWS)


@app.command()
def main(
    row: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Any of {', '.join(ROWS)}, or reference for all of its rows.",
            callback=known,
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each row.")] = 5,
    requests: Annotated[int, typer.Option(min=10, help="Requests a load.")] = 30_000,
    orders: Annotated[int, typer.Option(min=1, help="Orders a fold.")] = 20_000,
    mirrored: Annotated[
        int, typer.Option(min=100, help="Orders in a large mirror.")
    ] = 1_000_000,
    connections: Annotated[int, typer.Option(min=1)] = 64,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="How long a server is loaded each round.")
    ] = 2.0,
    peers: Annotated[
        bool, typer.Option(help="Fetch the peers and load them too.")
    ] = True,
    directory: Annotated[
        Path, typer.Option(help="Where databases lie meanwhile; not a tmpfs.")
    ] = DIRECTORY,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write everything here as well.")
    ] = None,
) -> None:
    """Measure. Ends with 1 when counts disagree, never because of a time."""
    directory.mkdir(parents=True, exist_ok=True)
    measured_on = machine.describe(directory)
    console = Console()
    console.print(measured_on)
    scale = Scale(
        directory,
        rounds,
        requests,
        orders,
        mirrored,
        connections=connections,
        seconds=seconds,
        peers=peers,
    )
    started = datetime.now(UTC).isoformat(timespec="seconds")
    with machine.load_core():
        results, failed = _run(row or list(ROWS), scale, console)
    if json_file is not None:
        document = {"at": started, "machine": measured_on, "rows": results}
        json_file.write_text(json.dumps(document, indent=2) + "\n")
    raise typer.Exit(1 if failed else 0)


if __name__ == "__main__":
    app()
