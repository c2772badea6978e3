"""`backhaul search` and `why`: finds objects and shows their history."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from backhaul.cli import output
from backhaul.cli.context import ConfigOption, JsonOption, LimitOption, explainer
from backhaul.cli.daemon_client import change
from backhaul.cli.events import print_list
from backhaul.errors import BackhaulError
from backhaul.maintenance.search_indexer import summary


class Kind(StrEnum):
    """What can be found."""

    ORDER = "order"
    PRODUCT = "product"
    CUSTOMER = "customer"


def search(
    words: Annotated[
        list[str] | None, typer.Argument(help="Words, or how they begin.")
    ] = None,
    config: ConfigOption = None,
    kind: Annotated[Kind | None, typer.Option(help="Only these.")] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make the index anew, in the background.")
    ] = False,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """Find orders, products and customers that have all these words."""
    if rebuild:
        done = change(config, "search/rebuild", {})
        if as_json:
            output.json(done)
        else:
            typer.echo("the index is made anew; search says what is still to come")
        return
    text = " ".join(words or ())
    if not text.strip():
        raise BackhaulError("say what to search for, such as: backhaul search asha")
    with explainer(config) as known:
        rows = known.search(text, kind, limit)
        behind = known.unindexed()
    print_list(rows, ("kind", "title", "found", "id"), f"nothing has {text!r}", as_json)
    if behind and not as_json:
        output.note(f"{behind} changes are not indexed yet")


_HIDDEN = {"name", "product_id"}


class Explained(StrEnum):
    """What can be asked about."""

    ORDER = "order"
    PRODUCT = "product"
    SKU = "sku"
    CUSTOMER = "customer"


def why(
    kind: Annotated[Explained, typer.Argument(help="What it is.")],
    name: Annotated[
        str,
        typer.Argument(help="Order number, handle, SKU, e-mail, external id or id."),
    ],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain: every event, record, command, attempt and stock move, by time."""
    with explainer(config) as known:
        found = known.objects(kind, name)
        lives = [(thing, _life(known.life(kind, thing))) for thing in found]
        looked_in = known.looked_in(kind)
    if not lives:
        raise BackhaulError(
            f"no {kind} is called {name!r}: looked through {looked_in}; if it is new, "
            "its webhook has not arrived (see: backhaul events list)"
        )
    if as_json:
        output.json([{**thing, "timeline": life} for thing, life in lives])
        return
    for thing, life in lives:
        _print_history(kind, thing, life)


def _life(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Say with each event what it told, as long as its body is kept."""
    for row in rows:
        body = row.pop("body")
        row.pop("turn")
        if body:
            said = (summary(row["name"], body), row["detail"])
            row["detail"] = "; ".join(part for part in said if part)
    return rows


def _print_history(
    kind: Explained, thing: dict[str, Any], life: list[dict[str, Any]]
) -> None:
    facts = [(k, v) for k, v in thing.items() if v is not None and k not in _HIDDEN]
    output.record([(kind.value, thing["name"]), *facts, ("times", "UTC")])
    output.timeline(life)
