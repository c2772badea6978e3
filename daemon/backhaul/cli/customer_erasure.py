"""`backhaul forget`: erases a customer from everything that is stored."""

import asyncio
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec.structs import asdict

from backhaul.cli import context, output
from backhaul.cli.context import ConfigOption, JsonOption
from backhaul.cli.daemon_client import change, who
from backhaul.core.text import printable
from backhaul.errors import BackhaulError, why
from backhaul.maintenance.customer_erasure import ErasurePreview, preview
from backhaul.settings import Settings
from backhaul.store.sqlite.forgetting import find_person, holds, needles_of
from backhaul.store.sqlite.nearest import nearest

forget = typer.Typer(no_args_is_help=True, help="Erase a person for good.")

StoreOption = Annotated[
    str | None, typer.Option("--store", help="The store; needed where there are more.")
]


@forget.callback()
def forgetting() -> None:
    """Erase a person for good."""


@forget.command("customer")
def forget_customer(
    customer: Annotated[str, typer.Argument(help="The platform's id, or the e-mail.")],
    config: ConfigOption = None,
    store: StoreOption = None,
    rewrite: Annotated[
        bool, typer.Option("--rewrite", help="Write the file anew, however large.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show whom it would erase.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask back.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Erase a customer: names, addresses, notes. Amounts, stock and work stay whole.

    It shows whom it found and asks, for there is no way back. What the platform says
    of this person later is redacted as it comes. Erase the person there as well: this
    changes nothing on the platform, nor in backups.
    """
    settings = context.settings(config)
    name = context.one_store(settings, store)
    found = _whom(settings.database_file, name, customer)
    if dry_run:
        _tell(found, as_json)
        return
    if not yes:
        _ask(found, as_json)
    asked: dict[str, Any] = {"store": name, "customer": customer, "who": who()}
    asked["rewrite"] = rewrite
    done = change(config, "customers/forget", asked)
    texts = done.pop("texts")
    # What reads captures loads the HTTP client: no other command should wait for it.
    from backhaul.cli import traffic_commands

    eraser = traffic_commands.eraser_of(done["customer"], texts)
    rewritten = traffic_commands.redact_captures(settings.state_dir, name, eraser)
    done["captures"] = [str(path) for path in rewritten]
    places = _still_told(settings, texts)
    if as_json:
        output.json({**done, "still_in": places})
        return
    output.record(_report(done, places))


def _whom(database: Path, store: str, typed: str) -> ErasurePreview:
    """Look up who is meant. Raises BackhaulError, with who may have been."""
    if not database.exists():
        raise BackhaulError(f"{database}: no database yet; start the daemon once")
    try:
        return asyncio.run(preview(partial(find_person, database), store, typed))
    except BackhaulError as error:
        near = nearest(database, store, typed)
        if not near:
            raise
        named = ", ".join(
            f"{i} ({called})" if called else i for i, called in near.items()
        )
        raise BackhaulError(f"{error}; nearest: {printable(named)}") from None


def _ask(found: ErasurePreview, as_json: bool) -> None:
    """Show who was found and go on after a yes."""
    if as_json or not sys.stdin.isatty():
        raise typer.BadParameter("nobody is there to be asked; say --yes or --dry-run")
    _tell(found, as_json)
    typer.confirm("Erase this person? It cannot be undone.", abort=True)


def _tell(found: ErasurePreview, as_json: bool) -> None:
    if as_json:
        output.json(asdict(found))
        return
    output.record(
        [
            ("customer", found.customer),
            ("name", ", ".join(found.names) or "none is held"),
            ("e-mail", ", ".join(found.emails) or "none is held"),
            ("orders", found.orders),
            ("since", found.since or "no time is held"),
            *([("forgotten", found.forgotten_at)] if found.forgotten_at else []),
        ]
    )


def _report(done: dict[str, Any], places: list[str]) -> Iterator[tuple[str, object]]:
    yield "forgotten", done["customer"]
    for what, count in done["erased"].items():
        yield what, f"{count} erased"
    if done["captures"]:
        yield "captures", f"written anew: {', '.join(done['captures'])}"
    if done["left_behind"]:
        yield "old bytes", _LEFT[done["left_behind"]]
    yield "still told of in", ", ".join(places) or "no file of the state directory"


_LEFT = {
    "log": "are still in the log file, because another program reads the database; end "
    "that program and say this again",
    "file": "are still in unused parts of the file, which is large; say this again with"
    " --rewrite when few webhooks come: they wait about a second per 100 MB",
    "room": "are still in unused parts of the file, which could not be written anew; "
    "make room for twice the file and say this again",
}


def _still_told(settings: Settings, texts: list[str]) -> list[str]:
    """Return the files that still hold the person's e-mail, phone or name.

    Another person of that name is found too; that is for a person to judge.
    """
    files = {path for path in settings.state_dir.rglob("*") if path.is_file()}
    database = settings.database_file
    files |= set(database.parent.glob(f"{database.name}*"))
    found = [(path, _told_in(path, texts)) for path in sorted(files)]
    return [f"{path} ({' and '.join(what)})" for path, what in found if what]


def _told_in(path: Path, texts: list[str]) -> list[str]:
    try:
        found = {_kind(text) for text in texts if holds(path, needles_of([text]))}
    except OSError as error:
        return [f"nobody knows: {why(error)}"]
    return sorted(found)


def _kind(text: str) -> str:
    if "@" in text:
        return "the e-mail"
    is_name = any(sign.isalpha() for sign in text)
    return "the name, maybe of somebody else" if is_name else "the phone"
