"""`backhaul backfill` and `reconcile`: read the platform now."""

import asyncio
import sys
from collections.abc import Callable, Collection
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

StoreOption = Annotated[
    str | None, typer.Option("--store", help="Only this store. Default: all stores.")
]
KindOption = Annotated[
    str | None,
    typer.Option(
        "--kind", help=f"Only this list: {', '.join(KINDS)}; levels means stock."
    ),
]
LINE_ROWS = 5_000
"""Without a terminal, a progress line is printed after each so many rows."""
Lines: TypeAlias = list[dict[str, Any]]
DRIFTS = ("missed", "stale", "deleted", "foreign")
COLUMNS = ("store", "kind", "read", *DRIFTS)


def backfill(
    config: ConfigOption = None,
    store: StoreOption = None,
    kind: KindOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy all products, stock, orders and customers of the platform to the mirror.

    The mirror is Backhaul's local copy of the store's data. A backfill that was
    interrupted continues where it stopped.
    """
    _full_sync(BACKFILL, context.settings(config), store, kind, as_json)


def reconcile(
    config: ConfigOption = None,
    store: StoreOption = None,
    kind: KindOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the differences; change nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare the mirror with the platform and repair differences."""
    settings = context.settings(config)
    if not dry_run:
        _full_sync(FULL, settings, store, kind, as_json)
        return
    _check(settings, store, kind)
    found = asyncio.run(_differences(settings, store, kind))
    if as_json:
        output.json(found)
        return
    columns = ("store", "kind", "id", "drift", "mirror", "platform")
    output.table(found, columns, "the mirror matches the platform")
    _explain({each["drift"] for each in found})
    if found:
        named = "".join(
            f" --{name} {value}"
            for name, value in (("store", store), ("kind", kind))
            if value
        )
        output.note(f"to repair the differences: backhaul reconcile{named}")


def _explain(drifts: Collection[str]) -> None:
    """Print what the names of the differences mean."""
    from backhaul.core.fold import Drift  # part of the daemon, so help is quick

    for drift in Drift:
        if drift in drifts:
            output.note(f"{drift}: {drift.meaning}")


def _check(settings: Settings, store: str | None, kind: str | None) -> None:
    if store is not None and store not in settings.stores:
        known = ", ".join(settings.stores)
        raise BackhaulError(
            f"no store is called {store!r}; --store must be one of: {known}"
        )
    if kind is not None and kind not in KINDS:
        raise BackhaulError(
            f"there is no list {kind!r}; --kind must be one of: {', '.join(KINDS)}"
        )


async def _differences(
    settings: Settings, store: str | None, kind: str | None
) -> list[dict[str, Any]]:
    # This loads the client of the platform, which is slow.
    from backhaul.app import offline

    found = []
    for name in [store] if store else settings.stores:
        async with offline.open_dry_run(settings, name) as dry_run:
            for each in [kind] if kind else KINDS:
                found += [msgspec.to_builtins(d) async for d in dry_run.run(each)]
    return found


def _full_sync(
    job: str, settings: Settings, store: str | None, kind: str | None, as_json: bool
) -> None:
    _check(settings, store, kind)
    request = SyncRequest(job, (store,) if store else (), (kind,) if kind else ())
    ended, failures = _follow(settings, request, quiet=as_json)
    if as_json:
        output.json(ended)
    else:
        output.table(ended, (*COLUMNS, "unrepaired", "note"), "nothing was read")
        if job == FULL:
            _explain([name for name in DRIFTS if any(line[name] for line in ended)])
    if failures:
        said = "; ".join(f"{f['store']}: {f['kind']}: {f['trouble']}" for f in failures)
        raise PlatformUnavailable(
            f"{said}. Backhaul keeps the rows that it has read. Run the command"
            " again later"
        )


def _follow(
    settings: Settings, request: SyncRequest, *, quiet: bool
) -> tuple[Lines, Lines]:
    """Show the progress; return the passes that ended and those that failed."""
    ended: Lines = []
    failures: Lines = []
    with _Screen(quiet) as screen:

        def add(line: dict[str, Any]) -> None:
            if "job" in line:
                ended.append(line)
            elif "trouble" in line:
                failures.append(line)
            else:
                screen.show(line)

        try:
            for line in Control(settings.state_dir).follow(PATH, request):
                add(line)
        except NoDaemon:
            asyncio.run(_offline(settings, request, add))
        except ConnectionLost as error:
            raise Busy(
                f"{error}. Backhaul keeps the rows that it has read. Run the"
                " command again later"
            ) from None
    return ended, failures


async def _offline(
    settings: Settings, request: SyncRequest, add: Callable[[dict[str, Any]], None]
) -> None:
    # This loads all parts of the daemon, which other commands do not need.
    from backhaul.app import offline

    stores = request.stores or tuple(settings.stores)
    async with offline.open_sync(settings, stores) as sync:
        await sync.work(request, add)


class _Screen:
    """Shows a progress bar per list on a terminal, and some lines elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._bars: dict[tuple[str, str], Any] = {}
        self._shown: dict[tuple[str, str], int] = {}
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
        """Show the progress of one list."""
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
        if step["ended"] or step["read"] - self._shown.get(key, 0) >= LINE_ROWS:
            self._shown[key] = step["read"]
            of = f" of {step['total']}" if step["total"] else ""
            typer.echo(f"{key[0]}: {step['read']}{of} {key[1]}", err=True)
