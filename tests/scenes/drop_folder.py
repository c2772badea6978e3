"""A drop folder connected to a real database, and the planned fulfillments."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backhaul.connect.record_matching import Matcher
from backhaul_connectors.file_drop import FileDrop
from backhaul_connectors.file_drop.settings import Settings
from scenes import payloads
from scenes.back_office import host_of
from scenes.databases import append_and_fold
from scenes.payloads import envelope
from scenes.stored import rows_of, value_of, values_of

if TYPE_CHECKING:
    from backhaul.core.clock import Clock
    from backhaul.store import Store

CASES = Path(__file__).parents[1] / "connectors" / "cases"
HEADER = "order,tracking_company,tracking_number,sku,quantity\n"
ARTICLES = ("LS-XL", "LS-L", "KK-XL", "KK-L", "A1")


class Folder:
    """A drop folder whose records reach a real database."""

    def __init__(self, store: Store, path: Path, **options: Any) -> None:
        path.mkdir(exist_ok=True)
        self.store, self.path = store, path
        self.options = {"path": path, "unchanged_seconds": 0, **options}
        self._name = path.name

    async def drop(self, content: str, name: str = "fulfillments.csv") -> None:
        """Put a file into the folder and read it, as after a restart."""
        (self.path / name).write_text(content)
        settings = Settings.model_validate(self.options)
        connector = FileDrop(self._name, settings)
        await host_of(connector, self.store).once()

    def left(self) -> list[tuple[str, str | None, dict[str, int]]]:
        """Return the planned fulfillments: order, number and units of each article."""
        return [
            _left(target, payload)
            for target, payload in rows_of(
                self.store.place, "commands", "target", "payload", kind="fulfill"
            )
        ]

    def reasons(self) -> list[str]:
        """Return why rows are in quarantine."""
        return values_of(self.store.place, "quarantine", "reason", state="open")

    async def decide(self, verb: str) -> None:
        """Let an operator retry or discard the only row in quarantine."""
        id_ = value_of(self.store.place, "quarantine", "id", state="open")
        quarantine = self.store.quarantine
        if verb == "discard":
            await quarantine.discard(id_, "otto", "asked the warehouse")
        else:
            await quarantine.retry(id_, None, "otto", "asked the warehouse")


def _left(target: str, payload: str) -> tuple[str, str | None, dict[str, int]]:
    asked = json.loads(payload)
    units: dict[str, int] = {}
    for line in asked["lines"]:
        sku = line["line_id"].partition(":")[2]
        units[sku] = units.get(sku, 0) + line["quantity"]
    return target.removeprefix("ord_"), asked["tracking_number"], units


async def with_orders(store: Store) -> None:
    """Fold orders 2001 to 2004, each with three units of each article."""
    for number in range(2001, 2005):
        items = [
            payloads.item(f"{number}:{sku}", variantId=f"v_{sku}", sku=sku, quantity=3)
            for sku in ARTICLES
        ]
        order = payloads.order(f"ord_{number}", number=number, items=items)
        await append_and_fold(store, envelope("orders/create", order))


def case(name: str) -> str:
    """Return a test file with our order numbers: 1001 becomes 2001."""
    return re.sub(r"(?m)^1(\d{3})", r"2\1", (CASES / name).read_text())


async def matched(store: Store, clock: Clock) -> list[str]:
    """Match the unmatched records again; return the results."""
    return [x.state for x in await store.records.match(Matcher(clock, 600), 99)]
