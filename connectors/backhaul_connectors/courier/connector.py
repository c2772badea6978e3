"""Receives a courier's webhooks, and polls when none arrives for too long."""

from __future__ import annotations

import time
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from backhaul_connectors.courier.parsing import (
    TrackingEvent,
    bad,
    digest_of,
    event_of,
    events_of,
    raw_of,
    records_of,
)
from backhaul_connectors.courier.polling import SeenStatuses, pages, read
from backhaul_connectors.courier.settings import PRESETS, Settings
from backhaul_connectors.courier.signatures import is_genuine
from backhaul_sdk import (
    Batch,
    Capability,
    CheckFailed,
    Connector,
    HttpResponse,
    Route,
    Spec,
)
from backhaul_sdk.calls import Caller, CallFailed, NotJson, read_json
from backhaul_sdk.clock import seconds_since_1970
from backhaul_sdk.fields import Unusable
from backhaul_sdk.json_paths import find

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from backhaul_sdk import Bad, Emit, HttpRequest, Preset, Record


def presets() -> Sequence[Preset]:
    """Return the presets of couriers and of services for several couriers."""
    return tuple(PRESETS.by_name.values())


SPEC = Spec(
    name="courier",
    version="1.0",
    summary="Receives tracking events of EasyPost, AfterShip, Shippo and others.",
    capabilities=frozenset({Capability.LISTEN, Capability.PULL}),
    settings=Settings,
    secret_fields=frozenset({"secrets", "api_key", "api_secret"}),
    presets=presets,
)


ASK_AGAIN_SECONDS = 3_600.0
RETRY_AFTER_SECONDS = 30


class Courier(Connector["Settings"]):
    """A courier, or a service that covers many couriers.

    `clock` returns seconds that never go back, `now` the seconds since 1970.
    """

    spec = SPEC

    def __init__(
        self,
        instance: str,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = seconds_since_1970,
    ) -> None:
        super().__init__(instance, settings)
        self._clock = clock
        self._now = now
        keys = settings.api_key, settings.api_secret
        shown = [key.get_secret_value() for key in keys]
        self._caller = Caller(settings.network, keep_alive=True, secrets=shown)
        # Events during the downtime are polled at the start.
        self._ask_at = 0.0

    async def check(self) -> None:
        if self.settings.base_url:
            self._caller.check(self.settings.base_url)

    async def open(self) -> None:
        await self.check()

    async def close(self) -> None:
        await self._caller.close()

    async def listen(self, emit: Emit) -> Sequence[Route]:
        if not self.settings.secrets:
            return ()
        routes = [Route("POST", "/events", partial(self._answer, emit))]
        if self.settings.answer_head:
            routes.append(Route("HEAD", "/events", _exists))
        return routes

    async def pull(self, cursor: str | None) -> AsyncGenerator[Batch]:
        if not self.settings.asks or self._clock() < self._ask_at:
            return
        seen, now = SeenStatuses.from_text(cursor), self._now()
        listed = pages(self._caller, self.settings, seen, now)
        async with aclosing(listed) as all_pages:
            async for rows in all_pages:
                records = [each for row in rows for each in self._row(seen, row)]
                if records:
                    yield Batch(records=records, cursor=seen.to_text())
        self._ask_at = self._clock() + min(
            self.settings.silent_seconds, ASK_AGAIN_SECONDS
        )
        seen.asked_at = now
        yield Batch(records=[], cursor=seen.to_text())

    async def _answer(self, emit: Emit, request: HttpRequest) -> HttpResponse:
        if not is_genuine(self.settings, request, self._now()):
            return _said(401, "the signature is missing or wrong")
        self._ask_at = self._clock() + self.settings.silent_seconds
        try:
            records = await self._records(request.body)
        except CallFailed:
            # The courier sends the message again, and then it is fetched again.
            again = {"Retry-After": str(RETRY_AFTER_SECONDS)}
            return _said(503, "not fetched; send it again", again)
        for record in records:
            await emit(record)
        return _said(200, f"{len(records)} stored")

    async def _records(self, body: bytes) -> list[Record | Bad]:
        raw = body.decode("utf-8", "replace").replace("\0", "\ufffd")
        try:
            message = await self._whole(read_json(body))
            events = events_of(self.settings, message)
        except CallFailed:
            raise
        except (Unusable, NotJson, CheckFailed) as error:
            return [bad(raw, str(error), digest_of(raw), self.settings.label)]
        return [
            record
            for event in events
            for record in records_of(self.settings, event, raw)
        ]

    async def _whole(self, message: Any) -> Any:
        """Return the message, or the document that it only refers to."""
        if not self.settings.fetch_path:
            return message
        url = find(self.settings.fetch_path, message)
        if not isinstance(url, str):
            raise Unusable(
                f"the message has no URL at {self.settings.fetch_path!r}, which"
                " fetch_path names"
            )
        return await read(self._caller, self.settings, url)

    def _row(self, seen: SeenStatuses, row: Any) -> list[Record | Bad]:
        raw = raw_of(row)
        event = event_of(self.settings, row)
        if isinstance(event, TrackingEvent):
            said = f"{event.word}:{event.at}"
            if not seen.is_new(event.tracking_number, said):
                return []
        return records_of(self.settings, event, raw)


async def _exists(request: HttpRequest) -> HttpResponse:
    return HttpResponse(200)


def _said(
    status: int, what: str, headers: dict[str, str] | None = None
) -> HttpResponse:
    return HttpResponse(
        status, {"accepted": status == 200, "what": what}, headers or {}
    )
