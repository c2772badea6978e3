"""What is known of an object before a command leaves, and a command's evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.core.lifecycle import OPEN, Cause
from backhaul.store.sql.documents import document_of, intact
from backhaul.store.sql.mirror.write import is_erased
from backhaul.store.sql.stock_targets import adjustments

if TYPE_CHECKING:
    import sqlite3

    from backhaul.core.lifecycle import State
    from backhaul.store.commands import Attempt, Transition
    from backhaul.store.matching import Command


# Whoever sends a command again says that what was sent before has no effect.
_EARLIER = """
    SELECT CAST(baseline AS BLOB) FROM commands WHERE seq = ?1 AND EXISTS (
        SELECT 1 FROM attempts a
        WHERE a.command_id = ?2 AND (a.outcome IS NULL OR a.outcome = 'uncertain')
          AND a.number <= ?3
          AND a.started_at > coalesce((
            SELECT max(at) FROM audit
            WHERE command_id = ?2 AND action = 'commands resend'), ''))
"""
# The last one before it: what waits behind it in a long lane is not looked at.
_ANSWERED = """
    SELECT CAST(evidence AS BLOB) FROM commands
    WHERE store = ? AND target = ? AND kind IN ('fulfill', 'cancel')
      AND state = 'applied' AND seq < ?
    ORDER BY seq DESC LIMIT 1
"""


def baseline(connection: sqlite3.Connection, command: Command) -> dict[str, Any]:
    """Return what an effect can be told from later; empty where nothing is known.

    Order: `updated_at`, `cancelled_at`, `shipments` (ids), `fulfilled` (line id to
    quantity). Adjustment: `adjustment_id`, the newest known of the product, and
    `levels` (variant id to stock). It may be older than the platform's state, never
    newer than the first send that may yet take effect: what came since is looked at as
    well, or what lands before the second one would stand for somebody else's.
    """
    if known := known_before(connection, command):
        return known
    if command.kind == "adjust":
        return _product(connection, command)
    mirrored = _order(connection, command)
    return mirrored | _answered(connection, command, mirrored)


def known_before(
    connection: sqlite3.Connection, command: Command
) -> dict[str, Any] | None:
    """Return what was known before the first attempt that may take effect.

    None where there is none. An attempt after those that `command` counts is passed
    over: it is just being begun, or its answer judged.
    """
    if not command.attempts:
        return None
    values = (command.seq, command.id, command.attempts)
    row = connection.execute(_EARLIER, values).fetchone()
    return document_of(row[0]) if row else None


def _order(connection: sqlite3.Connection, command: Command) -> dict[str, Any]:
    key = (command.store, command.target)
    row = connection.execute(
        "SELECT updated_at, cancelled_at FROM orders WHERE store = ? AND id = ?", key
    ).fetchone()
    if row is None:
        return {}
    parcels = connection.execute(
        "SELECT id FROM shipments WHERE store = ? AND order_id = ?", key
    )
    lines = connection.execute(
        "SELECT id, fulfilled_quantity FROM order_items"
        " WHERE store = ? AND order_id = ?",
        key,
    )
    return {
        "updated_at": row[0],
        "cancelled_at": row[1],
        "shipments": [parcel[0] for parcel in parcels],
        "fulfilled": {intact(line): units for line, units in lines},
    }


def _answered(
    connection: sqlite3.Connection, command: Command, mirrored: dict[str, Any]
) -> dict[str, Any]:
    """Return what the last command of the lane showed that is news to the mirror.

    It was read before this command leaves, as one of a lane is sent at a time. What the
    mirror knew beyond it stays known: an answer may leave out the earlier parcels.
    """
    values = (command.store, command.target, command.seq)
    row = connection.execute(_ANSWERED, values).fetchone()
    shown = document_of(row[0]) if row else {}
    if shown.get("updated_at", "") <= mirrored.get("updated_at", ""):
        return {}
    parcels = [*mirrored.get("shipments", ()), *shown.get("shipments", ())]
    names = ("updated_at", "cancelled_at", "fulfilled")
    return {"shipments": list(dict.fromkeys(parcels))} | {
        name: shown[name] for name in names if name in shown
    }


def _product(connection: sqlite3.Connection, command: Command) -> dict[str, Any]:
    newest = connection.execute(
        "SELECT adjustment_id FROM stock_ledger WHERE product_id = ? AND store = ?"
        " AND adjustment_id IS NOT NULL ORDER BY at DESC LIMIT 1",
        (command.target, command.store),
    ).fetchone()
    levels = connection.execute(
        "SELECT variant_id, stock FROM inventory_levels"
        " WHERE store = ? AND product_id = ?",
        (command.store, command.target),
    )
    return {
        "adjustment_id": newest[0] if newest else None,
        "levels": dict(levels.fetchall()),
    }


_KNOWN = """
    SELECT CAST(evidence AS BLOB), settled_at, reason, CAST(request AS BLOB)
    FROM commands WHERE seq = ?
"""


def merged_evidence(
    connection: sqlite3.Connection,
    command: Command,
    state: State,
    settlement: Transition,
) -> str | None:
    """Return the evidence of a command that moves on from `state`, None for as it is.

    What it was parked or refused with stays in `earlier`, whatever comes of it: when
    and why, the bytes last sent by then, and what was read. A count has its own words.
    """
    is_left = state not in OPEN or Cause.PERSON_PARKS in settlement.causes
    if not (is_left or settlement.evidence):
        return None
    evidence, *verdict = connection.execute(_KNOWN, (command.seq,)).fetchone()
    known = document_of(evidence)
    earlier: list[dict[str, Any]] = known.pop("earlier", [])
    if is_left and command.kind != adjustments.KIND:
        earlier = [*earlier, _verdict(state, known, *verdict)]
    if earlier:
        now = (settlement.evidence or known) | {"earlier": earlier}
        return msgspec.json.encode(now).decode()
    read = settlement.evidence
    return msgspec.json.encode(read).decode() if read else None


def _verdict(
    state: State,
    evidence: dict[str, Any],
    at: str | None,
    reason: str,
    request: bytes | None,
) -> dict[str, Any]:
    sent = None if request is None else request.decode(errors="replace")
    said = {"state": state, "at": at, "reason": reason}
    return said | {"request": sent, "evidence": evidence}


def redacted(
    connection: sqlite3.Connection, store: str, attempt: Attempt
) -> bytes | None:
    """Return the answer, without its person if that one was forgotten.

    Whoever forgets somebody goes through the answers once; this one came after.
    """
    customer = attempt.customer
    if customer is None:
        return attempt.response
    digest = customer.email_digest
    erased = is_erased(connection, store, customer.customer_id, digest)
    return customer.redacted() if erased else attempt.response
