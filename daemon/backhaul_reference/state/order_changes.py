"""What follows any change of an order: a new version, and the words for it."""

from typing import Any

from backhaul_reference.documents import Document
from backhaul_reference.problems import Problem
from backhaul_reference.state import events, order_views
from backhaul_reference.state.stores import Store
from backhaul_reference.state.writer import Tx

WATCHED = ("status", "financialStatus", "fulfillmentStatus", "confirmation")


def touch(tx: Tx, order_id: str, at_ms: int, values: dict[str, Any]) -> None:
    """Write columns together with the new `updatedAt`; `version` counts up."""
    names = "".join(f"{name} = ?, " for name in values)
    tx.run(
        f"UPDATE orders SET {names}updated_ms = ?, version = version + 1 WHERE id = ?",  # noqa: S608  - names are literals of this package
        (*values.values(), at_ms, order_id),
    )


def differences(before: Document, after: Document) -> Document:
    return {
        name: {"from": before[name], "to": after[name]}
        for name in WATCHED
        if before[name] != after[name]
    }


def announce_update(tx: Tx, store: Store, before: Document, after: Document) -> None:
    changes = differences(before, after)
    events.emit(tx, store.id, "orders/updated", {**after, "changes": changes})


def refusal(code: str, detail: str, row: Any) -> Problem:
    """A 409 that names the order and quotes its present state."""
    named = f"order #{row['number']} ({row['id']}): {detail}"
    return Problem(409, code, named, current=order_views.standing_view(row))
