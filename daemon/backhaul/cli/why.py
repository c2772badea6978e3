"""`backhaul why`: the whole life of an order, a product or a variant."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from backhaul.cli import showing
from backhaul.cli.context import ConfigOption, JsonOption, explainer
from backhaul.errors import BackhaulError


class Kind(StrEnum):
    """What can be asked about."""

    ORDER = "order"
    PRODUCT = "product"
    SKU = "sku"


def why(
    kind: Annotated[Kind, typer.Argument(help="What it is.")],
    name: Annotated[
        str, typer.Argument(help="Order number, handle, SKU, external id or id.")
    ],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain: every event, record, command, attempt and stock move, by time."""
    with explainer(config) as known:
        found = known.objects(kind, name)
        lives = [(thing, known.timeline(thing["id"])) for thing in found]
    if not lives:
        raise BackhaulError(
            f"no {kind} is called {name!r} in the mirror; if it is new, its webhook "
            "has not arrived (see: backhaul events list)"
        )
    if as_json:
        showing.json([{**thing, "timeline": life} for thing, life in lives])
        return
    for thing, life in lives:
        _print(kind, thing, life)


def _print(kind: Kind, thing: dict[str, Any], life: list[dict[str, Any]]) -> None:
    facts = [(key, thing[key]) for key in thing if thing[key] is not None]
    showing.record([(kind.value, thing["name"]), *facts[1:], ("times", "UTC")])
    showing.timeline(life)
