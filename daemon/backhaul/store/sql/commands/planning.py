"""Plans commands, changes what they ask for, and restocks after a cancellation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.core.identity import command_id, digest_of
from backhaul.core.lifecycle import Cause
from backhaul.store.matching import NewCommand
from backhaul.store.sql.commands.restore_adoption import initial_state
from backhaul.store.sql.dialect import NEXT_NUMBER
from backhaul.store.sql.mirror.shipped_units import out_by_line
from backhaul.store.sql.stock_targets import held_targets

if TYPE_CHECKING:
    from backhaul.store.commands import Transition
    from backhaul.store.matching import Command
    from backhaul.store.sql.family import Connection

RESTOCK_REASON = "RESTOCK"
"""The reason of an adjustment that restocks what a cancellation did not."""
_PLAN = f"""
    INSERT INTO commands (seq, id, store, kind, target, lane, state, payload, cause,
                          instance, created_at, due_at, reason, settled_at, sent_at,
                          effect_id, evidence, digest, traceparent)
    VALUES ({NEXT_NUMBER}, :id, :store, :kind, :target, :lane, :state, :payload, :cause,
            :instance, :now, :now, :reason, :settled_at, :sent_at,
            :effect_id, :evidence, :digest, :traceparent)
    ON CONFLICT (id) DO NOTHING
"""  # noqa: S608 - constants
_REWRITE = "UPDATE commands SET payload = :payload, digest = :digest WHERE seq = :seq"
_LINES = """
    SELECT id, product_id, variant_id, quantity, fulfilled_quantity FROM order_items
    WHERE store = :store AND order_id = :order AND variant_id IS NOT NULL
      AND product_id IS NOT NULL
    ORDER BY id
"""


def plan(
    connection: Connection,
    store: str,
    instance: str,
    command: NewCommand,
    cause: str,
    now: str,
    traceparent: str | None = None,
) -> None:
    """Add a new command; a command with a known id stays as it is.

    Its trace goes on from `traceparent`.
    """
    initial = initial_state(connection, store, command, now)
    payload = msgspec.json.encode(command.payload).decode()
    digested = (command.id, store, command.kind, command.target, payload)
    values = {
        "id": command.id,
        "store": store,
        "kind": command.kind,
        "target": command.target,
        "lane": command.lane,
        "payload": payload,
        "cause": cause,
        "instance": instance,
        "now": now,
        "digest": digest_of(digested),
        "traceparent": traceparent,
    }
    connection.execute(_PLAN, values | initial._asdict())
    if initial.evidence is not None:
        held_targets.reconsider(connection, store, command.target, now)


def rewrite_payload(
    connection: Connection, command: Command, payload: dict[str, Any]
) -> None:
    """Change what a command asks for; it was not sent with this payload."""
    text = msgspec.json.encode(payload).decode()
    digested = (command.id, command.store, command.kind, command.target, text)
    values = {"payload": text, "digest": digest_of(digested), "seq": command.seq}
    connection.execute(_REWRITE, values)


def restock_unshipped(
    connection: Connection, command: Command, change: Transition, now: str
) -> None:
    """Plan the adjustments that restock what an applied cancellation did not.

    They are added in the transaction that records the cancellation as applied, so none
    is lost; their ids follow from the cancellation, so none is planned twice.
    """
    is_own = change.effect_id or Cause.PERSON_CONFIRMS in change.causes
    if not (is_own and command.payload.get("restock_unshipped")):
        return
    shipped = change.evidence.get("fulfilled") or {}
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
        place = (command.store, command.instance)
        plan(connection, *place, new, cause, now, command.traceparent)


def _unshipped(
    connection: Connection, command: Command, shipped: dict[str, int]
) -> dict[tuple[str, str], int]:
    """Return the units of each product and variant that are in no parcel.

    `shipped` is what the platform showed of each line when the order was cancelled; for
    other lines the mirror counts.
    """
    place = (command.store, command.target)
    values = {"store": command.store, "order": command.target}
    lines = connection.execute(_LINES, values).fetchall()
    known = {line: fulfilled for line, *_, fulfilled in lines} | shipped
    out = out_by_line(connection, *place, known)
    found: dict[tuple[str, str], int] = {}
    for line, product, variant, quantity, _ in lines:
        units = max(quantity - out.get(line, 0), 0)
        found[product, variant] = found.get((product, variant), 0) + units
    return {article: units for article, units in found.items() if units}
