"""The client of ERPNext's REST interface.

Sources: "REST API" of the documentation of the Frappe framework (`/api/resource`,
`/api/method`, token authorization), and the exceptions of its source.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from backhaul_sdk import CheckFailed
from backhaul_sdk.erp import (
    ErpServer,
    NotNow,
    RequestRefused,
    ServerFailed,
    all_rows,
    compact,
    error_document,
)
from backhaul_sdk.fields import zone_named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, tzinfo

    from backhaul_connectors.erpnext.settings import Settings
    from backhaul_sdk.calls import Answer

    Filter = tuple[str, str, Any]

ROWS_AT_ONCE = 1_000
SAID_CHARACTERS = 300
VALIDATION_FAILED = 417
PASSING = frozenset(
    {
        "TimestampMismatchError",
        "DocumentLockedError",
        "QueryDeadlockError",
        "QueryTimeoutError",
    }
)
"""Exceptions of Frappe after which nothing was done, and the same call may work."""


class ErpNextSite:
    """One site. `clock` returns seconds that never go back."""

    def __init__(
        self, settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        secret = settings.api_secret.get_secret_value()
        self._server = ErpServer("ERPNext", settings, secrets=[secret], clock=clock)
        self._headers = {"Authorization": f"token {settings.api_key}:{secret}"}
        self._zone_name = settings.time_zone
        self._zone: tzinfo | None = None

    @property
    def now(self) -> datetime:
        """The server's clock at its last answer."""
        return self._server.now

    async def open(self) -> None:
        self._zone = None
        await self._server.open()

    async def close(self) -> None:
        await self._server.close()

    def require_no_wait(self) -> None:
        """Raise NotNow if the server asked for a wait that is not over."""
        self._server.require_no_wait()

    async def zone(self) -> tzinfo:
        """Return the time zone of the site's times."""
        if self._zone is None:
            name = self._zone_name
            if not name:
                found = await self.method("frappe.client.get_time_zone")
                name = str(found.get("time_zone") if isinstance(found, dict) else "")
            try:
                self._zone = zone_named(name)
            except ValueError:
                raise CheckFailed(
                    f"{self._server.name} states the time zone {name!r}, which is"
                    " unknown here; set time_zone"
                ) from None
        return self._zone

    async def method(self, name: str, **query: str) -> Any:
        """Call a method that only reads, and return its message."""
        answer = await self._server.send(
            "GET", f"api/method/{name}", headers=self._headers, query=query
        )
        return self._member(answer, "message")

    async def rows(
        self,
        doctype: str,
        fields: Sequence[str],
        filters: Sequence[Filter],
        limit: int,
    ) -> list[dict[str, Any]]:
        """Return the first documents of a list, in the order of their names."""
        query = {
            "fields": compact(["name", *fields]),
            "filters": compact([[doctype, *each] for each in filters]),
            "order_by": "name asc",
            "limit_start": "0",
            "limit_page_length": str(limit),
        }
        answer = await self._server.send(
            "GET", _path(doctype), headers=self._headers, query=query
        )
        found = self._member(answer, "data")
        if not isinstance(found, list) or not all(isinstance(r, dict) for r in found):
            raise ServerFailed(f"{self._server.name} returned no list of {doctype}")
        return found

    async def all_rows(
        self, doctype: str, fields: Sequence[str], filters: Sequence[Filter]
    ) -> list[dict[str, Any]]:
        """Return all documents of a list, page by page."""

        async def page_after(last: str) -> list[dict[str, Any]]:
            later: list[Filter] = [("name", ">", last)] if last else []
            return await self.rows(doctype, fields, [*filters, *later], ROWS_AT_ONCE)

        return await all_rows(page_after, "name", ROWS_AT_ONCE, first="")

    async def count(self, doctype: str, filters: Sequence[Filter]) -> int:
        """Return how many documents a list has."""
        terms = compact([[doctype, *each] for each in filters])
        found = await self.method(
            "frappe.client.get_count", doctype=doctype, filters=terms
        )
        return int(found)

    async def read(self, doctype: str, name: str) -> dict[str, Any]:
        """Return a document with its tables."""
        answer = await self._server.send(
            "GET", _path(doctype, name), headers=self._headers
        )
        return self._document(answer)

    async def create(self, doctype: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Create a document, and return it."""
        return self._document(await self._write("POST", _path(doctype), values))

    async def change(
        self, doctype: str, name: str, values: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Change fields of a document, and return it."""
        return self._document(await self._write("PUT", _path(doctype, name), values))

    async def delete(self, doctype: str, name: str) -> None:
        """Delete a document; the site keeps its content as a Deleted Document."""
        answer = await self._server.send(
            "DELETE", _path(doctype, name), headers=self._headers
        )
        if not answer.is_success:
            raise self._failure(answer)

    async def _write(self, method: str, path: str, values: Mapping[str, Any]) -> Answer:
        return await self._server.send(
            method, path, headers=self._headers, body=compact(values).encode()
        )

    def _document(self, answer: Answer) -> dict[str, Any]:
        found = self._member(answer, "data")
        if not isinstance(found, dict) or "name" not in found:
            raise ServerFailed(f"{self._server.name} returned no document")
        return found

    def _member(self, answer: Answer, name: str) -> Any:
        if not answer.is_success:
            raise self._failure(answer)
        found = self._server.document_of(answer)
        if not isinstance(found, dict) or name not in found:
            raise ServerFailed(
                f"the response of {self._server.name} has no member {name}"
            )
        return found[name]

    def _failure(self, answer: Answer) -> CheckFailed:
        """Return the exception for an error, with the site's own words."""
        error = error_document(answer)
        kind, said = str(error.get("exc_type") or ""), _words(error)
        if kind in PASSING:
            return NotNow(f"{self._server.name}: {said or kind}")
        if answer.status == VALIDATION_FAILED:
            return RequestRefused(f"ERPNext refuses: {said or answer.words()}")
        return self._server.failure(answer, said)


def _path(doctype: str, name: str | None = None) -> str:
    parts = ["api/resource", quote(doctype, safe="")]
    return "/".join(parts if name is None else [*parts, quote(name, safe="")])


def _words(error: Mapping[str, Any]) -> str:
    """Return an error's message for people; never its traceback.

    `_server_messages` is a JSON list of JSON objects, each with a `message`.
    """
    said = [str(each) for each in map(_message, _listed(error)) if each]
    exception = str(error.get("exception") or "").partition(": ")[2]
    words = " ".join(said) or str(error.get("_error_message") or exception)
    return " ".join(words.split())[:SAID_CHARACTERS]


def _listed(error: Mapping[str, Any]) -> Sequence[Any]:
    try:
        found = json.loads(error.get("_server_messages") or "[]")
    except (TypeError, ValueError, RecursionError):
        return ()
    return found if isinstance(found, list) else ()


def _message(text: Any) -> Any:
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return text if isinstance(text, str) else ""
    return found.get("message") if isinstance(found, dict) else text
