"""The evidence of a command: what its last verdict rests on, and the earlier ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.core.lifecycle import OPEN, Cause
from backhaul.store.sqlite import corrections
from backhaul.store.sqlite.members import document_of

if TYPE_CHECKING:
    import sqlite3

    from backhaul.core.lifecycle import State
    from backhaul.store.contract import Command
    from backhaul.store.outbox import Settlement

_KNOWN = """
    SELECT CAST(evidence AS BLOB), settled_at, reason, CAST(request AS BLOB)
    FROM commands WHERE seq = ?
"""


def kept(
    connection: sqlite3.Connection,
    command: Command,
    state: State,
    settlement: Settlement,
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
    if is_left and command.kind != corrections.KIND:
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
