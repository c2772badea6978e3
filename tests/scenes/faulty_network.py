"""An HTTP transport to a real platform that injects faults into commands."""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import httpx

from backhaul.platform.transport import FIRST_BYTE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from scenes.clock import VirtualClock

KEY = "Idempotency-Key"
KEY_PREFIX = "backhaul-"
PROXY_PAGE = b"<html><body><h1>Bad Gateway</h1></body></html>"


class CommandFault(Enum):
    """What happens to a command's first request; later requests get through."""

    THROUGH = "through"
    NEVER_ARRIVES = "never arrives"
    REPLY_LOST = "applied, reply lost"
    RESET = "applied, connection reset"
    ANSWERED_500 = "applied, answered 500"
    LATE_AFTER_FIRST = "applied after the first check"
    LATE_AFTER_SECOND = "applied after the second check"
    LATE_AFTER_LAST = "applied after the last check"
    PROXY_502 = "a proxy's page, 502"
    PROXY_403 = "a proxy's page, 403"


LATE_SECONDS = {
    CommandFault.LATE_AFTER_FIRST: 0.1,
    CommandFault.LATE_AFTER_SECOND: 0.5,
    CommandFault.LATE_AFTER_LAST: 1.5,
}
"""When the request arrives, as a part of the time from first to last check."""
PROXY_STATUS = {CommandFault.PROXY_502: 502, CommandFault.PROXY_403: 403}
FIRST_UNCERTAIN_STATUS = 500
"""From this status on, a response does not show whether the command took effect."""

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Without it, every transport would load the machine's CA certificates: slow."""


@dataclass(slots=True)
class FaultyTransport(httpx.AsyncBaseTransport):
    """Forwards reads, and injects the fault of each command into its first request.

    The transport outlives the program under test: a request in flight arrives even if
    the program was killed. `answers` holds the status of each response to a command,
    or None if there was no response.
    """

    clock: VirtualClock
    patience_seconds: float
    faults: dict[str, CommandFault] = field(default_factory=dict)
    answers: defaultdict[str, list[int | None]] = field(
        default_factory=lambda: defaultdict(list)
    )
    busy: int = 0
    in_flight: set[asyncio.Task[httpx.Response]] = field(default_factory=set)
    _inner: httpx.AsyncHTTPTransport = field(
        default_factory=lambda: httpx.AsyncHTTPTransport(verify=_NO_TLS)
    )

    async def cut(self) -> None:
        """Close the transport; `aclose` of a program does not."""
        await self._inner.aclose()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request = await _sent(request)
        self.busy += 1
        try:
            command = request.headers.get(KEY, "").removeprefix(KEY_PREFIX)
            fate = self.faults.pop(command, CommandFault.THROUGH)
            answered = None
            try:
                answer = await self._apply_fault(fate, request)
                answered = answer.status_code
            finally:
                if request.method == "POST":
                    self.answers[command].append(answered)
            return answer
        finally:
            self.busy -= 1

    def is_outcome_known(self, command: str) -> bool:
        """Return True if a response showed whether the command took effect."""
        statuses = self.answers[command]
        return any(
            status is not None and status < FIRST_UNCERTAIN_STATUS
            for status in statuses
        )

    async def _apply_fault(
        self, fate: CommandFault, request: httpx.Request
    ) -> httpx.Response:
        if fate in PROXY_STATUS:
            html = {"Content-Type": "text/html"}
            return httpx.Response(PROXY_STATUS[fate], headers=html, content=PROXY_PAGE)
        if fate in LATE_SECONDS:
            self._send_late(LATE_SECONDS[fate], request)
        if fate is CommandFault.NEVER_ARRIVES or fate in LATE_SECONDS:
            raise httpx.ReadTimeout("the answer does not come")
        # A separate task: the request arrives even if the program is killed meanwhile.
        answer = await asyncio.shield(self._keep(self._forward(request)))
        if fate is CommandFault.REPLY_LOST:
            raise httpx.ReadTimeout("the answer does not come")
        if fate is CommandFault.RESET:
            raise httpx.ReadError("connection reset")
        if fate is CommandFault.ANSWERED_500:
            return httpx.Response(500, content=b"")
        return answer

    def _send_late(self, share: float, request: httpx.Request) -> None:
        async def arrive() -> httpx.Response:
            await self.clock.sleep(share * self.patience_seconds)
            return await self._forward(request)

        self._keep(arrive())

    def _keep(
        self, work: Coroutine[None, None, httpx.Response]
    ) -> asyncio.Task[httpx.Response]:
        task = asyncio.ensure_future(work)
        self.in_flight.add(task)
        task.add_done_callback(self.in_flight.discard)
        return task

    async def _forward(self, request: httpx.Request) -> httpx.Response:
        self.busy += 1
        try:
            answer = await self._inner.handle_async_request(request)
            body = await answer.aread()
            await answer.aclose()
        finally:
            self.busy -= 1
        return httpx.Response(
            answer.status_code, headers=answer.headers, content=body, request=request
        )


async def _sent(request: httpx.Request) -> httpx.Request:
    """Return a request that was sent: the program cannot stop it now."""
    trace = request.extensions.get("trace")
    if trace is not None:
        await trace(FIRST_BYTE, {})
    extensions = {k: v for k, v in request.extensions.items() if k != "trace"}
    return httpx.Request(
        request.method,
        request.url,
        headers=request.headers,
        stream=request.stream,
        extensions=extensions,
    )


@asynccontextmanager
async def faulty_transport(
    clock: VirtualClock, patience_seconds: float
) -> AsyncIterator[FaultyTransport]:
    """Provide a faulty transport; cancel requests in flight at the end."""
    transport = FaultyTransport(clock, patience_seconds)
    try:
        yield transport
    finally:
        for task in transport.in_flight:
            task.cancel()
        await transport.cut()
