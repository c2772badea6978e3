"""`backhaul backfill` and `reconcile`: read the platform now."""

import asyncio
import sys
from collections.abc import Callable
from typing import Annotated, Any, Self, TypeAlias

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from backhaul.app.control_socket import ConnectionLost, Control, NoDaemon
from backhaul.cli import context, output
from backhaul.cli.context import ConfigOption, JsonOption
from backhaul.errors import BackhaulError, Busy, PlatformUnavailable
from backhaul.settings import Settings
from backhaul.sync.resource_types import BACKFILL, FULL, KINDS, PATH, SyncRequest

StoreOption = Annotated[str | None, typer.Option("--store", help="Only this store.")]
KindOption = Annotated[
    str | None, typer.Option("--kind", help=f"Only one of {', '.join(KINDS)}.")
]
LINE_ROWS = 5_000
"""Without a terminal a line is printed each time so many rows more are read."""
Lines: TypeAlias = list[dict[str, Any]]
COLUMNS = ("store", "kind", "read", "missed", "stale", "deleted", "foreign")


def backfill(
    config: ConfigOption = None,
    store: StoreOption = None,
    kind: KindOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read everything the platform has; goes on where it was stopped."""
    _walk(BACKFILL, context.settings(config), store, kind, as_json)


def reconcile(
    config: ConfigOption = None,
    store: StoreOption = None,
    kind: KindOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the differences, change nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Hold every row of the platform against the mirror, and repair what differs."""
    settings = context.settings(config)
    if not dry_run:
        _walk(FULL, settings, store, kind, as_json)
        return
    _check(settings, store, kind)
    found = asyncio.run(_rehearse(settings, store, kind))
    if as_json:
        output.json(found)
        return
    columns = ("store", "kind", "id", "drift", "mirror", "platform")
    output.table(found, columns, "the mirror is as the platform")


def _check(settings: Settings, store: str | None, kind: str | None) -> None:
    if store is not None and store not in settings.stores:
        raise BackhaulError(f"--store {store}: none of {', '.join(settings.stores)}")
    if kind is not None and kind not in KINDS:
        raise BackhaulError(f"--kind {kind}: none of {', '.join(KINDS)}")


async def _rehearse(
    settings: Settings, store: str | None, kind: str | None
) -> list[dict[str, Any]]:
    # The platform's client takes its time to load.
    from backhaul.app import offline

    found = []
    for name in [store] if store else settings.stores:
        async with offline.open_dry_run(settings, name) as rehearsal:
            for each in [kind] if kind else KINDS:
                found += [msgspec.to_builtins(d) async for d in rehearsal.run(each)]
    return found


def _walk(
    job: str, settings: Settings, store: str | None, kind: str | None, as_json: bool
) -> None:
    _check(settings, store, kind)
    wanted = SyncRequest(job, (store,) if store else (), (kind,) if kind else ())
    ended, troubles = _follow(settings, wanted, quiet=as_json)
    if as_json:
        output.json(ended)
    else:
        output.table(ended, (*COLUMNS, "unrepaired", "note"), "nothing was read")
    if troubles:
        told = "; ".join(f"{t['store']}: {t['kind']}: {t['trouble']}" for t in troubles)
        raise PlatformUnavailable(f"{told}; what was read is kept, try again later")


def _follow(
    settings: Settings, wanted: SyncRequest, *, quiet: bool
) -> tuple[Lines, Lines]:
    """Show the steps; return the walks that ended, and which were given up."""
    ended: Lines = []
    troubles: Lines = []
    with _Screen(quiet) as screen:

        def tell(line: dict[str, Any]) -> None:
            if "job" in line:
                ended.append(line)
            elif "trouble" in line:
                troubles.append(line)
            else:
                screen.show(line)

        try:
            for line in Control(settings.state_dir).follow(PATH, wanted):
                tell(line)
        except NoDaemon:
            asyncio.run(_by_itself(settings, wanted, tell))
        except ConnectionLost as error:
            raise Busy(f"{error}; what was read is kept") from None
    return ended, troubles


async def _by_itself(
    settings: Settings, wanted: SyncRequest, tell: Callable[[dict[str, Any]], None]
) -> None:
    # All that the daemon is made of: only who works without one waits for it to load.
    from backhaul.app import offline

    stores = wanted.stores or tuple(settings.stores)
    async with offline.open_sync(settings, stores) as desk:
        await desk.work(wanted, tell)


class _Screen:
    """A bar for each list on a terminal, a line now and then elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._bars: dict[tuple[str, str], Any] = {}
        self._told: dict[tuple[str, str], int] = {}
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            console=Console(stderr=True),
            disable=quiet or not sys.stderr.isatty(),
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, step: dict[str, Any]) -> None:
        """Show how far the walk over one list has come."""
        if self._quiet:
            return
        key = (step["store"], step["kind"])
        if self._progress.disable:
            self._say(key, step)
            return
        if key not in self._bars:
            self._bars[key] = self._progress.add_task(" ".join(key), total=None)
        done, total = step["read"], step["total"]
        self._progress.update(self._bars[key], completed=done, total=total)

    def _say(self, key: tuple[str, str], step: dict[str, Any]) -> None:
        if step["ended"] or step["read"] - self._told.get(key, 0) >= LINE_ROWS:
            self._told[key] = step["read"]
            of = f" of {step['total']}" if step["total"] else ""
            typer.echo(f"{key[0]}: {step['read']}{of} {key[1]}", err=True)
