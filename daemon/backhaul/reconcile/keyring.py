"""The webhook secrets that the platform gave us, in a file only we can read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

GIVEN = "guardian"
"""Where secrets come from that the platform gave us with a subscription."""
KEPT = 3
"""Secrets of before: deliveries signed with them may still be on their way."""


class Keyring:
    """Secrets of one store, the newest first; `hide` keeps them out of the log."""

    def __init__(
        self, state_dir: Path, store: str, hide: Callable[[Iterable[str]], None]
    ) -> None:
        self._path = state_dir / "secrets" / store
        self._hide = hide
        self._hide([secret.decode() for secret in self.secrets()])

    def secrets(self) -> list[bytes]:
        """Return what is kept, the newest first."""
        try:
            return self._path.read_bytes().split()
        except FileNotFoundError:
            return []

    def keep(self, secret: bytes) -> None:
        """Keep a secret, durably, before anything relies on it."""
        self._hide([secret.decode()])
        kept = [secret, *(s for s in self.secrets() if s != secret)][:KEPT]
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = self._path.with_suffix(".new")
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(b"\n".join(kept) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._path)
