"""Imports one file: inspects it, submits its rows, and archives it."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul_connectors.file_drop.already_imported import (
    judge,
    judge_archived,
    key_of_repeat,
)
from backhaul_connectors.file_drop.cells import key_of
from backhaul_connectors.file_drop.cursor import ArchivedFile, ImportedFile
from backhaul_connectors.file_drop.files import ARCHIVE, FileIncomplete, TemporaryCopies
from backhaul_connectors.file_drop.inspection import (
    UnusableFile,
    UsableFile,
    count,
    read_whole,
)
from backhaul_sdk import Bad, Batch, FullList
from backhaul_sdk.clock import seconds_since_1970
from backhaul_sdk.files import in_thread
from backhaul_sdk.times import rfc3339

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from backhaul_connectors.file_drop.completeness import (
        ArchiveWatcher,
        GrownFile,
        StabilityTracker,
    )
    from backhaul_connectors.file_drop.cursor import FileCursor
    from backhaul_connectors.file_drop.files import FoundFile
    from backhaul_connectors.file_drop.folder import DropFolder
    from backhaul_connectors.file_drop.settings import Settings


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
                yield self._held(file, found, cursor)
                return
            async with aclosing(self._batches(file, found, cursor)) as batches:
                async for batch in batches:
                    yield batch
        except FileIncomplete:
            self._stability.wait_longer(file)
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
        is_full = file.form.article is not None and self._settings.absent == "zero"
        if not is_full or not sound.is_whole:
            return []
        articles = sound.table.articles
        hidden = 0 if articles is None else articles.hidden
        left = f" without {hidden} articles that stock_level_rows leaves out"
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
            reason=f"{file.name} was moved to held/: {unsound.reason}",
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
        by_place=not file.form.follows_content,
        salt=sound.table.salt,
        cells=sound.cells,
        at=rfc3339(datetime.fromtimestamp(seconds_since_1970(), UTC)),
    )


def _watched(file: FoundFile, sound: UsableFile, stored_as: str) -> ArchivedFile:
    return ArchivedFile(
        name=file.name,
        stored_as=stored_as,
        kind=file.form.kind,
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
