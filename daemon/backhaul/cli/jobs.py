"""`backhaul jobs`: list, run, pause and resume scheduled jobs."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from backhaul.app.jobs import label
from backhaul.cli import context, output
from backhaul.cli.context import ConfigOption, JsonOption, explainer
from backhaul.cli.daemon_client import ask, change, job_rows, who
from backhaul.core.clock import SystemClock
from backhaul.core.text import ago

jobs = typer.Typer(no_args_is_help=True, help="The scheduled jobs.")

NameArgument = Annotated[str, typer.Argument(help="The job; see: backhaul jobs list")]
StoreOption = Annotated[
    str | None, typer.Option("--store", help="Only of this store; else of each.")
]

COLUMNS = ("job", "store", "when", "last_run", "next_run")


@jobs.command("list")
def list_jobs(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the jobs: when each runs, when it last did, and when it will."""
    settings = context.settings(config)
    live, silence = ask(settings)
    with explainer(config) as known:
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
        typer.echo(f"The daemon {silence}; without it no job runs")


def legend(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield which rule holds for the jobs that send, those with one rule together."""
    held: dict[str, list[str]] = {}
    for row in rows:
        if row["rule"]:
            held.setdefault(row["rule"], []).append(label((row["job"], row["store"])))
    for rule, names in held.items():
        yield f"{', '.join(names)}: {rule}"


def shown(row: Mapping[str, Any], now: datetime) -> dict[str, str]:
    """Return a job in the words of the table: it fits a terminal of 80 columns."""
    last, due = row["last_run_at"], row["next_run_at"]
    known = {name: row[name] for name in ("job", "store", "when")}
    return known | {
        "last_run": f"{row['outcome']} {ago(last, now)}" if last else "",
        "next_run": "paused" if row["paused_at"] else ago(due, now) if due else "",
    }


@jobs.command("run")
def run_job(
    name: NameArgument,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a job now, in the daemon, even one that is paused."""
    _change("run", name, store, config, as_json)


@jobs.command("pause")
def pause_job(
    name: NameArgument,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a job rest until it is resumed, also after a restart.

    Where a job that sends is paused, nothing of its kind leaves, not even a retry; but
    `backhaul jobs run` lets out what is planned by then.
    """
    _change("pause", name, store, config, as_json)


@jobs.command("resume")
def resume_job(
    name: NameArgument,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a job run again, from its next time on."""
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
