"""Operators: the dashboard's users, and the audit log of what operators did."""

from __future__ import annotations

import json
from contextlib import contextmanager
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from msgspec import structs

from backhaul.errors import BackhaulError
from backhaul.store.operations import AuditEntry
from backhaul.store.operators import MOST_VIEWS, NO_PASSWORD, ROLES, Role, User
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
_USER = """
    SELECT name, role, secret, epoch, created_at, last_login_at, identity, disabled_at,
        totp, recovery_codes
    FROM users
"""
_INSERT = """
    INSERT INTO users (name, role, secret, epoch, created_at, identity)
    VALUES (:name, :role, :secret, 1, :now, :identity)
"""
_SET_DISABLED = """
    UPDATE users SET disabled_at = :at, epoch = epoch + 1 WHERE name = :name
"""
_SET_TOTP = """
    UPDATE users SET totp = :totp, totp_step = 0, recovery_codes = :codes
    WHERE name = :name
"""
_SET_CODES = "UPDATE users SET recovery_codes = :codes WHERE name = :name"
_RESEAL = "UPDATE users SET totp = :new WHERE name = :name AND totp = :old"
_USE_STEP = """
    UPDATE users SET totp_step = :step WHERE name = :name AND totp_step < :step
"""
MAX_NAME = 64

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
        values = {"name": name, "secret": secret, "identity": None}
        connection.execute(_INSERT, {**values, "role": role.word, "now": now})
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
        found = _find(connection, name)
        if found and found.identity:
            raise BackhaulError(
                f"user {name} logs in at the identity provider and has no password here"
            )
        with self._changes(connection, name):
            connection.execute(
                "UPDATE users SET secret = :secret, epoch = epoch + 1"
                " WHERE name = :name",
                {"name": name, "secret": secret},
            )
        add_entry(connection, self._now(), AuditEntry(who, "users password", name))

    @write
    def set_disabled(
        self, connection: Connection, name: str, disabled: bool, who: str
    ) -> None:
        now = self._now()
        with self._changes(connection, name):
            values = {"name": name, "at": now if disabled else None}
            connection.execute(_SET_DISABLED, values)
        action = "users disable" if disabled else "users enable"
        add_entry(connection, now, AuditEntry(who, action, name))

    @write
    def sign_on(
        self, connection: Connection, identity: str, name: str, role: Role, who: str
    ) -> User:
        now = self._now()
        found = _with_identity(connection, identity)
        if found is None:
            return _add_identity(connection, now, identity, name, role, who)
        if found.disabled_at:
            raise BackhaulError(
                f"user {found.name} is disabled; an administrator can enable the user"
            )
        if found.role != role:
            # The provider decides, also about the last administrator: the command line
            # remains.
            values = {"name": found.name, "role": role.word}
            connection.execute(
                "UPDATE users SET role = :role WHERE name = :name", values
            )
            detail = f"{found.name} is {role.word} now"
            add_entry(connection, now, AuditEntry(who, "users role", detail))
        return structs.replace(found, role=role)

    @write
    def end_access(
        self, connection: Connection, identity: str, who: str, detail: str
    ) -> None:
        if found := _with_identity(connection, identity):
            connection.execute(
                "UPDATE users SET epoch = epoch + 1 WHERE name = :name",
                {"name": found.name},
            )
            entry = AuditEntry(who, "users refuse", f"{found.name}: {detail}")
            add_entry(connection, self._now(), entry)

    @write
    def set_totp(
        self,
        connection: Connection,
        name: str,
        totp: str | None,
        codes: Sequence[str],
        entry: AuditEntry,
    ) -> None:
        with self._changes(connection, name):
            values = {"name": name, "totp": totp, "codes": json.dumps(list(codes))}
            connection.execute(_SET_TOTP, values)
        add_entry(connection, self._now(), entry)

    @write
    def set_recovery_codes(
        self, connection: Connection, name: str, codes: Sequence[str], entry: AuditEntry
    ) -> None:
        values = {"name": name, "codes": json.dumps(list(codes))}
        connection.execute(_SET_CODES, values)
        add_entry(connection, self._now(), entry)

    @write
    def reseal_totp(
        self, connection: Connection, name: str, old: str, new: str
    ) -> None:
        connection.execute(_RESEAL, {"name": name, "old": old, "new": new})

    @write
    def use_totp_step(self, connection: Connection, name: str, step: int) -> bool:
        return connection.execute(_USE_STEP, {"name": name, "step": step}).rowcount > 0

    @write
    def use_recovery_code(self, connection: Connection, name: str, digest: str) -> bool:
        found = _find(connection, name)
        if found is None or digest not in found.recovery_codes:
            return False
        left = [each for each in found.recovery_codes if each != digest]
        values = {"name": name, "codes": json.dumps(left)}
        connection.execute(_SET_CODES, values)
        entry = AuditEntry(name, "users recovery", f"{len(left)} codes are left")
        add_entry(connection, self._now(), entry)
        return True

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
        values = {"who": who, **structs.asdict(view), "now": self._now()}
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


def _with_identity(connection: Connection, identity: str) -> User | None:
    query = f"{_USER} WHERE identity = :identity"
    row = connection.execute(query, {"identity": identity}).fetchone()
    return _user(row) if row else None


def _add_identity(
    connection: Connection, now: str, identity: str, name: str, role: Role, who: str
) -> User:
    """Add a user of the identity provider, by a name that nobody else has."""
    numbered = (f"{name[: MAX_NAME - 1 - len(str(n))]}-{n}" for n in count(2))
    free = (each for each in chain([name], numbered) if not _find(connection, each))
    name = next(free)
    values = {"name": name, "secret": NO_PASSWORD, "identity": identity}
    connection.execute(_INSERT, {**values, "role": role.word, "now": now})
    detail = f"{name} as {role.word}, with the identity {identity}"
    add_entry(connection, now, AuditEntry(who, "users add", detail))
    return User(name, role, NO_PASSWORD, 1, now, identity=identity)


def _admins(connection: Connection) -> int:
    query = "SELECT count(*) FROM users WHERE role = :role AND disabled_at IS NULL"
    return int(connection.execute(query, {"role": Role.ADMIN.word}).fetchone()[0])


def _user(row: tuple[Any, ...]) -> User:
    name, role, *rest = row
    found = User(name, ROLES[role], *rest)
    return structs.replace(found, recovery_codes=tuple(json.loads(rest[-1])))


def add_entry(connection: Connection, now: str, entry: AuditEntry) -> None:
    """Add an entry in the transaction of the change that it records."""
    connection.execute(_ADD, {"at": now, **structs.asdict(entry)})
