"""Decides, in one transaction, what a scan means for the orders and counts at work."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul_connectors.scanner.acting import (
    names_the_parcel,
    refuse_quantity,
    tracking_of,
)
from backhaul_connectors.scanner.codes import (
    article_of,
    order_of,
    parcel_of,
    plain,
)
from backhaul_connectors.scanner.journal import Session, lines_of, session, sessions_in
from backhaul_connectors.scanner.scan import MODES, Refused, bare

if TYPE_CHECKING:
    import sqlite3

    from backhaul_connectors.scanner.repeats import KeptRepeats
    from backhaul_connectors.scanner.scan import Scan

CLOSE, DROP = "BH-CLOSE", "BH-DROP"
MODE_CODES = {f"BH-{mode.upper()}": mode for mode in MODES}
COMMANDS = {CLOSE, DROP, *MODE_CODES}
"""Codes to print: they change what the device does."""


class Collected(Struct, frozen=True):
    """The scan is kept, nothing else has to be done; `order` is the one at work."""

    what: str
    order: str = ""


class Complete(Struct, frozen=True):
    """An order or a count is complete and has to be handed in."""

    session: Session


class Alone(Struct, frozen=True):
    """The scan stands for itself; `scan` says its mode, `key` makes it one."""

    scan: Scan
    key: str


class Rules(Struct, frozen=True):
    """The settings that matter here."""

    first_mode: str
    dedupe_seconds: float
    numeric_skus: bool


class Collector:
    """One scan on one connection, at a moment in seconds that never go back."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        rules: Rules,
        second: float,
        repeats: KeptRepeats,
    ) -> None:
        self._db = connection
        self._rules = rules
        self._second = second
        self._repeats = repeats

    def take(self, scan: Scan) -> Collected | Complete | Alone:
        """Keep the scan, if it is one to be collected. Raises Refused."""
        if known := self._known(scan):
            return known
        if scan.code.upper() in COMMANDS:
            return self._command(scan)
        scan = scan._replace(mode=scan.mode or self._desk(scan.device)[0])
        if scan.mode == "pick":
            return self._pick(scan)
        if scan.mode == "count":
            return self._count(scan)
        if scan.mode == "pack":
            return self._pack(scan)
        return self._alone(scan)

    def _known(self, scan: Scan) -> Collected | Complete | None:
        row = self._db.execute(
            "SELECT session, what FROM scans WHERE key = ?", (scan.key,)
        ).fetchone()
        if row is None:
            return None
        found = session(self._db, row[0]) if row[0] is not None else None
        if found is not None and found.state == "closed":
            return Complete(found)
        if found is not None and found.state == "refused":
            raise Refused(422, found.what)
        order = found.order if found is not None and found.state == "open" else ""
        return Collected(f"known already, not counted again: {row[1]}", order)

    def _desk(self, device: str) -> tuple[str, int | None]:
        row = self._db.execute(
            "SELECT mode, session FROM desks WHERE device = ?", (device,)
        ).fetchone()
        mode, at_work = row or (self._rules.first_mode, None)
        return mode, at_work

    def _put_desk(self, device: str, mode: str, at_work: int | None) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO desks VALUES (?, ?, ?)", (device, mode, at_work)
        )

    def _command(self, scan: Scan) -> Collected | Complete:
        command = scan.code.upper()
        if command in MODE_CODES:
            mode = MODE_CODES[command]
            self._put_desk(scan.device, mode, None)
            return self._remember(scan, None, f"{scan.device} is set to {mode} now")
        found = self._at_work(scan)
        if command == DROP:
            self._finish(found, "dropped")
            return self._remember(scan, found.id, f"{_called(found)} dropped")
        return self._close(scan, found)

    def _at_work(self, scan: Scan) -> Session:
        """Return what the device is at; if nothing, what it could not hand in."""
        mode = scan.mode or self._desk(scan.device)[0]
        if mode == "count":
            at_work = self._open_count(scan.device)
        else:
            at_work = self._order_at_work(scan.device)
        if at_work is not None:
            return at_work
        owed = sessions_in(self._db, "closed", "device = ?", scan.device)
        if owed and scan.code.upper() == CLOSE:
            return owed[0]
        raise Refused(422, f"nothing is begun on {scan.device}: nothing to finish")

    def _order_at_work(self, device: str) -> Session | None:
        at_work = self._desk(device)[1]
        found = session(self._db, at_work) if at_work is not None else None
        return found if found is not None and found.mode == "pick" else None

    def _open_count(self, device: str) -> Session | None:
        found = sessions_in(self._db, "open", "mode = 'count' AND device = ?", device)
        return found[0] if found else None

    def _close(self, scan: Scan, found: Session) -> Complete:
        if found.state == "open" and not lines_of(self._db, found.id):
            raise Refused(
                422, f"{_called(found)}: nothing was scanned yet; {DROP} gives it up"
            )
        if scan.at and found.mode != "count":
            self._db.execute(
                "UPDATE sessions SET shipped_at = ? WHERE id = ?", (scan.at, found.id)
            )
        self._finish(found, "closed")
        self._remember(scan, found.id, f"{_called(found)} finished")
        return Complete(session(self._db, found.id))

    def _finish(self, found: Session, state: str) -> None:
        self._db.execute(
            "UPDATE sessions SET state = ? WHERE id = ?", (state, found.id)
        )
        self._db.execute(
            "UPDATE desks SET session = NULL WHERE session = ?", [found.id]
        )

    def _pick(self, scan: Scan) -> Collected | Complete:
        if scan.order is not None:
            found = self._session("pick", scan.device, scan.order)
            self._put_desk(scan.device, "pick", found.id)
        elif (at_work := self._order_at_work(scan.device)) is not None:
            found = at_work
        else:
            return self._begin(scan)
        if bare(plain(scan.code)) == bare(found.order):
            self._note_parcel(scan, found)
            return self._close(scan, found)
        return self._collect(scan, found)

    def _begin(self, scan: Scan) -> Collected:
        refuse_quantity(scan)
        order = order_of(scan.code)
        if self._was_just_finished(scan, order):
            return Collected(f"known already: order {order} was just finished")
        found = self._session("pick", scan.device, order)
        self._put_desk(scan.device, "pick", found.id)
        units = sum(line.quantity for line in lines_of(self._db, found.id))
        state = f"taken up again, {units} units so far" if units else "begun"
        what = f"order {found.order} {state}: scan its articles, then {CLOSE}"
        return self._remember(scan, found.id, what)

    def _was_just_finished(self, scan: Scan, order: str) -> bool:
        query = """SELECT 1 FROM scans JOIN sessions ON sessions.id = session
            WHERE device = ? AND order_bare = ? AND state != 'open' AND quantity = 0
            AND key LIKE 'once:%' AND second > ? AND second <= ?"""
        began = self._second - self._rules.dedupe_seconds
        values = (scan.device, bare(order), began, self._second)
        repeated = self._db.execute(query, values).fetchone() is not None
        return repeated and scan.sequence is None

    def _pack(self, scan: Scan) -> Collected | Complete | Alone:
        """Collect an article for its order; the order itself, or its label, ends it."""
        order = scan.order or order_of(scan.code)
        if not names_the_parcel(scan):
            found = self._session("pick", scan.device, order)
            self._put_desk(scan.device, "pack", found.id)
            return self._collect(scan, found)
        gathered = self._gathered(order)
        if gathered is None:
            return self._alone(scan)
        refuse_quantity(scan)
        self._note_parcel(scan._replace(tracking_number=tracking_of(scan)), gathered)
        return self._close(scan, gathered)

    def _alone(self, scan: Scan) -> Alone:
        return Alone(scan, scan.key or self._repeats.key_of(scan))

    def _gathered(self, order: str) -> Session | None:
        """Make one of all that was collected for an order, with whatever device."""
        condition = """order_bare = ? AND mode = 'pick' AND id IN
            (SELECT session FROM scans WHERE quantity > 0)"""
        found = sessions_in(self._db, "open", condition, bare(order))
        for other in found[1:]:
            self._db.execute(
                "UPDATE scans SET session = ? WHERE session = ?",
                (found[0].id, other.id),
            )
            self._finish(other, "dropped")
        return found[0] if found else None

    def _count(self, scan: Scan) -> Collected:
        found = self._open_count(scan.device) or self._session(
            "count", scan.device, "", new=True
        )
        self._put_desk(scan.device, "count", found.id)
        return self._collect(scan, found)

    def _session(
        self, mode: str, device: str, order: str, *, new: bool = False
    ) -> Session:
        """Return the device's open session for an order, begun where there is none."""
        condition = "mode = ? AND device = ? AND order_bare = ?"
        values = (mode, device, bare(order))
        found = [] if new else sessions_in(self._db, "open", condition, *values)
        if found:
            return found[0]
        cursor = self._db.execute(
            """INSERT INTO sessions (name, mode, device, order_bare, order_name, state,
               what) VALUES (?, ?, ?, ?, ?, 'open', '')""",
            (secrets.token_hex(12), *values, order),
        )
        return session(self._db, cursor.lastrowid or 0)

    def _collect(self, scan: Scan, found: Session) -> Collected:
        if found.mode == "pick" and (number := parcel_of(scan.code)):
            refuse_quantity(scan)
            self._note_parcel(scan._replace(tracking_number=number), found)
            what = f"parcel {number} for order {found.order}"
            return self._remember(scan, found.id, what)
        self._note_parcel(scan, found)
        sku = article_of(scan.code, numeric_skus=self._rules.numeric_skus)
        units = scan.quantity or 1
        if found.mode != "count" and self._was_just_scanned(scan, found, sku, units):
            what = f"{sku} was just scanned for order {found.order}, not counted again"
            return Collected(f"known already: {what}", found.order)
        so_far = units + sum(
            line.quantity for line in lines_of(self._db, found.id) if line.sku == sku
        )
        what = f"{units} x {sku} for {_called(found)}, {so_far} so far"
        return self._remember(scan, found.id, what, sku, units)

    def _was_just_scanned(
        self, scan: Scan, found: Session, sku: str, units: int
    ) -> bool:
        if scan.sequence is not None:
            return False
        query = """SELECT 1 FROM scans WHERE session = ? AND sku = ? AND quantity = ?
            AND key LIKE 'once:%' AND second > ? AND second <= ?"""
        began = self._second - self._rules.dedupe_seconds
        values = (found.id, sku, units, began, self._second)
        return self._db.execute(query, values).fetchone() is not None

    def _note_parcel(self, scan: Scan, found: Session) -> None:
        self._db.execute(
            """UPDATE sessions SET tracking_company = coalesce(?, tracking_company),
               tracking_number = coalesce(?, tracking_number) WHERE id = ?""",
            (scan.tracking_company, scan.tracking_number, found.id),
        )

    def _remember(
        self, scan: Scan, id_: int | None, what: str, sku: str = "", units: int = 0
    ) -> Collected:
        key = scan.key or f"once:{secrets.token_hex(12)}"
        self._db.execute(
            """INSERT INTO scans (key, session, sku, quantity, what, second)
               VALUES (?, ?, ?, ?, ?, ?)""",
            (key, id_, sku, units, what, self._second),
        )
        found = session(self._db, id_) if id_ is not None else None
        at_work = found is not None and found.state == "open"
        return Collected(what, found.order if found is not None and at_work else "")


def _called(found: Session) -> str:
    return f"order {found.order}" if found.mode == "pick" else "the count"
