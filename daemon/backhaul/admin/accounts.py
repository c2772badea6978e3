"""Adding, changing and removing users, and the token that makes the first of them."""

from __future__ import annotations

import hmac
import os
import re
import secrets
from typing import TYPE_CHECKING, Any

from backhaul.errors import BackhaulError
from backhaul.store.users import ROLES, Role

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from backhaul.admin.passwords import Passwords
    from backhaul.store.users import Users

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
