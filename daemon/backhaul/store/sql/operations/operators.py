"""Operators: the dashboard's users, and the audit log of what operators did."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from backhaul.errors import BackhaulError
from backhaul.store.operations import AuditEntry
from backhaul.store.operators import MOST_VIEWS, ROLES, Role, User
from backhaul.store.sql.family import Family, read, write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backhaul.store.operators import NewView
    from backhaul.store.sql.family import Connection


_ADD = """
    INSERT INTO audit (at, who, action, detail) VALUES (:at, :who, :action, :detail)
"""
# A decision also names its command or stock target, as lists show it.
ADD_DECISION = """
    INSERT INTO audit (at, who, action, detail, command_id, state_before, state_after)
    VALUES (:at, :who, :action, :detail, :command, :before, :after)
"""
_USER = "SELECT name, role, secret, epoch, created_at, last_login_at FROM users"

LOGIN = "users login"
MOST_LOGINS = 1_000
"""How many of the last addresses of one user are returned."""
_LOGINS = """
    SELECT detail FROM audit WHERE action = :login AND who = :name AND at >= :since
    GROUP BY detail ORDER BY max(id) DESC LIMIT :most
"""

_OTHER_VIEWS = """
    SELECT count(*) AS views FROM saved_views
    WHERE who = :who AND list = :list AND name != :name
"""
_SAVE_VIEW = """
    INSERT INTO saved_views (who, list, name, filter, sort, created_at)
    VALUES (:who, :list, :name, :filter, :sort, :now)
    ON CONFLICT (who, list, name)
    DO UPDATE SET filter = excluded.filter, sort = excluded.sort
"""
_VIEW = "SELECT list FROM saved_views WHERE who = :who AND id = :id"
_DELETE_VIEWS = "DELETE FROM saved_views WHERE who = :who"
_DELETE_VIEW = "DELETE FROM saved_views WHERE who = :who AND id = :id"


class SqlUsers(Family):
    """Users of the dashboard, in a table of a few rows."""

    @read
    def list(self, connection: Connection) -> list[User]:
        return [_user(row) for row in connection.execute(f"{_USER} ORDER BY name")]

    @read
    def find(self, connection: Connection, name: str) -> User | None:
        return _find(connection, name)

    @write
    def add(
        self,
        connection: Connection,
        name: str,
        role: Role,
        secret: str,
        who: str,
        *,
        first: bool = False,
    ) -> None:
        if first and connection.execute("SELECT 1 FROM users").fetchone():
            raise BackhaulError(
                "somebody has already added the first user; log in as this user"
            )
        if _find(connection, name):
            raise BackhaulError(f"user {name} exists already; choose another name")
        now = self._now()
        connection.execute(
            "INSERT INTO users (name, role, secret, epoch, created_at)"
            " VALUES (:name, :role, :secret, 1, :now)",
            {"name": name, "role": role.word, "secret": secret, "now": now},
        )
        add_entry(
            connection, now, AuditEntry(who, "users add", f"{name} as {role.word}")
        )

    @write
    def remove(self, connection: Connection, name: str, who: str) -> None:
        with self._changes(connection, name):
            connection.execute("DELETE FROM users WHERE name = :name", {"name": name})
            connection.execute(_DELETE_VIEWS, {"who": name})
        add_entry(connection, self._now(), AuditEntry(who, "users remove", name))

    @write
    def set_role(self, connection: Connection, name: str, role: Role, who: str) -> None:
        with self._changes(connection, name):
            connection.execute(
                "UPDATE users SET role = :role WHERE name = :name",
                {"name": name, "role": role.word},
            )
        detail = f"{name} is {role.word} now"
        add_entry(connection, self._now(), AuditEntry(who, "users role", detail))

    @write
    def set_secret(
        self, connection: Connection, name: str, secret: str, who: str
    ) -> None:
        with self._changes(connection, name):
            connection.execute(
                "UPDATE users SET secret = :secret, epoch = epoch + 1"
                " WHERE name = :name",
                {"name": name, "secret": secret},
            )
        add_entry(connection, self._now(), AuditEntry(who, "users password", name))

    @write
    def record_login(self, connection: Connection, name: str, detail: str) -> None:
        now = self._now()
        connection.execute(
            "UPDATE users SET last_login_at = :now WHERE name = :name",
            {"name": name, "now": now},
        )
        add_entry(connection, now, AuditEntry(name, LOGIN, detail))

    @read
    def logins(self, connection: Connection, name: str, since: str) -> Sequence[str]:
        values = {"login": LOGIN, "name": name, "since": since, "most": MOST_LOGINS}
        return [row[0] for row in connection.execute(_LOGINS, values)]

    @write
    def save_view(self, connection: Connection, who: str, view: NewView) -> None:
        values = {"who": who, **asdict(view), "now": self._now()}
        (others,) = connection.execute(_OTHER_VIEWS, values).fetchone()
        if others >= MOST_VIEWS:
            raise BackhaulError(
                f"a user can save {MOST_VIEWS} views of a list; delete another first"
            )
        connection.execute(_SAVE_VIEW, values)
        # A name or a filter may name a customer, who can be erased: not in the log.
        add_entry(connection, self._now(), AuditEntry(who, "views save", view.list))

    @write
    def delete_view(self, connection: Connection, who: str, view: int) -> str:
        values = {"who": who, "id": view}
        row = connection.execute(_VIEW, values).fetchone()
        if row is None:
            raise BackhaulError("this view was deleted before")
        connection.execute(_DELETE_VIEW, values)
        add_entry(connection, self._now(), AuditEntry(who, "views delete", row[0]))
        return str(row[0])

    @write
    def record_action(self, connection: Connection, entry: AuditEntry) -> None:
        add_entry(connection, self._now(), entry)

    @contextmanager
    def _changes(self, connection: Connection, name: str) -> Iterator[None]:
        """Let an existing user be changed, unless that leaves no administrator."""
        admins = _admins(connection)
        if _find(connection, name) is None:
            raise BackhaulError(f"user {name} does not exist; see: backhaul users list")
        yield
        if admins and not _admins(connection):
            raise BackhaulError(
                f"user {name} is the last administrator; give another user the role"
                " admin first"
            )


def _find(connection: Connection, name: str) -> User | None:
    query = f"{_USER} WHERE name = :name"
    row = connection.execute(query, {"name": name}).fetchone()
    return _user(row) if row else None


def _admins(connection: Connection) -> int:
    query = "SELECT count(*) FROM users WHERE role = :role"
    return int(connection.execute(query, {"role": Role.ADMIN.word}).fetchone()[0])


def _user(row: tuple[Any, ...]) -> User:
    name, role, *rest = row
    return User(name, ROLES[role], *rest)


def add_entry(connection: Connection, now: str, entry: AuditEntry) -> None:
    """Add an entry in the transaction of the change that it records."""
    connection.execute(_ADD, {"at": now, **asdict(entry)})
