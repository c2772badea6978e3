"""How a command changes something: the running daemon does it, else we do, alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx

from backhaul.app import SOCKET_NAME, upkeep_actions
from backhaul.cli import context
from backhaul.core.clock import SystemClock
from backhaul.errors import BackhaulError, Busy
from backhaul.shop.members import describe
from backhaul.store.opening import open_store, sole_writer
from backhaul.upkeep.indexing import SLICE_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.settings import Settings

LONGEST_SECONDS = 3_600.0
"""Looking through every event for a person takes its time."""


def tell(config: Path | None, action: str, body: dict[str, Any]) -> dict[str, Any]:
    """Have something done. Raises AlreadyRunning where a daemon cannot be reached."""
    settings = context.settings(config)
    answer = _ask(settings, action, body)
    if answer is None:
        with sole_writer(settings.state_dir):
            return asyncio.run(_alone(settings, action, body))
    if answer.status_code == 503:
        raise Busy(answer.json()["error"])
    if answer.status_code != 200:
        raise BackhaulError(_why(answer))
    done: dict[str, Any] = answer.json()
    return done


def _ask(
    settings: Settings, action: str, body: dict[str, Any]
) -> httpx.Response | None:
    """Ask the running daemon through its socket; None where none runs."""
    path = settings.state_dir / SOCKET_NAME
    if not path.exists():
        return None
    transport = httpx.HTTPTransport(uds=str(path))
    try:
        with httpx.Client(transport=transport, timeout=LONGEST_SECONDS) as client:
            return client.post(f"http://backhaul/api/{action}", json=body)
    except httpx.ConnectError:
        return None
    except httpx.HTTPError as error:
        raise BackhaulError(
            f"the daemon went away meanwhile ({error}); look whether it was done, and "
            "say it again: it is not done twice"
        ) from None


def _why(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"])
    except (ValueError, KeyError, TypeError):
        return f"the daemon answered {answer.status_code}; is it of this version?"


async def _alone(
    settings: Settings, action: str, body: dict[str, Any]
) -> dict[str, Any]:
    clock = SystemClock()
    store = open_store(settings.database_file, clock)
    store.start()
    try:
        done = await upkeep_actions(store, clock, lambda: None)[action](body)
        while (await store.search.follow(describe, SLICE_SECONDS)).more:
            pass
        return done
    finally:
        await store.stop()
