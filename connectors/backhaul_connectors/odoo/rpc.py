"""The client of Odoo's external interfaces: JSON-RPC, and JSON-2 from Odoo 19 on.

Sources: "External API" of the documentation of Odoo 14 to 18 (`/jsonrpc`, the services
`common` and `object`), and "External JSON-2 API" of Odoo 19.
"""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING, Any

from backhaul_sdk.erp import (
    AccessRefused,
    ErpServer,
    NotNow,
    RequestRefused,
    ServerFailed,
    compact,
    error_document,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from backhaul_connectors.odoo.settings import Settings
    from backhaul_sdk import CheckFailed
    from backhaul_sdk.calls import Answer

SAID_CHARACTERS = 300

_MEANINGS: Mapping[str, type[CheckFailed]] = {
    "UserError": RequestRefused,
    "ValidationError": RequestRefused,
    "MissingError": RequestRefused,
    "RedirectWarning": RequestRefused,
    "Warning": RequestRefused,
    "except_orm": RequestRefused,
    "AccessDenied": AccessRefused,
    "AccessError": AccessRefused,
    "LockError": NotNow,
    "ConcurrencyError": NotNow,
    "SerializationFailure": NotNow,
    "TransactionRollbackError": NotNow,
    "DeadlockDetected": NotNow,
    "LockNotAvailable": NotNow,
}
"""Exceptions of Odoo and of its database that leave nothing done, by class name. Odoo
rolls the transaction back, and after a conflict of transactions it has tried five
times. All others are faults of the server."""


class OdooClient:
    """One database of a server. `clock` returns seconds that never go back.

    A call names its parameters in the order of the method's signature: JSON-2 sends the
    names, JSON-RPC the positions, because some names differ between versions.
    """

    def __init__(
        self, settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._key = settings.api_key.get_secret_value()
        self._server = ErpServer("Odoo", settings, secrets=[self._key], clock=clock)
        self._user_id: int | None = None
        self._numbers = count(1)

    @property
    def now(self) -> datetime:
        """The server's clock at its last answer."""
        return self._server.now

    async def open(self) -> None:
        await self._server.open()

    async def close(self) -> None:
        self._user_id = None
        await self._server.close()

    def require_no_wait(self) -> None:
        """Raise NotNow if the server asked for a wait that is not over."""
        self._server.require_no_wait()

    async def version(self) -> str:
        """Return the server's version, such as "17.0"."""
        if self._settings.api == "json-rpc":
            found = await self._service("common", "version", [])
            name = "server_version"
        else:
            answer = await self._server.send("GET", "web/version", headers={})
            found, name = self._document(answer), "version"
        if not isinstance(found, dict) or not found.get(name):
            raise ServerFailed(f"{self._server.name} does not state its version")
        return str(found[name])

    async def read_clock(self) -> None:
        """Send a small request, so that `now` is the server's present time."""
        await self.version()

    async def rows(
        self,
        model: str,
        domain: Sequence[Any],
        fields: Sequence[str],
        *,
        limit: int | None = None,
    ) -> list[dict[str, Any]]:
        """Return the records of a domain in the order of their ids."""
        found = await self.call(
            model,
            "search_read",
            domain=domain,
            fields=fields,
            offset=0,
            limit=limit,
            order="id",
        )
        if not isinstance(found, list) or not all(isinstance(r, dict) for r in found):
            raise ServerFailed(f"{self._server.name} returned no list of {model}")
        return found

    async def count(self, model: str, domain: Sequence[Any]) -> int:
        """Return how many records a domain has."""
        return int(await self.call(model, "search_count", domain=domain))

    async def has_field(self, model: str, field: str) -> bool:
        """Return True if the server's version and modules have a field."""
        found = await self.call(
            model, "fields_get", allfields=[field], attributes=["type"]
        )
        return field in found

    async def create(self, model: str, values: Mapping[str, Any]) -> int:
        """Create a record, and return its id."""
        (created,) = await self.call(model, "create", vals_list=[values])
        return int(created)

    async def call(
        self,
        model: str,
        method: str,
        ids: Sequence[int] | None = None,
        context: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> Any:
        """Call a method once; `ids` are the records that it works on.

        Raises NeverSent, NoAnswer, and those of `backhaul_sdk.erp.failures`.
        """
        if self._settings.api == "json-2":
            return await self._call_json_2(model, method, ids, context, named)
        positions = [*([] if ids is None else [ids]), *named.values()]
        user_id = await self._log_in()
        extra = {} if context is None else {"context": context}
        arguments = [self._settings.database, user_id, self._key]
        try:
            return await self._service(
                "object", "execute_kw", [*arguments, model, method, positions, extra]
            )
        except AccessRefused:
            # The key may be new: the next call logs in again.
            self._user_id = None
            raise

    async def _log_in(self) -> int:
        if self._user_id is None:
            settings = self._settings
            found = await self._service(
                "common",
                "authenticate",
                [settings.database, settings.user, self._key, {}],
            )
            if not found:
                raise AccessRefused(
                    f"{self._server.name} refuses the login of {settings.user} to the"
                    f" database {settings.database}; check database, user and api_key"
                )
            self._user_id = int(found)
        return self._user_id

    async def _service(self, service: str, method: str, arguments: list[Any]) -> Any:
        """Call a service of JSON-RPC, and return its result."""
        parameters = {"service": service, "method": method, "args": arguments}
        document = {"jsonrpc": "2.0", "method": "call", "params": parameters}
        body = compact({**document, "id": next(self._numbers)}).encode()
        answer = await self._server.send("POST", "jsonrpc", headers={}, body=body)
        found = self._document(answer)
        if not isinstance(found, dict) or found.get("jsonrpc") != "2.0":
            raise ServerFailed(
                f"{self._server.name} sent a response that is not JSON-RPC"
            )
        if "error" in found:
            raise self._refusal(found["error"])
        # A method that returns nothing has no result in its answer.
        return found.get("result")

    async def _call_json_2(
        self,
        model: str,
        method: str,
        ids: Sequence[int] | None,
        context: Mapping[str, Any] | None,
        named: Mapping[str, Any],
    ) -> Any:
        given = {"ids": ids, "context": context}
        stated = {name: each for name, each in given.items() if each is not None}
        body = {**stated, **named}
        headers = {"Authorization": f"bearer {self._key}"}
        if self._settings.database:
            headers["X-Odoo-Database"] = self._settings.database
        answer = await self._server.send(
            "POST",
            f"json/2/{model}/{method}",
            headers=headers,
            body=compact(body).encode(),
        )
        return self._document(answer)

    def _document(self, answer: Answer) -> Any:
        """Return the JSON of a success. Raises the meaning of any other answer."""
        if answer.is_success:
            return self._server.document_of(answer)
        error = error_document(answer)
        if meaning := _meaning(error):
            raise meaning(f"Odoo refuses: {self._said(error)}")
        raise self._server.failure(answer, self._said(error))

    def _refusal(self, error: Any) -> CheckFailed:
        """Return the exception for an error of JSON-RPC, with the server's words."""
        described = error if isinstance(error, dict) else {}
        if described.get("code") == 404:
            return NotNow(
                f"{self._server.name} does not offer JSON-RPC; set api to json-2, or"
                " switch the old services of Odoo on"
            )
        data = described.get("data")
        found = data if isinstance(data, dict) else {}
        meaning = _meaning(found)
        if meaning is None:
            kind = found.get("name") or described.get("message") or "no reason"
            said = self._server.redacted(f"{kind}: {self._said(found)}")
            return ServerFailed(f"{self._server.name} failed: {said}".rstrip(": "))
        return meaning(f"Odoo refuses: {self._said(found)}")

    def _said(self, error: Mapping[str, Any]) -> str:
        """Return the message of an exception; never its traceback."""
        words = " ".join(str(error.get("message") or "").split())
        return self._server.redacted(words)[:SAID_CHARACTERS]


def _meaning(error: Mapping[str, Any]) -> type[CheckFailed] | None:
    """Return what an exception means. Its name has a module, such as `x.UserError`."""
    return _MEANINGS.get(str(error.get("name")).rpartition(".")[2])


def text_of(value: Any) -> Any:
    """Return a value of a record; Odoo writes False for an empty one."""
    return None if value is False else value


def id_of(value: Any) -> int:
    """Return the id of a link to another record; 0 if there is none.

    Odoo writes a link as `[id, name]`.
    """
    found = value[0] if isinstance(value, list) and value else value
    return found if type(found) is int else 0
