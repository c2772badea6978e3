"""Restores a backup, and lists the decisions that the restore has undone."""

from __future__ import annotations

import glob
import sqlite3
import tempfile
from contextlib import closing, suppress
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from sqlite_utils import Database

from backhaul.core.clock import for_file_name, to_text
from backhaul.core.lifecycle import OPEN, State
from backhaul.errors import BackhaulError, CorruptData, why
from backhaul.store.database import OWNER_ONLY, Restored, setting_errors
from backhaul.store.sql.commands import reference_tags
from backhaul.store.sql.operations import move_marks
from backhaul.store.sql.stock_targets import adjustments
from backhaul.store.sqlite import (
    backup_manifest,
    connections,
    file_backup,
    file_replacement,
    opening,
)
from backhaul.store.sqlite.migrations import migrations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backhaul.core.clock import Clock
    from backhaul.store.database import Manifest


_USERS = "SELECT name, role, secret, disabled_at FROM users"
_REVOKED = "SELECT store, fingerprint FROM webhook_secrets WHERE dropped_at IS NOT NULL"
_REFUSED_TOKENS = "SELECT name FROM api_tokens WHERE revoked_at IS NOT NULL"
_VALID_TOKENS = "SELECT name FROM api_tokens WHERE revoked_at IS NULL"
_ERASED = "SELECT store, customer_id FROM erased_customers"
_PAUSED = "SELECT job, store FROM job_state WHERE paused_at IS NOT NULL"
# The last decision of an operator on each command, if its state is still that one.
_DECIDED = """
    SELECT c.id, a.action FROM audit a
    JOIN commands_and_targets c ON c.id = a.command_id AND c.state = a.state_after
    WHERE a.id IN (SELECT max(id) FROM audit WHERE command_id IS NOT NULL
                   GROUP BY command_id)
    ORDER BY c.seq
"""
_SAYS = "backhaul commands {} --reason 'before the restore'"
_PARK = _SAYS.format("park {0}")
_AGAIN = {
    "commands park": ("parked", ""),
    "commands discard": ("discarded", _SAYS.format("discard {0}")),
    "commands resolve --applied": (
        "marked as applied",
        _SAYS.format("resolve {0} --applied"),
    ),
}
"""What each decision was, and what repeats it for a parked command."""


def returned_decisions(before: Path, restored: Path) -> tuple[str, ...] | None:
    """Return the decisions that a restore has undone, each with a command to repeat it.

    Returns None if the database before the restore cannot be read.
    """
    try:
        with (
            file_backup.open_read_only(before) as old,
            file_backup.open_read_only(restored) as new,
        ):
            kinds = (_users, _tokens, _secrets, _customers, _commands, _jobs)
            return (*chain.from_iterable(kind(old, new) for kind in kinds),)
    except sqlite3.Error:  # it is damaged, or older than these tables
        return None


def _users(old: sqlite3.Connection, new: sqlite3.Connection) -> Iterator[str]:
    before = {name: rest for name, *rest in old.execute(_USERS)}
    for name, role, secret, disabled in sorted(new.execute(_USERS)):
        was_role, was_secret, was_disabled = before.get(name, (None, secret, None))
        if was_role is None:
            yield f"dashboard user {name} is {role} again: backhaul users remove {name}"
        elif role != was_role:
            fix = f"backhaul users role {name} {was_role}"
            yield f"dashboard user {name} is {role} again: {fix}"
        if secret != was_secret:
            fix = f"backhaul users password {name}"
            yield (f"dashboard user {name} has the password of the backup: {fix}")
        if was_disabled and not disabled:
            fix = f"backhaul users disable {name}"
            yield f"dashboard user {name} can log in again: {fix}"


def _tokens(old: sqlite3.Connection, new: sqlite3.Connection) -> Iterator[str]:
    revoked = {name for (name,) in old.execute(_REFUSED_TOKENS)}
    valid = {name for (name,) in new.execute(_VALID_TOKENS)}
    for name in sorted(revoked & valid):
        yield (
            f"the revoked API token {name} is valid again: backhaul tokens revoke"
            f" {name}"
        )


def _secrets(old: sqlite3.Connection, new: sqlite3.Connection) -> Iterator[str]:
    for store, fingerprint in _missing(_REVOKED, old, new):
        yield (
            f"a revoked webhook secret of store {store} is valid again: backhaul"
            f" secrets revoke {fingerprint}"
        )


def _customers(old: sqlite3.Connection, new: sqlite3.Connection) -> Iterator[str]:
    for store, customer in _missing(_ERASED, old, new):
        yield (
            "an erased customer is in the database again: backhaul customers erase"
            f" {customer} --store {store}"
        )


def _commands(old: sqlite3.Connection, new: sqlite3.Connection) -> Iterator[str]:
    """Yield commands that would be sent again, or wait again for a decision."""
    known: set[str] = set()
    for decided, action in old.execute(_DECIDED):
        command, state = _to_decide(new, decided)
        if action not in _AGAIN or command in known:
            continue
        known.add(command)  # a count comes before its adjustment, and is decided after
        was, again = _AGAIN[action]
        if state in OPEN:
            fix = " && ".join(filter(None, (_PARK, again)))
            # A command that is being sent becomes uncertain at the start.
            when = " (after the start)" if state == State.SENDING else ""
            yield f"a command that was {was} is open again{when}: {fix.format(command)}"
        elif state == State.PARKED and again:
            yield f"a command that was {was} is parked again: {again.format(command)}"


def _to_decide(new: sqlite3.Connection, command: str) -> tuple[str, str]:
    """Return the command that an operator decides there, and its state.

    The state of a count is that of its adjustment, and only that can be decided.
    """
    step = adjustments.adjustment_of(new, command)
    if step is not None and step[1] in adjustments.UNDECIDED:
        return step
    query = "SELECT state FROM commands_and_targets WHERE id = ?"
    (state,) = new.execute(query, (command,)).fetchone() or ("",)
    return command, state


def _jobs(old: sqlite3.Connection, new: sqlite3.Connection) -> Iterator[str]:
    for job, store in _missing(_PAUSED, old, new):
        name, only = (f"{job} of {store}", f" --store {store}") if store else (job, "")
        yield f"job {name} was paused and runs again: backhaul jobs pause {job}{only}"


def _missing(
    query: str, there: sqlite3.Connection, here: sqlite3.Connection
) -> list[tuple[str, ...]]:
    """Return the rows of `there` that `here` lacks."""
    return sorted({*there.execute(query)} - {*here.execute(query)})


COUNTED = {
    **{table: table for table in ("inbox", "orders", "products", "customers")},
    "commands": "commands_and_targets",
}
"""What a restore counts, each with its table."""


def drill(backup: Path, clock: Clock) -> Restored:
    """Restore into a temporary folder. Raises CorruptData, BackhaulError."""
    with tempfile.TemporaryDirectory(prefix="backhaul-drill-") as folder:
        tried = Path(folder, "backhaul.db")
        _open_copy(backup, tried, clock)
        file_backup.check(tried)
        return Restored(*_contents(tried))


def restore(
    backup: Path, database: Path, stores: Iterable[str], clock: Clock
) -> Restored:
    """Put the backup in the place of the database. Hold `sole_writer` meanwhile.

    The backup is checked and upgraded to this version's schema before anything moves.
    Then the database is checked in its place: every page and index, the rows of each
    table, and that no file of another database is beside it. If that fails, the
    previous files are put back. Raises CorruptData, BackhaulError.
    """
    place = file_replacement.real_path(database)
    with setting_errors("database.url"):
        place.parent.mkdir(OWNER_ONLY, parents=True, exist_ok=True)
    try:
        return _restore(backup, place, stores, clock)
    except OSError as error:
        named = error.filename or place
        raise BackhaulError(
            f"{named}: this file cannot be read or written ({why(error)}). Nothing"
            " was restored, and the database is unchanged"
        ) from None


def _restore(
    backup: Path, place: Path, stores: Iterable[str], clock: Clock
) -> Restored:
    undone = file_replacement.undo_interrupted(place, may_be_absent=True)
    _require_another_file(backup, place)
    file_replacement.require_unused(place)
    fresh = place.with_name(f".{place.name}.restoring")
    aside = _free(f"{place}.before-restore-{for_file_name(clock.now())}")
    _clear(fresh)  # the log of a killed restore would be read too
    try:
        _open_copy(backup, fresh, clock)
        _begin_again(fresh, stores, clock)
        expected = backup_manifest.describe(fresh, clock)
        file_replacement.give_to_owner(fresh, place)
        verify = partial(_verify, place, expected)
        parts = file_replacement.put_in_place(fresh, place, aside, verify)
    finally:
        _clear(fresh)
    moved = tuple(file_replacement.part(aside, suffix) for suffix in reversed(parts))
    was_there = aside if aside in moved else None
    returned = _returned(aside, place)
    return Restored(*_contents(place), moved, was_there, returned, undone)


def _returned(aside: Path, place: Path) -> tuple[str, ...] | None:
    """Return the undone decisions, unless reading the database would remove its log.

    SQLite removes the log beside an empty database, even if it only reads.
    """
    if not aside.is_file() or not aside.stat().st_size:
        return None
    return returned_decisions(aside, place)


def _begin_again(fresh: Path, stores: Iterable[str], clock: Clock) -> None:
    """Record the restore in the database, and leave no log beside it."""
    with closing(sqlite3.connect(fresh)) as connection:
        with connection:
            for store in stores:
                reference_tags.mark_restored(connection, store, to_text(clock.now()))
        connection.execute("PRAGMA journal_mode=DELETE")  # not in a transaction


def _verify(place: Path, expected: Manifest) -> None:
    """Read the database in its place. Raises CorruptData if it is not the expected one.

    The bytes are compared last: if they are right and no log is beside them, the
    database is the expected one.
    """
    file_backup.check(place)
    found = backup_manifest.describe_again(place, expected)
    left = [
        file_replacement.part(place, each).name
        for each in file_replacement.parts_of(place)
        if each
    ]
    if found != expected or left:
        raise CorruptData(
            f"{place}: the restored database differs from the backup"
            f" ({', '.join(left) or 'its contents changed'}); Backhaul has put the"
            " previous database back. Stop every program that uses the database,"
            " then run the restore again"
        )


def _require_another_file(backup: Path, place: Path) -> None:
    if place.exists() and backup.exists() and backup.samefile(place):
        raise BackhaulError(
            f"{backup}: this file is the database itself, not a backup. Name a file"
            " that `backhaul backup` made"
        )
    if place.is_dir():
        raise BackhaulError(
            f"{place}: this path of the database is a folder. Set url in [database]"
            " to the path of a file"
        )


def _clear(fresh: Path) -> None:
    """Remove the file and all files beside it, such as the copy of an upgrade."""
    for left in fresh.parent.glob(f"{glob.escape(fresh.name)}*"):
        with suppress(OSError):
            left.unlink()


def _open_copy(backup: Path, target: Path, clock: Clock) -> None:
    """Copy a backup and upgrade its schema. Raises CorruptData, BackhaulError."""
    if not backup.is_file():
        problem = "this is not a file" if backup.exists() else "there is no such file"
        raise BackhaulError(
            f"{backup}: {problem}; name a file that `backhaul backup` made"
        )
    try:
        _copy(backup, target)
        _require_ours(target, backup)
        _remove_mark(target)
        opening.open_store(target, clock)
    except file_backup.Damaged as error:
        raise CorruptData(
            f"{backup}: this backup is damaged, or the file is not a backup"
            f" ({error.found}); use another backup"
        ) from None
    except (
        CorruptData
    ) as error:  # a newer version; the user knows the backup, not the copy
        raise CorruptData(str(error).replace(str(target), str(backup))) from None


def _remove_mark(copied: Path) -> None:
    """Let the file of a moved database be restored: the operator asks for it."""
    with (
        closing(connections.open_writer(copied)) as connection,
        suppress(sqlite3.OperationalError),  # too old a schema: it is refused later
    ):
        move_marks.remove_moved(connection)


def _copy(backup: Path, target: Path) -> None:
    """Copy a backup, and compare the copy with the manifest or with the backup.

    With a manifest the file alone is the backup, and files beside it are not read.
    Without one SQLite reads the backup, and its log if there is one.
    """
    manifest = backup_manifest.read(backup)
    if manifest is None:
        _require_own_log(backup)
        file_backup.copy(backup, target)
        rows = file_backup.row_counts(backup)
    else:
        file_backup.copy_bytes(backup, target)
        _require_same_bytes(backup, target, manifest)
        file_backup.check(target)
        rows = manifest.rows
    if file_backup.row_counts(target) != rows:
        raise file_backup.Damaged(
            backup, "a copy of it has other numbers of rows in its tables"
        )


def _require_same_bytes(backup: Path, copied: Path, manifest: Manifest) -> None:
    size, digest = copied.stat().st_size, backup_manifest.sha256_of(copied)
    if (size, digest) != (manifest.bytes, manifest.sha256):
        raise CorruptData(
            f"{backup}: this backup is damaged, or its manifest belongs to another"
            f" file. The backup has {size:,} bytes and SHA-256 {digest[:12]}…, and"
            f" the manifest says {manifest.bytes:,} and {manifest.sha256[:12]}…. Use"
            " an older backup"
        )


def _require_own_log(backup: Path) -> None:
    """Refuse files beside a backup that SQLite would read and that are not its own.

    The header of a file from `backhaul backup` says that it has no log.
    """
    real = file_replacement.real_path(backup)
    journal = file_replacement.part(real, "-journal")
    has_journal = journal.is_file() and journal.stat().st_size
    if has_journal or file_backup.is_foreign_log(real):
        beside = journal if has_journal else file_replacement.part(real, "-wal")
        raise CorruptData(
            f"{beside}: SQLite would read this file as a part of the backup. If the"
            " file does not belong to the backup, move the file away. Otherwise use"
            " another backup"
        )


def _require_ours(copied: Path, backup: Path) -> None:
    """Refuse a file that opening would turn into an empty Backhaul database."""
    with file_backup.open_read_only(copied) as connection:
        if migrations.applied(Database(connection, execute_plugins=False)):
            return
    raise CorruptData(
        f"{backup}: this is not a backup of Backhaul: it is empty, or another"
        " program made it. Name a file that `backhaul backup` made"
    )


def _free(name: str) -> Path:
    """Return a free path: two restores may happen within one second."""
    others = (f"{name}-{number}" for number in count(2))
    paths = map(Path, chain([name], others))
    return next(path for path in paths if not file_replacement.parts_of(path))


def _contents(database: Path) -> tuple[dict[str, int], str | None]:
    with file_backup.open_read_only(database) as connection:
        rows = {
            name: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - constants
            for name, table in COUNTED.items()
        }
        (newest,) = connection.execute("SELECT max(received_at) FROM inbox").fetchone()
    return rows, newest
