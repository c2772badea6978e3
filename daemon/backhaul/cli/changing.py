"""How a command changes something: through the running daemon, else by itself."""

from __future__ import annotations

import asyncio
import getpass
import os
from typing import TYPE_CHECKING, Any

from backhaul.cli import context
from backhaul.control import Control, NoDaemon, WentAway
from backhaul.errors import BackhaulError

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
    path = f"/api/changes/{name}"
    try:
        done: dict[str, Any] = Control(settings.state_dir).post(
            path, asked, ASK_SECONDS
        )
    except NoDaemon:
        return asyncio.run(_by_itself(settings, name, asked))
    except WentAway as error:
        raise BackhaulError(
            f"{error}; look whether it was done, and say it again: it is not done twice"
        ) from None
    return done


def who() -> str:
    """Return who sits there, for the audit: the person behind sudo, if there is one."""
    uid = os.getuid()
    try:
        user = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        return f"uid {uid}"
    return f"{user} (uid {uid})"


async def _by_itself(
    settings: Settings, name: str, asked: dict[str, Any]
) -> dict[str, Any]:
    # All that the daemon is made of: only who works without one waits for it to load.
    from backhaul.oneshot import offline

    async with offline(settings) as known:
        return await known[name](asked)
