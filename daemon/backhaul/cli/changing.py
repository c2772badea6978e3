"""How a command changes something: through the running daemon, else by itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx

from backhaul.app import SOCKET_NAME, offline
from backhaul.errors import AlreadyRunning, BackhaulError, Busy
from backhaul.store.opening import sole_writer

if TYPE_CHECKING:
    from backhaul.settings import Settings

ASK_SECONDS = 60.0


def change(settings: Settings, name: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Return what came of the change. Raises BackhaulError.

    Without a daemon the lock is taken for as long as the change needs.
    """
    answer = _ask(settings, name, asked)
    if answer is None:
        with sole_writer(settings.state_dir):
            return asyncio.run(_by_itself(settings, name, asked))
    document: dict[str, Any] = answer.json()
    if answer.status_code == httpx.codes.OK:
        return document
    told = document.get("error", f"the daemon answered {answer.status_code}")
    raise Busy(told) if answer.status_code == 503 else BackhaulError(told)


def _ask(settings: Settings, name: str, asked: dict[str, Any]) -> httpx.Response | None:
    """Ask through the daemon's socket; None where nobody listens."""
    socket = settings.state_dir / SOCKET_NAME
    if not socket.exists():
        return None
    transport = httpx.HTTPTransport(uds=str(socket))
    try:
        with httpx.Client(transport=transport, timeout=ASK_SECONDS) as client:
            return client.post(f"http://backhaul/api/changes/{name}", json=asked)
    except httpx.ConnectError:
        return None
    except httpx.HTTPError as error:
        raise AlreadyRunning(
            f"{socket}: the daemon did not answer ({error}); it may still do what was"
            " asked: look before asking again"
        ) from None


async def _by_itself(
    settings: Settings, name: str, asked: dict[str, Any]
) -> dict[str, Any]:
    async with offline(settings) as known:
        return await known[name](asked)
