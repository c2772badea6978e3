"""Calls to the one system of an instance, with its key."""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING

from backhaul_sdk import CheckFailed
from backhaul_sdk.calls import Caller

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from yarl import URL

    from backhaul_connectors.http_json.settings import Settings
    from backhaul_sdk.calls import Answer


def authorization(settings: Settings) -> dict[str, str]:
    """Return the header that shows the key."""
    token = settings.token.get_secret_value()
    if settings.auth == "bearer":
        return {"Authorization": f"Bearer {token}"}
    if settings.auth == "basic":
        pair = f"{settings.user}:{token}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {settings.header: token} if settings.auth == "header" else {}


class System:
    """The system: reads it, and leaves it alone for as long as it asks.

    `clock` returns seconds that never go back.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._quiet_until = 0.0
        caller = partial(
            Caller,
            settings.network,
            answer_seconds=settings.answer_seconds,
            most_bytes=settings.most_bytes,
            secrets=[settings.token.get_secret_value()],
        )
        self._readers = caller(keep_alive=True)
        # What writes is never sent on a connection that may be closing.
        self._writers = caller()

    async def close(self) -> None:
        await self._readers.close()
        await self._writers.close()

    def check(self) -> None:
        """Raises AddressRefused."""
        self._readers.check(self._settings.base_url)

    async def read(
        self, url: URL | str, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Return the answer to a GET: 2xx, 304 or 404. Raises CheckFailed."""
        self._require_leave()
        answer = await self._readers.call(
            "GET", url, headers={**authorization(self._settings), **(headers or {})}
        )
        if answer.is_success or answer.status in (304, 404):
            return answer
        if answer.status in (429, 503):
            self._wait(answer)
        if 300 <= answer.status < 400:
            raise CheckFailed("it redirects, which is not followed: mend base_url")
        if answer.status in (401, 403):
            raise CheckFailed(f"it lets us not in, check token: {answer.words()}")
        raise CheckFailed(f"it answered {answer.words()}")

    async def write(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str]
    ) -> Answer:
        """Send once. Raises NeverSent or NoAnswer."""
        content = {"Content-Type": "application/json", **headers}
        return await self._writers.call(
            method, url, headers={**authorization(self._settings), **content}, body=body
        )

    def _wait(self, answer: Answer) -> None:
        seconds = answer.retry_after_seconds or 0.0
        self._quiet_until = self._clock() + seconds
        raise CheckFailed(f"it asks to be left alone for {seconds:g} s")

    def _require_leave(self) -> None:
        left = self._quiet_until - self._clock()
        if left > 0:
            raise CheckFailed(f"it asks to be left alone for another {left:.0f} s")
