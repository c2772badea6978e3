"""Passwords: Argon2id, off the loop, one at a time."""

from __future__ import annotations

import asyncio

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from backhaul.errors import BackhaulError

MEMORY_KIB, PASSES, LANES = 19 * 1024, 2, 1
SHORTEST, LONGEST = 12, 256
"""Characters. Length is what counts; what is made of them does not."""


class Passwords:
    """Hashes and checks. A check costs 19 MiB, so a flood of logins waits in line."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher(PASSES, MEMORY_KIB, LANES)
        self._one = asyncio.Semaphore(1)
        self._nobodys = ""

    async def hash(self, password: str) -> str:
        """Return what is kept. Raises BackhaulError for one that is too short."""
        if not SHORTEST <= len(password) <= LONGEST:
            raise BackhaulError(
                f"a password has {SHORTEST} to {LONGEST} characters; take a few words"
            )
        async with self._one:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def fits(self, secret: str | None, password: str) -> bool:
        """Tell whether this is the password; takes as long where there is no user."""
        async with self._one:
            return await asyncio.to_thread(self._fits, secret, password[:LONGEST])

    def _fits(self, secret: str | None, password: str) -> bool:
        if not self._nobodys:
            self._nobodys = self._hasher.hash("nobody's password")
        try:
            self._hasher.verify(secret or self._nobodys, password)
        except (VerificationError, InvalidHashError):
            return False
        return secret is not None
