"""`backhaul search` and `why`: finds objects and shows their history."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from backhaul.cli import output
from backhaul.cli.context import ConfigOption, JsonOption, LimitOption, reader
from backhaul.cli.daemon_client import change
from backhaul.errors import BackhaulError
from backhaul.maintenance.search_indexer import detail_of
from backhaul.store.read_records import FoundObject, TimelineEntry


class SearchKind(StrEnum):
    """The kinds of objects in the index."""

    ORDER = "order"
    PRODUCT = "product"
    CUSTOMER = "customer"


def search(
    words: Annotated[
        list[str] | None,
        typer.Argument(help="Words to find, or the beginnings of words."),
    ] = None,
    config: ConfigOption = None,
    kind: Annotated[
        SearchKind | None, typer.Option(help="Find only this kind.")
    ] = None,
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="Rebuild the search index in the background."),
    ] = False,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """Find orders, products and customers that contain all the words."""
    if rebuild:
        done = change(config, "search/rebuild", {})
        if as_json:
            output.json(done)
        else:
            typer.echo("the index is being rebuilt; search says how much is left")
        return
    text = " ".join(words or ())
    if not text.strip():
        raise BackhaulError(
            "the command needs at least one word to search for, such as: backhaul"
            " search asha"
        )
    with reader(config) as known:
        rows = known.search(text, kind, limit)
        behind = known.unindexed()
    output.print_list(
        rows, ("kind", "title", "found", "id"), f"nothing contains {text!r}", as_json
    )
    if behind and not as_json:
        output.note(f"{behind} changes are not indexed yet")


_HIDDEN = {"name", "product_id"}


class WhyKind(StrEnum):
    """The kinds of objects with a timeline."""

    ORDER = "order"
    PRODUCT = "product"
    SKU = "sku"
    CUSTOMER = "customer"


def why(
    kind: Annotated[WhyKind, typer.Argument(help="The kind of object.")],
    name: Annotated[
        str,
        typer.Argument(
            help="Order number, product handle, SKU, customer's e-mail, or an id."
        ),
    ],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show an object's full history: events, records, commands and stock moves."""
    with reader(config) as known:
        found = known.find_objects(kind, name)
        timelines = [(each, _timeline(known.timeline(kind, each))) for each in found]
        searched = known.searched_in(kind)
    if not timelines:
        raise BackhaulError(
            f"the mirror has no {kind} {name!r}; Backhaul searched the {searched}."
            f" If the {kind} is new, perhaps its webhook has not arrived yet. To"
            " list the webhooks: backhaul events list"
        )
    if as_json:
        output.json([{**_shown(each), "timeline": rows} for each, rows in timelines])
        return
    for each, rows in timelines:
        _print_history(kind, each, rows)


def _shown(found: FoundObject) -> dict[str, Any]:
    return {"name": found.name, "store": found.store, "id": found.id, **found.facts}


def _timeline(entries: list[TimelineEntry]) -> list[dict[str, Any]]:
    """Return the entries; an event's has a summary of its body while that is stored."""
    return [
        {
            "at": each.at,
            "what": each.what,
            "name": each.name,
            "state": each.state,
            "detail": detail_of(each),
        }
        for each in entries
    ]


def _print_history(
    kind: WhyKind, found: FoundObject, rows: list[dict[str, Any]]
) -> None:
    known = _shown(found).items()
    facts = [(k, v) for k, v in known if v is not None and k not in _HIDDEN]
    output.record([(kind.value, found.name), *facts, ("times", "UTC")])
    output.timeline(rows)
