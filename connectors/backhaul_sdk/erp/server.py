"""The HTTP side of an ERP with a JSON interface: calls, its clock, its waits."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from yarl import URL

from backhaul_sdk.calls import Caller, NotJson, Pause
from backhaul_sdk.erp.failures import NotNow, ServerFailed, failure_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backhaul_sdk.calls import Answer
    from backhaul_sdk.contract import CheckFailed
    from backhaul_sdk.erp.settings import ErpSettings


class ErpServer:
    """One server, called `system` in messages, such as "Odoo".

    Every request has a connection of its own, so that no request is lost on a
    connection that the server is closing. `secrets` never appear in errors. `clock`
    returns seconds that never go back.
    """

    def __init__(
        self,
        system: str,
        settings: ErpSettings,
        *,
        secrets: Sequence[str],
        clock: Callable[[], float],
    ) -> None:
        self.system = system
        self.base = settings.url.rstrip("/")
        self.now = datetime.min.replace(tzinfo=UTC)
        """The server's clock at its last successful answer."""
        self._pause = Pause(clock)
        self._caller = Caller(
            settings.network, answer_seconds=settings.answer_seconds, secrets=secrets
        )

    @property
    def name(self) -> str:
        """The system and its address, for messages."""
        return f"the {self.system} server {self.base}"

    async def open(self) -> None:
        await self._caller.open()

    async def close(self) -> None:
        await self._caller.close()

    def require_no_wait(self) -> None:
        """Raise NotNow if the server asked for a wait that is not over."""
        if (left := self._pause.left_seconds) > 0:
            raise NotNow(
                f"{self.name} asked Backhaul to wait, and {left:.0f} s are left", left
            )

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request, once; `path` is already encoded.

        Raises NeverSent, NoAnswer; ServerFailed if a success has no `Date`.
        """
        url = URL(f"{self.base}/{path}", encoded=True)
        content = {} if body is None else {"Content-Type": "application/json"}
        answer = await self._caller.call(
            method,
            url.update_query(query) if query else url,
            headers={**content, **headers},
            body=body,
        )
        if answer.is_success:
            self._read_clock(answer)
        return answer

    def document_of(self, answer: Answer) -> Any:
        """Return the JSON of an answer. Raises ServerFailed."""
        try:
            return answer.json()
        except NotJson as error:
            raise ServerFailed(f"{self.name}: {error}") from None

    def failure(self, answer: Answer, said: str = "") -> CheckFailed:
        """Return the exception for an answer that is not a success.

        A wait that the server asks for begins now.
        """
        failed = failure_of(self.name, answer, said)
        if isinstance(failed, NotNow) and failed.retry_after_seconds:
            self._pause.begin(failed.retry_after_seconds)
        return failed

    def redacted(self, text: str) -> str:
        """Return a text of the server without secrets."""
        return self._caller.redacted(text)

    def _read_clock(self, answer: Answer) -> None:
        try:
            self.now = parsedate_to_datetime(answer.headers.get("date", ""))
        except (ValueError, TypeError):
            raise ServerFailed(
                f"the response of {self.name} has no header Date"
            ) from None


def compact(document: object) -> str:
    """Return JSON without blanks, for a query or a body."""
    return json.dumps(document, separators=(",", ":"), default=str)


def error_document(answer: Answer) -> Mapping[str, Any]:
    """Return the JSON object of a failed answer; empty if it has none."""
    try:
        found = answer.json()
    except NotJson:
        return {}
    return found if isinstance(found, dict) else {}
