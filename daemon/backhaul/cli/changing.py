"""How a command changes something: through the running daemon, else by itself."""

from __future__ import annotations

import asyncio
import getpass
import os
from typing import TYPE_CHECKING, Any

import httpx

from backhaul.app import SOCKET_NAME
from backhaul.cli import context
from backhaul.errors import BackhaulError, Busy
from backhaul.oneshot import offline

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.settings import Settings

ASK_SECONDS = 3_600.0
"""Looking through every event takes its time."""


def change(config: Path | None, name: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Return what came of the change. Raises BackhaulError.

    Without a daemon the lock is taken for as long as the change needs.
    """
    settings = context.settings(config)
    answer = _ask(settings, name, asked)
    if answer is None:
        return asyncio.run(_by_itself(settings, name, asked))
    if answer.status_code == httpx.codes.OK:
        done: dict[str, Any] = answer.json()
        return done
    if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        raise Busy(_why(answer))
    raise BackhaulError(_why(answer))


def who() -> str:
    """Return who sits there, for the audit: the person behind sudo, if there is one."""
    user = os.environ.get("SUDO_USER") or getpass.getuser()
    return f"{user} (uid {os.getuid()})"


def _why(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"])
    except (ValueError, KeyError, TypeError):
        return f"the daemon answered {answer.status_code}; is it of this version?"


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
        raise BackhaulError(
            f"the daemon went away meanwhile ({error}); look whether it was done, and"
            " say it again: it is not done twice"
        ) from None


async def _by_itself(
    settings: Settings, name: str, asked: dict[str, Any]
) -> dict[str, Any]:
    async with offline(settings) as known:
        return await known[name](asked)
