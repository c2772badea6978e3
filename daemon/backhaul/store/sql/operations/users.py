"""The dashboard's users, each change of them in one transaction with its audit line."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from backhaul.core.clock import to_text
from backhaul.errors import BackhaulError
from backhaul.store.operations import ROLES, Deed, Role, User
from backhaul.store.sql.operations.audit_log import write_down
from backhaul.store.sqlite.connections import Readers

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.store.sqlite.writer import Writer

_USER = "SELECT name, role, secret, epoch, created_at, last_login_at FROM users"

LOGIN = "users login"
MOST_LOGINS = 1_000
"""Addresses that are known of one user; the oldest above that are not."""
_LOGINS = """
    SELECT detail FROM audit WHERE action = ? AND who = ? AND at >= ?
    GROUP BY detail ORDER BY max(id) DESC LIMIT ?
"""


class SqlUsers:
    """Reads beside the writer: each page asks who is there, and must not queue."""

    def __init__(self, path: Path, writer: Writer, clock: Clock) -> None:
        self._readers = Readers(path)
        self._writer = writer
        self._clock = clock

    def close(self) -> None:
        """Close what is idle."""
        self._readers.close()

    async def list(self) -> list[User]:
        """Return everybody by name."""
        # By primary key in a table of a few rows: less than a hop to a thread costs.
        with self._readers.lend() as connection:
            return [_user(row) for row in connection.execute(f"{_USER} ORDER BY name")]

    async def find(self, name: str) -> User | None:
        """Return somebody."""
        with self._readers.lend() as connection:
            row = connection.execute(f"{_USER} WHERE name = ?", (name,)).fetchone()
        return _user(row) if row else None

    async def add(
        self, name: str, role: Role, secret: str, who: str, *, first: bool = False
    ) -> None:
        """Add somebody, the `first` only where there is nobody; may refuse."""
        now = to_text(self._clock.now())

        def unit(connection: sqlite3.Connection) -> None:
            if first and connection.execute("SELECT 1 FROM users").fetchone():
                raise BackhaulError("somebody was added already; log in instead")
            if connection.execute(f"{_USER} WHERE name = ?", (name,)).fetchone():
                raise BackhaulError(f"there is a user {name} already")
            connection.execute(
                "INSERT INTO users (name, role, secret, epoch, created_at)"
                " VALUES (?, ?, ?, 1, ?)",
                (name, role.word, secret, now),
            )
            added = Deed(who, "users add", f"{name} as {role.word}")
            write_down(connection, now, added)

        await self._writer.urgent(unit)

    async def remove(self, name: str, who: str) -> None:
        """Take somebody away. Raises BackhaulError for the last admin."""

        def unit(connection: sqlite3.Connection) -> str:
            connection.execute("DELETE FROM users WHERE name = ?", (name,))
            return name

        await self._change(name, who, "users remove", unit)

    async def set_role(self, name: str, role: Role, who: str) -> None:
        """Change what somebody may. Raises BackhaulError for the last admin."""

        def unit(connection: sqlite3.Connection) -> str:
            connection.execute(
                "UPDATE users SET role = ? WHERE name = ?", (role.word, name)
            )
            return f"{name} is {role.word} now"

        await self._change(name, who, "users role", unit)

    async def set_secret(self, name: str, secret: str, who: str) -> None:
        """Change somebody's password. Raises BackhaulError."""

        def unit(connection: sqlite3.Connection) -> str:
            connection.execute(
                "UPDATE users SET secret = ?, epoch = epoch + 1 WHERE name = ?",
                (secret, name),
            )
            return name

        await self._change(name, who, "users password", unit)

    async def came(self, name: str, detail: str) -> None:
        """Write down that somebody logged in."""
        now = to_text(self._clock.now())

        def unit(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE users SET last_login_at = ? WHERE name = ?", (now, name)
            )
            write_down(connection, now, Deed(name, LOGIN, detail))

        await self._writer.urgent(unit)

    async def logins(self, name: str, since: str) -> Sequence[str]:
        """Return what was written down of somebody's logins since a time, once each."""
        values = (LOGIN, name, since, MOST_LOGINS)
        return await asyncio.to_thread(self._logins, values)

    def _logins(self, values: tuple[str, str, str, int]) -> Sequence[str]:
        with self._readers.lend() as connection:
            return [row[0] for row in connection.execute(_LOGINS, values)]

    async def does(self, deed: Deed) -> None:
        """Write down what somebody is about to do, where it is no row of ours."""
        now = to_text(self._clock.now())
        await self._writer.urgent(lambda connection: write_down(connection, now, deed))

    async def _change(
        self,
        name: str,
        who: str,
        action: str,
        change: Callable[[sqlite3.Connection], str],
    ) -> None:
        now = to_text(self._clock.now())

        def unit(connection: sqlite3.Connection) -> None:
            before = _admins(connection)
            if not connection.execute(f"{_USER} WHERE name = ?", (name,)).fetchone():
                raise BackhaulError(
                    f"there is no user {name}; see: backhaul users list"
                )
            detail = change(connection)
            if before and not _admins(connection):
                raise BackhaulError(
                    f"{name} is the last admin: make somebody else one first"
                )
            write_down(connection, now, Deed(who, action, detail))

        await self._writer.urgent(unit)


def _admins(connection: sqlite3.Connection) -> int:
    query = "SELECT count(*) FROM users WHERE role = ?"
    return int(connection.execute(query, (Role.ADMIN.word,)).fetchone()[0])


def _user(row: sqlite3.Row) -> User:
    name, role, *rest = row
    return User(name, ROLES[role], *rest)
