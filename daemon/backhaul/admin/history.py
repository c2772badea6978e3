"""The history of an object as a page shows it: each entry with its links."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from backhaul.admin.formatting import with_times
from backhaul.maintenance.search_indexer import detail_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backhaul.store.read_records import TimelineEntry

_ENTRIES = (
    (re.compile(r"(?:event|read) (\d+) "), "/events/{}"),
    (re.compile(r"incident (\d+)"), "/incidents#incident-{}"),
    (re.compile(r"delivery \S+ to ([\w-]+)"), "/connectors#connector-{}"),
    (re.compile(r"record ([\w-]+) "), "/connectors#connector-{}"),
    (re.compile(r".* ([0-9a-f]{8})$"), "/commands/{}"),
)
"""Where an entry leads, by its words."""
_MENTIONS = (
    (re.compile(r"(\bcommand ([0-9a-f]{8})\b)"), r'<a href="/commands/\2">\1</a>'),
    (re.compile(r"(\bevent (\d+)\b)"), r'<a href="/events/\2">\1</a>'),
    (
        re.compile(r"(see: backhaul quarantine show (\d+))"),
        r'<a href="/quarantine/\2">Show quarantined row \2</a>',
    ),
)
"""What the detail of an entry mentions, and the link in its place."""


def entries(found: Iterable[TimelineEntry]) -> list[dict[str, Any]]:
    """Return the entries of a timeline for a template."""
    return [_entry(each) for each in found]


def _entry(entry: TimelineEntry) -> dict[str, Any]:
    words = f"{entry.what} {entry.name or ''}"
    return {
        "at": entry.at,
        "what": entry.what,
        "name": entry.name or "",
        "href": _target(words),
        "state": entry.state,
        "detail": _with_links(detail_of(entry)),
    }


def _target(words: str) -> str:
    for pattern, path in _ENTRIES:
        if found := pattern.match(words):
            return path.format(found[1])
    return ""


def _with_links(text: str) -> Markup:
    """Return a text with links to what it mentions, and times in the reader's zone."""
    marked = str(with_times(text))
    for pattern, link in _MENTIONS:
        marked = pattern.sub(link, marked)
    return Markup(marked)  # noqa: S704 - the text is escaped by `with_times`
