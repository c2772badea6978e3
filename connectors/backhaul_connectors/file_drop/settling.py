"""Which files are complete: declared done, or not changed for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul_connectors.file_drop.naming import DONE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backhaul_connectors.file_drop.found import Fingerprint, Found

UNDECLARED_SECONDS = 600.0
"""What waits so long for its `.done` waits for something that was forgotten."""


class Settling:
    """Remembers since when each file has not changed.

    `clock` returns seconds that never go back.
    """

    undeclared: Sequence[Found] = ()
    """What the last look found to wait for its `.done` for so long."""

    def __init__(
        self,
        settle_seconds: float,
        require_done_file: bool,
        clock: Callable[[], float],
    ) -> None:
        self._settle_seconds = settle_seconds
        self._require_done_file = require_done_file
        self._clock = clock
        self._seen: dict[str, tuple[Fingerprint, float]] = {}

    def ready(
        self, found: Sequence[Found], done: Mapping[str, int], first: str
    ) -> list[Found]:
        """Return what may be read: the file named `first`, then the oldest.

        `done` is when each file whose name ends in `.done` was written.
        """
        names = {file.file_name for file in found}
        self._seen = {n: seen for n, seen in self._seen.items() if n in names}
        ready: list[Found] = []
        waiting: list[Found] = []
        for file in found:
            (ready if self._may_be_read(file, done) else waiting).append(file)
        self.undeclared = [file for file in waiting if self._was_forgotten(file)]
        return sorted(
            ready,
            key=lambda file: (
                file.name != first,
                file.fingerprint.modified_ns,
                file.name,
            ),
        )

    def forget(self, file: Found) -> None:
        self._seen.pop(file.file_name, None)

    def _may_be_read(self, file: Found, done: Mapping[str, int]) -> bool:
        # An older one was left over from the previous file of this name.
        declared = done.get(file.file_name + DONE, -1)
        if declared >= file.fingerprint.modified_ns:
            return True
        now = self._clock()
        known, since = self._seen.get(file.file_name, (None, now))
        if known != file.fingerprint:
            since = now
        self._seen[file.file_name] = (file.fingerprint, since)
        return not self._require_done_file and now - since >= self._settle_seconds

    def _was_forgotten(self, file: Found) -> bool:
        _, since = self._seen[file.file_name]
        waited = self._clock() - since
        return self._require_done_file and waited >= UNDECLARED_SECONDS
