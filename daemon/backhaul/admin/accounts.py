"""Users of the dashboard: passwords, sessions and the first-user token."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import secrets
from typing import TYPE_CHECKING, Any

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from msgspec import Struct, field

from backhaul.errors import BackhaulError
from backhaul.store.users import ROLES, Role

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.store.users import User, Users


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


TOKEN_FILE = "first-login-token"  # noqa: S105 - a file's name
_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}", re.ASCII)


def changes(
    users: Users, passwords: Passwords
) -> dict[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]]:
    """Return what may be changed about users, by name, as `who` of each asks."""

    async def add(asked: Mapping[str, Any]) -> dict[str, Any]:
        role = role_of(asked["role"])
        await create(users, passwords, asked["name"], role, asked)
        return {"name": asked["name"], "role": role.word}

    async def remove(asked: Mapping[str, Any]) -> dict[str, Any]:
        await users.remove(asked["name"], asked["who"])
        return {"name": asked["name"]}

    async def set_role(asked: Mapping[str, Any]) -> dict[str, Any]:
        role = role_of(asked["role"])
        await users.set_role(asked["name"], role, asked["who"])
        return {"name": asked["name"], "role": role.word}

    async def set_password(asked: Mapping[str, Any]) -> dict[str, Any]:
        secret = await passwords.hash(asked["password"])
        await users.set_secret(asked["name"], secret, asked["who"])
        return {"name": asked["name"]}

    return {
        "users/add": add,
        "users/password": set_password,
        "users/remove": remove,
        "users/role": set_role,
    }


async def create(
    users: Users,
    passwords: Passwords,
    name: str,
    role: Role,
    asked: Mapping[str, Any],
    *,
    first: bool = False,
) -> None:
    """Add somebody with the `password` that is asked for. Raises BackhaulError."""
    if not _NAME.fullmatch(name):
        raise BackhaulError("a user's name is made of a-z, 0-9 and . _ @ -")
    secret = await passwords.hash(asked["password"])
    await users.add(name, role, secret, asked["who"], first=first)


def role_of(word: str) -> Role:
    """Return the role of this name. Raises BackhaulError."""
    if word not in ROLES:
        raise BackhaulError(f"there is no role {word!r}; known: {', '.join(ROLES)}")
    return ROLES[word]


class FirstToken:
    """A secret in a file that only the daemon's owner can read; good for one user."""

    def __init__(self, state_dir: Path) -> None:
        self.file = state_dir / TOKEN_FILE

    def make(self) -> None:
        """Write a new one, whole, unless there is one. Raises OSError."""
        if self._known():
            return
        unfinished = self.file.with_name(f"{TOKEN_FILE}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(unfinished, flags, 0o600), "w") as written:
            written.write(secrets.token_urlsafe(32) + "\n")
        # A disk that is full leaves an empty file, which would let nobody in.
        unfinished.replace(self.file)

    def fits(self, given: str) -> bool:
        """Tell whether this is it."""
        known = self._known()
        return bool(known) and hmac.compare_digest(
            known.encode(), given.encode(errors="replace")
        )

    def _known(self) -> str:
        try:
            return self.file.read_text("utf-8").strip()
        except OSError:
            return ""

    def spend(self) -> None:
        """Take it away."""
        self.file.unlink(missing_ok=True)


IDLE_SECONDS = 30 * 60.0
LONGEST_SECONDS = 12 * 3_600.0
MOST = 1_000
TOKEN_BYTES = 32


class Session(Struct):
    """One browser of one person; `said` is what the next page tells once."""

    user: str
    born: tuple[str, int]
    began: float
    last: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(TOKEN_BYTES))
    said: list[tuple[str, str]] = field(default_factory=list)

    def __repr__(self) -> str:
        """Leave the token out."""
        return f"Session({self.user!r})"

    def tell(self, kind: str, words: str) -> None:
        """Let the next page say it: `good` or `bad` news."""
        self.said.append((kind, words))

    def is_of(self, user: User) -> bool:
        """Tell whether it was begun with the password that the user has now."""
        return self.born == (user.created_at, user.epoch)


class Sessions:
    """Kept by a digest of their token: what is read out of memory opens nothing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[bytes, Session] = {}

    def begin(self, user: User) -> str:
        """Return the token of a new session."""
        now = self._clock.monotonic()
        self._forget(now)
        token = secrets.token_urlsafe(TOKEN_BYTES)
        born = (user.created_at, user.epoch)
        self._open[_key(token)] = Session(user.name, born, now, now)
        return token

    def find(self, token: str, *, touch: bool = True) -> Session | None:
        """Return the session; `touch` says that its person did something."""
        session = self._open.get(_key(token))
        now = self._clock.monotonic()
        if session is None or _is_over(session, now):
            return None
        if touch:
            session.last = now
        return session

    def end(self, token: str) -> None:
        """End a session."""
        self._open.pop(_key(token), None)

    def _forget(self, now: float) -> None:
        for key in [k for k, one in self._open.items() if _is_over(one, now)]:
            del self._open[key]
        while len(self._open) >= MOST:
            del self._open[min(self._open, key=lambda key: self._open[key].last)]


def _is_over(session: Session, now: float) -> bool:
    idle, age = now - session.last, now - session.began
    return idle > IDLE_SECONDS or age > LONGEST_SECONDS


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()
