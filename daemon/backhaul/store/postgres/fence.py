"""The fence: what begins each transaction of a member, and ends the member's right.

A member has one row, which the first statement of each of its transactions updates.
The other members fence a member that is silent: then that statement finds no row, and
the member has lost all its stores at once. So the cost of a transaction does not grow
with the number of stores.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from loguru import logger

from backhaul.core.clock import SystemClock, to_text
from backhaul.errors import Busy, CommitsLost, Superseded
from backhaul.store.ownership import DATABASE, StoreOwner
from backhaul.store.sql.commands.reference_tags import mark_restored
from backhaul.store.sql.schema import newest_step

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from backhaul.store.ownership import Member
    from backhaul.store.postgres.connection import Connection

SEND_BY_SECONDS = 5.0
"""The longest time from the claim of a command to the first byte of its request."""
MARGIN_SECONDS = 0.5
"""How much earlier than the others an owner stops trusting its own right."""
LONG_SHARE = 0.25
"""The share of a member's `ttl` after which a transaction ends with a sign of life."""
FORGET_SECONDS = 86_400.0
"""How long the row of a fenced member stays."""
SCHEMA = (
    # Never UNLOGGED: after a crash nobody would own anything, and epochs would repeat.
    """
    CREATE TABLE members (
        id text COLLATE "C" PRIMARY KEY, host text NOT NULL, version text NOT NULL,
        schema_known int NOT NULL, public_url text NOT NULL, admin_url text NOT NULL,
        roles text NOT NULL,
        shares text NOT NULL, stores bigint NOT NULL DEFAULT 0,
        started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        rounds bigint NOT NULL DEFAULT 0,
        beat_at timestamptz NOT NULL DEFAULT clock_timestamp(), ttl interval NOT NULL,
        fenced_at timestamptz
    ) WITH (fillfactor = 50)
    """,
    """
    CREATE TABLE owners (
        store text COLLATE "C" PRIMARY KEY, epoch bigint NOT NULL DEFAULT 0,
        member text COLLATE "C" REFERENCES members (id), since timestamptz, pinned text
    ) WITH (fillfactor = 50)
    """,
    "CREATE INDEX owners_member ON owners (member)",
    "INSERT INTO owners (store) VALUES ('*')",
)
NAMES = "SELECT json_array_elements_text(CAST(CAST(:stores AS text) AS json))"
"""Rows of names. A prepared statement has one type for all places of a value."""
_JOIN = """
    INSERT INTO members (id, host, version, schema_known, public_url, admin_url, roles,
        shares, ttl)
    VALUES (:id, :host, :version, :schema_known, :public_url, :admin_url, :roles,
        md5(:shares), make_interval(secs => :ttl_seconds))
    ON CONFLICT (id) DO NOTHING
"""
_ADD_STORES = f"""
    INSERT INTO owners (store) {NAMES} ORDER BY 1 ON CONFLICT (store) DO NOTHING
"""
_PIN = f"""
    UPDATE owners SET pinned = (:pins)::json ->> store
    WHERE store IN ({NAMES}) AND pinned IS DISTINCT FROM (:pins)::json ->> store
"""  # noqa: S608 - constants
_FENCE = """
    UPDATE members SET rounds = rounds + 1, beat_at = clock_timestamp()
    WHERE id = :member AND fenced_at IS NULL RETURNING rounds
"""
_BEAT_AGAIN = "UPDATE members SET beat_at = clock_timestamp() WHERE id = :member"
SET_FENCED = """
    UPDATE members SET fenced_at = clock_timestamp(), stores = 0 WHERE id = :member
"""
FREE_ALL = "UPDATE owners SET member = NULL WHERE member = :member"
_STUCK = """
    SELECT pg_terminate_backend(a.pid, 500)
    FROM members m JOIN pg_stat_activity a
      ON a.application_name = 'backhaul-' || right(m.id, 8)
    WHERE m.id != :member AND m.fenced_at IS NULL
      AND m.beat_at < clock_timestamp() - m.ttl
      AND a.datname = current_database() AND a.usename = current_user
      AND (a.state = 'active' AND a.wait_event_type = 'Client'
        OR a.state LIKE 'idle in transaction%')
      AND a.state_change < clock_timestamp() - m.ttl
"""
_LEAVE = "DELETE FROM members WHERE id = :member AND fenced_at IS NULL"
_ROUNDS = "SELECT rounds FROM members WHERE id = :member"
_FENCE_OTHERS = """
    UPDATE members SET fenced_at = clock_timestamp(), stores = 0
    WHERE id != :member AND fenced_at IS NULL
      AND 'worker' = ANY (string_to_array(roles, ','))
"""
_OWNERS = f"""
    SELECT o.store, o.member, m.host, m.admin_url, m.public_url,
        coalesce(m.beat_at > clock_timestamp() - m.ttl, false) AS is_alive,
        o.epoch, o.since, o.pinned
    FROM owners o LEFT JOIN members m ON m.id = o.member
    WHERE :stores = '[]' OR o.store IN ({NAMES}) ORDER BY o.store
"""  # noqa: S608 - a constant


def session_name(member: str) -> str:
    """Return the name of the connection on which a member writes."""
    return f"backhaul-{member[-8:]}"


def end_stuck(connection: Connection, member: str) -> None:
    """End the transactions of other members that are silent and do not read or send.

    As long as one is open, the member's row is locked, so that nobody can take its
    stores. The server itself ends it only if it waits for the next statement, not if it
    sends rows or receives the rest of a batch. In tests with PostgreSQL 18 it sometimes
    did not end the former either.
    """
    connection.execute(_STUCK, {"member": member})


def boot_seconds() -> float:
    """Return the seconds since the machine started; they count while it sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class OwnerLease:
    """The right to send, renewed by each commit of the member."""

    def __init__(self, ttl_seconds: float) -> None:
        self._ttl_seconds = ttl_seconds
        self._trusted_until = float("-inf")

    def renew(self, before: float) -> None:
        """Extend the right after a commit; `before` is when its transaction began."""
        self._trusted_until = before + self._ttl_seconds - MARGIN_SECONDS

    def end(self) -> None:
        self._trusted_until = float("-inf")

    def now(self) -> float:
        return boot_seconds()

    def allows(self, claimed_at: float) -> bool:
        now = boot_seconds()
        return now < self._trusted_until and now - claimed_at < SEND_BY_SECONDS


class Witness:
    """A file that keeps how many rounds a member confirmed, beyond its end.

    It must outlive the process and not the machine, so it is not synced. `place` is
    the database. Without a path nothing is kept.
    """

    def __init__(self, path: Path | None, place: str) -> None:
        self._path = path
        self._place = place
        self._file: int | None = None

    def earlier(self) -> tuple[str, int, float] | None:
        """Return the last member here, its rounds, and the seconds since then.

        None if it left, or was a member of another database.
        """
        if self._path is None:
            return None
        try:
            rounds, member, place = self._path.read_text("utf-8").split(maxsplit=2)
            now = SystemClock().now().timestamp()
            age = now - self._path.stat().st_mtime
        except (OSError, ValueError):
            return None
        return (member, int(rounds), age) if place.rstrip() == self._place else None

    def begin(self, member: str) -> None:
        """Keep the rounds of this member from now on."""
        if self._path is None:
            return
        content = f"{0:020d} {member} {self._place}\n".encode()
        try:
            self._file = os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600)
            os.ftruncate(self._file, os.pwrite(self._file, content, 0))
        except OSError as error:
            logger.bind(action="database.witness").warning(
                "{} cannot be written, so a loss of commits during a failover in which"
                " this daemon ends may stay unseen: {}",
                self._path,
                error,
            )

    def keep(self, rounds: int) -> None:
        """Keep a number of rounds; called after each commit."""
        if self._file is not None:
            with suppress(OSError):  # an older number only detects less
                os.pwrite(self._file, b"%020d" % rounds, 0)

    def forget(self) -> None:
        """Keep nothing: the member leaves, or said already what is missing."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)


class Fence:
    """Begins each transaction of the writer, and knows which stores the member owns.

    `owned` changes in the writer's thread, when a transaction is durable.
    """

    def __init__(self, member: Member, place: str = "") -> None:
        self.member = member
        self._witness = Witness(member.witness, place)
        self.owned: frozenset[str] = frozenset()
        self._next_owned = self.owned
        self._folded: frozenset[str] = frozenset()
        self.lease = OwnerLease(member.ttl_seconds)
        self._is_joined = False
        self._confirmed = 0
        """How many rounds were committed; more are never expected to be missing."""
        self._rounds = 0
        self._began = self._confirmed_at = 0.0
        self._in_contact_since = float("inf")
        self._times_opened = 0

    @property
    def ttl_seconds(self) -> float:
        """How long the others wait for a sign of life."""
        return self.member.ttl_seconds

    @property
    def until_may_fence(self) -> float:
        """Seconds until a silent member is dead, and not cut off from a server as well.

        After a failover every member needs some time to connect again.
        """
        return self._in_contact_since + self.ttl_seconds - boot_seconds()

    def join(
        self, connection: Connection, stores: Collection[str], pins: Mapping[str, str]
    ) -> None:
        """Add the row of the member, and those of the stores, in one transaction."""
        member, names = self.member, json.dumps(sorted(stores))
        names_of_values = {*member.__struct_fields__} - {"witness", "quorum"}
        values = {name: getattr(member, name) for name in names_of_values}
        pinned = json.dumps(pins, sort_keys=True)
        values |= {"roles": ",".join(member.roles), "shares": names + pinned}
        values |= {"schema_known": newest_step()}
        connection.execute("BEGIN")
        if lost := self._lost_earlier(connection):
            self._hold(connection)
        connection.execute(_JOIN, values)
        connection.execute(_ADD_STORES, {"stores": names})
        connection.execute(_PIN, {"stores": names, "pins": pinned})
        connection.execute("COMMIT")
        if lost:
            logger.bind(action="database.commits_lost").error("{}", _HELD)
        self._witness.begin(member.id)
        self._is_joined = True
        self._confirmed_at = self._in_contact_since = boot_seconds()

    def _lost_earlier(self, connection: Connection) -> bool:
        """Return whether commits are missing of the last member on this machine."""
        if (earlier := self._witness.earlier()) is None:
            return False
        member, rounds, age = earlier
        row = connection.execute(_ROUNDS, {"member": member}).fetchone()
        return age < FORGET_SECONDS / 2 if row is None else row[0] < rounds

    def own(self, stores: Iterable[str]) -> None:
        """Own these stores once the transaction that took them is durable."""
        self._next_owned = frozenset(stores)

    def disown(self, store: str) -> None:
        """Own a store no longer once the transaction that gave it up is durable.

        The same transaction may have taken stores, or given up others.
        """
        self._next_owned -= {store}

    def begin_folding(self, store: str) -> None:
        """Let the events of an owned store be folded from now on."""
        self._folded = (self._folded & self.owned) | {store}

    def end_folding(self, store: str) -> None:
        """Fold no events of a store any more, which is about to be given up."""
        self._folded -= {store}

    def folded(self) -> frozenset[str]:
        """Return the stores whose events are folded here."""
        return self._folded & self.owned

    def begin(self, connection: Connection) -> None:
        """Begin a transaction of the member.

        Raises Busy before `join`, Superseded if another member fenced this one, and
        CommitsLost if the database lacks transactions that it had confirmed.
        """
        if not self._is_joined:
            raise Busy("this daemon has not joined its database yet; try again")
        self._began = boot_seconds()
        row = connection.begin(_FENCE, {"member": self.member.id}).fetchone()
        if connection.times_opened != self._times_opened:
            # The server was away, and the others may need some time to find it again.
            self._times_opened = connection.times_opened
            self._in_contact_since = float("inf")
        if row is None:
            self.lease.end()
            if self._lacks_rounds(connection):
                self._hold_all(connection)
            raise Superseded(
                "another daemon took over the stores of this daemon, because this"
                f" daemon gave no sign of life for more than {self.ttl_seconds:g} s;"
                " this daemon ends, and may start again"
            )
        self._rounds, self._next_owned = row[0], self.owned
        if self._rounds <= self._confirmed:
            self._hold_all(connection)

    def end(self, connection: Connection) -> None:
        """Commit, with a new sign of life if the transaction took long.

        Its first one is as old as the transaction, and the next comes with the next.
        """
        if boot_seconds() - self._began > self.ttl_seconds * LONG_SHARE:
            connection.execute(_BEAT_AGAIN, {"member": self.member.id})
        connection.execute("COMMIT")

    def committed(self) -> None:
        """Note that the transaction is durable."""
        self._confirmed, self.owned = self._rounds, self._next_owned
        self._witness.keep(self._confirmed)
        self._confirmed_at = self._began
        self._in_contact_since = min(self._in_contact_since, self._began)
        self.lease.renew(self._began)

    def leave(self, connection: Connection) -> None:
        """Give up all stores; the transactions of this member are refused from now.

        Raises CommitsLost if the database lacks transactions that it had confirmed.
        """
        was_joined, self._is_joined = self._is_joined, False
        self.owned = self._next_owned = frozenset()
        self.lease.end()
        values = {"member": self.member.id}
        connection.execute("BEGIN")
        if was_joined and self._lacks_rounds(connection):
            self._hold_all(connection)
        connection.execute(FREE_ALL, values)
        connection.execute(_LEAVE, values)
        self._witness.forget()  # before the commit: its row is missing afterwards
        connection.execute("COMMIT")

    def _lacks_rounds(self, connection: Connection) -> bool:
        """Return whether the row of this member lacks what it confirmed.

        On a replica that is behind, the others may have fenced this member since: its
        rounds are compared all the same. Only a row that is old is deleted.
        """
        row = connection.execute(_ROUNDS, {"member": self.member.id}).fetchone()
        if row is not None:
            return bool(row[0] < self._confirmed)
        return boot_seconds() - self._confirmed_at <= FORGET_SECONDS / 2

    def _hold_all(self, connection: Connection) -> NoReturn:
        """Hold all stores, and end. Raises CommitsLost."""
        self._hold(connection)
        connection.execute("COMMIT")
        self._witness.forget()
        self._is_joined = False  # it is said and done; `leave` needs not do it again
        self.lease.end()
        raise CommitsLost(_LOST)

    def _hold(self, connection: Connection) -> None:
        """Treat all stores as restored: commands may be missing in the database.

        Each member is a witness for the others, because the owner of a store may have
        ended with the server that failed. The present owners may know nothing of the
        missing commands, and must not send any more. Nobody sees yet what a member is
        just taking, so all that may own a store are fenced.
        """
        now = to_text(SystemClock().now())
        owners = known_owners(connection)
        connection.execute(_FENCE_OTHERS, {"member": self.member.id})
        connection.execute("UPDATE owners SET member = NULL")
        for owner in owners:
            if owner.store != DATABASE:
                mark_restored(connection, owner.store, now)


_REASON = (
    "the database lacks transactions that it had confirmed: a replica without them"
    " became the primary server, or an older state was restored."
)
_GUIDE = (
    "until it has read what the platform did. See"
    " docs/how-to/run-on-several-machines.md"
)
_LOST = f"{_REASON} The daemon ends. After the next start it sends nothing {_GUIDE}"
_HELD = f"{_REASON} Backhaul sends nothing {_GUIDE}"


def known_owners(connection: Any, stores: Collection[str] = ()) -> list[StoreOwner]:
    """Return who owns these stores, or else all of them, by name."""
    rows = connection.execute(_OWNERS, {"stores": json.dumps(sorted(stores))})
    return [
        StoreOwner(
            row["store"],
            row["member"],
            row["host"],
            row["admin_url"],
            row["public_url"],
            bool(row["is_alive"]),
            row["epoch"],
            row["since"] and to_text(row["since"]),
            row["pinned"],
        )
        for row in rows.fetchall()
    ]
