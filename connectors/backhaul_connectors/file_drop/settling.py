"""Which files are complete: declared done, or not changed for long enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backhaul_connectors.file_drop.found import Fingerprint, Found
    from backhaul_connectors.file_drop.listing import Listing
    from backhaul_connectors.file_drop.naming import Names
    from backhaul_connectors.file_drop.settings import Settings

UNDECLARED_SECONDS = 600.0
"""What waits so long for its marker waits for something that was forgotten."""


class Seen(Struct):
    """A file as it was seen last: unchanged `since`, in seconds of the clock.

    One that `looks_cut` has been read, and its end was missing.
    """

    fingerprint: Fingerprint
    since: float
    looks_cut: bool = False
    is_declared: bool = False


class Settling:
    """Remembers since when each file has not changed.

    `clock` returns seconds that never go back.
    """

    undeclared: Sequence[Found] = ()
    """What the last look found to wait for its marker for so long."""

    def __init__(
        self,
        settings: Settings,
        names: Names,
        clock: Callable[[], float],
        *,
        require_done_file: bool,
    ) -> None:
        self._settle_seconds = settings.settle_seconds
        self._incomplete_seconds = max(
            settings.incomplete_seconds, settings.settle_seconds
        )
        self._require_done_file = require_done_file
        self._names = names
        self._clock = clock
        self._seen: dict[str, Seen] = {}

    def ready(self, listing: Listing, first: str) -> list[Found]:
        """Return what may be read: the file named `first`, then the oldest."""
        names = {file.path for file in listing.found}
        self._seen = {n: seen for n, seen in self._seen.items() if n in names}
        for file in listing.found:
            self._note(file, listing)
        ready = [file for file in listing.found if self._may_be_read(file)]
        self.undeclared = [file for file in listing.found if self._was_forgotten(file)]
        return sorted(
            ready,
            key=lambda file: (
                file.name != first,
                file.fingerprint.modified_ns,
                file.name,
            ),
        )

    def is_sure(self, file: Found) -> bool:
        """Tell whether the file is complete whatever its end looks like."""
        seen = self._seen.get(file.path)
        if seen is None or seen.fingerprint != file.fingerprint:
            return False
        return seen.is_declared or self._waited(seen) >= self._incomplete_seconds

    def wait_longer(self, file: Found) -> None:
        """Leave a file alone whose end is missing, until it changed or waited long."""
        seen = self._seen.get(file.path)
        if seen is not None and seen.fingerprint == file.fingerprint:
            seen.looks_cut = True

    def forget(self, file: Found) -> None:
        """Forget a file that was moved away."""
        self._seen.pop(file.path, None)

    def _note(self, file: Found, listing: Listing) -> None:
        # A marker that is older was left over from the previous file of this name.
        marked = listing.modified.get(self._names.marker_of(file.file_name), -1)
        declared = marked >= file.fingerprint.modified_ns
        seen = self._seen.get(file.path)
        if seen is None or seen.fingerprint != file.fingerprint:
            seen = self._seen[file.path] = Seen(file.fingerprint, self._clock())
        seen.is_declared = declared

    def _may_be_read(self, file: Found) -> bool:
        seen = self._seen[file.path]
        if seen.is_declared:
            return True
        if self._require_done_file:
            return False
        wait = self._incomplete_seconds if seen.looks_cut else self._settle_seconds
        return self._waited(seen) >= wait

    def _was_forgotten(self, file: Found) -> bool:
        seen = self._seen[file.path]
        waits = self._require_done_file and not seen.is_declared
        return waits and self._waited(seen) >= UNDECLARED_SECONDS

    def _waited(self, seen: Seen) -> float:
        return self._clock() - seen.since
