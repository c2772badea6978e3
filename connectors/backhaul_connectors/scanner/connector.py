"""The HTTP intake for scanners: one route, answered after the host's commit."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

from backhaul_connectors.scanner.devices import Devices, read_devices
from backhaul_connectors.scanner.manifest import SPEC
from backhaul_connectors.scanner.parsing import Refused, action_of, read_json, scan_of
from backhaul_connectors.scanner.repeats import Repeats
from backhaul_sdk import Connector, HttpRequest, HttpResponse, Route

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backhaul_connectors.scanner.settings import Settings
    from backhaul_sdk import Emit, Receipt

MAX_BODY_BYTES = 65_536
RETRY_AFTER_SECONDS = 2


class Scanner(Connector["Settings"]):
    """Devices post what they scanned, and are told what became of it.

    `clock` returns seconds that never go back.
    """

    spec = SPEC

    def __init__(
        self,
        instance: str,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(instance, settings)
        self._devices = Devices(settings.devices)
        self._repeats = Repeats(settings.dedupe_seconds, clock)

    async def check(self) -> None:
        await asyncio.to_thread(read_devices, self.settings)

    async def open(self) -> None:
        self._devices = await asyncio.to_thread(read_devices, self.settings)

    async def listen(self, emit: Emit) -> Sequence[Route]:
        return [Route("POST", "/scan", partial(self._answer, emit))]

    async def _answer(self, emit: Emit, request: HttpRequest) -> HttpResponse:
        device = self._devices.of(request.headers)
        if device is None:
            return _refusal(401, "this device is not known: check its token")
        try:
            _require_json(request)
            return await self._take(emit, request, device)
        except Refused as refused:
            return _refusal(refused.status, str(refused))

    async def _take(
        self, emit: Emit, request: HttpRequest, device: str
    ) -> HttpResponse:
        scan = scan_of(read_json(request.body), device)
        action = action_of(scan)
        raw = request.body.decode("utf-8", "replace").replace("\0", "\ufffd")
        record = action.record(self._repeats.key_of(scan), raw)
        try:
            receipt = await emit(record)
        except Exception:  # noqa: BLE001 - whatever failed, the device must keep the scan
            return _refusal(503, "not stored, please try again in a moment")
        self._repeats.answered(scan)
        return _answer_to(receipt, action.what)


def _require_json(request: HttpRequest) -> None:
    if len(request.body) > MAX_BODY_BYTES:
        raise Refused(413, f"the message is longer than {MAX_BODY_BYTES} bytes")
    kind = request.headers.get("content-type", "application/json")
    if kind.partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, "the message must be sent as application/json")


def _answer_to(receipt: Receipt, done: str) -> HttpResponse:
    if receipt.state == "quarantined":
        return _refusal(422, receipt.what or "this cannot be used")
    return HttpResponse(200, {"accepted": True, "what": _sentence(receipt, done)})


def _sentence(receipt: Receipt, done: str) -> str:
    if receipt.state == "duplicate":
        return f"known already, nothing was done again: {done}"
    return f"{done}: {receipt.what}" if receipt.what else done


def _refusal(status: int, what: str) -> HttpResponse:
    headers = {
        401: {"WWW-Authenticate": "Bearer"},
        503: {"Retry-After": str(RETRY_AFTER_SECONDS)},
    }
    body = {"accepted": False, "what": what}
    return HttpResponse(status, body, headers.get(status, {}))
