"""`backhaul why`: the whole life of an order, a product, a variant or a customer."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from backhaul.cli import showing
from backhaul.cli.context import ConfigOption, JsonOption, explainer
from backhaul.errors import BackhaulError
from backhaul.shop.members import told

_HIDDEN = {"name", "product_id"}


class Kind(StrEnum):
    """What can be asked about."""

    ORDER = "order"
    PRODUCT = "product"
    SKU = "sku"
    CUSTOMER = "customer"


def why(
    kind: Annotated[Kind, typer.Argument(help="What it is.")],
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
        showing.json([{**thing, "timeline": life} for thing, life in lives])
        return
    for thing, life in lives:
        _print(kind, thing, life)


def _life(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Say with each event what it told, as long as its body is kept."""
    for row in rows:
        body = row.pop("body")
        row.pop("turn")
        if body:
            said = (told(row["name"], body), row["detail"])
            row["detail"] = "; ".join(part for part in said if part)
    return rows


def _print(kind: Kind, thing: dict[str, Any], life: list[dict[str, Any]]) -> None:
    facts = [(k, v) for k, v in thing.items() if v is not None and k not in _HIDDEN]
    showing.record([(kind.value, thing["name"]), *facts, ("times", "UTC")])
    showing.timeline(life)
