"""Writes changes into tables idempotently."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, select, text
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.types import NullType

from backhaul_connectors.sql.database import (
    POSTGRES,
    SQLITE,
    is_unique,
    lack,
    lock_number,
    table_of,
    words,
)
from backhaul_sdk import (
    Absent,
    Applied,
    Found,
    NotSent,
    Rejected,
    Uncertain,
    Unknown,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Engine, TableClause

    from backhaul_connectors.sql.settings import WriteTarget
    from backhaul_sdk import Change, LookedUp, Pushed

LOCK_SECONDS = 10
CHECK_FAILED = (3819, 4025)
"""The error code of MySQL and MariaDB for a violated CHECK; PyMySQL has no class for
it."""
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d(?:\.\d{1,6})?)Z")


class TableWriter:
    """The tables of a topic; a change is written to all in one transaction."""

    def __init__(self, targets: Sequence[WriteTarget], family: str) -> None:
        self._targets = targets
        self._family = family

    def push(self, engine: Engine, change: Change) -> Pushed:
        """Write the change. The database's answer determines the outcome."""
        targets = self._of(change)
        if not targets:
            return Rejected(
                "the configuration of the connection has no table for the topic"
                f" {change.topic}"
            )
        try:
            connection = engine.connect()
        except SQLAlchemyError as error:
            return NotSent(f"the database cannot be reached: {words(error)}")
        with connection:
            try:
                self._lock(connection, change)
                for target in targets:
                    connection.execute(self._upsert(target, change))
            except DBAPIError as error:
                return _classified(error)
            return self._commit(connection, change)

    def lookup(self, engine: Engine, change: Change) -> LookedUp:
        """Search for the change, after any unfinished write of it has ended."""
        with engine.connect() as connection:
            if not self._lock(connection, change):
                return Unknown("the database is still busy with it")
            found = [self._holds(connection, each, change) for each in self._of(change)]
            self._unlock(connection, change)
        return Found(change.object_id) if any(found) else Absent()

    def problems(self, engine: Engine) -> list[str]:
        """Return what would prevent writing; nothing is written."""
        with engine.connect() as connection:
            found = [_problem(connection, target) for target in self._targets]
        return [problem for problem in found if problem]

    def _of(self, change: Change) -> list[WriteTarget]:
        return [each for each in self._targets if change.topic in each.topics]

    def _commit(self, connection: Connection, change: Change) -> Pushed:
        try:
            connection.commit()
        except (DataError, IntegrityError) as error:
            return Rejected(words(error))
        except SQLAlchemyError as error:
            return Uncertain(f"it broke while it committed: {words(error)}")
        try:
            self._unlock(connection, change)
        except SQLAlchemyError:
            # The lock ends with the connection; the change is in.
            connection.invalidate()
        return Applied(change.object_id)

    def _upsert(self, target: WriteTarget, change: Change) -> Any:
        into = _into(target)
        values = {
            into.c[name]: bindparam(f"v{number}", value, type_=NullType())
            for number, (name, value) in enumerate(
                filled(target, change, self._family).items()
            )
        }
        key = into.c[target.object_column or target.change_column]
        keeps_one = bool(target.object_column)
        if self._family in (POSTGRES, SQLITE):
            dialect = postgresql if self._family == POSTGRES else sqlite
            insert = dialect.insert(into).values(values)
            if not keeps_one:
                return insert.on_conflict_do_nothing(index_elements=[key])
            new = {
                each: insert.excluded[each.name] for each in values if each is not key
            }
            return insert.on_conflict_do_update(index_elements=[key], set_=new)
        other = mysql.insert(into).values(values)
        if not keeps_one:
            return other.on_duplicate_key_update({key.name: key})
        names = [each.name for each in values if each is not key]
        return other.on_duplicate_key_update({n: other.inserted[n] for n in names})

    def _holds(
        self, connection: Connection, target: WriteTarget, change: Change
    ) -> bool:
        into = _into(target)
        own = into.c[target.change_column]
        wanted = select(own).where(own == bindparam("own", type_=NullType()))
        values = {"own": change.id}
        if target.object_column:
            is_object = into.c[target.object_column] == bindparam(
                "object", type_=NullType()
            )
            wanted = wanted.where(is_object)
            values["object"] = change.object_id
        return connection.execute(wanted.limit(1), values).first() is not None

    def _lock(self, connection: Connection, change: Change) -> bool:
        """Wait until nobody else writes this change: a lost connection may still."""
        if self._family == SQLITE:
            return True  # other threads and processes write other changes
        if self._family == POSTGRES:
            locking = text("SELECT pg_advisory_xact_lock(:number)")
            connection.execute(locking, {"number": lock_number(change.id)})
            return True
        locking = text("SELECT get_lock(:name, :seconds)")
        values = {"name": _lock_name(change), "seconds": LOCK_SECONDS}
        return bool(connection.execute(locking, values).scalar())

    def _unlock(self, connection: Connection, change: Change) -> None:
        if self._family not in (POSTGRES, SQLITE):
            releasing = text("SELECT release_lock(:name)")
            connection.execute(releasing, {"name": _lock_name(change)}).all()


def _columns_of(target: WriteTarget) -> list[str]:
    keys = [target.change_column, target.object_column]
    return [name for name in (*keys, *target.columns) if name]


def _into(target: WriteTarget) -> TableClause:
    return table_of(target.table, _columns_of(target))


def filled(target: WriteTarget, change: Change, family: str) -> dict[str, Any]:
    """Return the value of each column."""
    values = {target.change_column: change.id}
    if target.object_column:
        values[target.object_column] = change.object_id
    for name, source in target.columns.items():
        values[name] = storable(picked(change, source), family)
    return values


def picked(change: Change, source: str) -> Any:
    """Return the value at a path of the document; None if the path ends early."""
    special = {
        "@topic": change.topic,
        "@store": change.store,
        "@object": change.object_id,
        "@occurred_at": change.occurred_at,
        "@document": change.document,
    }
    if source in special:
        return special[source]
    found: Any = change.document
    for step in source.split("."):
        if isinstance(found, list | tuple) and step.isdecimal():
            found = found[int(step)] if int(step) < len(found) else None
        else:
            found = found.get(step) if hasattr(found, "get") else None
    return found


def storable(value: Any, family: str) -> Any:
    """Return a value in a form that a column can hold: objects as JSON."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False, default=dict)
    moment = _MOMENT.fullmatch(value)
    # MySQL refuses the letters of RFC 3339 in a DATETIME.
    if moment and family not in (POSTGRES, SQLITE):
        return f"{moment[1]} {moment[2]}"
    return value


def _classified(error: DBAPIError) -> Pushed:
    """Classify a failure before the commit.

    An answer of the database means that nothing was written.
    """
    if error.connection_invalidated:
        return Uncertain(f"the connection broke: {words(error)}")
    number = error.orig.args[0] if error.orig and error.orig.args else None
    if number in CHECK_FAILED or isinstance(error, DataError | IntegrityError):
        return Rejected(words(error))
    return NotSent(words(error))


def _lock_name(change: Change) -> str:
    return f"backhaul:{lock_number(change.id)}"


def _problem(connection: Connection, target: WriteTarget) -> str:
    if missing := lack(connection, target.table, _columns_of(target)):
        return missing
    key = target.object_column or target.change_column
    if is_unique(connection, target.table, key):
        return ""
    return f"put a unique index on column {key} of table {target.table}"
