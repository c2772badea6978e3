"""Packing and counting sessions: what each scan adds to or closes."""

from __future__ import annotations

import csv
import io
import os
import secrets
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from backhaul_connectors.scanner.actions import (
    CLOSE,
    COMMANDS,
    DROP,
    MODE_CODES,
    action_of,
    names_the_parcel,
    order_packed,
    refuse_label,
    refuse_quantity,
    tracking_of,
)
from backhaul_connectors.scanner.codes import article_of, parcel_of, plain
from backhaul_connectors.scanner.deduplication import RecentScans
from backhaul_connectors.scanner.order_validation import (
    fitting,
    order_named,
    refuse_surplus,
    refuse_unfit_order,
)
from backhaul_connectors.scanner.scan import MODES, ScanRefused, bare
from backhaul_connectors.scanner.session_store import (
    CollectedArticle,
    DeviceState,
    KnownScan,
    Session,
    Sessions,
)
from backhaul_sdk import CheckFailed, Fulfillment, Line
from backhaul_sdk.fields import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from backhaul_connectors.scanner.actions import ScanAction
    from backhaul_connectors.scanner.order_validation import StoreLookup
    from backhaul_connectors.scanner.scan import Scan
    from backhaul_sdk import Documents, LineInStore


FOLDER = "counts"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def require_folder(folder: Path) -> None:
    """Create the folder of counts if it is missing. Raises CheckFailed."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        problem = f"{folder} cannot be used for counts: {error}"
        raise CheckFailed(problem) from None


def fulfillment_of(session: Session, lines: tuple[Line, ...]) -> Fulfillment:
    """Return the one shipment of a picked order."""
    return Fulfillment(
        key=f"picked:{session.name}",
        order=session.order,
        tracking_company=session.tracking_company,
        tracking_number=session.tracking_number,
        lines=lines,
        shipped_at=session.shipped_at,
        locator=f"order {session.order} picked with {session.device}",
        raw="\n".join(f"{line.sku} {line.quantity}" for line in lines),
    )


def write_count(folder: Path, session: Session, lines: tuple[Line, ...]) -> str:
    """Write `sku,quantity` atomically; the same count is the same file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("sku", "quantity"))
    writer.writerows((_as_text(line.sku), line.quantity) for line in lines)
    counts = folder / FOLDER
    counts.mkdir(exist_ok=True, mode=0o700)
    file = counts / f"{session.id:06}-{session.device}-{session.name[:8]}.csv"
    _write_durably(file, text.getvalue())
    return f"{FOLDER}/{file.name}"


def _as_text(sku: str) -> str:
    """Return the SKU in a form that no spreadsheet runs as a formula."""
    return f"'{sku}" if sku.startswith(_FORMULA) else sku


def _write_durably(file: Path, text: str) -> None:
    unfinished = file.with_suffix(".tmp")
    with unfinished.open("w", encoding="utf-8", newline="") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    unfinished.replace(file)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class ScanCollected(Struct, frozen=True):
    """The scan is stored and needs nothing else; `order` is the current one."""

    what: str
    order: str = ""


class SessionComplete(Struct, frozen=True):
    """An order or a count is complete and has to be submitted."""

    session: Session


class StandaloneScan(Struct, frozen=True):
    """A scan outside of a session, and what it does; `key` makes it unique."""

    scan: Scan
    action: ScanAction
    key: str


class SessionRules(Struct, frozen=True):
    """The settings for sessions."""

    first_mode: str
    dedupe_seconds: float
    numeric_skus: bool


class ScanCollector:
    """Applies one scan to its session, in one transaction.

    `now` are seconds since 1970: they go on while the program is down, and on another
    machine. `shop` knows what the texts of this scan name in the store.
    """

    def __init__(
        self,
        documents: Documents,
        rules: SessionRules,
        now: float,
        shop: StoreLookup,
    ) -> None:
        self._sessions = Sessions(documents)
        self._repeats = RecentScans(documents, now)
        self._rules = rules
        self._now = now
        self._key: str | None = None
        """The scan's key as its device sends it, perhaps without a mode."""
        self._shop = shop

    def take(self, scan: Scan) -> ScanCollected | SessionComplete | StandaloneScan:
        """Store the scan if it belongs to a session. Raises ScanRefused."""
        self._key = scan.key
        known = self._known(scan)
        if known is not None and not known.mode:
            return self._again(known)
        if scan.code in COMMANDS:
            return self._command(scan)
        if not scan.mode:
            mode = known.mode if known else self._device(scan.device).mode
            scan = scan._replace(mode=mode)
            # Version 0.1.0 stored a scan with the mode that it did not say.
            if known is None and (known := self._known(scan)) is not None:
                return self._again(known)
        if scan.mode == "pick":
            return self._pick(scan)
        if scan.mode == "count":
            return self._count(scan)
        if scan.mode == "pack":
            return self._pack(scan)
        return self._alone(scan)

    def take_alone(self, scan: Scan) -> StandaloneScan:
        """Take a scan where no folder is set for sessions. Raises ScanRefused."""
        if scan.mode in ("count", "pick") or scan.code in COMMANDS:
            raise ScanRefused(
                422,
                "picking and counting are off, because folder is not set in the"
                " configuration",
            )
        scan = scan._replace(mode=scan.mode or self._rules.first_mode)
        self._key = scan.key
        return self._alone(scan)

    def _known(self, scan: Scan) -> KnownScan | None:
        return None if scan.key is None else self._sessions.known_scan(scan.key)

    def _again(self, known: KnownScan) -> ScanCollected | SessionComplete:
        """Answer a scan that was stored before. Raises ScanRefused."""
        found = self._session_of(known.session)
        if found is not None and found.state == "closed":
            return SessionComplete(found)
        if found is not None and found.state == "refused":
            raise ScanRefused(422, found.what)
        order = found.order if found is not None and found.state == "open" else ""
        return ScanCollected(f"scanned before, not counted again: {known.what}", order)

    def _session_of(self, id_: int | None) -> Session | None:
        """Return the session of a scan, or the one that took over its articles."""
        found = self._sessions.find(id_) if id_ is not None else None
        if found is None or found.joined is None:
            return found
        return self._sessions.find(found.joined) or found

    def _device(self, device: str) -> DeviceState:
        return self._sessions.device(device) or DeviceState(self._rules.first_mode)

    def _command(self, scan: Scan) -> ScanCollected | SessionComplete:
        command = scan.code
        if command in MODE_CODES:
            mode = MODE_CODES[command]
            self._sessions.put_device(scan.device, DeviceState(mode))
            return self._remember(None, f"{scan.device} is set to {mode} now")
        found = self._at_work(scan)
        if command == DROP:
            found = self._finish(scan, found, "dropped")
            return self._remember(found, f"{_called(found)} dropped")
        return self._close(scan, found)

    def _at_work(self, scan: Scan) -> Session:
        """Return the device's open session, or else one that was not submitted."""
        mode = scan.mode or self._device(scan.device).mode
        if mode == "count":
            at_work = self._sessions.open_one("count", "", scan.device)
        else:
            at_work = self._order_at_work(scan.device)
        if at_work is not None:
            return at_work
        owed = [each for each in self._sessions.closed() if each.device == scan.device]
        if owed and scan.code == CLOSE:
            return owed[0]
        raise ScanRefused(
            422, f"no order or count is open on {scan.device}: nothing to finish"
        )

    def _order_at_work(self, device: str) -> Session | None:
        at_work = self._device(device).session
        found = self._sessions.get(at_work) if at_work is not None else None
        return found if found is not None and found.mode == "pick" else None

    def _close(self, scan: Scan, found: Session) -> SessionComplete:
        if found.state == "open" and not found.articles:
            raise ScanRefused(
                422, f"{_called(found)}: nothing was scanned yet; {DROP} discards it"
            )
        if scan.at and found.mode != "count":
            found = replace(found, shipped_at=scan.at)
        found = self._finish(scan, found, "closed")
        self._remember(found, f"{_called(found)} finished")
        return SessionComplete(found)

    def _finish(self, scan: Scan, found: Session, state: str) -> Session:
        finished_at = self._now if scan.key is None else None
        return self._sessions.finish(found, state, finished_at)

    def _pick(self, scan: Scan) -> ScanCollected | SessionComplete:
        if scan.order is not None:
            found = self._order_session(scan.device, scan.order, "pick")
        elif (at_work := self._order_at_work(scan.device)) is not None:
            found = at_work
        else:
            return self._begin(scan)
        if bare(plain(scan.code)) == bare(found.order):
            return self._close(scan, self._with_parcel(scan, found))
        return self._collect(scan, found)

    def _begin(self, scan: Scan) -> ScanCollected:
        refuse_quantity(scan)
        order = order_named(scan.code, self._shop)
        if self._was_just_finished(scan, order):
            return ScanCollected(f"scanned before: order {order} was just finished")
        refuse_unfit_order(order, self._shop)
        found = self._order_session(scan.device, order, "pick")
        units = sum(each.units for _, each in self._sessions.articles(found))
        state = f"resumed, {counted(units, 'unit')} so far" if units else "begun"
        what = f"order {found.order} {state}: scan its units, then {CLOSE}"
        return self._remember(found, what)

    def _order_session(self, device: str, name: str, mode: str) -> Session:
        """Return the device's open session of an order, with the order's lines."""
        name = order_named(name, self._shop)
        found = self._session("pick", device, name)
        self._sessions.put_device(device, DeviceState(mode, found.id))
        order = self._shop.order(name)
        if order is None or order.uncertain or order.lines == found.lines_in_store:
            return found
        return self._sessions.put(replace(found, lines_in_store=order.lines))

    def _was_just_finished(self, scan: Scan, order: str) -> bool:
        finished_at = self._sessions.finished_at("pick", order, scan.device)
        return scan.key is None and self._is_recent(finished_at)

    def _is_recent(self, second: float | None) -> bool:
        """Return True if a second is not longer ago than equal scans count once."""
        if second is None:
            return False
        # A later one was stored before the clock was set back.
        return self._now - self._rules.dedupe_seconds < second <= self._now

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
        labelled = scan._replace(tracking_number=tracking_of(scan))
        return self._close(scan, self._with_parcel(labelled, gathered))

    def _alone(self, scan: Scan) -> StandaloneScan:
        if not scan.mode:
            raise ScanRefused(422, f"mode must be one of: {', '.join(MODES)}")
        if self._key is not None and self._key != scan.key:
            self._sessions.remember(self._key, KnownScan("", mode=scan.mode))
        action = action_of(scan, self._shop, numeric_skus=self._rules.numeric_skus)
        return StandaloneScan(scan, action, scan.key or self._repeats.key_of(scan))

    def _gathered(self, order: str) -> Session | None:
        """Join everything that all devices collected for an order."""
        found = [
            each
            for each in self._sessions.open_of_order("pick", order)
            if each.articles
        ]
        if not found:
            return None
        first = found[0]
        for other in found[1:]:
            first = self._sessions.join(first, other)
        return first

    def _count(self, scan: Scan) -> ScanCollected:
        found = self._session("count", scan.device, "")
        self._sessions.put_device(scan.device, DeviceState("count", found.id))
        return self._collect(scan, found)

    def _session(self, mode: str, device: str, order: str) -> Session:
        """Return the device's open session for an order; begin one if needed."""
        if found := self._sessions.open_one(mode, order, device):
            return found
        return self._sessions.begin(
            Session(0, secrets.token_hex(12), device, mode, order)
        )

    def _collect(self, scan: Scan, found: Session) -> ScanCollected:
        if found.mode == "pick" and (number := self._label(scan.code)):
            return self._collect_label(scan, number, found)
        if found.mode == "count" and not self._rules.numeric_skus:
            refuse_label(scan.code, self._shop)
        article = article_of(scan.code, numeric_skus=self._rules.numeric_skus)
        sku, units = self._shop.name_of(article), article.count(scan.quantity)
        lines = self._lines_for(sku, found)
        sku = next((line.sku for line in lines if line.sku), sku)
        if self._was_just_scanned(scan, found, sku, units):
            what = f"{sku} was just scanned for order {found.order}, not counted again"
            return ScanCollected(f"scanned before: {what}", found.order)
        before = self._units_of(found, sku)
        refuse_surplus(found.order, sku, lines, before, units)
        found = self._add(scan, self._with_parcel(scan, found), sku, units)
        what = f"{units} x {sku} for {_called(found)}, {before + units} so far"
        return self._remember(found, what)

    def _add(self, scan: Scan, found: Session, sku: str, units: int) -> Session:
        known = self._sessions.article(found, sku)
        known = known or CollectedArticle(0, found.articles)
        recent = {
            number: second
            for number, second in known.scanned_at.items()
            if self._is_recent(second)
        }
        if scan.key is None and found.mode != "count":
            recent[units] = self._now
        added = CollectedArticle(known.units + units, known.place, recent)
        return self._sessions.put_article(found, sku, added)

    def _label(self, code: str) -> str | None:
        return None if self._shop.is_article(code) else parcel_of(code)

    def _collect_label(self, scan: Scan, number: str, found: Session) -> ScanCollected:
        refuse_quantity(scan)
        what = f"parcel {number} for order {found.order}"
        if found.tracking_number not in (None, number):
            what = f"{what}, instead of {found.tracking_number}"
        labelled = scan._replace(tracking_number=number)
        return self._remember(self._with_parcel(labelled, found), what)

    def _lines_for(self, sku: str, found: Session) -> Sequence[LineInStore]:
        if found.mode == "count":
            return ()
        return fitting(found.order, sku, found.lines_in_store, self._shop)

    def _units_of(self, found: Session, sku: str) -> int:
        """Return the scanned units; for an order, of every device."""
        if found.mode == "count":
            sessions = [found]
        else:
            sessions = self._sessions.open_of_order(found.mode, found.order)
        articles = (self._sessions.article(each, sku) for each in sessions)
        return sum(article.units for article in articles if article is not None)

    def _was_just_scanned(
        self, scan: Scan, found: Session, sku: str, units: int
    ) -> bool:
        if scan.key is not None or found.mode == "count":
            return False
        known = self._sessions.article(found, sku)
        return known is not None and self._is_recent(known.scanned_at.get(units))

    def _with_parcel(self, scan: Scan, found: Session) -> Session:
        """Return the session with the parcel that a scan names."""
        company = scan.tracking_company or found.tracking_company
        number = scan.tracking_number or found.tracking_number
        if (company, number) == (found.tracking_company, found.tracking_number):
            return found
        named = replace(found, tracking_company=company, tracking_number=number)
        return self._sessions.put(named)

    def _remember(self, found: Session | None, what: str) -> ScanCollected:
        if self._key is not None:
            id_ = None if found is None else found.id
            self._sessions.remember(self._key, KnownScan(what, id_))
        at_work = found is not None and found.state == "open"
        return ScanCollected(what, found.order if found is not None and at_work else "")


def _called(found: Session) -> str:
    return f"order {found.order}" if found.mode == "pick" else "the count"
