"""A program that uses the HTTP API of a dashboard with a token."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from typing import TYPE_CHECKING, Any

from backhaul.admin.tokens import digest_of, new_token
from backhaul.store.tokens import Scope
from scenes import leftovers
from scenes.daemon import in_process

if TYPE_CHECKING:
    from aiohttp import ClientResponse

    from backhaul.store import Store
    from scenes.daemon import Office as DaemonOffice
    from scenes.dashboard import Office

API = "/backhaul/v1"
_NAMES = count(1)


async def issue(
    store: Store,
    scope: Scope = Scope.OPERATE,
    name: str | None = None,
    seconds: float | None = None,
) -> str:
    """Create a token in a store, as the command does; return it."""
    token = new_token()
    leftovers.issued(token)
    await store.tokens.create(
        name or f"program-{next(_NAMES)}", scope, digest_of(token), seconds, "the test"
    )
    return token


async def issue_by_command(office: DaemonOffice, scope: str = "operate") -> str:
    """Create a token by the command line, while the daemon runs; return it."""
    said = await asyncio.to_thread(
        in_process,
        *("tokens", "create", f"program-{next(_NAMES)}", "--scope", scope, "--json"),
        config=office.config,
    )
    token: str = json.loads(said.out)["token"]
    leftovers.issued(token)
    return token


class Program:
    """Sends requests with a token, and with nothing that a browser has."""

    def __init__(self, office: Office, token: str | None) -> None:
        self._office = office
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def ask(self, method: str, path: str, **sent: Any) -> ClientResponse:
        headers = self._headers | sent.pop("headers", {})
        client = (await self._office.browser()).client
        return await client.request(
            method, API + path, headers=headers, allow_redirects=False, **sent
        )

    async def get(self, path: str, status: int = 200, **sent: Any) -> Any:
        return await self._body(await self.ask("GET", path, **sent), status)

    async def post(
        self, path: str, body: object = None, status: int = 200, **sent: Any
    ) -> Any:
        answer = await self.ask("POST", path, json=body, **sent)
        return await self._body(answer, status)

    async def submit(
        self, kind: str, key: str, body: dict[str, Any], status: int = 201
    ) -> Any:
        """Submit a record with a key."""
        headers = {"Idempotency-Key": key}
        return await self.post(f"/{kind}", body, status, headers=headers)

    async def _body(self, answer: ClientResponse, status: int) -> Any:
        found = await answer.json(content_type=None)
        assert answer.status == status, (answer.status, found)
        return found
