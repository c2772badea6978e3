"""Claims on objects, with which several daemons on one bucket take each file once.

The claim of a file is a list of objects, `.claims/DIGEST/1`, `2`, …; each is written
only if it does not exist yet, so exactly one daemon writes each of them. The last one
says who has the file. A daemon writes `taken`, reads and inspects the file, and writes
`submitting` before it submits the first row. If the last object is `taken` and has not
changed for a while, another daemon writes the next one and has the file: the first
daemon then fails to write `submitting`. After `submitting` only the same owner goes on,
because nobody else can know which rows are in its database.

The owner is a database, not a process: a restarted daemon, and every daemon on one
PostgreSQL database, is the same owner. No clock is compared with another machine's.
"""

from __future__ import annotations

import socket
from hashlib import sha256
from secrets import token_hex
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Struct

from backhaul_connectors.file_drop.files import FileChanged, FolderUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from backhaul_connectors.file_drop.files import Fingerprint, FoundFile
    from backhaul_sdk.database import Documents, DocumentStore

FOLDER = ".claims"
OWNER_DOCUMENT = "owner"
TAKEOVER_SECONDS = 600.0
"""How long a claim that is only `taken` stays with a daemon that shows no progress."""
REPORT_SECONDS = 3_600.0
"""How long another owner's file waits before it is reported."""
CLEAN_SECONDS = 3_600.0
TAKEN, SUBMITTING = "taken", "submitting"
_PROBE = "supported"


class Claim(Struct, frozen=True):
    """One object of a claim; `nonce` is different in every object."""

    file: str
    owner: str
    host: str
    state: str
    nonce: str


class ClaimStore(Protocol):
    """Objects by name below the folder of claims."""

    async def create(self, name: str, content: bytes) -> bool:
        """Write an object; return False, and change nothing, if it exists."""

    async def read(self, name: str) -> bytes | None:
        """Return an object's content; None if there is none."""

    async def names(self, folder: str) -> Collection[str]:
        """Return the names of the objects directly in a folder."""

    async def folders(self) -> Collection[str]:
        """Return the names of the folders, one for each claimed file."""

    async def delete(self, name: str) -> None:
        """Delete an object, if there is one."""


class _Seen(Struct):
    """A claim of another owner, and since when its last object has not changed."""

    number: int
    since: float
    claim: Claim


class Claims:
    """The claims of one connection; `clock` returns seconds that never go back."""

    def __init__(
        self,
        store: ClaimStore,
        documents: Callable[[], DocumentStore],
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._documents = documents
        self._clock = clock
        self._owner = ""
        self._seen: dict[str, _Seen] = {}
        self._clean_at = clock()

    async def open(self) -> None:
        """Learn the owner's id, and test whether the store refuses to overwrite.

        Raises FolderUnreachable for a store that ignores the condition of a write.
        """
        self._owner = await self._documents().transact(_owner_of)
        first = await self._store.create(_PROBE, b"")
        if first and await self._store.create(_PROBE, b""):
            raise FolderUnreachable(
                "the object store ignores If-None-Match, so a claim on a file would not"
                " keep another daemon away; use a store that supports conditional"
                " writes, or set claims = false if only one daemon reads this folder"
            )

    async def take(self, file: FoundFile) -> None:
        """Claim the file. Raises FileChanged if another owner has it."""
        await self._write(file, TAKEN)

    async def submit(self, file: FoundFile) -> None:
        """Make the claim final. Raises FileChanged if it was lost meanwhile."""
        await self._write(file, SUBMITTING)

    async def release(self, file: FoundFile) -> None:
        """Delete the claim of a file that is not in its place any more."""
        await self._delete(claim_of(file.path, file.fingerprint))

    async def claimed(self) -> Collection[str]:
        """Return the claims that exist; empty if `clean` is not due yet."""
        if self._clock() < self._clean_at:
            return ()
        return await self._store.folders()

    async def clean(self, claimed: Collection[str], present: Collection[str]) -> None:
        """Delete our own claims of objects that are gone.

        They remain if the daemon ends between archiving a file and releasing it.
        `present` are the claims of all objects of a listing that was made later.
        """
        self._seen = {key: seen for key, seen in self._seen.items() if key in present}
        for folder in claimed:
            if folder not in present:
                _, last = await self._last(folder)
                if last is not None and last.owner == self._owner:
                    await self._delete(folder)
        if claimed or self._clock() >= self._clean_at:
            self._clean_at = self._clock() + CLEAN_SECONDS

    def notices(self) -> Sequence[str]:
        """Return the files that another owner has had for long."""
        now = self._clock()
        return [
            f"{seen.claim.file} is not read: the daemon on {seen.claim.host} began to"
            " submit its rows and has not archived it. If that daemon or its database"
            " no longer exists, check which rows were applied, and delete the objects"
            f" below {FOLDER}/{folder}/: the whole file is then read here"
            for folder, seen in self._seen.items()
            if seen.claim.state == SUBMITTING and now - seen.since >= REPORT_SECONDS
        ]

    async def _write(self, file: FoundFile, state: str) -> None:
        folder = claim_of(file.path, file.fingerprint)
        number, last = await self._last(folder)
        if last is not None and last.owner == self._owner:
            if last.state in (state, SUBMITTING):
                return
        elif not self._may_take(folder, number, last, state):
            raise FileChanged(file.name)
        claim = Claim(file.name, self._owner, socket.gethostname(), state, token_hex(8))
        name = f"{folder}/{number + 1:04}"
        if await self._store.create(name, msgspec.json.encode(claim)):
            return
        # The object may be ours, if the answer to an earlier attempt was lost.
        winner = decoded(await self._store.read(name))
        if winner is None or winner.nonce != claim.nonce:
            raise FileChanged(file.name)

    def _may_take(
        self, folder: str, number: int, last: Claim | None, state: str
    ) -> bool:
        """Return True if the file may be claimed after the last claim, if any."""
        if last is None:
            return state == TAKEN
        seen = self._seen.get(folder)
        if seen is None or seen.number != number:
            seen = self._seen[folder] = _Seen(number, self._clock(), last)
        waited = self._clock() - seen.since
        is_idle = last.state == TAKEN and waited >= TAKEOVER_SECONDS
        return state == TAKEN and is_idle

    async def _last(self, folder: str) -> tuple[int, Claim | None]:
        """Return the last object of a claim and its number; 0 and None without one."""
        names = await self._store.names(folder)
        number = max((int(name) for name in names if name.isdecimal()), default=0)
        if number == 0:
            return 0, None
        return number, decoded(await self._store.read(f"{folder}/{number:04}"))

    async def _delete(self, folder: str) -> None:
        # The last object goes last: until then it keeps other owners away.
        for name in sorted(await self._store.names(folder)):
            await self._store.delete(f"{folder}/{name}")


def claim_of(path: str, known: Fingerprint) -> str:
    """Return the name of the claim of exactly this object."""
    exact = (path, known.size, known.modified_ns, known.identity)
    return sha256(repr(exact).encode()).hexdigest()[:32]


def decoded(content: bytes | None) -> Claim | None:
    """Return a claim; one that cannot be decoded has an unknown owner."""
    if content is None:
        return None
    try:
        return msgspec.json.decode(content, type=Claim)
    except msgspec.DecodeError:
        return Claim("a file", "", "an unknown machine", SUBMITTING, "")


def _owner_of(documents: Documents) -> str:
    """Return the id of this database's connection; make it at the first time."""
    known = documents.get(OWNER_DOCUMENT)
    if known is None:
        known = token_hex(16).encode()
        documents.put(OWNER_DOCUMENT, known)
    return known.decode()
