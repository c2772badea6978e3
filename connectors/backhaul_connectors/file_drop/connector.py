"""Takes files from a folder, and gives back the rows it could not use."""

from __future__ import annotations

import time
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from backhaul_connectors.file_drop.cells import key_of
from backhaul_connectors.file_drop.copies import Copies
from backhaul_connectors.file_drop.cursor import Cursor, Taken
from backhaul_connectors.file_drop.folder import Folder
from backhaul_connectors.file_drop.found import Changed, Found
from backhaul_connectors.file_drop.judging import Sound, Unsound, judge
from backhaul_connectors.file_drop.manifest import SPEC
from backhaul_connectors.file_drop.naming import DONE, own_folders
from backhaul_connectors.file_drop.outbox import Outbox
from backhaul_connectors.file_drop.parsing import forms
from backhaul_connectors.file_drop.rejected import RejectedRows
from backhaul_connectors.file_drop.settling import Settling
from backhaul_connectors.file_drop.waiting import in_thread
from backhaul_sdk import Bad, Batch, Connector, Rejected

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from backhaul_connectors.file_drop.parsing import Form
    from backhaul_connectors.file_drop.place import Place
    from backhaul_connectors.file_drop.settings import Settings
    from backhaul_sdk import Change, Rejection
    from backhaul_sdk.outcome import LookedUp, Pushed


class FileDrop(Connector["Settings"]):
    """A folder that other programs and people put CSV files into.

    A file stays where it is until the host has committed its last row. `clock`
    returns seconds that never go back.
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
        kinds = forms(settings)
        self._settling = Settling(
            settings.settle_seconds, settings.require_done_file, clock
        )
        self._place = _place(settings, kinds, self._settling)
        columns = (name for kind in kinds for name in kind.columns.values())
        self._rejected = RejectedRows(self._place, columns)
        # On a line of its own: files in and news out are at work at the same time, and
        # neither may cut the other off.
        self._way_out = _place(settings, kinds, self._settling)
        self._outbox = Outbox(self._way_out, settings.exports, settings.export_format)

    async def check(self) -> None:
        await self._place.check()

    async def open(self) -> None:
        await self._place.open()

    async def close(self) -> None:
        await self._place.close()
        await self._way_out.close()

    async def pull(self, cursor: str | None) -> AsyncGenerator[Batch]:
        taken = Cursor.from_text(cursor)
        for file in await self._place.ready(taken.last.name):
            try:
                async with aclosing(self._take(file, taken)) as batches:
                    async for batch in batches:
                        cursor = batch.cursor
                        yield batch
            except Changed:
                pass  # whoever writes to it is not finished; the next pull looks again
            except PermissionError as error:
                yield Batch(records=[_closed(file, error)], cursor=cursor)
            taken = Cursor.from_text(cursor)
        for file in self._settling.undeclared:
            yield Batch(records=[_undeclared(file)], cursor=cursor)

    async def report(self, rejections: Sequence[Rejection]) -> None:
        await self._rejected.write(rejections)

    def topics(self) -> frozenset[str]:
        """Return the news that are written out: none without a folder for them."""
        return self.spec.topics if self.settings.exports else frozenset()

    async def push(self, change: Change) -> Pushed:
        if not self.settings.exports:
            return Rejected("no folder is set for the store's news; set exports")
        return await self._outbox.push(change)

    async def lookup(self, change: Change) -> LookedUp:
        return await self._outbox.lookup(change)

    async def _take(self, file: Found, taken: Cursor) -> AsyncGenerator[Batch]:
        copies = Copies(self.settings.copies)
        try:
            source = await self._place.fetch(file, copies)
            found = await judge(source, taken, self.settings, copies)
            if isinstance(found, Unsound):
                yield self._held(file, found, taken)
                return
            async with aclosing(self._batches(file, found, taken)) as batches:
                async for batch in batches:
                    yield batch
        finally:
            await in_thread(copies.close)

    async def _batches(
        self, file: Found, sound: Sound, taken: Cursor
    ) -> AsyncGenerator[Batch]:
        """Yield the rows that are left; the last batch's `ack` archives the file."""
        position, rows = sound.start, sound.rows
        while True:
            records, position = await in_thread(
                sound.table.read, position, self.settings.batch_rows
            )
            handed_over = Taken(
                name=file.name,
                sha256=sound.table.sha256,
                size=file.fingerprint.size,
                row=position.row,
                rows=rows,
                by_place=not file.form.follows_content,
            )
            cursor = taken.followed_by(handed_over).to_text()
            if position.row >= rows:
                archive = partial(self._place.archive, file)
                yield Batch(records=records, cursor=cursor, ack=archive)
                return
            yield Batch(records=records, cursor=cursor)

    def _held(self, file: Found, unsound: Unsound, taken: Cursor) -> Batch:
        reason = "\n".join((unsound.reason, *unsound.details))
        bad = Bad(
            key=key_of("file", [unsound.sha256]),
            raw=file.name,
            reason=f"{file.name} was put into held/: {unsound.reason}",
            locator=file.name,
        )
        hold = partial(self._place.hold, file, reason)
        size = file.fingerprint.size
        if unsound.known:
            taken = taken.holding(unsound.known, file.name, unsound.sha256, size)
        return Batch(records=[bad], cursor=taken.to_text(), ack=hold)


def _place(settings: Settings, kinds: Sequence[Form], settling: Settling) -> Place:
    folders = own_folders(settings.exports)
    if not settings.sftp_host:
        return Folder(settings.path, kinds, settling, folders)
    # What speaks SSH takes most of a second to import.
    from backhaul_connectors.file_drop.sftp import RemoteFolder
    from backhaul_connectors.file_drop.ssh_line import Line

    return RemoteFolder(
        Line(settings),
        str(settings.path),
        kinds,
        settling,
        own_folders=folders,
        max_bytes=settings.max_file_mb * 1_000_000,
    )


def _closed(file: Found, error: PermissionError) -> Bad:
    """Return the one thing to say of a file that may not be read; it stays there."""
    return Bad(
        key=key_of("closed", [file.name, str(file.fingerprint.modified_ns)]),
        raw=file.name,
        reason=f"{file.name} cannot be opened: {error.strerror}; let this user read it",
        locator=file.name,
    )


def _undeclared(file: Found) -> Bad:
    """Return the one thing to say of a file that lacks its `.done`; it stays there."""
    done = f"{file.name}{DONE}"
    return Bad(
        key=key_of("undeclared", [file.name, str(file.fingerprint.modified_ns)]),
        raw=file.name,
        reason=f"{file.name} is not read: {done} is missing, or older than it; write"
        f" {done} now, or set require_done_file = false",
        locator=file.name,
    )
