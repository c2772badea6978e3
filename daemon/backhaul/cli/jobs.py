"""`backhaul jobs`: list, run, pause and resume scheduled jobs."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from backhaul.app.jobs import label
from backhaul.cli import context, output
from backhaul.cli.context import ConfigOption, JsonOption, example, reader
from backhaul.cli.daemon_client import ask, change, job_rows, who
from backhaul.core.clock import SystemClock, ago

jobs = typer.Typer(
    no_args_is_help=True, help="Scheduled jobs: list, run, pause and resume."
)

NameArgument = Annotated[
    str,
    typer.Argument(help="Name of the job. `backhaul jobs list` shows the names."),
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store", help="Only the job of this store. Default: the jobs of all stores."
    ),
]

COLUMNS = ("job", "store", "when", "last_run", "next_run")


@jobs.command("list")
def list_jobs(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the jobs with their schedule, last run and next run."""
    settings = context.settings(config)
    live, silence = ask(settings)
    with reader(config) as known:
        states = known.jobs()
    rows = job_rows(settings, live, states)
    if as_json:
        output.json(rows)
        return
    now = SystemClock().now()
    output.table([shown(row, now) for row in rows], COLUMNS, "no jobs")
    for line in legend(rows):
        typer.echo(line)
    if live is None:
        typer.echo(f"The daemon {silence}; no job runs without it")


def legend(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each rule, with the jobs that it holds for."""
    held: dict[str, list[str]] = {}
    for row in rows:
        if row["rule"]:
            held.setdefault(row["rule"], []).append(label((row["job"], row["store"])))
    for rule, names in held.items():
        yield f"{', '.join(names)}: {rule}"


def shown(row: Mapping[str, Any], now: datetime) -> dict[str, str]:
    """Return a row of the table, short enough for a terminal of 80 columns."""
    last, due = row["last_run_at"], row["next_run_at"]
    known = {name: row[name] for name in ("job", "store", "when")}
    return known | {
        "last_run": f"{row['outcome']} {ago(last, now)}" if last else "",
        "next_run": "paused" if row["paused_at"] else ago(due, now) if due else "",
    }


@jobs.command("run", epilog=example("jobs run reconcile_full"))
def run_job(
    name: NameArgument,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a job now, in the daemon, even if it is paused."""
    _change("run", name, store, config, as_json)


@jobs.command("pause", epilog=example("jobs pause push_fulfillments"))
def pause_job(
    name: NameArgument,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Pause a job until an operator resumes it; a restart does not resume it.

    Each push job sends one kind of command: fulfillments, cancellations or
    adjustments. While a push job is paused, Backhaul sends no command of this
    kind, and repeats no request. `backhaul jobs run` sends the commands that
    are planned at that moment.
    """
    _change("pause", name, store, config, as_json)


@jobs.command("resume", epilog=example("jobs resume push_fulfillments"))
def resume_job(
    name: NameArgument,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resume a paused job; it runs at its next scheduled time."""
    _change("resume", name, store, config, as_json)


def _change(
    done: str, name: str, store: str | None, config: Path | None, as_json: bool
) -> None:
    asked = {"name": name, "store": store, "who": who()}
    answer = change(config, f"jobs/{done}", asked)
    if as_json:
        output.json(answer["jobs"])
    else:
        output.table(answer["jobs"], ("job", "store", "done"), "no jobs")
