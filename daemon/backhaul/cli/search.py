"""`backhaul search`: orders, products and customers by any word of theirs."""

from enum import StrEnum
from typing import Annotated

import typer

from backhaul.cli import showing
from backhaul.cli.changing import change
from backhaul.cli.context import ConfigOption, JsonOption, LimitOption, explainer
from backhaul.cli.listings import print_list
from backhaul.errors import BackhaulError


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
            showing.json(done)
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
        showing.note(f"{behind} changes are not indexed yet")
