"""The HTTP client of a JSON API: authorization, sending changes, lookups."""

from __future__ import annotations

import base64
import json
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from backhaul_sdk import (
    Absent,
    Applied,
    CheckFailed,
    Found,
    NotSent,
    Rejected,
    Uncertain,
    Unknown,
)
from backhaul_sdk.calls import Caller, NeverSent, NoAnswer, NotJson, outcome_of
from backhaul_sdk.fields import Unusable
from backhaul_sdk.json_paths import find

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from yarl import URL

    from backhaul_connectors.http_json.settings import Push, Settings
    from backhaul_sdk import Change, LookedUp, Pushed
    from backhaul_sdk.calls import Answer


def authorization(settings: Settings) -> dict[str, str]:
    """Return the header with the key."""
    token = settings.token.get_secret_value()
    if settings.auth == "bearer":
        return {"Authorization": f"Bearer {token}"}
    if settings.auth == "basic":
        pair = f"{settings.user}:{token}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {settings.header: token} if settings.auth == "header" else {}


class JsonApi:
    """The HTTP API of one system; respects the waits that it asks for.

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
        # A write is never sent on a connection that may be closing.
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
            raise CheckFailed(
                "the server redirects, and Backhaul does not follow redirects:"
                " correct base_url"
            )
        if answer.status in (401, 403):
            raise CheckFailed(f"access denied, check token: {answer.words()}")
        raise CheckFailed(f"the server answered {answer.words()}")

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
        raise CheckFailed(f"the server asks Backhaul to wait {seconds:g} s")

    def _require_leave(self) -> None:
        left = self._quiet_until - self._clock()
        if left > 0:
            raise CheckFailed(f"the server asks Backhaul to wait another {left:.0f} s")


async def push(system: JsonApi, base: str, settings: Push, change: Change) -> Pushed:
    """Send a change once; its id is the Idempotency-Key."""
    try:
        body = json.dumps(find(settings.body, _envelope(change))).encode()
    except Unusable as error:
        return Rejected(f"body: {error}")
    try:
        answer = await system.write(
            settings.method,
            _url(base, settings.path, change),
            body,
            {"Idempotency-Key": change.id},
        )
    except NeverSent as error:
        return NotSent(str(error))
    except NoAnswer as error:
        return Uncertain(str(error))
    said = outcome_of(answer)
    return _applied(settings, answer) if isinstance(said, Applied) else said


def _applied(settings: Push, answer: Answer) -> Pushed:
    if settings.reference is None:
        return Applied()
    try:
        reference = _reference(find(settings.reference, answer.json()))
    except (NotJson, Unusable) as error:
        return Uncertain(f"it answered {answer.status}, but {error}")
    if reference is None:
        return Uncertain(f"it answered {answer.status} without its own id")
    return Applied(reference)


async def lookup(
    system: JsonApi, base: str, settings: Push, change: Change
) -> LookedUp:
    """Return whether the system has a change. Raises CheckFailed if unreachable."""
    if settings.lookup_path is None:
        return Unknown("no lookup_path is set")
    try:
        answer = await system.read(_url(base, settings.lookup_path, change))
        if answer.status == 404:
            return _absent(answer)
        found = find(settings.lookup_reference, answer.json())
    except (NotJson, Unusable) as error:
        return Unknown(str(error))
    if found is None or found in ([], {}, ""):
        return Absent()
    return Found(_reference(found))


def _absent(answer: Answer) -> LookedUp:
    """A proxy says 404 as well, but not in JSON."""
    try:
        answer.json()
    except NotJson:
        return Unknown("it answered 404, but not in JSON: is lookup_path right?")
    return Absent()


def _envelope(change: Change) -> dict[str, Any]:
    return {
        "id": change.id,
        "store": change.store,
        "topic": change.topic,
        "object_id": change.object_id,
        "occurred_at": change.occurred_at,
        "document": dict(change.document),
    }


def _url(base: str, path: str, change: Change) -> str:
    filled = path.replace("{id}", quote(change.id, safe=""))
    return base.rstrip("/") + filled.replace(
        "{object_id}", quote(change.object_id, safe="")
    )


def _reference(value: Any) -> str | None:
    single = value[0] if isinstance(value, list) and value else value
    if isinstance(single, bool) or not isinstance(single, str | int):
        return None
    return str(single) or None
