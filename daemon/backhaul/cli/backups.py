"""`backhaul backup`, `restore` and `migrate`."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backhaul.cli import context, output, received
from backhaul.cli.context import ConfigOption, JsonOption
from backhaul.core.clock import SystemClock
from backhaul.errors import AlreadyRunning, BackhaulError
from backhaul.store import database_at, open_store, test_restore
from backhaul.store.database import manifest_of, sole_writer

if TYPE_CHECKING:
    from backhaul.settings import Settings
    from backhaul.store.database import Restored


def backup(
    out: Annotated[Path, typer.Argument(help="File to write; it must not exist yet.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Back up the database to a file; the daemon can run at the same time.

    Backhaul checks the backup. It also writes a manifest (size and checksum)
    in the same folder. `backhaul restore` compares the backup with the
    manifest. This command works on SQLite only. For PostgreSQL, use the
    server's tools.
    """
    settings = context.settings(config)
    opened = database_at(settings.place)
    if out.exists():
        raise BackhaulError(f"{out}: this file exists already; choose another name")
    if isinstance(settings.place, Path):
        received.move_before_copy(settings, settings.place)
    made = opened.back_up(out, SystemClock())
    if as_json:
        about = {"manifest": str(manifest_of(out)), "sha256": made.sha256}
        output.json({"file": str(out), "bytes": made.bytes, **about})
    else:
        typer.echo(f"{out}: {made.bytes} bytes, checked")


def restore(
    backup: Annotated[
        Path | None, typer.Argument(help="File that `backhaul backup` wrote.")
    ] = None,
    config: ConfigOption = None,
    fence: Annotated[
        bool,
        typer.Option(
            "--fence",
            help="Use this option after you restored PostgreSQL with the server's"
            " tools. Backhaul then sends nothing until it has read the platform.",
        ),
    ] = False,
    drill: Annotated[
        bool,
        typer.Option(
            "--drill",
            help="Only test the backup, in a temporary"
            " folder; the database does not change.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Replace the database with a backup; stop the daemon first.

    Backhaul checks the backup before it changes anything. The previous database
    stays in the same folder, under another name. Restore a PostgreSQL database
    with the server's tools, and then run this command with --fence, before you
    start a daemon.
    """
    clock = SystemClock()
    if (backup is None) != fence or (fence and drill):
        raise typer.BadParameter(
            "give either a backup file (with --drill if you like) or --fence, not both"
        )
    if backup is None:
        settings = context.settings(config)
        database_at(settings.place).hold_for_audit(settings.stores, clock)
        _say_held(list(settings.stores), as_json)
        return
    if drill:
        _report("can be restored", backup, test_restore(backup, clock), as_json)
        return
    settings = context.settings(config)
    opened = database_at(settings.place)
    with sole_writer(settings.state_dir):
        done = opened.restore(backup, settings.stores, clock)
    _report("is restored", backup, done, as_json)
    if not as_json:
        _say_what_came_back(done)


def _say_what_came_back(done: "Restored") -> None:
    """Print where the former database is, and what is as in the backup."""
    if done.undid:
        typer.echo("an earlier restore was interrupted; it was undone first")
    for file in done.moved:
        what = "database" if file == done.aside else "log"
        typer.echo(f"the {what} from before the restore is {file}")
    for each in done.returned or ():
        typer.echo(each)
    if done.returned is None:
        typer.echo(
            "users, revoked secrets, erased customers, open commands and paused jobs"
            " are as in the backup; see backhaul users list, secrets list, commands"
            " list, jobs list"
        )
    typer.echo(_HELD)


_HELD = "after the next start, no command is sent until the platform has been read"


def _say_held(stores: list[str], as_json: bool) -> None:
    if as_json:
        output.json({"held": stores})
    else:
        typer.echo(f"{', '.join(stores)}: {_HELD}")


def _report(what: str, backup: Path, found: "Restored", as_json: bool) -> None:
    if as_json:
        aside = None if found.aside is None else str(found.aside)
        counts = {"rows": dict(found.rows), "newest_event_at": found.newest_event_at}
        moved = [str(each) for each in found.moved]
        more = {"aside": aside, "moved": moved, "revived": found.returned}
        output.json({"backup": str(backup), **counts, **more})
        return
    rows = ", ".join(f"{number} {name}" for name, number in found.rows.items())
    newest = found.newest_event_at or "never"
    typer.echo(f"{backup}: {what}: {rows}; newest event {newest}")


def migrate(
    config: ConfigOption = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only list the steps; change nothing.")
    ] = False,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="URL",
            help="Move all data to postgresql://HOST/NAME, or back to sqlite:///PATH."
            " Stop the daemon first, unless you use --live.",
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="URL",
            help="With --to: the database to move. Default: the database of the"
            " configuration.",
        ),
    ] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="With --to postgresql://…: move without refusing a webhook. Run the"
            " command while the old daemon runs. It tells you when to start the new"
            " daemons, and when to stop the old one.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Back up the database, then upgrade it to the schema of this version.

    The daemon also does this when it starts. On PostgreSQL this command makes
    no backup, and the daemons can run during the upgrade.

    With --to, the command does not upgrade. It moves all data to another
    database, compares both databases, and prints what to write to the
    configuration. If a move is interrupted, run the same command again.
    """
    if (plan and to) or ((source or live) and not to):
        raise typer.BadParameter(
            "--from and --live need --to; --plan cannot be combined with --to"
        )
    settings = context.settings(config)
    if to is not None:
        _move(settings, source, to, live=live, as_json=as_json)
    elif plan:
        _print_plan(database_at(settings.place).pending_migrations(), as_json)
    else:
        _upgrade(settings, as_json)


def _move(
    settings: "Settings", source: str | None, to: str, *, live: bool, as_json: bool
) -> None:
    from backhaul.cli import database_move

    place = database_move.place_of
    moved = place(source) if source else settings.place
    if live:
        database_move.move_live(settings, moved, place(to), as_json=as_json)
    else:
        database_move.move(settings, moved, place(to), as_json=as_json)


def _upgrade(settings: "Settings", as_json: bool) -> None:
    """Apply the steps that are not applied yet. Raises AlreadyRunning if some wait."""
    opened = database_at(settings.place)
    is_file = isinstance(settings.place, Path)
    with sole_writer(settings.state_dir) if is_file else nullcontext():
        steps = opened.pending_migrations()
        open_store(settings.place, SystemClock())
    left = opened.pending_migrations()
    done = [step for step in steps if step not in left]
    if as_json:
        output.json({"done": done})
    else:
        typer.echo(f"{len(done)} steps done" if done else "nothing to do")
    if left:
        raise AlreadyRunning(opened.finish_upgrade())


def _print_plan(steps: list[str], as_json: bool) -> None:
    if as_json:
        output.json({"ahead": steps})
        return
    for step in steps:
        typer.echo(step)
    typer.echo(f"{len(steps)} steps ahead" if steps else "nothing to do")
