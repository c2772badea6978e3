"""Takes CSV files from a folder, and gives back the rows it could not use."""

from __future__ import annotations

import time
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from backhaul_connectors.file_drop.cursor import Cursor
from backhaul_connectors.file_drop.folder import REJECTED, Changed, Folder, Found
from backhaul_connectors.file_drop.judging import Sound, Unsound, judge
from backhaul_connectors.file_drop.manifest import SPEC
from backhaul_connectors.file_drop.parsing import forms, key_of
from backhaul_connectors.file_drop.rejected import RejectedRows
from backhaul_connectors.file_drop.waiting import in_thread
from backhaul_sdk import Bad, Batch, CheckFailed, Connector

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from backhaul_connectors.file_drop.settings import Settings
    from backhaul_sdk import Rejection


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
        self._folder = Folder(
            settings.path,
            kinds,
            settle_seconds=settings.settle_seconds,
            require_done_file=settings.require_done_file,
            clock=clock,
        )
        columns = (name for kind in kinds for name in kind.columns.values())
        self._rejected = RejectedRows(settings.path / REJECTED, columns)

    async def check(self) -> None:
        if problem := await in_thread(self._folder.problem):
            raise CheckFailed(problem)

    async def open(self) -> None:
        await self.check()
        await in_thread(self._folder.prepare)

    async def pull(self, cursor: str | None) -> AsyncGenerator[Batch]:
        taken = Cursor.from_text(cursor)
        for file in await in_thread(self._folder.ready, taken.name):
            try:
                async with aclosing(self._take(file, taken, cursor)) as batches:
                    async for batch in batches:
                        cursor = batch.cursor
                        yield batch
            except Changed:
                pass  # whoever writes to it is not finished; the next pull looks again
            except PermissionError as error:
                yield Batch(records=[_closed(file, error)], cursor=cursor)
            taken = Cursor.from_text(cursor)

    async def report(self, rejections: Sequence[Rejection]) -> None:
        await in_thread(self._rejected.write, rejections)

    async def _take(
        self, file: Found, taken: Cursor, cursor: str | None
    ) -> AsyncGenerator[Batch]:
        found = await judge(file, taken, self.settings)
        if isinstance(found, Unsound):
            yield self._held(file, found, cursor)
            return
        async with aclosing(self._batches(file, found)) as batches:
            async for batch in batches:
                yield batch

    async def _batches(self, file: Found, sound: Sound) -> AsyncGenerator[Batch]:
        """Yield the rows that are left; the last batch's `ack` archives the file."""
        position, rows = sound.start, sound.rows
        while True:
            records, position = await in_thread(
                sound.table.read, position, self.settings.batch_rows
            )
            cursor = Cursor(
                name=file.name,
                sha256=sound.table.sha256,
                size=file.fingerprint.size,
                row=position.row,
                rows=rows,
            ).to_text()
            if position.row >= rows:
                archive = partial(in_thread, self._folder.archive, file)
                yield Batch(records=records, cursor=cursor, ack=archive)
                return
            yield Batch(records=records, cursor=cursor)

    def _held(self, file: Found, unsound: Unsound, cursor: str | None) -> Batch:
        reason = "\n".join((unsound.reason, *unsound.details))
        bad = Bad(
            key=key_of("file", [unsound.sha256]),
            raw=file.name,
            reason=f"{file.name} was put into held/: {unsound.reason}",
            locator=file.name,
        )
        hold = partial(in_thread, self._folder.hold, file, reason)
        return Batch(records=[bad], cursor=cursor, ack=hold)


def _closed(file: Found, error: PermissionError) -> Bad:
    """Return the one thing to say of a file that may not be read; it stays there."""
    return Bad(
        key=key_of("closed", [file.name, str(file.fingerprint.modified_ns)]),
        raw=file.name,
        reason=f"{file.name} cannot be opened: {error.strerror}; let this user read it",
        locator=file.name,
    )
