"""Finds the URL of the next page of a list, and keeps the cursor of each list."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace
from yarl import URL

from backhaul_connectors.http_json.parsing import digest_of
from backhaul_sdk import CheckFailed
from backhaul_sdk.fields import UNREADABLE, Unusable, rfc3339
from backhaul_sdk.json_paths import find

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

    `since` is the latest change seen, `recent` the digests of the items that an overlap
    would read again, with their change times. `next` is the system's own cursor. `etag`
    is that of `url`, for a list of a single page.
    """

    since: str = ""
    recent: Mapping[str, str] = field(default_factory=dict)
    next: str = ""
    etag: str = ""
    url: str = ""

    def asked_since(self, overlap_seconds: float) -> str:
        """Return the time to read from; empty for the beginning."""
        return _earlier(self.since, overlap_seconds) if self.since else ""

    def trusted(self, latest: str) -> ListPosition:
        """Return the position, or the beginning if it lies in the future.

        Changes since then were never requested, and their beginning is unknown.
        """
        if self.since <= latest:
            return self
        return replace(self, since="", recent={}, etag="", url="")

    def moved(self, seen: Mapping[str, str], overlap_seconds: float) -> ListPosition:
        """Return the position after items, with their digests and change times."""
        everything = {**self.recent, **seen}
        since = max([self.since, *seen.values()])
        start = _earlier(since, overlap_seconds) if since else ""
        latest = sorted(everything.items(), key=lambda each: each[1])
        recent = dict([each for each in latest if each[1] >= start][-MOST_REMEMBERED:])
        return replace(self, since=since, recent=recent)


def positions_of(text: str | None) -> dict[str, ListPosition]:
    """Parse the host's text; invalid text means from the beginning.

    That is safe: items that were read before have the same keys.
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
        at = datetime.fromisoformat(time) - timedelta(seconds=seconds)
        return rfc3339(at, "milliseconds")
    except (ValueError, OverflowError):
        return time


class ListFailed(CheckFailed):
    """One list failed; the others can be read."""


class PageTrail:
    """The pages of one pass over a list. Raises ListFailed for an endless loop."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._brought = ""
        self._empty = 0

    def enter(self, url: URL) -> None:
        """Go to a page, which must be new."""
        number = len(self._numbers) + 1
        known = self._numbers.setdefault(digest_of(str(url)), number)
        if known < number:
            raise ListFailed(f"page {number} has the same URL as page {known}{_ADVICE}")

    def onward(self, url: URL | None) -> URL | None:
        """Return the next page; None if an empty page leads back to an earlier one."""
        if url is None or self._brought:
            return url
        return None if digest_of(str(url)) in self._numbers else url

    def bring(self, texts: Sequence[str]) -> None:
        """Note the items of a page; they must differ from the page before."""
        number = len(self._numbers)
        self._empty = 0 if texts else self._empty + 1
        if self._empty > MOST_EMPTY:
            raise ListFailed(f"{self._empty} pages in a row are empty{_ADVICE}")
        brought = digest_of("\n".join(texts)) if texts else ""
        if brought and brought == self._brought:
            told = f"page {number} has the same items as page {number - 1}"
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
    """Return the URL of the next page; None after the last page.

    Raises ListFailed if it leads to another host.
    """
    if settings.paging in ("page", "offset"):
        return _counted(settings, url, items)
    if settings.paging == "none":
        return None
    following = cursor_in(settings, document)
    if settings.paging == "cursor":
        # With a stored cursor the next pull reads what follows an empty page.
        if not following or (settings.keep_cursor and not items):
            return None
        return url.update_query({settings.page_parameter: following})
    link = following if settings.next else _link_in(answer.headers)
    return _onward(url, _joined(url, link)) if link else None


def _joined(url: URL, link: str) -> URL:
    try:
        following = url.join(URL(link))
        following.origin()  # which a URL without a host does not have
    except ValueError:
        raise ListFailed(
            f"{url.host} returned an invalid URL of the next page"
        ) from None
    return following


def cursor_in(settings: List, document: Any) -> str:
    """Return the cursor or link in an answer; empty if there is none."""
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
        raise ListFailed(f"{url.host} links to {following.host}, which is another host")
    return following


def _link_in(headers: Mapping[str, str]) -> str:
    for target, parameters in _LINK.findall(headers.get("link", "")):
        if _NEXT.search(parameters):
            return str(target)
    return ""
