"""Takes a scan from any interface, and returns the answer for the device."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from backhaul_connectors.scanner.actions import COMMANDS, MODE_CODES, normalized
from backhaul_connectors.scanner.deduplication import RecentScans
from backhaul_connectors.scanner.expired_scans import (
    days_old,
    end_session,
    expired,
    expired_before,
    refusal_of_command,
)
from backhaul_connectors.scanner.old_sessions import move_old_sessions
from backhaul_connectors.scanner.order_validation import (
    StoreLookup,
    names_in,
    refuse_wrong_layout,
)
from backhaul_connectors.scanner.scan import (
    MAX_TEXT,
    MODES,
    ScanRefused,
    read_line,
    scan_of,
)
from backhaul_connectors.scanner.session_store import (
    Sessions,
    delete_old,
    page_of_lines,
)
from backhaul_connectors.scanner.sessions import (
    ScanCollected,
    ScanCollector,
    SessionComplete,
    SessionRules,
    fulfillment_of,
    require_folder,
    write_count,
)
from backhaul_sdk import Bad
from backhaul_sdk.fields import counted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from backhaul_connectors.scanner.scan import Scan
    from backhaul_connectors.scanner.session_store import Session
    from backhaul_connectors.scanner.sessions import StandaloneScan
    from backhaul_connectors.scanner.settings import Settings
    from backhaul_sdk import (
        Connector,
        Documents,
        Emit,
        Line,
        Receipt,
    )

T = TypeVar("T")
NOT_STORED = "not stored, please try again in a moment"
DELETE_SECONDS = 600.0
MOST_BYTES = 4_096
_WORDS = {200: "OK", 503: "AGAIN"}
_BELLS = {200: 1, 503: 2}
"""How often the scanner beeps for an answer; three times for a refusal."""


class DeviceAnswer(Struct, frozen=True):
    """The answer to a device; `order` is the order that it is picking."""

    status: int
    what: str
    order: str = ""

    @property
    def document(self) -> dict[str, object]:
        """The answer as JSON."""
        told: dict[str, object] = {
            "accepted": self.status == 200,
            "what": self.what,
        }
        return {**told, "order": self.order} if self.order else told


def refusal_of(refused: ScanRefused) -> DeviceAnswer:
    """Return the answer for a scan that cannot be used."""
    return DeviceAnswer(refused.status, str(refused))


class ScanIntake:
    """Submits scans to the host, and collects those of sessions first.

    `wall` returns the seconds since 1970; `connector` has what the host offers.
    """

    def __init__(
        self,
        settings: Settings,
        wall: Callable[[], float],
        connector: Connector[Any],
    ) -> None:
        self._settings = settings
        self._wall = wall
        self._rules = SessionRules(
            settings.first_mode, settings.dedupe_seconds, settings.numeric_skus
        )
        self._connector = connector
        self._delete_at = 0.0
        self.emit: Emit | None = None

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that devices can use with these settings."""
        if self._settings.folder is None:
            return tuple(mode for mode in MODES if mode not in ("count", "pick"))
        return MODES

    async def open(self) -> None:
        """Make the folder of counts usable. Raises CheckFailed."""
        if (folder := self._settings.folder) is not None:
            await asyncio.to_thread(require_folder, folder)
            host = self._connector
            await move_old_sessions(folder, host.documents, host.read_sqlite)

    async def take(
        self, document: Mapping[str, Any], device: str, raw: str
    ) -> DeviceAnswer:
        """Store one scan and return the answer. Raises ScanRefused for a bad scan."""
        scan = normalized(scan_of(document, device, raw))
        try:
            # The works of a device's scans run in the order of these calls.
            step = await self._transact(partial(self._collect, scan=scan))
            if isinstance(step, ScanCollected):
                return DeviceAnswer(200, step.what, step.order)
            if isinstance(step, SessionComplete):
                return await self.submit(step.session)
            if isinstance(step, DeviceAnswer):
                return step
            if isinstance(step, Bad):
                return _answer_to(await self._emit()(step), f"scan of {scan.code}")
            return await self._store(step)
        except ScanRefused:
            raise
        except Exception:  # noqa: BLE001 - after any failure the device must keep the scan
            return DeviceAnswer(503, NOT_STORED)

    def _collect(
        self, documents: Documents, *, scan: Scan
    ) -> ScanCollected | SessionComplete | StandaloneScan | Bad | DeviceAnswer:
        if (old := self._expired(documents, scan)) is not None:
            return old
        shop = self._shop_for(documents, scan)
        collector = ScanCollector(documents, self._rules, self._wall(), shop)
        if self._settings.folder is None:
            return collector.take_alone(scan)
        return collector.take(scan)

    def _expired(self, documents: Documents, scan: Scan) -> Bad | DeviceAnswer | None:
        """Return the outcome of a scan that waited for too long; None for any other.

        It ends the session of its device. It stays too old, even if the limit is raised
        before it comes again: otherwise it would be in quarantine and in a session. A
        code that sets the mode never waits too long: the codes after it would have the
        wrong mode.
        """
        sessions, key = Sessions(documents), scan.key
        now, limit = self._wall(), self._settings.max_age_days
        days = days_old(scan, now)
        is_old = days > limit or expired_before(sessions, key)
        if not is_old or scan.code in MODE_CODES:
            return None
        is_command = scan.code in COMMANDS
        if is_command and self._settings.folder is None:
            return None
        if key is not None and sessions.known_scan(key) is not None:
            return None
        key = key or RecentScans(documents, now).key_of(scan)
        ended = end_session(sessions, scan, key, self._settings.first_mode)
        if is_command:
            what = refusal_of_command(scan, ended, days, limit)
            return DeviceAnswer(422, what)
        return expired(scan, key, ended, days, limit)

    def _transact(self, work: Callable[[Documents], T]) -> Awaitable[T]:
        return self._connector.documents.transact(work)

    def _shop_for(self, documents: Documents, scan: Scan) -> StoreLookup:
        """Return what the scan's texts name in the store. Raises ScanRefused."""
        if scan.code in COMMANDS:
            return StoreLookup()
        names = names_in(scan, numeric_skus=self._settings.numeric_skus)
        shop = StoreLookup(documents.find_in_store(names))
        refuse_wrong_layout(scan, shop)
        return shop

    async def _store(self, step: StandaloneScan) -> DeviceAnswer:
        receipt = await self._emit()(step.action.record(step.key))
        if step.scan.key is None:
            # If this fails, the scan is only remembered for longer.
            with suppress(Exception):
                await self._transact(partial(self._answered, scan=step.scan))
        return _answer_to(receipt, step.action.what)

    def _answered(self, documents: Documents, *, scan: Scan) -> None:
        repeats = RecentScans(documents, self._wall())
        repeats.answered(scan, self._settings.dedupe_seconds)

    def _emit(self) -> Emit:
        if self.emit is None:
            raise OSError("the connector is still starting")
        return self.emit

    async def submit(self, session: Session) -> DeviceAnswer:
        """Submit a complete order to the host, or write a complete count to a file."""
        try:
            lines = await self._lines(session)
            if session.mode == "count":
                answer = DeviceAnswer(200, await self._write_count(session, lines))
            else:
                receipt = await self._emit()(fulfillment_of(session, lines))
                units = counted(sum(line.quantity for line in lines), "unit")
                done = f"order {session.order} finished with {units}"
                answer = _answer_to(receipt, done)
            state = "done" if answer.status == 200 else "refused"
            await self._transact(
                lambda documents: Sessions(documents).end(session, state, answer.what)
            )
        except Exception:  # noqa: BLE001 - after any failure the device must try again
            return DeviceAnswer(503, NOT_STORED)
        return answer

    async def _lines(self, session: Session) -> tuple[Line, ...]:
        """Return the collected units, each article once, in the order of the scans."""
        found: list[tuple[int, Line]] = []
        after: str | None = ""
        while after is not None:
            read = partial(page_of_lines, session=session, after=after)
            page, after = await self._transact(read)
            found += page
        return tuple(line for _, line in sorted(found, key=itemgetter(0)))

    async def _write_count(self, session: Session, lines: tuple[Line, ...]) -> str:
        folder = self._settings.folder
        if folder is None:
            raise OSError("the folder is not set")
        file = await asyncio.to_thread(write_count, folder, session, lines)
        skus = counted(len(lines), "SKU")
        return f"the count of {skus} is in {file}; stock is unchanged"

    async def submit_pending(self) -> None:
        """Submit complete sessions after a restart or a failure of the host."""
        if self.emit is not None:
            closed = await self._transact(lambda each: Sessions(each).closed())
            for session in closed:
                await self.submit(session)

    async def delete_old(self) -> None:
        """Delete what no device sends again, every ten minutes."""
        now = self._wall()
        if not self._delete_at - DELETE_SECONDS <= now < self._delete_at:
            self._delete_at = now + DELETE_SECONDS
            await delete_old(self._connector.documents, self._wall)


def _answer_to(receipt: Receipt, done: str) -> DeviceAnswer:
    if receipt.state == "quarantined":
        return DeviceAnswer(422, receipt.what or "this cannot be used")
    return DeviceAnswer(200, _sentence(receipt, done))


def _sentence(receipt: Receipt, done: str) -> str:
    if receipt.state == "waiting":
        return f"not done yet: {receipt.what}. Result when this succeeds: {done}"
    if receipt.state == "duplicate":
        return f"scanned before, nothing was repeated: {done}"
    return f"{done}: {receipt.what}" if receipt.what else done


class DeviceReply(Struct, frozen=True):
    """An answer, and the device's number of the scan that it answers."""

    answer: DeviceAnswer
    sequence: object = None

    def formed_for(self, message: bytes, *, beeps: bool = False) -> bytes:
        """Return JSON for JSON, else a line that begins with `OK`, `NO` or `AGAIN`.

        With `beeps` such a line ends with BEL characters, at which a scanner beeps.
        """
        if not message.lstrip().startswith(b"{"):
            word = _WORDS.get(self.answer.status, "NO")
            bells = "\a" * _BELLS.get(self.answer.status, 3) if beeps else ""
            return f"{word} {self.answer.what}{bells}".encode()
        document = {"status": self.answer.status, **self.answer.document}
        if self.sequence is not None:
            document["sequence"] = self.sequence
        return json.dumps(document).encode()


async def reply_to(message: bytes, device: str, intake: ScanIntake) -> DeviceReply:
    """Process one message."""
    if len(message) > MOST_BYTES:
        what = f"the line is longer than {MOST_BYTES} bytes"
        return DeviceReply(DeviceAnswer(413, what))
    raw = message.decode("utf-8", "replace").replace("\0", "\ufffd").rstrip("\r")
    sequence: object = None
    try:
        document = read_line(message)
        sequence = _sequence_in(document)
        return DeviceReply(await intake.take(document, device, raw), sequence)
    except ScanRefused as refused:
        return DeviceReply(refusal_of(refused), sequence)


def _sequence_in(document: Mapping[str, object]) -> object:
    given = document.get("sequence")
    short = isinstance(given, str | int) and len(str(given)) <= MAX_TEXT
    return given if short else None
