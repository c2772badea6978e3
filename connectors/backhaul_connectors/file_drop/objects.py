"""A drop folder in an object store: S3, Google Cloud Storage or Azure Blob Storage.

An object has no rename. A file is moved by a copy that is then compared, and a deletion
of the original: a kill in between leaves both, and the next attempt recognizes the copy
by its content and its time.
"""

from __future__ import annotations

import stat
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from backhaul_connectors.file_drop.claims import FOLDER, Claims, claim_of
from backhaul_connectors.file_drop.files import (
    ARCHIVE,
    HELD,
    REASON,
    FileChanged,
    FileCopy,
    Fingerprint,
    FolderUnreachable,
    free_name,
    own_folders,
    unfinished_name,
)
from backhaul_connectors.file_drop.folder import FolderEntry, FolderListing, listed
from backhaul_connectors.file_drop.object_client import FAILURES, ObjectClient
from backhaul_sdk.files import in_thread, to_its_end

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from backhaul_connectors.file_drop.files import (
        FileNames,
        FoundFile,
        TemporaryCopies,
    )
    from backhaul_connectors.file_drop.settings import Settings
    from backhaul_sdk.database import DocumentStore


class ObjectFolder:
    """The objects below a prefix of a bucket; it implements DropFolder."""

    failures: tuple[type[Exception], ...] = (FolderUnreachable, *FAILURES)
    is_atomic = True

    def __init__(
        self,
        settings: Settings,
        names: FileNames,
        documents: Callable[[], DocumentStore],
        clock: Callable[[], float],
    ) -> None:
        self._client = ObjectClient(settings)
        self._prefix = self._client.url.path
        self._names = names
        self._own_folders = own_folders(settings.exports)
        self._max_bytes = settings.max_file_mb * 1_000_000
        store = ClaimObjects(self._client, self._at(FOLDER))
        self._claims = Claims(store, documents, clock) if settings.claims else None

    def notices(self) -> Sequence[str]:
        return self._claims.notices() if self._claims else ()

    async def check(self) -> None:
        await self._client.list(self._at(FOLDER))

    async def open(self) -> None:
        await self.check()
        if self._claims:
            await self._claims.open()

    async def close(self) -> None:
        self._client.close()

    async def listing(self) -> FolderListing:
        claimed = await self._claims.claimed() if self._claims else ()
        found = await self._client.list(self._prefix)
        if self._claims:
            present = {claim_of(*each) for each in found.objects.items()}
            await self._claims.clean(claimed, present)
        entries = [
            *(FolderEntry(n, stat.S_IFREG, each) for n, each in found.objects.items()),
            *(FolderEntry(n, stat.S_IFDIR, Fingerprint(0, 0)) for n in found.folders),
        ]
        return listed(entries, self._names, self._own_folders)

    async def status(self, folder: str, name: str) -> Fingerprint | None:
        return await self._client.head(self._at(folder, name))

    async def files(self, folder: str) -> Mapping[str, Fingerprint]:
        return (await self._client.list(self._at(folder))).objects

    async def fetch(self, file: FoundFile, copies: TemporaryCopies) -> FileCopy:
        """Claim the file, and copy it to this machine."""
        if self._claims and not file.moved_to:
            await self._claims.take(file)
        copy = FileCopy(file.name, file.form, file.fingerprint, copies.make())
        if file.fingerprint.size > self._max_bytes:
            return copy
        key, size = self._at(file.path), 0
        pieces = self._client.stream(key, file.fingerprint)
        async with aclosing(pieces):
            async for piece in pieces:
                await in_thread(copy.stream.write, piece)
                size += len(piece)
        if size != file.fingerprint.size:
            raise FileChanged(file.name)
        return copy

    async def begin(self, file: FoundFile) -> None:
        if self._claims and not file.moved_to:
            await self._claims.submit(file)

    async def free_name(self, folder: str, file: FoundFile) -> str:
        """Return an unused name, or that of the copy that was made before a kill."""
        number = 1
        while True:
            name = free_name(file.file_name, number)
            found = await self._client.head(self._at(folder, name))
            if found is None or _is_copy(found, file):
                return name
            number += 1

    async def archive(self, file: FoundFile, name: str) -> None:
        await to_its_end(self._move(file, ARCHIVE, name))

    async def hold(self, file: FoundFile, reason: str) -> None:
        await to_its_end(self._hold(file, reason))

    async def read(self, folder: str, name: str) -> bytes | None:
        return await self._client.read(self._at(folder, name))

    async def write(self, folder: str, name: str, content: bytes) -> None:
        await self._client.write(self._at(folder, name), content)

    async def put(self, folder: str, name: str, content: bytes) -> None:
        await self.write(folder, unfinished_name(name), content)

    async def publish(self, folder: str, name: str) -> None:
        await to_its_end(self._publish(folder, name))

    async def exists(self, folder: str, name: str) -> bool:
        return await self._client.head(self._at(folder, name)) is not None

    async def was_published(self, folder: str, name: str) -> bool | None:
        """Return whether `publish` gave the file its name; None if that is unknown.

        The temporary file goes last. While it exists, the copy was made if the copy is
        there. If it is not there although it was begun, the back office may have taken
        it at once.
        """
        if not await self.exists(folder, unfinished_name(name)):
            return True
        if await self.exists(folder, name):
            return True
        return None if await self.exists(folder, _begun(name)) else False

    def _at(self, *names: str) -> str:
        return "/".join(each for each in (self._prefix, *names) if each)

    async def _publish(self, folder: str, name: str) -> None:
        temporary, final = unfinished_name(name), self._at(folder, name)
        begun = self._at(folder, _begun(name))
        await self._client.write(begun, b"")
        await self._client.copy(self._at(folder, temporary), final)
        # The change is delivered: what remains does not make it uncertain.
        with suppress(*self.failures):
            await self._client.delete(self._at(folder, temporary))
            await self._client.delete(begun)

    async def _hold(self, file: FoundFile, reason: str) -> None:
        if await self._is_there(file):
            name = await self.free_name(HELD, file)
            await self.write(HELD, f"{name}{REASON}", f"{reason}\n".encode())
            await self._move(file, HELD, name)

    async def _is_there(self, file: FoundFile) -> bool:
        return await self._client.head(self._at(file.path)) == file.fingerprint

    async def _move(self, file: FoundFile, folder: str, name: str) -> None:
        if await self._is_there(file):
            await self._copy_and_delete(file, folder, name)
        if self._claims and not file.moved_to:
            await self._claims.release(file)

    async def _copy_and_delete(self, file: FoundFile, folder: str, name: str) -> None:
        source, target = self._at(file.path), self._at(folder, name)
        there = await self._client.head(target)
        if there is not None and not _is_copy(there, file):
            target = self._at(folder, await self.free_name(folder, file))
            there = await self._client.head(target)
        if there is None:
            await self._client.copy(source, target)
        if not await self._is_there(file):
            # Another file took the name just now, and it was not read yet.
            await self._client.delete(target)
            return
        await self._client.delete(source)
        await self._client.delete(self._at(self._names.marker_of(file.file_name)))
        if file.moved_to:
            await self._client.delete(f"{source}{REASON}")


def _is_copy(found: Fingerprint, file: FoundFile) -> bool:
    """Return True if an object is the copy of the file that a move made before.

    An earlier file with the same content was moved before this one was written.
    """
    known = file.fingerprint
    is_same = (found.size, found.identity) == (known.size, known.identity)
    return is_same and found.modified_ns >= known.modified_ns


def _begun(name: str) -> str:
    """Return the name of the mark that a file begins to get its final name."""
    return f".{name}.begun"


class ClaimObjects:
    """The objects of claims; it implements ClaimStore."""

    def __init__(self, client: ObjectClient, folder: str) -> None:
        self._client = client
        self._folder = folder

    async def create(self, name: str, content: bytes) -> bool:
        return await self._client.create(f"{self._folder}/{name}", content)

    async def read(self, name: str) -> bytes | None:
        return await self._client.read(f"{self._folder}/{name}")

    async def names(self, folder: str) -> Collection[str]:
        found = await self._client.list(f"{self._folder}/{folder}")
        return found.objects.keys()

    async def folders(self) -> Collection[str]:
        return (await self._client.list(self._folder)).folders

    async def delete(self, name: str) -> None:
        await self._client.delete(f"{self._folder}/{name}")
