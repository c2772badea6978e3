"""The scanner connector: HTTP, TCP and MQTT in front of one intake."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from backhaul_connectors.scanner import codes, page
from backhaul_connectors.scanner.intake import ScanIntake, refusal_of
from backhaul_connectors.scanner.scan import ScanRefused, read_json
from backhaul_connectors.scanner.settings import Devices, Settings, read_devices
from backhaul_connectors.scanner.tcp_server import LineServer, tls_of
from backhaul_sdk import (
    Capability,
    CheckFailed,
    Connector,
    HttpRequest,
    HttpResponse,
    Route,
    Spec,
)
from backhaul_sdk.clock import seconds_since_1970

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from backhaul_connectors.scanner.intake import DeviceAnswer
    from backhaul_connectors.scanner.mqtt import MqttListener
    from backhaul_sdk import Batch, Emit


SPEC = Spec(
    name="scanner",
    version="1.1",
    summary="Receives scans over HTTP, TCP and MQTT: pick, pack, receive, count.",
    capabilities=frozenset({Capability.LISTEN, Capability.PULL}),
    settings=Settings,
    secret_fields=frozenset({"devices", "mqtt_password"}),
)


MAX_BODY_BYTES = 65_536
RETRY_AFTER_SECONDS = 2
ENTRANCE_SECONDS = 10.0
LOST: Mapping[str, object] = {
    "accepted": False,
    "what": "this device was reported lost; its unsent scans are deleted",
    "erase": True,
}
"""The answer to a lost device: the page deletes its token and its scans."""


class Scanner(Connector["Settings"]):
    """Receives the scans of devices and answers each.

    `wall` returns the seconds since 1970; `entrance_seconds` is how long a device that
    sends lines may take to identify itself.
    """

    spec = SPEC

    def __init__(
        self,
        instance: str,
        settings: Settings,
        *,
        wall: Callable[[], float] = seconds_since_1970,
        entrance_seconds: float = ENTRANCE_SECONDS,
    ) -> None:
        super().__init__(instance, settings)
        self._devices = Devices(settings.devices, settings.lost_devices)
        self.intake = ScanIntake(settings, wall, self)
        self.lines = LineServer(settings, self.intake, entrance_seconds)
        self.broker = _broker(instance, settings, self.intake)

    async def check(self) -> None:
        await asyncio.to_thread(read_devices, self.settings)
        await asyncio.to_thread(tls_of, self.settings)
        if self.broker:
            await self.broker.check()

    async def open(self) -> None:
        self._devices = await asyncio.to_thread(read_devices, self.settings)
        await asyncio.to_thread(codes.warm)
        await self.intake.open()
        await self.lines.open(self._devices)
        if self.broker:
            await self.broker.open()

    async def close(self) -> None:
        await self.lines.close()
        if self.broker:
            await self.broker.close()

    async def listen(self, emit: Emit) -> Sequence[Route]:
        self.intake.emit = emit
        scan = Route("POST", "/scan", self._answer)
        return [scan, *page.routes(self.intake.modes)]

    async def pull(self, cursor: str | None) -> AsyncIterator[Batch]:
        """Submit pending sessions; report whether the broker is reachable."""
        await self.intake.submit_pending()
        await self.intake.delete_old()
        if self.broker and self.broker.problem:
            raise CheckFailed(self.broker.problem)
        async for batch in super().pull(cursor):
            yield batch

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        device = self._devices.of(request.headers)
        if device is None:
            if self._devices.lost_of(request.headers) is not None:
                return HttpResponse(410, LOST)
            return _refusal(401, "unknown device: check its token")
        try:
            _require_json(request)
            raw = request.body.decode("utf-8", "replace").replace("\0", "\ufffd")
            document = read_json(request.body)
            return _response(await self.intake.take(document, device, raw))
        except ScanRefused as refused:
            return _response(refusal_of(refused))


def _broker(
    instance: str, settings: Settings, intake: ScanIntake
) -> MqttListener | None:
    if not settings.mqtt_host:
        return None
    from backhaul_connectors.scanner.mqtt import MqttListener  # its client is an extra

    return MqttListener(instance, settings, intake)


def _require_json(request: HttpRequest) -> None:
    if len(request.body) > MAX_BODY_BYTES:
        raise ScanRefused(413, f"the message is longer than {MAX_BODY_BYTES} bytes")
    kind = request.headers.get("content-type", "application/json")
    if kind.partition(";")[0].strip().lower() != "application/json":
        raise ScanRefused(415, "the message must be sent as application/json")


def _response(answer: DeviceAnswer) -> HttpResponse:
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
    return HttpResponse(
        answer.status, answer.document, headers if answer.status == 503 else {}
    )


def _refusal(status: int, what: str) -> HttpResponse:
    body = {"accepted": False, "what": what}
    return HttpResponse(status, body, {"WWW-Authenticate": "Bearer"})
