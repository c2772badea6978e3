"""Plans commands, changes what they ask for, and restocks behind a cancellation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.core.identity import command_id, digest_of
from backhaul.core.lifecycle import Cause
from backhaul.store.matching import NewCommand
from backhaul.store.sql.commands.restore_adoption import initial_state
from backhaul.store.sql.mirror.shipped_units import out_by_line

if TYPE_CHECKING:
    import sqlite3

    from backhaul.store.commands import Transition
    from backhaul.store.matching import Command

RESTOCK_REASON = "RESTOCK"
"""The reason of an adjustment that puts back what a cancellation did not."""
_LINES = """
    SELECT id, product_id, variant_id, quantity, fulfilled_quantity FROM order_items
    WHERE store = ? AND order_id = ? AND variant_id IS NOT NULL
      AND product_id IS NOT NULL
    ORDER BY id
"""


def plan(
    connection: sqlite3.Connection,
    store: str,
    instance: str,
    command: NewCommand,
    cause: str,
    now: str,
) -> None:
    """Write a new command; one that is known stays as it is."""
    begins = initial_state(connection, store, command, now)
    payload = msgspec.json.encode(command.payload).decode()
    connection.execute(
        """
        INSERT OR IGNORE INTO commands (id, store, kind, target, lane, state, payload,
                                        cause, instance, created_at, due_at, reason,
                                        settled_at, sent_at, effect_id, evidence,
                                        digest)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            command.id,
            store,
            command.kind,
            command.target,
            command.lane,
            begins.state,
            payload,
            cause,
            instance,
            now,
            now,
            begins.reason,
            begins.settled_at,
            begins.sent_at,
            begins.effect_id,
            begins.evidence,
            digest_of((command.id, store, command.kind, command.target, payload)),
        ),
    )


def rewrite_payload(
    connection: sqlite3.Connection, command: Command, payload: dict[str, Any]
) -> None:
    """Change what a command asks for, which was not sent as it is."""
    text = msgspec.json.encode(payload).decode()
    parts = (command.id, command.store, command.kind, command.target, text)
    connection.execute(
        "UPDATE commands SET payload = ?, digest = ? WHERE seq = ?",
        (text, digest_of(parts), command.seq),
    )


def restock_unshipped(
    connection: sqlite3.Connection, command: Command, settlement: Transition, now: str
) -> None:
    """Plan the adjustments that put back what an applied cancellation left out.

    They are written in the transaction that records the cancellation as applied, so
    none is lost; their ids follow from the cancellation, so none is planned twice.
    """
    is_own = settlement.effect_id or Cause.PERSON_CONFIRMS in settlement.causes
    if not (is_own and command.payload.get("restock_unshipped")):
        return
    shipped = settlement.evidence.get("fulfilled") or {}
    for (product, variant), units in _unshipped(connection, command, shipped).items():
        key = f"restock:{command.id}:{variant}"
        new = NewCommand(
            command_id(command.store, command.instance, key, "adjust"),
            "adjust",
            product,
            f"product:{product}",
            {"variant_id": variant, "delta": units, "reason": RESTOCK_REASON},
        )
        cause = f"cancellation {command.id[:8]}: units that have not shipped"
        plan(connection, command.store, command.instance, new, cause, now)


def _unshipped(
    connection: sqlite3.Connection, command: Command, shipped: dict[str, int]
) -> dict[tuple[str, str], int]:
    """Return the units of each product and variant that are in no parcel.

    `shipped` is what the platform showed of each line when it was cancelled; the mirror
    stands in for a line that is not in it.
    """
    place = (command.store, command.target)
    lines = connection.execute(_LINES, place).fetchall()
    known = {line: fulfilled for line, *_, fulfilled in lines} | shipped
    out = out_by_line(connection, *place, known)
    found: dict[tuple[str, str], int] = {}
    for line, product, variant, quantity, _ in lines:
        units = max(quantity - out.get(line, 0), 0)
        found[product, variant] = found.get((product, variant), 0) + units
    return {article: units for article, units in found.items() if units}
