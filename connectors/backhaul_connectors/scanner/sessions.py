"""Packing and counting sessions: what each scan adds to or closes."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backhaul_connectors.scanner.actions import (
    CLOSE,
    COMMANDS,
    DROP,
    MODE_CODES,
    names_the_parcel,
    order_packed,
    refuse_label,
    refuse_quantity,
    tracking_of,
)
from backhaul_connectors.scanner.codes import article_of, parcel_of, plain
from backhaul_connectors.scanner.order_validation import (
    fitting,
    order_named,
    refuse_surplus,
    refuse_unfit_order,
)
from backhaul_connectors.scanner.scan import ScanRefused, bare
from backhaul_connectors.scanner.session_store import (
    Session,
    lines_of,
    session,
    sessions_in,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from backhaul_connectors.scanner.deduplication import StoredRecentScans
    from backhaul_connectors.scanner.order_validation import StoreLookup
    from backhaul_connectors.scanner.scan import Scan
    from backhaul_sdk import LineInStore


class ScanCollected(Struct, frozen=True):
    """The scan is stored and needs nothing else; `order` is the current one."""

    what: str
    order: str = ""


class SessionComplete(Struct, frozen=True):
    """An order or a count is complete and has to be submitted."""

    session: Session


class StandaloneScan(Struct, frozen=True):
    """A scan outside of a session; `scan` has its mode, `key` makes it unique."""

    scan: Scan
    key: str


class SessionRules(Struct, frozen=True):
    """The settings for sessions."""

    first_mode: str
    dedupe_seconds: float
    numeric_skus: bool


class ScanCollector:
    """Applies one scan to its session, on one connection, at a time in seconds.

    `shop` knows what the texts of this scan name in the store.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        rules: SessionRules,
        second: float,
        repeats: StoredRecentScans,
        shop: StoreLookup,
    ) -> None:
        self._db = connection
        self._rules = rules
        self._second = second
        self._repeats = repeats
        self._shop = shop

    def take(self, scan: Scan) -> ScanCollected | SessionComplete | StandaloneScan:
        """Store the scan if it belongs to a session. Raises ScanRefused."""
        if known := self._known(scan):
            return known
        if scan.code in COMMANDS:
            return self._command(scan)
        scan = scan._replace(mode=scan.mode or self._device_state(scan.device)[0])
        if scan.mode == "pick":
            return self._pick(scan)
        if scan.mode == "count":
            return self._count(scan)
        if scan.mode == "pack":
            return self._pack(scan)
        return self._alone(scan)

    def _known(self, scan: Scan) -> ScanCollected | SessionComplete | None:
        row = self._db.execute(
            "SELECT session, what FROM scans WHERE key = ?", (scan.key,)
        ).fetchone()
        if row is None:
            return None
        found = session(self._db, row[0]) if row[0] is not None else None
        if found is not None and found.state == "closed":
            return SessionComplete(found)
        if found is not None and found.state == "refused":
            raise ScanRefused(422, found.what)
        order = found.order if found is not None and found.state == "open" else ""
        return ScanCollected(f"scanned before, not counted again: {row[1]}", order)

    def _device_state(self, device: str) -> tuple[str, int | None]:
        row = self._db.execute(
            "SELECT mode, session FROM desks WHERE device = ?", (device,)
        ).fetchone()
        mode, at_work = row or (self._rules.first_mode, None)
        return mode, at_work

    def _put_device_state(self, device: str, mode: str, at_work: int | None) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO desks VALUES (?, ?, ?)", (device, mode, at_work)
        )

    def _command(self, scan: Scan) -> ScanCollected | SessionComplete:
        command = scan.code
        if command in MODE_CODES:
            mode = MODE_CODES[command]
            self._put_device_state(scan.device, mode, None)
            return self._remember(scan, None, f"{scan.device} is set to {mode} now")
        found = self._at_work(scan)
        if command == DROP:
            self._finish(found, "dropped")
            return self._remember(scan, found.id, f"{_called(found)} dropped")
        return self._close(scan, found)

    def _at_work(self, scan: Scan) -> Session:
        """Return the device's open session, or else one that was not submitted."""
        mode = scan.mode or self._device_state(scan.device)[0]
        if mode == "count":
            at_work = self._open_count(scan.device)
        else:
            at_work = self._order_at_work(scan.device)
        if at_work is not None:
            return at_work
        owed = sessions_in(self._db, "closed", "device = ?", scan.device)
        if owed and scan.code == CLOSE:
            return owed[0]
        raise ScanRefused(
            422, f"no order or count is open on {scan.device}: nothing to finish"
        )

    def _order_at_work(self, device: str) -> Session | None:
        at_work = self._device_state(device)[1]
        found = session(self._db, at_work) if at_work is not None else None
        return found if found is not None and found.mode == "pick" else None

    def _open_count(self, device: str) -> Session | None:
        found = sessions_in(self._db, "open", "mode = 'count' AND device = ?", device)
        return found[0] if found else None

    def _close(self, scan: Scan, found: Session) -> SessionComplete:
        if found.state == "open" and not lines_of(self._db, found.id):
            raise ScanRefused(
                422, f"{_called(found)}: nothing was scanned yet; {DROP} discards it"
            )
        if scan.at and found.mode != "count":
            self._db.execute(
                "UPDATE sessions SET shipped_at = ? WHERE id = ?", (scan.at, found.id)
            )
        self._finish(found, "closed")
        self._remember(scan, found.id, f"{_called(found)} finished")
        return SessionComplete(session(self._db, found.id))

    def _finish(self, found: Session, state: str) -> None:
        self._db.execute(
            "UPDATE sessions SET state = ? WHERE id = ?", (state, found.id)
        )
        self._db.execute(
            "UPDATE desks SET session = NULL WHERE session = ?", [found.id]
        )

    def _pick(self, scan: Scan) -> ScanCollected | SessionComplete:
        if scan.order is not None:
            found = self._order_session(scan.device, scan.order, "pick")
        elif (at_work := self._order_at_work(scan.device)) is not None:
            found = at_work
        else:
            return self._begin(scan)
        if bare(plain(scan.code)) == bare(found.order):
            self._note_parcel(scan, found)
            return self._close(scan, found)
        return self._collect(scan, found)

    def _begin(self, scan: Scan) -> ScanCollected:
        refuse_quantity(scan)
        order = order_named(scan.code, self._shop)
        if self._was_just_finished(scan, order):
            return ScanCollected(f"scanned before: order {order} was just finished")
        refuse_unfit_order(order, self._shop)
        found = self._order_session(scan.device, order, "pick")
        units = sum(line.quantity for line in lines_of(self._db, found.id))
        state = f"resumed, {units} units so far" if units else "begun"
        what = f"order {found.order} {state}: scan its articles, then {CLOSE}"
        return self._remember(scan, found.id, what)

    def _order_session(self, device: str, name: str, mode: str) -> Session:
        """Return the device's open session of an order, with the order's lines."""
        name = order_named(name, self._shop)
        found = self._session("pick", device, name)
        self._put_device_state(device, mode, found.id)
        order = self._shop.order(name)
        if order is None or order.uncertain:
            return found
        wanted = msgspec.json.encode(order.lines)
        self._db.execute(
            "UPDATE sessions SET wanted = ? WHERE id = ?", (wanted, found.id)
        )
        return session(self._db, found.id)

    def _was_just_finished(self, scan: Scan, order: str) -> bool:
        query = """SELECT 1 FROM scans JOIN sessions ON sessions.id = session
            WHERE device = ? AND order_bare = ? AND state != 'open' AND quantity = 0
            AND key LIKE 'once:%' AND second > ? AND second <= ?"""
        began = self._second - self._rules.dedupe_seconds
        values = (scan.device, bare(order), began, self._second)
        repeated = self._db.execute(query, values).fetchone() is not None
        return repeated and scan.sequence is None

    def _pack(self, scan: Scan) -> ScanCollected | SessionComplete | StandaloneScan:
        """Collect an article for its order; the order or a label completes it."""
        order = order_packed(scan, self._shop)
        if not names_the_parcel(scan, self._shop):
            found = self._order_session(scan.device, order, "pack")
            return self._collect(scan, found)
        gathered = self._gathered(order)
        if gathered is None:
            return self._alone(scan)
        refuse_quantity(scan)
        self._note_parcel(scan._replace(tracking_number=tracking_of(scan)), gathered)
        return self._close(scan, gathered)

    def _alone(self, scan: Scan) -> StandaloneScan:
        return StandaloneScan(scan, scan.key or self._repeats.key_of(scan))

    def _gathered(self, order: str) -> Session | None:
        """Join everything that all devices collected for an order."""
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

    def _count(self, scan: Scan) -> ScanCollected:
        found = self._open_count(scan.device) or self._session(
            "count", scan.device, "", new=True
        )
        self._put_device_state(scan.device, "count", found.id)
        return self._collect(scan, found)

    def _session(
        self, mode: str, device: str, order: str, *, new: bool = False
    ) -> Session:
        """Return the device's open session for an order; begin one if needed."""
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

    def _collect(self, scan: Scan, found: Session) -> ScanCollected:
        if found.mode == "pick" and (number := self._label(scan.code)):
            return self._collect_label(scan, number, found)
        if found.mode == "count" and not self._rules.numeric_skus:
            refuse_label(scan.code, self._shop)
        article = article_of(scan.code, numeric_skus=self._rules.numeric_skus)
        sku, units = self._shop.name_of(article), article.count(scan.quantity)
        lines = self._lines_for(sku, found)
        sku = next((line.sku for line in lines if line.sku), sku)
        if found.mode != "count" and self._was_just_scanned(scan, found, sku, units):
            what = f"{sku} was just scanned for order {found.order}, not counted again"
            return ScanCollected(f"scanned before: {what}", found.order)
        before = self._units_of(found, sku)
        refuse_surplus(found.order, sku, lines, before, units)
        self._note_parcel(scan, found)
        what = f"{units} x {sku} for {_called(found)}, {before + units} so far"
        return self._remember(scan, found.id, what, sku, units)

    def _label(self, code: str) -> str | None:
        return None if self._shop.is_article(code) else parcel_of(code)

    def _collect_label(self, scan: Scan, number: str, found: Session) -> ScanCollected:
        refuse_quantity(scan)
        self._note_parcel(scan._replace(tracking_number=number), found)
        what = f"parcel {number} for order {found.order}"
        if found.tracking_number not in (None, number):
            what = f"{what}, instead of {found.tracking_number}"
        return self._remember(scan, found.id, what)

    def _lines_for(self, sku: str, found: Session) -> Sequence[LineInStore]:
        if found.mode == "count":
            return ()
        return fitting(found.order, sku, found.lines_in_shop, self._shop)

    def _units_of(self, found: Session, sku: str) -> int:
        """Return the scanned units; for an order, of every device."""
        condition = "id = ?" if found.mode == "count" else "order_bare = ?"
        value = found.id if found.mode == "count" else bare(found.order)
        sessions = sessions_in(
            self._db, "open", f"mode = ? AND {condition}", found.mode, value
        )
        lines = (line for one in sessions for line in lines_of(self._db, one.id))
        return sum(line.quantity for line in lines if line.sku == sku)

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
    ) -> ScanCollected:
        key = scan.key or f"once:{secrets.token_hex(12)}"
        self._db.execute(
            """INSERT INTO scans (key, session, sku, quantity, what, second)
               VALUES (?, ?, ?, ?, ?, ?)""",
            (key, id_, sku, units, what, self._second),
        )
        found = session(self._db, id_) if id_ is not None else None
        at_work = found is not None and found.state == "open"
        return ScanCollected(what, found.order if found is not None and at_work else "")


def _called(found: Session) -> str:
    return f"order {found.order}" if found.mode == "pick" else "the count"
