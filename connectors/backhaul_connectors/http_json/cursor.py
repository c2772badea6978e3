"""How far each list was read, as the text that the host keeps."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from backhaul_connectors.http_json.parsing import moment
from backhaul_sdk.reading import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_REMEMBERED = 5_000


class Place(Struct, frozen=True, kw_only=True):
    """How far one list was read.

    `since` is the latest change seen, `recent` the digests of the items that an
    overlap would bring again, with their change. `next` is the system's own cursor.
    `etag` is that of `url`, a list that came as one page.
    """

    since: str = ""
    recent: Mapping[str, str] = field(default_factory=dict)
    next: str = ""
    etag: str = ""
    url: str = ""

    def asked_since(self, overlap_seconds: float) -> str:
        """Return from when to ask; empty for the beginning."""
        return _earlier(self.since, overlap_seconds) if self.since else ""

    def trusted(self, latest: str) -> Place:
        """Return the place, or the beginning if nothing can have changed at its time.

        What changed since was never asked for, and nobody knows since when.
        """
        if self.since <= latest:
            return self
        return replace(self, since="", recent={}, etag="", url="")

    def moved(self, seen: Mapping[str, str], overlap_seconds: float) -> Place:
        """Return the place after items: their digests, and when each changed."""
        everything = {**self.recent, **seen}
        since = max([self.since, *seen.values()])
        start = _earlier(since, overlap_seconds) if since else ""
        latest = sorted(everything.items(), key=lambda each: each[1])
        recent = dict([each for each in latest if each[1] >= start][-MOST_REMEMBERED:])
        return replace(self, since=since, recent=recent)


def places_of(text: str | None) -> dict[str, Place]:
    """Read the host's text; what cannot be read is the beginning.

    That is safe: what was taken before has the same keys.
    """
    try:
        found: dict[str, dict[str, Any]] = json.loads(text or "{}")
        return {name: Place(**place) for name, place in found.items()}
    except UNREADABLE:
        return {}


def cursor_of(places: Mapping[str, Place]) -> str:
    """Return the text for the host."""
    shown = {name: asdict(place) for name, place in places.items()}
    return json.dumps(shown, separators=(",", ":"))


def _earlier(time: str, seconds: float) -> str:
    try:
        return moment(datetime.fromisoformat(time) - timedelta(seconds=seconds), "time")
    except (ValueError, OverflowError):
        return time
