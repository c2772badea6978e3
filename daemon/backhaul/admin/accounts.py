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
from backhaul.store.operations import ROLES, Role

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.store.operations import User, Users


MEMORY_KIB, PASSES, LANES = 19 * 1024, 2, 1
MIN_LENGTH, MAX_LENGTH = 12, 256
"""Limits of a password in characters; nothing else is required of it."""


class Passwords:
    """Hashes and verifies passwords, one at a time: each takes 19 MiB of memory."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher(PASSES, MEMORY_KIB, LANES)
        self._lock = asyncio.Semaphore(1)
        self._dummy = ""

    async def hash(self, password: str) -> str:
        """Return the hash of a password. Raises BackhaulError for a bad length."""
        if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
            raise BackhaulError(
                f"a password must have {MIN_LENGTH} to {MAX_LENGTH} characters;"
                " several words make a good one"
            )
        async with self._lock:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def verify(self, secret: str | None, password: str) -> bool:
        """Return whether the password matches; takes equally long without a user."""
        async with self._lock:
            return await asyncio.to_thread(self._verify, secret, password[:MAX_LENGTH])

    def _verify(self, secret: str | None, password: str) -> bool:
        if not self._dummy:
            self._dummy = self._hasher.hash("no password")
        try:
            self._hasher.verify(secret or self._dummy, password)
        except (VerificationError, InvalidHashError):
            return False
        return secret is not None


TOKEN_FILE = "first-login-token"  # noqa: S105 - a file's name
_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}", re.ASCII)


def user_actions(
    users: Users, passwords: Passwords
) -> dict[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]]:
    """Return the actions on users by name; `who` of each is the acting user."""

    async def add(values: Mapping[str, Any]) -> dict[str, Any]:
        role = role_of(values["role"])
        await create_user(users, passwords, values["name"], role, values)
        return {"name": values["name"], "role": role.word}

    async def remove(values: Mapping[str, Any]) -> dict[str, Any]:
        await users.remove(values["name"], values["who"])
        return {"name": values["name"]}

    async def set_role(values: Mapping[str, Any]) -> dict[str, Any]:
        role = role_of(values["role"])
        await users.set_role(values["name"], role, values["who"])
        return {"name": values["name"], "role": role.word}

    async def set_password(values: Mapping[str, Any]) -> dict[str, Any]:
        secret = await passwords.hash(values["password"])
        await users.set_secret(values["name"], secret, values["who"])
        return {"name": values["name"]}

    return {
        "users/add": add,
        "users/password": set_password,
        "users/remove": remove,
        "users/role": set_role,
    }


async def create_user(
    users: Users,
    passwords: Passwords,
    name: str,
    role: Role,
    values: Mapping[str, Any],
    *,
    first: bool = False,
) -> None:
    """Add a user with the `password` in `values`. Raises BackhaulError."""
    if not _NAME.fullmatch(name):
        raise BackhaulError("a user name can contain only a-z, 0-9 and . _ @ -")
    secret = await passwords.hash(values["password"])
    await users.add(name, role, secret, values["who"], first=first)


def role_of(word: str) -> Role:
    """Return the role with this name. Raises BackhaulError."""
    if word not in ROLES:
        raise BackhaulError(
            f"no role is called {word!r}; the roles are {', '.join(ROLES)}"
        )
    return ROLES[word]


class FirstLoginToken:
    """The one-time token that creates the first user, in a file with mode 0600."""

    def __init__(self, state_dir: Path) -> None:
        self.file = state_dir / TOKEN_FILE

    def create(self) -> None:
        """Write a new token atomically, unless one exists. Raises OSError."""
        if self._read():
            return
        unfinished = self.file.with_name(f"{TOKEN_FILE}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(unfinished, flags, 0o600), "w") as written:
            written.write(secrets.token_urlsafe(32) + "\n")
        # On a full disk the file would be empty, and nobody could log in.
        unfinished.replace(self.file)

    def verify(self, given: str) -> bool:
        """Return whether this is the token."""
        known = self._read()
        return bool(known) and hmac.compare_digest(
            known.encode(), given.encode(errors="replace")
        )

    def _read(self) -> str:
        try:
            return self.file.read_text("utf-8").strip()
        except OSError:
            return ""

    def delete(self) -> None:
        """Delete the token."""
        self.file.unlink(missing_ok=True)


MAX_IDLE_SECONDS = 30 * 60.0
MAX_SESSION_SECONDS = 12 * 3_600.0
MAX_SESSIONS = 1_000
TOKEN_BYTES = 32


class Session(Struct):
    """One browser of one user; `notices` are notices that the next page shows once."""

    user: str
    born: tuple[str, int]
    began: float
    last: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(TOKEN_BYTES))
    notices: list[tuple[str, str]] = field(default_factory=list)

    def __repr__(self) -> str:
        """Leave the token out."""
        return f"Session({self.user!r})"

    def add_notice(self, kind: str, text: str) -> None:
        """Show a notice on the next page; `kind` is `good` or `bad`."""
        self.notices.append((kind, text))

    def belongs_to(self, user: User) -> bool:
        """Return whether the session began with the user's current password."""
        return self.born == (user.created_at, user.epoch)


class Sessions:
    """Holds sessions by the digest of their token, so a memory dump opens none."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[bytes, Session] = {}

    def begin(self, user: User) -> str:
        """Return the token of a new session."""
        now = self._clock.monotonic()
        self._remove_expired(now)
        token = secrets.token_urlsafe(TOKEN_BYTES)
        born = (user.created_at, user.epoch)
        self._open[_key(token)] = Session(user.name, born, now, now)
        return token

    def find(self, token: str, *, touch: bool = True) -> Session | None:
        """Return the session, if it is open; `touch` counts as activity of its user."""
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

    def _remove_expired(self, now: float) -> None:
        for key in [k for k, one in self._open.items() if _is_over(one, now)]:
            del self._open[key]
        while len(self._open) >= MAX_SESSIONS:
            del self._open[min(self._open, key=lambda key: self._open[key].last)]


def _is_over(session: Session, now: float) -> bool:
    idle, age = now - session.last, now - session.began
    return idle > MAX_IDLE_SECONDS or age > MAX_SESSION_SECONDS


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()
