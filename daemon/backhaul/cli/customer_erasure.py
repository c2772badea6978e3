"""`backhaul customers erase`: erases a customer's personal data."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec.structs import asdict

from backhaul.cli import context, output
from backhaul.cli.context import ConfigOption, JsonOption, example
from backhaul.cli.daemon_client import change, who
from backhaul.errors import BackhaulError, why
from backhaul.maintenance.customer_erasure import ErasurePreview, preview
from backhaul.observe.redaction import printable
from backhaul.settings import Settings
from backhaul.store import database_at
from backhaul.store.customer_erasure import Erasure, holds, spellings

customers = typer.Typer(no_args_is_help=True, help="Erase personal data of customers.")
forget = typer.Typer(
    no_args_is_help=True, help="The old name of `backhaul customers erase`."
)

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store", help="The customer's store; required if there are several stores."
    ),
]


@forget.command("customer", hidden=True)
@customers.command("erase", epilog=example("customers erase asha@example.com"))
def erase_customer(
    customer: Annotated[
        str, typer.Argument(help="The customer's id at the platform, or e-mail.")
    ],
    config: ConfigOption = None,
    store: StoreOption = None,
    rewrite: Annotated[
        bool,
        typer.Option(
            "--rewrite",
            help="Rewrite the database file, so that no erased data stays in it."
            " Without this option, Backhaul rewrites only a file that still contains"
            " erased data and is not larger than 256 MB.",
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show the customer who would be erased; change nothing."
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for confirmation.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Erase a customer's names, addresses and notes; amounts and stock stay.

    You cannot undo this, so the command shows the customer and asks for
    confirmation. Backhaul also erases the personal data in later events about
    the customer. Nothing changes on the platform or in backups: erase the
    customer there as well.
    """
    settings = context.settings(config)
    name = context.one_store(settings, store)
    found = _find(settings, name, customer)
    if dry_run:
        _show(found, as_json)
        return
    if not yes:
        _ask(found, as_json)
    asked: dict[str, Any] = {"store": name, "customer": customer, "who": who()}
    asked["rewrite"] = rewrite
    done = change(config, "customers/erase", asked)
    texts = done.pop("texts")
    # This loads the HTTP client, which no other command here needs.
    from backhaul.cli import capture_and_replay

    eraser = capture_and_replay.eraser_of(done["customer"], texts)
    rewritten = capture_and_replay.redact_captures(settings.state_dir, name, eraser)
    done["captures"] = [str(path) for path in rewritten]
    places = _still_in(settings, texts)
    if as_json:
        output.json({**done, "still_in": places})
        return
    output.record(_report(done, places))


def _find(settings: Settings, store: str, typed: str) -> ErasurePreview:
    """Return the customer. Raises BackhaulError that names the nearest ones."""
    opened = database_at(settings.place)
    if not opened.exists():
        raise BackhaulError(
            f"{settings.database_name}: there is no database yet; start the daemon"
            " once: backhaul run"
        )
    with opened.readable() as readable:
        return asyncio.run(_find_or_suggest(readable.erasure, store, typed))


async def _find_or_suggest(erasure: Erasure, store: str, typed: str) -> ErasurePreview:
    try:
        return await preview(erasure.find_customer, store, typed)
    except BackhaulError as error:
        near = await erasure.nearest(store, typed)
        if not near:
            raise
        named = ", ".join(
            f"{i} ({called})" if called else i for i, called in near.items()
        )
        raise BackhaulError(f"{error}; similar customers: {printable(named)}") from None


def _ask(found: ErasurePreview, as_json: bool) -> None:
    """Show the customer that was found and ask for confirmation."""
    if as_json or not sys.stdin.isatty():
        raise typer.BadParameter(
            "without a terminal, the command cannot ask for confirmation; add --yes"
            " or --dry-run"
        )
    _show(found, as_json)
    typer.confirm("Erase this customer? This cannot be undone.", abort=True)


def _show(found: ErasurePreview, as_json: bool) -> None:
    if as_json:
        output.json(asdict(found))
        return
    output.record(
        [
            ("customer", found.customer),
            ("name", ", ".join(found.names) or "none stored"),
            ("e-mail", ", ".join(found.emails) or "none stored"),
            ("orders", found.orders),
            ("since", found.since or "unknown"),
            *([("erased", found.forgotten_at)] if found.forgotten_at else []),
        ]
    )


def _report(done: dict[str, Any], places: list[str]) -> Iterator[tuple[str, object]]:
    yield "customer erased", done["customer"]
    for what, count in done["erased"].items():
        yield what, f"{count} erased"
    if done["captures"]:
        yield "captures", f"rewritten: {', '.join(done['captures'])}"
    if done["left_behind"]:
        yield "old bytes", _LEFT[done["left_behind"]]
    yield "still named in", ", ".join(places) or "no file in state_dir"


_LEFT = {
    "log": (
        "are still in the write-ahead log, because another program reads the"
        " database; end that program, then run this command again"
    ),
    "receivers": (
        "are still in a file of a receiver process (receiver-*.db in state_dir),"
        " because another program reads the file or the disk is full; end that program"
        " or free space, then run this command again"
    ),
    "file": "are still in unused parts of the database file, which is large; run this"
    " again with --rewrite when few webhooks come: they wait about a second per 100 MB",
    "room": (
        "are still in unused parts of the database file, which could not be"
        " rewritten; free twice the size of the file on this disk, then run this"
        " command again"
    ),
}


_DAMAGED = "maybe other data: the file is damaged, so Backhaul cannot read or erase it"


def _still_in(settings: Settings, texts: list[str]) -> list[str]:
    """Return the files that still contain the customer's e-mail, phone or name.

    They include each damaged file of a receiver process.
    They may contain another person of the same name, which the operator has to judge.
    """
    files = {path for path in settings.state_dir.rglob("*") if path.is_file()}
    if isinstance(file := settings.place, Path):
        files |= set(file.parent.glob(f"{file.name}*"))
    from backhaul.app.receiver_files import damaged as damaged_files

    damaged = damaged_files(settings.state_dir)
    found = [
        (path, _texts_in(path, texts) + [_DAMAGED] * (path in damaged))
        for path in sorted(files)
    ]
    return [f"{path} ({' and '.join(what)})" for path, what in found if what]


def _texts_in(path: Path, texts: list[str]) -> list[str]:
    try:
        found = {_kind(text) for text in texts if holds(path, spellings([text]))}
    except OSError as error:
        return [f"not read: {why(error)}"]
    return sorted(found)


def _kind(text: str) -> str:
    if "@" in text:
        return "the e-mail"
    is_name = any(sign.isalpha() for sign in text)
    return "the name, maybe of another person" if is_name else "the phone"
