"""What the mirror knows before a command is sent, and what proves its outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.core.lifecycle import OPEN, Cause
from backhaul.store.sql.dialect import document_of, intact
from backhaul.store.sql.mirror.write import is_erased

if TYPE_CHECKING:
    from backhaul.core.lifecycle import State
    from backhaul.store.commands import Attempt, Transition
    from backhaul.store.matching import Command
    from backhaul.store.sql.family import Connection

# An operator who sends a command again says that what was sent before had no effect.
_EARLIER = """
    SELECT baseline FROM commands WHERE seq = :seq AND EXISTS (
        SELECT 1 FROM attempts a
        WHERE a.command_id = :id AND (a.outcome IS NULL OR a.outcome = 'uncertain')
          AND a.number <= :attempts
          AND a.started_at > coalesce((
            SELECT max(at) FROM audit
            WHERE command_id = :id AND action = 'commands resend'), ''))
"""
# Only the last one before the command, however many wait behind it.
_ANSWERED = """
    SELECT evidence FROM commands
    WHERE store = :store AND target = :target AND kind IN ('fulfill', 'cancel')
      AND state = 'applied' AND seq < :seq
    ORDER BY seq DESC LIMIT 1
"""
_ORDER = """
    SELECT updated_at, cancelled_at FROM orders WHERE store = :store AND id = :target
"""
_PARCELS = "SELECT id FROM shipments WHERE store = :store AND order_id = :target"
_LINES = """
    SELECT id, fulfilled_quantity FROM order_items
    WHERE store = :store AND order_id = :target
"""
_NEWEST_ADJUSTMENT = """
    SELECT adjustment_id FROM stock_ledger WHERE product_id = :target AND store = :store
      AND adjustment_id IS NOT NULL ORDER BY at DESC LIMIT 1
"""
_LEVELS = """
    SELECT variant_id, stock FROM inventory_levels
    WHERE store = :store AND product_id = :target
"""
_KNOWN = "SELECT evidence, settled_at, reason, request FROM commands WHERE seq = :seq"


def baseline(connection: Connection, command: Command) -> dict[str, Any]:
    """Return what an effect can be distinguished from later; empty if unknown.

    Order: `updated_at`, `cancelled_at`, `shipments` (ids), `fulfilled` (line id to
    quantity). Adjustment: `adjustment_id`, the newest known of the product, and
    `levels` (variant id to stock). It may be older than the platform's state, but never
    newer than the first send that may still take effect: otherwise an effect that
    appears before a second send would be credited to someone else.
    """
    if known := known_before(connection, command):
        return known
    if command.kind == "adjust":
        return _product(connection, command)
    mirrored = _order(connection, command)
    return mirrored | _answered(connection, command, mirrored)


def known_before(connection: Connection, command: Command) -> dict[str, Any] | None:
    """Return what was known before the first attempt that may take effect.

    None if there is none. An attempt after those that `command` counts is skipped: it
    is being begun, or its response is being classified.
    """
    if not command.attempts:
        return None
    row = connection.execute(_EARLIER, _place(command)).fetchone()
    return document_of(row[0]) if row else None


def _place(command: Command) -> dict[str, object]:
    return {
        "seq": command.seq,
        "id": command.id,
        "attempts": command.attempts,
        "store": command.store,
        "target": command.target,
    }


def _order(connection: Connection, command: Command) -> dict[str, Any]:
    place = _place(command)
    row = connection.execute(_ORDER, place).fetchone()
    if row is None:
        return {}
    lines = connection.execute(_LINES, place)
    return {
        "updated_at": row[0],
        "cancelled_at": row[1],
        "shipments": [parcel for (parcel,) in connection.execute(_PARCELS, place)],
        "fulfilled": {intact(line): units for line, units in lines},
    }


def _answered(
    connection: Connection, command: Command, mirrored: dict[str, Any]
) -> dict[str, Any]:
    """Return what the last applied command of the order showed and the mirror lacks.

    It was read before this command leaves, because commands of one ordering key are
    sent one at a time. Parcels that only the mirror knows are kept: a response may
    leave out earlier parcels.
    """
    row = connection.execute(_ANSWERED, _place(command)).fetchone()
    shown = document_of(row[0]) if row else {}
    if shown.get("updated_at", "") <= mirrored.get("updated_at", ""):
        return {}
    parcels = [*mirrored.get("shipments", ()), *shown.get("shipments", ())]
    names = ("updated_at", "cancelled_at", "fulfilled")
    return {"shipments": list(dict.fromkeys(parcels))} | {
        name: shown[name] for name in names if name in shown
    }


def _product(connection: Connection, command: Command) -> dict[str, Any]:
    place = _place(command)
    newest = connection.execute(_NEWEST_ADJUSTMENT, place).fetchone()
    return {
        "adjustment_id": newest[0] if newest else None,
        "levels": dict(connection.execute(_LEVELS, place).fetchall()),
    }


def merged_evidence(
    connection: Connection, command: Command, change: Transition
) -> str | None:
    """Return a command's evidence after a transition; None if it does not change.

    The evidence of a command that was parked or rejected stays in `earlier`: when and
    why, the bytes last sent by then, and what was read.
    """
    state = command.state
    is_left = state not in OPEN or Cause.PERSON_PARKS in change.causes
    if not (is_left or change.evidence):
        return None
    values = {"seq": command.seq}
    evidence, *verdict = connection.execute(_KNOWN, values).fetchone()
    known = document_of(evidence)
    earlier: list[dict[str, Any]] = known.pop("earlier", [])
    if is_left:
        earlier = [*earlier, _verdict(state, known, *verdict)]
    if earlier:
        now = (change.evidence or known) | {"earlier": earlier}
        return msgspec.json.encode(now).decode()
    read = change.evidence
    return msgspec.json.encode(read).decode() if read else None


def _verdict(
    state: State,
    evidence: dict[str, Any],
    at: str | None,
    reason: str,
    request: bytes | str | None,
) -> dict[str, Any]:
    sent = request.decode(errors="replace") if isinstance(request, bytes) else request
    verdict = {"state": state, "at": at, "reason": str(reason)}
    return verdict | {"request": sent, "evidence": evidence}


def redacted(connection: Connection, store: str, attempt: Attempt) -> bytes | None:
    """Return an attempt's response, without its customer if they were erased.

    An erasure goes through the stored responses once; this response came after it.
    """
    customer = attempt.customer
    if customer is None:
        return attempt.response
    digest = customer.email_digest
    erased = is_erased(connection, store, customer.customer_id, digest)
    return customer.redacted() if erased else attempt.response
