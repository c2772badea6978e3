"""Which URL brings what follows a page, and that it is the same system's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from yarl import URL

from backhaul_connectors.http_json.parsing import find
from backhaul_sdk import CheckFailed
from backhaul_sdk.reading import Unusable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul_connectors.http_json.cursor import Place
    from backhaul_connectors.http_json.settings import List
    from backhaul_sdk.calls import Answer

_LINK = re.compile(r'<([^<>]*)>\s*((?:;\s*[\w*-]+\s*=\s*(?:"[^"]*"|[^\s";,]+)\s*)*)')
_NEXT = re.compile(r';\s*rel\s*=\s*"?(?:[^"]*\s)?next(?:\s[^"]*)?"?', re.IGNORECASE)


def first_url(base: str, settings: List, place: Place) -> URL:
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

    Raises CheckFailed where it leads to another host, or back to where it was.
    """
    if settings.paging in ("page", "offset"):
        return _counted(settings, url, items)
    if settings.paging == "none":
        return None
    following = cursor_in(settings, document)
    if settings.paging == "cursor":
        if not following or not items:
            return None
        return _onward(url, url.update_query({settings.page_parameter: following}))
    link = following if settings.next else _link_in(answer.headers)
    return _onward(url, _joined(url, link)) if link else None


def _joined(url: URL, link: str) -> URL:
    try:
        following = url.join(URL(link))
        following.origin()  # which an address without a host has not
    except ValueError:
        raise CheckFailed(f"{url.host} leads on to what is no address") from None
    return following


def cursor_in(settings: List, document: Any) -> str:
    """Return the cursor or link that an answer holds; empty for none."""
    try:
        found = find(settings.next, document) if settings.next else None
    except Unusable as error:
        raise CheckFailed(str(error)) from None
    return "" if found is None or isinstance(found, bool | dict | list) else str(found)


def _counted(settings: List, url: URL, items: int) -> URL | None:
    if items == 0 or (settings.size_parameter and items < settings.page_size):
        return None
    step = items if settings.paging == "offset" else 1
    number = int(url.query[settings.page_parameter]) + step
    return url.update_query({settings.page_parameter: str(number)})


def _onward(url: URL, following: URL) -> URL:
    if following.origin() != url.origin():
        raise CheckFailed(
            f"{url.host} sends us on to {following.host}, which is another system"
        )
    if following == url:
        raise CheckFailed(f"{url.host} says that a page follows itself")
    return following


def _link_in(headers: Mapping[str, str]) -> str:
    for target, parameters in _LINK.findall(headers.get("link", "")):
        if _NEXT.search(parameters):
            return str(target)
    return ""
