"""What happens in a demo, read from the daemon's database: one line for each event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from rich.text import Text

from backhaul.store import database_at
from backhaul.store.filters import Filter, Sort

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.store import Place
    from backhaul.store.command_records import ListedCommand
    from backhaul.store.read_models import Reader

MOST_ROWS = 200
"""The rows of a list that are read at once; the next call continues."""
WAITING = "received"
"""The state of an event that is not applied to the mirror yet."""
_PUSHED = {
    "fulfill": "fulfillment pushed: {about}, {asked}",
    "cancel": "cancellation pushed: {about}",
    "adjust": "stock adjusted: {asked}",
    "target": "stock count applied: {asked}",
}
_TROUBLE = {
    "uncertain": "outcome unknown, will be checked",
    "parked": "parked, waits for a decision",
    "rejected": "rejected",
}


class Happening(Struct, frozen=True, order=True):
    """One event worth a line; `path` is the page of the dashboard about it."""

    at: str
    store: str
    text: str
    path: str

    def plain(self, url: str) -> str:
        """Return a line for a file or a pipe, with the whole address."""
        return f"{self.at[11:19]}  {self.store}  {self.text}  {url}{self.path}"

    def fitted(self, url: str, width: int) -> Text:
        """Return a line of this width at most, that ends with a link."""
        left = Text(f"{self.at[11:19]}  {self.store}  {self.text}")
        room = max(width - len(self.path) - 2, 0)
        left.truncate(room, overflow="ellipsis", pad=True)
        left.append("  ").append(self.path, f"dim link {url}{self.path}")
        return left


class Activity:
    """Follows the database of a daemon; returns each happening once."""

    def __init__(self, database: Place) -> None:
        self._database = database
        self._event = 0
        self._row = 0
        self._command: str | None = None
        self._states: dict[str, str] = {}

    def latest(self) -> list[Happening]:
        """Return what happened since the last call, the oldest first."""
        with database_at(self._database).reader() as reader:
            found = [
                *self._orders(reader),
                *self._commands(reader),
                *self._quarantined(reader),
            ]
        return sorted(found)

    def _orders(self, reader: Reader) -> Iterator[Happening]:
        wanted = Filter(topic="orders/create")
        for row in reader.events(wanted, MOST_ROWS, self._event, Sort.OLDEST):
            if row.state == WAITING:
                return  # it is read again when the mirror has its order
            self._event = row.id
            if row.state == "folded":
                text = f"order {row.about or row.object_id} received"
                yield Happening(row.received_at, row.store, text, f"/events/{row.id}")

    def _commands(self, reader: Reader) -> Iterator[Happening]:
        """Yield commands that reached another state: of those that are new or open."""
        known = tuple(self._states)
        rows = reader.commands(Filter(keys=known), len(known)) if known else []
        new = reader.commands(Filter(), MOST_ROWS, self._command, Sort.OLDEST)
        if new:
            self._command = new[-1].id
        for row in [*rows, *new]:
            if self._states.get(row.id) == row.state:
                continue
            self._states[row.id] = row.state
            if row.state in {"applied", "rejected", "superseded"}:
                del self._states[row.id]
            if text := _said_of(row):
                at = row.settled_at or row.created_at
                yield Happening(at, row.store, text, f"/commands/{row.id[:8]}")

    def _quarantined(self, reader: Reader) -> Iterator[Happening]:
        before = self._row
        for row in reader.quarantine(MOST_ROWS):
            if row.id <= before:
                return
            self._row = max(self._row, row.id)
            text = f"row quarantined: {row.reason}"
            yield Happening(row.at, row.store, text, f"/quarantine/{row.id}")


def _said_of(row: ListedCommand) -> str:
    """Return the state of a command in words; empty if it is not worth a line."""
    about = row.about or row.target
    if row.state == "applied":
        return _PUSHED[row.kind].format(about=about, asked=row.asked)
    if (trouble := _TROUBLE.get(row.state)) is None:
        return ""
    why = f": {row.reason}" if row.reason else ""
    return f"{row.kind} of {about} {trouble}{why}"
