"""A disk that remembers what was written and what was synced, to lose power on.

The store's own code runs on it, statement for statement, through a VFS of APSW; the
images are what a disk may hold after the power went: all that was synced, and of the
rest any part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import apsw

from backhaul.store.sqlite import connections
from backhaul.store.sqlite.dialect import rendered

if TYPE_CHECKING:
    import random
    import sqlite3
    from collections.abc import Iterator, Sequence

SECTOR_BYTES = 512
VFS_NAME = "power"
SCRATCH = "scratch"


@dataclass(frozen=True, slots=True)
class Op:
    """One operation: `write`, `truncate`, `sync` or `told`.

    `told` is a response on which a client can rely from then on.
    """

    kind: str
    file: str = ""
    offset: int = 0
    data: bytes = b""
    told: object = None


@dataclass(slots=True)
class Disk:
    """All operations since the files were as in `before`."""

    before: dict[str, bytes] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)

    def tell(self, what: object) -> None:
        """Record that a client got a response."""
        self.ops.append(Op("told", told=what))


class _File(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int], disk: Disk) -> None:
        super().__init__("", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        # a file without a name is temporary
        self._name = Path(path or SCRATCH).name
        self._disk = disk

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.ops.append(Op("write", self._name, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        self._disk.ops.append(Op("truncate", self._name, size))
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._disk.ops.append(Op("sync", self._name))


class _Vfs(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        super().__init__(VFS_NAME, "")
        self._disk = disk

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        return _File(name, flags, self._disk)


class _Cursor:
    """The methods of a standard library cursor that the store uses."""

    def __init__(self, connection: apsw.Connection, cursor: apsw.Cursor) -> None:
        self._cursor = cursor
        self.rowcount = connection.changes()
        self.lastrowid = connection.last_insert_rowid()

    def fetchone(self) -> Any:
        return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        return list(self._cursor)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cursor)

    def close(self) -> None:
        self._cursor.close()


class _Connection:
    """The methods of a standard library connection that the store uses."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path), vfs=VFS_NAME)

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    @property
    def total_changes(self) -> int:
        return self._connection.total_changes()

    def execute(self, sql: str, values: Any = ()) -> _Cursor:
        return _Cursor(
            self._connection, self._connection.execute(rendered(sql), values)
        )

    def executemany(self, sql: str, values: Any) -> _Cursor:
        return _Cursor(
            self._connection,
            self._connection.executemany(rendered(sql), list(values)),
        )

    def close(self) -> None:
        self._connection.close()


class Power:
    """Opens writers' connections on the disk, and simulates power loss.

    The files are in one folder.
    """

    def __init__(self, *paths: Path, synchronous: str = "") -> None:
        self._synchronous = synchronous
        self.disk = Disk({path.name: path.read_bytes() for path in paths})
        self._vfs = _Vfs(self.disk)

    def connect(self, path: Path) -> sqlite3.Connection:
        """Return a connection like the shipped one, but for `synchronous`."""
        connection = cast("sqlite3.Connection", _Connection(path))
        # a VFS in Python shares no memory, so the index of the log is separate
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connections.prepare_writer(connection)
        if self._synchronous:
            connection.execute(f"PRAGMA synchronous={self._synchronous}")
        return connection

    def off(self) -> None:
        """Unregister the VFS."""
        self._vfs.unregister()


def images(
    disk: Disk, cuts: Sequence[int], rng: random.Random
) -> Iterator[tuple[list[object], dict[str, bytes]]]:
    """Yield for each power loss the given responses, and a possible disk state."""
    durable = {name: bytearray(content) for name, content in disk.before.items()}
    pending: dict[str, list[Op]] = {}
    told: list[object] = []
    at = 0
    for cut in sorted(cuts):
        for op in disk.ops[at:cut]:
            if op.kind == "told":
                told.append(op.told)
            elif op.kind == "sync":
                for waiting in pending.pop(op.file, []):
                    _apply(durable.setdefault(op.file, bytearray()), waiting)
            else:
                pending.setdefault(op.file, []).append(op)
        at = cut
        yield list(told), _image(durable, pending, rng)


def _image(
    durable: dict[str, bytearray], pending: dict[str, list[Op]], rng: random.Random
) -> dict[str, bytes]:
    found = {name: bytearray(content) for name, content in durable.items()}
    for name, ops in pending.items():
        content = found.setdefault(name, bytearray())
        for op in ops:
            for part in _survivors(op, rng):
                _apply(content, part)
    return {name: bytes(found[name]) for name in found if name != SCRATCH}


def _survivors(op: Op, rng: random.Random) -> Iterator[Op]:
    """Yield what remains of unsynced writes: nothing, all, or some sectors."""
    fate = rng.random()
    if fate < 0.5:
        return
    if fate < 0.75 or op.kind == "truncate":
        yield op
        return
    for start in range(0, len(op.data), SECTOR_BYTES):
        if rng.random() < 0.5:
            part = op.data[start : start + SECTOR_BYTES]
            yield Op("write", op.file, op.offset + start, part)


def _apply(content: bytearray, op: Op) -> None:
    if op.kind == "truncate":
        del content[op.offset :]
        return
    end = op.offset + len(op.data)
    content.extend(bytes(max(0, end - len(content))))
    content[op.offset : end] = op.data
