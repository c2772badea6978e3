"""Imports files from a drop folder, returns bad rows, writes exports."""

from __future__ import annotations

import time
from contextlib import aclosing
from typing import TYPE_CHECKING

from backhaul_connectors.file_drop.already_imported import parsed_key
from backhaul_connectors.file_drop.cells import key_of
from backhaul_connectors.file_drop.column_names import known_names
from backhaul_connectors.file_drop.completeness import ArchiveWatcher, StabilityTracker
from backhaul_connectors.file_drop.cursor import FileCursor
from backhaul_connectors.file_drop.exports import COLUMNS, Outbox
from backhaul_connectors.file_drop.file_import import FileImporter
from backhaul_connectors.file_drop.files import (
    HELD,
    FileChanged,
    FileNames,
    FoundFile,
    own_folders,
    shared,
)
from backhaul_connectors.file_drop.folder import IgnoredEntries, sentences
from backhaul_connectors.file_drop.local_folder import LocalFolder
from backhaul_connectors.file_drop.parsing import file_kinds
from backhaul_connectors.file_drop.rejected_rows import RejectedRows
from backhaul_connectors.file_drop.settings import Settings, meanings
from backhaul_sdk import Bad, Batch, Capability, Connector, Rejected, Spec
from backhaul_sdk.clock import seconds_since_1970

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from backhaul_connectors.file_drop.folder import DropFolder
    from backhaul_sdk import Change, Rejection
    from backhaul_sdk.contract import LookedUp, Pushed


SPEC = Spec(
    name="file_drop",
    version="1.1",
    summary="Takes CSV, XLSX and JSON lines from a folder or an SFTP server, and puts "
    "change notifications there.",
    capabilities=frozenset({Capability.PULL, Capability.PUSH}),
    settings=Settings,
    secret_fields=frozenset({"sftp_password", "sftp_key", "sftp_passphrase"}),
    topics=frozenset(COLUMNS),
    meanings=meanings,
    shared=shared,
)


class FileDrop(Connector["Settings"]):
    """A folder that other programs and people put files into.

    A file stays in its place until the host has committed its last row. `clock` returns
    seconds that never go back.
    """

    spec = SPEC

    def __init__(
        self,
        instance: str,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(instance, settings)
        kinds = file_kinds(settings)
        self._names = FileNames(kinds, settings.unfinished, settings.done_file)
        self._place = _place(settings, self._names)
        self._stability = self._new_tracker(clock, settings.require_done_file)
        moved = self._new_tracker(clock, require_done_file=False)
        self._watcher = ArchiveWatcher(self._place, kinds, moved, clock)
        self._taking = FileImporter(
            self._place, settings, self._stability, self._watcher
        )
        self._strays = IgnoredEntries(clock)
        columns = (column for kind in kinds for column in kind.columns.values())
        self._rejected = RejectedRows(self._place, known_names(columns))
        # On a line of its own: files in and news out are at work at the same time, and
        # neither may cut the other off.
        self._way_out = _place(settings, self._names)
        self._outbox = Outbox(self._way_out, settings.exports, settings.export_format)

    def _new_tracker(
        self, clock: Callable[[], float], require_done_file: bool
    ) -> StabilityTracker:
        return StabilityTracker(
            self.settings, self._names, clock, require_done_file=require_done_file
        )

    async def check(self) -> None:
        await self._place.check()
        listing = await self._place.listing()
        self._strays.note_once(listing.strays, seconds_since_1970())

    def notices(self) -> Sequence[str]:
        return [*self._watcher.notices(), *sentences(self._strays.shown)]

    async def open(self) -> None:
        await self._place.open()

    async def close(self) -> None:
        await self._place.close()
        await self._way_out.close()

    async def pull(self, cursor: str | None) -> AsyncGenerator[Batch]:
        listing = await self._place.listing()
        self._strays.note(listing.strays)
        taken = FileCursor.from_text(cursor)
        for file in self._stability.ready(listing, taken.last.name):
            work = self._taking.take(file, taken)
            async with aclosing(self._guarded(file, work, cursor)) as batches:
                async for batch in batches:
                    cursor = batch.cursor
                    yield batch
            taken = FileCursor.from_text(cursor)
        for file in self._stability.undeclared:
            yield Batch(records=[self._undeclared(file)], cursor=cursor)
        for grown in await self._watcher.grown(taken):
            work = self._taking.take_grown(grown, taken)
            async with aclosing(self._guarded(grown.file, work, cursor)) as batches:
                async for batch in batches:
                    cursor = batch.cursor
                    yield batch
            taken = FileCursor.from_text(cursor)

    async def apply(
        self, rejection: Rejection, cursor: str | None
    ) -> AsyncGenerator[Batch]:
        size, sha256, salt = parsed_key(rejection.key)
        for name, fingerprint in (await self._place.files(HELD)).items():
            form = self._names.form_of(rejection.raw) or self._names.form_of(name)
            if form is None or fingerprint.size != size:
                continue
            file = FoundFile(rejection.raw, form, fingerprint, f"{HELD}/{name}")
            work = self._taking.apply(file, sha256, salt, FileCursor.from_text(cursor))
            found = False
            async with aclosing(work) as batches:
                async for batch in batches:
                    found = True
                    yield batch
            if found:
                return
        yield Batch(records=[_gone(rejection)], cursor=cursor)

    @staticmethod
    async def _guarded(
        file: FoundFile, work: AsyncGenerator[Batch], cursor: str | None
    ) -> AsyncGenerator[Batch]:
        """Yield the batches of one file; its errors stop no other file."""
        try:
            async with aclosing(work) as batches:
                async for batch in batches:
                    cursor = batch.cursor
                    yield batch
        except FileChanged:
            pass  # its writer is not finished; the next pull checks it again
        except PermissionError as error:
            yield Batch(records=[_closed(file, error)], cursor=cursor)

    async def report(self, rejections: Sequence[Rejection]) -> None:
        await self._rejected.write(rejections)

    def topics(self) -> frozenset[str]:
        """Return the change topics that are exported: none without an export folder."""
        return self.spec.topics if self.settings.exports else frozenset()

    async def push(self, change: Change) -> Pushed:
        if not self.settings.exports:
            return Rejected("no export folder is set; set exports")
        return await self._outbox.push(change)

    async def lookup(self, change: Change) -> LookedUp:
        return await self._outbox.lookup(change)

    def _undeclared(self, file: FoundFile) -> Bad:
        """Return the notice about a file without its marker; the file stays."""
        done = self._names.marker_of(file.name)
        return Bad(
            key=key_of("undeclared", [file.name, str(file.fingerprint.modified_ns)]),
            raw=file.name,
            reason=f"{file.name!r} is not read: {done!r} is missing, or older than "
            f"this file. Write {done!r} now, or set require_done_file = false",
            locator=file.name,
        )


def _place(settings: Settings, names: FileNames) -> DropFolder:
    folders = own_folders(settings.exports)
    if not settings.sftp_host:
        return LocalFolder(settings.path, names, folders)
    # The SSH library takes most of a second to import.
    from backhaul_connectors.file_drop.sftp import RemoteFolder, SftpConnection

    return RemoteFolder(
        SftpConnection(settings),
        str(settings.path),
        names,
        own_folders=folders,
        max_bytes=settings.max_file_mb * 1_000_000,
    )


def _gone(rejection: Rejection) -> Bad:
    """Return the message about a held file that is missing."""
    return Bad(
        key=key_of("gone", [rejection.key]),
        raw=rejection.raw,
        reason=f"{rejection.raw} was not applied: no file in held/ has its content; "
        "drop the file again",
        locator=rejection.raw,
    )


def _closed(file: FoundFile, error: PermissionError) -> Bad:
    """Return the message about a file without read permission; the file stays."""
    return Bad(
        key=key_of("closed", [file.name, str(file.fingerprint.modified_ns)]),
        raw=file.name,
        reason=f"{file.name} cannot be opened: {error.strerror}; let this user read it",
        locator=file.name,
    )
