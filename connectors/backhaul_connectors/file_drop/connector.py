"""Imports files from a drop folder, returns bad rows, writes exports."""

from __future__ import annotations

import time
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul_connectors.file_drop.already_imported import (
    judge,
    judge_archived,
    key_of_repeat,
    parsed_key,
)
from backhaul_connectors.file_drop.columns import known_names
from backhaul_connectors.file_drop.completeness import ArchiveWatcher, StabilityTracker
from backhaul_connectors.file_drop.csv_reader import key_of
from backhaul_connectors.file_drop.edi.exports import EdiExports
from backhaul_connectors.file_drop.edi_settings import EDI_FORMATS
from backhaul_connectors.file_drop.files import (
    ARCHIVE,
    HELD,
    ArchivedFile,
    FileChanged,
    FileCursor,
    FileIncomplete,
    FileNames,
    FileUnreadable,
    FoundFile,
    ImportedFile,
    TemporaryCopies,
)
from backhaul_connectors.file_drop.folder import IgnoredEntries, sentences
from backhaul_connectors.file_drop.inspection import (
    UnusableFile,
    UsableFile,
    count,
    read_whole,
)
from backhaul_connectors.file_drop.locations import drop_folder, export_folder, shared
from backhaul_connectors.file_drop.output_files import (
    COLUMNS,
    Outbox,
    RejectedRows,
    TableExports,
)
from backhaul_connectors.file_drop.parsing import file_kinds
from backhaul_connectors.file_drop.presets import presets
from backhaul_connectors.file_drop.setting_meanings import meanings
from backhaul_connectors.file_drop.settings import SECRETS, Settings
from backhaul_sdk import Bad, Batch, Capability, Connector, FullList, Rejected, Spec
from backhaul_sdk.clock import seconds_since_1970
from backhaul_sdk.fields import rfc3339
from backhaul_sdk.files import in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from backhaul_connectors.file_drop.completeness import GrownFile
    from backhaul_connectors.file_drop.folder import DropFolder
    from backhaul_connectors.file_drop.output_files import ExportWriter
    from backhaul_sdk import Change, FilePreview, PreviewRequest, Rejection
    from backhaul_sdk.contract import LookedUp, Pushed


class FileImporter:
    """Imports files; `stability` and `watcher` say which files are ready."""

    def __init__(
        self,
        place: DropFolder,
        settings: Settings,
        stability: StabilityTracker,
        watcher: ArchiveWatcher,
    ) -> None:
        self._place = place
        self._settings = settings
        self._stability = stability
        self._watcher = watcher

    async def take(self, file: FoundFile, cursor: FileCursor) -> AsyncGenerator[Batch]:
        """Yield the rows of a file in the drop folder; the last `ack` archives it.

        A file that looks cut is left for later. May raise FileChanged.
        """
        copies = TemporaryCopies(self._settings.copies)
        try:
            source = await self._place.fetch(file, copies)
            sure = self._stability.is_sure(file)
            found = await judge(source, cursor, self._settings, copies, is_sure=sure)
            if isinstance(found, UnusableFile):
                await self._place.begin(file)
                yield self._held(file, found, cursor)
                return
            await self._place.begin(file)
            # The size of an attachment is known once it is decoded.
            read = replace(file, fingerprint=source.fingerprint)
            async with aclosing(self._batches(read, found, cursor)) as batches:
                async for batch in batches:
                    yield batch
        except FileIncomplete:
            self._stability.wait_longer(file)
        except FileUnreadable as error:
            said = [file.name, file.path, str(file.fingerprint.modified_ns)]
            found = UnusableFile(key_of("damaged", said), str(error))
            yield self._held(file, found, cursor)
        finally:
            await in_thread(copies.close)

    async def take_grown(
        self, grown: GrownFile, cursor: FileCursor
    ) -> AsyncGenerator[Batch]:
        """Yield the new rows of an archived file. May raise FileChanged."""
        copies = TemporaryCopies(self._settings.copies)
        file, stability = grown.file, self._watcher.stability
        try:
            source = await self._place.fetch(file, copies)
            sure = stability.is_sure(file)
            found = await judge_archived(
                source, grown.before, self._settings, copies, is_sure=sure
            )
            if not isinstance(found, UsableFile):
                yield self._unread(grown, found, cursor)
                return
            self._watcher.add_notice(_grew(grown, found))
            async with aclosing(self._batches(file, found, cursor)) as batches:
                async for batch in batches:
                    yield batch
        except FileIncomplete:
            stability.wait_longer(file)
        finally:
            await in_thread(copies.close)

    async def _batches(
        self, file: FoundFile, sound: UsableFile, cursor: FileCursor
    ) -> AsyncGenerator[Batch]:
        """Yield the remaining rows; the last batch's `ack` archives the file."""
        position, bad = sound.start, sound.bad
        stored_as = await self._stored_as(file)
        while True:
            records, position = await in_thread(
                sound.table.read, position, self._settings.batch_rows
            )
            is_last = position.row >= sound.rows
            if is_last:
                records += self._end_of_list(file, sound)
            after = cursor.followed_by(_taken(file, sound, position.row))
            if is_last:
                after = after.watching(_watched(file, sound, stored_as))
            batch = Batch(
                records=[*bad, *records],
                cursor=after.to_text(),
                notes=sound.notes if is_last else (),
            )
            bad = ()
            if is_last:
                yield replace(batch, ack=partial(self._archive, file, stored_as))
                return
            yield batch

    def _end_of_list(self, file: FoundFile, sound: UsableFile) -> list[FullList]:
        """Return the end of a full stock list; None if it may lack an article."""
        is_full = sound.table.articles is not None and self._settings.absent == "zero"
        if not is_full or not sound.is_whole:
            return []
        articles = sound.table.articles
        hidden = 0 if articles is None else articles.hidden
        left = f" without {hidden} SKUs that stock_level_rows leaves out"
        end = FullList(
            key=key_of("full list", [sound.table.sha256]),
            listed_at=sound.table.dated,
            rows=sound.rows - sound.left_out,
            # A filtered article may be in stock: an operator decides.
            absent_limit=0 if hidden else self._settings.absent_limit,
            counted_at=articles.counted_at if articles else "",
            locator=f"{file.name}{left if hidden else ''}",
        )
        return [end]

    async def _stored_as(self, file: FoundFile) -> str:
        if file.path.startswith(f"{ARCHIVE}/"):
            return file.path.removeprefix(f"{ARCHIVE}/")
        return await self._place.free_name(ARCHIVE, file)

    async def _archive(self, file: FoundFile, stored_as: str) -> None:
        if not file.path.startswith(f"{ARCHIVE}/"):
            await self._place.archive(file, stored_as)
        self._stability.remove(file)

    async def apply(
        self, file: FoundFile, sha256: str, salt: str, cursor: FileCursor
    ) -> AsyncGenerator[Batch]:
        """Yield the rows of a held file that an operator approved.

        Yields nothing if the content has another sha256.
        """
        copies = TemporaryCopies(self._settings.copies)
        try:
            source = await self._place.fetch(file, copies)
            read = await read_whole(source, self._settings, copies, is_sure=True)
            if isinstance(read, UnusableFile) or read.identity != sha256:
                return
            salted = replace(read, table=replace(read.table, salt=salt))
            found = await count(salted, 0, self._settings, is_sure=True)
            if isinstance(found, UsableFile):
                file = replace(file, fingerprint=source.fingerprint)
                async with aclosing(self._batches(file, found, cursor)) as batches:
                    async for batch in batches:
                        yield batch
        finally:
            await in_thread(copies.close)

    def _held(
        self, file: FoundFile, unsound: UnusableFile, cursor: FileCursor
    ) -> Batch:
        repeated = key_of_repeat(file, unsound.sha256)
        bad = Bad(
            key=repeated if unsound.can_apply else key_of("file", [unsound.sha256]),
            can_apply=unsound.can_apply,
            raw=file.name,
            reason=f"{file.name} was moved to {self._settings.held_in}:"
            f" {unsound.reason}",
            locator=file.name,
        )
        if unsound.known:
            size = file.fingerprint.size
            cursor = cursor.holding(unsound.known, file.name, unsound.sha256, size)
        reason = "\n".join((unsound.reason, *unsound.details))
        hold = partial(self._hold, file, reason)
        return Batch(records=[bad], cursor=cursor.to_text(), ack=hold)

    async def _hold(self, file: FoundFile, reason: str) -> None:
        await self._place.hold(file, reason)
        self._stability.remove(file)

    def _unread(
        self, grown: GrownFile, found: UnusableFile | None, cursor: FileCursor
    ) -> Batch:
        """Record that an archived file changed, and that nothing more is imported."""
        before, fingerprint = grown.before, grown.file.fingerprint
        seen = fingerprint.size, fingerprint.modified_ns
        after = replace(before, size=seen[0], modified_ns=seen[1])
        if found is None:
            return Batch(records=[], cursor=cursor.watching(after).to_text())
        after = replace(after, sha256=found.sha256)
        bad = Bad(
            key=key_of("archived file", [found.sha256, *seen]),
            raw=before.name,
            reason=f"archive/{before.stored_as}: {found.reason}",
            locator=f"archive/{before.stored_as}",
        )
        return Batch(records=[bad], cursor=cursor.watching(after).to_text())


def _taken(file: FoundFile, sound: UsableFile, row: int) -> ImportedFile:
    """Return the memory of a file whose first `row` rows were submitted."""
    return ImportedFile(
        name=file.name,
        sha256=sound.table.sha256,
        size=file.fingerprint.size,
        row=row,
        rows=sound.rows,
        by_place=not sound.table.file.form.follows_content,
        salt=sound.table.salt,
        cells=sound.cells,
        at=rfc3339(datetime.fromtimestamp(seconds_since_1970(), UTC)),
    )


def _watched(file: FoundFile, sound: UsableFile, stored_as: str) -> ArchivedFile:
    return ArchivedFile(
        name=file.name,
        stored_as=stored_as,
        kind=sound.table.file.form.kind,
        sha256=sound.content,
        size=file.fingerprint.size,
        modified_ns=file.fingerprint.modified_ns,
        rows=sound.rows,
    )


def _grew(grown: GrownFile, sound: UsableFile) -> str:
    new = sound.rows - sound.start.row
    return (
        f"archive/{grown.before.stored_as} grew after it was taken, and {new} more "
        "rows were read: its writer pauses for longer than unchanged_seconds; raise "
        "that setting, or let the writer rename the file when it is complete"
    )


async def _preview(request: PreviewRequest) -> FilePreview:
    # Proposing settings needs modules that no daemon does.
    from backhaul_connectors.file_drop.preview import preview

    return await preview(request)


SPEC = Spec(
    name="file_drop",
    version="1.1",
    summary="Takes CSV, spreadsheets, JSON and EDI from a folder, a file server, an "
    "object store or the attachments of a mailbox, and puts change notifications "
    "there.",
    capabilities=frozenset({Capability.PULL, Capability.PUSH}),
    settings=Settings,
    secret_fields=SECRETS,
    topics=frozenset(COLUMNS),
    meanings=meanings,
    shared=shared,
    preview=_preview,
    presets=lambda: tuple(presets().values()),
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
        self._place = self._folder(clock)
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
        self._way_out = export_folder(
            settings, self._names, lambda: self.documents, clock
        )
        self._writer = self._new_writer()
        self._outbox = Outbox(self._way_out, settings.exports, self._writer)

    def _new_writer(self) -> ExportWriter:
        if self.settings.export_format in EDI_FORMATS:
            return EdiExports(self.settings, lambda: self.documents)
        return TableExports(self.settings.export_format)

    def _new_tracker(
        self, clock: Callable[[], float], require_done_file: bool
    ) -> StabilityTracker:
        return StabilityTracker(
            self.settings,
            self._names,
            clock,
            require_done_file=require_done_file,
            is_atomic=self._place.is_atomic,
        )

    def _folder(self, clock: Callable[[], float]) -> DropFolder:
        return drop_folder(self.settings, self._names, lambda: self.documents, clock)

    async def check(self) -> None:
        await self._place.check()
        listing = await self._place.listing()
        self._strays.note_once(listing.strays, seconds_since_1970())

    def notices(self) -> Sequence[str]:
        return [
            *self._place.notices(),
            *self._watcher.notices(),
            *sentences(self._strays.shown),
        ]

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
        yield Batch(records=[_gone(rejection, self.settings)], cursor=cursor)

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
        return self._writer.topics if self.settings.exports else frozenset()

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


def _gone(rejection: Rejection, settings: Settings) -> Bad:
    """Return the message about a held file that is missing."""
    return Bad(
        key=key_of("gone", [rejection.key]),
        raw=rejection.raw,
        reason=f"{rejection.raw} was not applied: no file in {settings.held_in} has"
        " its content; drop the file again",
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
