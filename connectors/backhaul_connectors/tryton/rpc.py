"""The JSON-RPC client of Tryton: session, typed values and errors."""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any

from backhaul_sdk import CheckFailed
from backhaul_sdk.calls import NotJson, Pause
from backhaul_sdk.erp import (
    AccessRefused,
    ErpServer,
    NotNow,
    RequestRefused,
    ServerFailed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul_connectors.tryton.settings import Settings
    from backhaul_sdk.calls import Answer

LOGIN_REST_SECONDS = 300.0
"""How long Tryton counts each failed login by default. A client that logs in more often
is locked out."""


class SessionExpired(AccessRefused):
    """The session has expired; nothing was done."""


_MEANINGS: dict[object, type[CheckFailed]] = {
    "UserError": RequestRefused,
    "UserWarning": RequestRefused,
    "ConcurrencyException": NotNow,
    "LoginException": AccessRefused,
}
"""Errors that Tryton raises on purpose; all others are faults of the server."""


class TrytonClient:
    """A database on a server, with a session that is renewed after it expires.

    `clock` returns seconds that never go back.
    """

    def __init__(
        self, settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._login_pause = Pause(clock)
        secrets = [settings.password.get_secret_value()]
        self._server = ErpServer("Tryton", settings, secrets=secrets, clock=clock)
        self._session: str | None = None
        self._context: dict[str, Any] = {}
        self._numbers = count()

    @property
    def now(self) -> datetime:
        """The server's clock at its last answer."""
        return self._server.now

    async def open(self) -> None:
        await self._server.open()

    async def close(self) -> None:
        """Drop the session; it expires at the server."""
        self._session = None
        await self._server.close()

    def require_no_wait(self) -> None:
        """Raise NotNow if the server asked for a wait that is not over."""
        self._server.require_no_wait()

    async def call(self, method: str, *parameters: Any, **context: Any) -> Any:
        """Call a method that only reads; after an expired session, once more."""
        try:
            return await self.write(method, *parameters, **context)
        except SessionExpired:
            return await self.write(method, *parameters, **context)

    async def write(self, method: str, *parameters: Any, **context: Any) -> Any:
        """Call a method once.

        Raises NeverSent, NoAnswer, and those of `backhaul_sdk.erp.failures`.
        """
        if self._session is None:
            await self._log_in()
        merged = {**self._context, **context}
        headers = {"Authorization": f"Session {self._session}"}
        answer = await self._post(
            self._settings.database, method, [*parameters, merged], headers
        )
        if answer.status == 401:
            self._session = None
            raise SessionExpired("the session with Tryton has expired")
        return self._result(answer)

    async def _log_in(self) -> None:
        if (left := self._login_pause.left_seconds) > 0:
            raise NotNow(
                "too many logins at Tryton failed; Backhaul waits before it tries"
                " again",
                left,
            )
        settings = self._settings
        secret = {"password": settings.password.get_secret_value()}
        answer = await self._post(
            settings.database, "common.db.login", [settings.user, secret], {}
        )
        if answer.status == 404:
            raise AccessRefused(await self._not_served())
        if answer.status == 429:
            rest = answer.retry_after_seconds or LOGIN_REST_SECONDS
            self._login_pause.begin(rest)
            raise NotNow(
                "too many logins at Tryton failed; Backhaul waits before it tries"
                " again",
                rest,
            )
        if answer.status in (401, 403):
            raise AccessRefused(
                f"{self._server.name} refuses the login of {settings.user}; check user"
                " and password"
            )
        user_id, key, *_ = self._result(answer)
        token = f"{settings.user}:{user_id}:{key}"
        self._session = base64.b64encode(token.encode()).decode()
        try:
            self._context = {}
            self._context = await self.write("model.res.user.get_preferences", True)
        except CheckFailed:
            self._session = None
            raise

    async def _not_served(self) -> str:
        database = self._settings.database
        said = f"database {database} is not served at {self._server.base}"
        try:
            answer = await self._post("", "common.db.list", [], {})
            served = self._result(answer)
        except CheckFailed:
            return said
        return f"{said}; it has: {', '.join(map(str, served)) or 'none'}"

    async def _post(
        self, database: str, method: str, parameters: Any, headers: dict[str, str]
    ) -> Answer:
        place = f"{database}/rpc/" if database else "rpc/"
        document = {"id": next(self._numbers), "method": method, "params": parameters}
        body = json.dumps(document, default=typed).encode()
        return await self._server.send("POST", place, headers=headers, body=body)

    def _result(self, answer: Answer) -> Any:
        if not answer.is_success:
            raise self._server.failure(answer)
        try:
            document = untyped(self._server.document_of(answer))
        except NotJson as error:
            raise ServerFailed(f"{self._server.name}: {error}") from None
        if not isinstance(document, dict) or not {"result", "error"} & {*document}:
            raise ServerFailed(
                f"{self._server.name} sent a response that is not JSON-RPC"
            )
        if "error" in document:
            raise self._refusal(document["error"])
        return document["result"]

    def _refusal(self, error: Any) -> CheckFailed:
        """Return the exception for the server's error, with its text."""
        kind, *more = error if isinstance(error, list) and error else [error]
        meaning = _MEANINGS.get(kind) if isinstance(kind, str) else None
        if meaning is None:
            return ServerFailed(self._server.redacted(f"Tryton failed: {kind}"))
        words = more[0] if more else kind
        texts = words if isinstance(words, list) else [words]
        said = " ".join(str(text) for text in texts if isinstance(text, str) and text)
        return meaning(self._server.redacted(f"Tryton refuses: {said}"))


def typed(value: object) -> Any:
    """Return a value in Tryton's JSON form."""
    if isinstance(value, Decimal):
        return {"__class__": "Decimal", "decimal": str(value)}
    if isinstance(value, datetime):
        names = ("year", "month", "day", "hour", "minute", "second", "microsecond")
        parts = {name: getattr(value.astimezone(UTC), name) for name in names}
        return {"__class__": "datetime", **parts}
    if isinstance(value, date):
        parts = {name: getattr(value, name) for name in ("year", "month", "day")}
        return {"__class__": "date", **parts}
    raise TypeError(type(value).__name__)


def untyped(value: Any) -> Any:
    """Return a value from Tryton's JSON form; times are in UTC."""
    if isinstance(value, list):
        return [untyped(each) for each in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("__class__")
    parts = {name: each for name, each in value.items() if name != "__class__"}
    try:
        if kind == "Decimal":
            return Decimal(value["decimal"])
        if kind == "datetime":
            return datetime(**parts, tzinfo=UTC)
        if kind == "date":
            return date(**parts)
    except (TypeError, ValueError, KeyError, ArithmeticError):
        raise NotJson(
            f"the response of the Tryton server contains an invalid {kind}"
        ) from None
    return {name: untyped(each) for name, each in value.items()}
