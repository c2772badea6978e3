"""Takes a scan from any interface, and returns the answer for the device."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from backhaul_connectors.scanner.actions import COMMANDS, action_of, normalized
from backhaul_connectors.scanner.deduplication import RecentScans
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
from backhaul_connectors.scanner.session_store import fulfillment_of, write_count
from backhaul_connectors.scanner.session_thread import SessionThread
from backhaul_connectors.scanner.sessions import (
    ScanCollected,
    SessionComplete,
    SessionRules,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backhaul_connectors.scanner.actions import ScanAction
    from backhaul_connectors.scanner.scan import Scan
    from backhaul_connectors.scanner.session_store import Session
    from backhaul_connectors.scanner.settings import Settings
    from backhaul_sdk import Emit, FindInStore, Line, Receipt


NOT_STORED = "not stored, please try again in a moment"
UNNUMBERED = "without a sequence number: a repeat after a restart counts again"
"""The note on a scan without `sequence` if no folder is configured."""
MOST_BYTES = 4_096
_WORDS = {200: "OK", 503: "AGAIN"}


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

    `find_in_store` asks the host what texts name in the store.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], float],
        wall: Callable[[], float],
        find_in_store: FindInStore,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._wall = wall
        self._repeats = RecentScans(settings.dedupe_seconds, clock)
        self._thread: SessionThread | None = None
        self._look_up = find_in_store
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.emit: Emit | None = None

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that devices can use with these settings."""
        if self._settings.folder is None:
            return tuple(mode for mode in MODES if mode not in ("count", "pick"))
        return MODES

    async def open(self) -> None:
        """Open the folder of sessions. Raises CheckFailed."""
        if self._settings.folder is not None and self._thread is None:
            rules = SessionRules(
                self._settings.first_mode,
                self._settings.dedupe_seconds,
                self._settings.numeric_skus,
            )
            self._thread = await asyncio.to_thread(
                SessionThread, self._settings.folder, rules, self._clock, self._wall
            )

    async def close(self) -> None:
        """Close the folder. Safe to call twice."""
        floor, self._thread = self._thread, None
        if floor is not None:
            await asyncio.to_thread(floor.close)

    async def take(
        self, document: Mapping[str, Any], device: str, raw: str
    ) -> DeviceAnswer:
        """Store one scan and return the answer. Raises ScanRefused for a bad scan."""
        return await self._answered(normalized(scan_of(document, device, raw)))

    async def _answered(self, scan: Scan) -> DeviceAnswer:
        if self._settings.folder is not None:
            return await self._take_in_session(scan)
        if scan.mode in ("count", "pick") or scan.code in COMMANDS:
            raise ScanRefused(422, "picking and counting are off: folder is not set")
        scan = _in_mode(scan, self._settings.first_mode)
        action = self._action_of(scan, await self._shop_for(scan))
        key = scan.key
        answer = await self._store(action, key or self._repeats.key_of(scan))
        if key is not None or answer.status == 503:
            return answer
        self._repeats.answered(scan)
        if answer.status != 200 or not action.adds:
            return answer
        return replace(answer, what=f"{answer.what}; {UNNUMBERED}")

    async def _take_in_session(self, scan: Scan) -> DeviceAnswer:
        try:
            # A device's scans keep their order, though each needs a lookup first.
            async with self._turns[scan.device]:
                shop = await self._shop_for(scan)
                kept = self._open_thread().take(scan, shop)
            step = await kept
        except ScanRefused:
            raise
        except Exception:  # noqa: BLE001 - after any failure the device must keep the scan
            return DeviceAnswer(503, NOT_STORED)
        if isinstance(step, ScanCollected):
            return DeviceAnswer(200, step.what, step.order)
        if isinstance(step, SessionComplete):
            return await self.submit(step.session)
        answer = await self._store(
            self._action_of(_in_mode(step.scan, ""), shop), step.key
        )
        if scan.key is None and answer.status != 503:
            # If this fails, the scan is only remembered for longer.
            with suppress(Exception):
                await self._open_thread().answered(step.scan)
        return answer

    def _open_thread(self) -> SessionThread:
        if self._thread is None:
            raise OSError("the folder is not open")
        return self._thread

    async def _shop_for(self, scan: Scan) -> StoreLookup:
        """Return what the scan's texts name in the store. Raises ScanRefused."""
        if scan.code in COMMANDS:
            return StoreLookup()
        names = names_in(scan, numeric_skus=self._settings.numeric_skus)
        shop = StoreLookup(await self._look_up(names))
        refuse_wrong_layout(scan, shop)
        return shop

    def _action_of(self, scan: Scan, shop: StoreLookup) -> ScanAction:
        return action_of(scan, shop, numeric_skus=self._settings.numeric_skus)

    async def _store(self, action: ScanAction, key: str) -> DeviceAnswer:
        try:
            receipt = await self._emit()(action.record(key))
        except Exception:  # noqa: BLE001 - after any failure the device must keep the scan
            return DeviceAnswer(503, NOT_STORED)
        return _answer_to(receipt, action.what)

    def _emit(self) -> Emit:
        if self.emit is None:
            raise OSError("the connector is still starting")
        return self.emit

    async def submit(self, session: Session) -> DeviceAnswer:
        """Submit a complete order to the host, or write a complete count to a file."""
        try:
            floor = self._open_thread()
            lines = await floor.lines(session)
            if session.mode == "count":
                answer = DeviceAnswer(200, await self._write_count(session, lines))
            else:
                receipt = await self._emit()(fulfillment_of(session, lines))
                units = sum(line.quantity for line in lines)
                done = f"order {session.order} finished with {units} units"
                answer = _answer_to(receipt, done)
            state = "done" if answer.status == 200 else "refused"
            await floor.record_result(session, state, answer.what)
        except Exception:  # noqa: BLE001 - after any failure the device must try again
            return DeviceAnswer(503, NOT_STORED)
        return answer

    async def _write_count(self, session: Session, lines: tuple[Line, ...]) -> str:
        folder = self._settings.folder
        if folder is None:
            raise OSError("the folder is not set")
        file = await asyncio.to_thread(write_count, folder, session, lines)
        return f"the count of {len(lines)} articles is in {file}; stock is unchanged"

    async def submit_pending(self) -> None:
        """Submit complete sessions after a restart or a failure of the host."""
        if self._thread is not None and self.emit is not None:
            for session in await self._thread.owed():
                await self.submit(session)


def _in_mode(scan: Scan, first_mode: str) -> Scan:
    if scan.mode:
        return scan
    if not first_mode:
        raise ScanRefused(422, f"mode must be one of: {', '.join(MODES)}")
    return scan._replace(mode=first_mode)


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

    def formed_for(self, message: bytes) -> bytes:
        """Return JSON for JSON, else a line that begins with `OK`, `NO` or `AGAIN`."""
        if not message.lstrip().startswith(b"{"):
            word = _WORDS.get(self.answer.status, "NO")
            return f"{word} {self.answer.what}".encode()
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
