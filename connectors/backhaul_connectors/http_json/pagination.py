"""The URL of the next page of a list, and the cursor of each list."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace
from yarl import URL

from backhaul_connectors.http_json.parsing import digest_of, find, moment
from backhaul_sdk import CheckFailed
from backhaul_sdk.fields import UNREADABLE, Unusable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul_connectors.http_json.settings import List
    from backhaul_sdk.calls import Answer


MOST_REMEMBERED = 5_000
_LINK = re.compile(r'<([^<>]*)>\s*((?:;\s*[\w*-]+\s*=\s*(?:"[^"]*"|[^\s";,]+)\s*)*)')
_NEXT = re.compile(r';\s*rel\s*=\s*"?(?:[^"]*\s)?next(?:\s[^"]*)?"?', re.IGNORECASE)
MOST_EMPTY = 1_000
_ADVICE = "; check paging"


class ListPosition(Struct, frozen=True, kw_only=True):
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

    def trusted(self, latest: str) -> ListPosition:
        """Return the place, or the beginning if nothing can have changed at its time.

        What changed since was never asked for, and nobody knows since when.
        """
        if self.since <= latest:
            return self
        return replace(self, since="", recent={}, etag="", url="")

    def moved(self, seen: Mapping[str, str], overlap_seconds: float) -> ListPosition:
        """Return the place after items: their digests, and when each changed."""
        everything = {**self.recent, **seen}
        since = max([self.since, *seen.values()])
        start = _earlier(since, overlap_seconds) if since else ""
        latest = sorted(everything.items(), key=lambda each: each[1])
        recent = dict([each for each in latest if each[1] >= start][-MOST_REMEMBERED:])
        return replace(self, since=since, recent=recent)


def positions_of(text: str | None) -> dict[str, ListPosition]:
    """Read the host's text; what cannot be read is the beginning.

    That is safe: what was taken before has the same keys.
    """
    try:
        found: dict[str, dict[str, Any]] = json.loads(text or "{}")
        return {name: ListPosition(**place) for name, place in found.items()}
    except UNREADABLE:
        return {}


def cursor_of(places: Mapping[str, ListPosition]) -> str:
    """Return the text for the host."""
    shown = {name: asdict(place) for name, place in places.items()}
    return json.dumps(shown, separators=(",", ":"))


def _earlier(time: str, seconds: float) -> str:
    try:
        return moment(datetime.fromisoformat(time) - timedelta(seconds=seconds), "time")
    except (ValueError, OverflowError):
        return time


class ListFailed(CheckFailed):
    """What is wrong with one list; the others can be read."""


class PageTrail:
    """The pages of one walk. Raises ListFailed where they go round for ever."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._brought = ""
        self._empty = 0

    def enter(self, url: URL) -> None:
        """Go to a page, which must be a new one."""
        number = len(self._numbers) + 1
        known = self._numbers.setdefault(digest_of(str(url)), number)
        if known < number:
            raise ListFailed(f"page {number} would be page {known} again{_ADVICE}")

    def onward(self, url: URL | None) -> URL | None:
        """Return the next page; None where an empty one leads back: it was the last."""
        if url is None or self._brought:
            return url
        return None if digest_of(str(url)) in self._numbers else url

    def bring(self, texts: Sequence[str]) -> None:
        """Take what the page brought, which must not be what the one before did."""
        number = len(self._numbers)
        self._empty = 0 if texts else self._empty + 1
        if self._empty > MOST_EMPTY:
            raise ListFailed(f"{self._empty} pages in a row are empty{_ADVICE}")
        brought = digest_of("\n".join(texts)) if texts else ""
        if brought and brought == self._brought:
            told = f"page {number} brings what page {number - 1} brought"
            raise ListFailed(f"{told}{_ADVICE}")
        self._brought = brought


def first_url(base: str, settings: List, place: ListPosition) -> URL:
    """Return the URL of the first page after a place."""
    query = dict(settings.query)
    if settings.size_parameter:
        query[settings.size_parameter] = str(settings.page_size)
    if settings.since_parameter and place.since:
        since = place.asked_since(settings.overlap_seconds)
        query[settings.since_parameter] = since
    if settings.paging == "page":
        query[settings.page_parameter] = str(settings.first_page)
    elif settings.paging == "offset":
        query[settings.page_parameter] = "0"
    elif settings.keep_cursor and place.next:
        query[settings.page_parameter] = place.next
    return URL(base.rstrip("/") + settings.path).update_query(query)


def next_url(
    settings: List, url: URL, answer: Answer, document: Any, items: int
) -> URL | None:
    """Return the URL of the next page; None if this was the last.

    Raises ListFailed where it leads to another host.
    """
    if settings.paging in ("page", "offset"):
        return _counted(settings, url, items)
    if settings.paging == "none":
        return None
    following = cursor_in(settings, document)
    if settings.paging == "cursor":
        # A cursor that is kept says at the next pull what is behind an empty page.
        if not following or (settings.keep_cursor and not items):
            return None
        return url.update_query({settings.page_parameter: following})
    link = following if settings.next else _link_in(answer.headers)
    return _onward(url, _joined(url, link)) if link else None


def _joined(url: URL, link: str) -> URL:
    try:
        following = url.join(URL(link))
        following.origin()  # which an address without a host has not
    except ValueError:
        raise ListFailed(f"{url.host} leads on to what is no address") from None
    return following


def cursor_in(settings: List, document: Any) -> str:
    """Return the cursor or link that an answer holds; empty for none."""
    try:
        found = find(settings.next, document) if settings.next else None
    except Unusable as error:
        raise ListFailed(str(error)) from None
    return "" if found is None or isinstance(found, bool | dict | list) else str(found)


def _counted(settings: List, url: URL, items: int) -> URL | None:
    if items == 0 or (settings.size_parameter and items < settings.page_size):
        return None
    step = items if settings.paging == "offset" else 1
    number = int(url.query[settings.page_parameter]) + step
    return url.update_query({settings.page_parameter: str(number)})


def _onward(url: URL, following: URL) -> URL:
    if following.origin() != url.origin():
        raise ListFailed(
            f"{url.host} sends us on to {following.host}, which is another system"
        )
    return following


def _link_in(headers: Mapping[str, str]) -> str:
    for target, parameters in _LINK.findall(headers.get("link", "")):
        if _NEXT.search(parameters):
            return str(target)
    return ""
