"""Watches archived files: a writer that had paused goes on in the moved file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from backhaul_connectors.file_drop.found import Found
from backhaul_connectors.file_drop.listing import Listing
from backhaul_connectors.file_drop.naming import ARCHIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backhaul_connectors.file_drop.cursor import Cursor, Watched
    from backhaul_connectors.file_drop.found import Fingerprint
    from backhaul_connectors.file_drop.parsing import Form
    from backhaul_connectors.file_drop.place import Place
    from backhaul_connectors.file_drop.settling import Settling

SHORTEST_SECONDS, LONGEST_SECONDS = 1.0, 600.0
"""How often a file is checked: twice as late each time that it has not changed."""
TOLD_SECONDS = 3_600.0
"""How long a notice about a file that grew is shown."""


class Grown(NamedTuple):
    """A file in the archive that is not as it was, and that may be read now."""

    before: Watched
    file: Found


class Watcher:
    """Checks the archived files of a cursor, each at times of its own.

    `clock` returns seconds that never go back. `settling` says when a file that changed
    may be read; it is for archived files alone.
    """

    def __init__(
        self,
        place: Place,
        forms: Sequence[Form],
        settling: Settling,
        clock: Callable[[], float],
    ) -> None:
        self._place = place
        self._forms = {form.kind: form for form in forms}
        self.settling = settling
        self._clock = clock
        self._due: dict[str, tuple[float, float]] = {}
        self._said: dict[str, float] = {}

    async def grown(self, cursor: Cursor) -> list[Grown]:
        """Return the archived files that changed since, and stand still by now."""
        names = {watched.stored_as for watched in cursor.watched}
        self._due = {name: due for name, due in self._due.items() if name in names}
        changed = [each for w in cursor.watched if (each := await self._changed(w))]
        ready = self.settling.ready(Listing([each.file for each in changed]), "")
        by_path = {each.file.path: each for each in changed}
        return [by_path[file.path] for file in ready]

    def notices(self) -> list[str]:
        """Return what is to be said of files that grew during the last hour."""
        now = self._clock()
        self._said = {n: at for n, at in self._said.items() if now - at < TOLD_SECONDS}
        return list(self._said)

    def say(self, notice: str) -> None:
        """Show a notice for an hour."""
        self._said[notice] = self._clock()

    async def _changed(self, watched: Watched) -> Grown | None:
        now = self._clock()
        due, interval = self._due.get(watched.stored_as, (now, SHORTEST_SECONDS))
        form = self._forms.get(watched.kind)
        if form is None or now < due:
            return None
        found = await self._place.status(ARCHIVE, watched.stored_as)
        if found is None or _is_as_before(watched, found):
            following = min(interval * 2, LONGEST_SECONDS)
            self._due[watched.stored_as] = (now + interval, following)
            return None
        self._due[watched.stored_as] = (now, SHORTEST_SECONDS)
        path = f"{ARCHIVE}/{watched.stored_as}"
        return Grown(watched, Found(watched.name, form, found, path))


def _is_as_before(watched: Watched, found: Fingerprint) -> bool:
    seen = (found.size, found.modified_ns)
    return seen == (watched.size, watched.modified_ns)
