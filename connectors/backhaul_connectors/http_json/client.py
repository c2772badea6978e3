"""The HTTP client of a JSON API: authorization, pages and cursors, changes, lookups."""

from __future__ import annotations

import base64
import json
import re
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec import Struct, field
from msgspec.structs import asdict, replace
from yarl import URL

from backhaul_sdk import (
    Absent,
    Applied,
    CheckFailed,
    Found,
    NotSent,
    Rejected,
    Uncertain,
    Unknown,
)
from backhaul_sdk.calls import (
    Caller,
    NeverSent,
    NoAnswer,
    NotJson,
    Pause,
    outcome_of,
)
from backhaul_sdk.fields import UNREADABLE, Unusable, rfc3339
from backhaul_sdk.json_items import digest_of
from backhaul_sdk.json_paths import find

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backhaul_connectors.http_json.settings import List, Push, Settings
    from backhaul_sdk import Change, LookedUp, Pushed
    from backhaul_sdk.calls import Answer


def authorization(settings: Settings) -> dict[str, str]:
    """Return the header with the key."""
    token = settings.token.get_secret_value()
    if settings.auth == "bearer":
        return {"Authorization": f"Bearer {token}"}
    if settings.auth == "basic":
        pair = f"{settings.user}:{token}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {settings.header: token} if settings.auth == "header" else {}


class JsonApi:
    """The HTTP API of one system; respects the waits that it asks for.

    `clock` returns seconds that never go back.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._pause = Pause(clock)
        caller = partial(
            Caller,
            settings.network,
            answer_seconds=settings.answer_seconds,
            most_bytes=settings.most_bytes,
            secrets=[settings.token.get_secret_value()],
        )
        self._readers = caller(keep_alive=True)
        # A write is never sent on a connection that may be closing.
        self._writers = caller()

    async def close(self) -> None:
        await self._readers.close()
        await self._writers.close()

    def check(self) -> None:
        """Raises AddressRefused."""
        self._readers.check(self._settings.base_url)

    async def read(
        self, url: URL | str, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Return the answer to a GET: 2xx, 304 or 404. Raises CheckFailed."""
        self._require_leave()
        answer = await self._readers.call(
            "GET", url, headers={**authorization(self._settings), **(headers or {})}
        )
        if answer.is_success or answer.status in (304, 404):
            return answer
        if answer.status in (429, 503):
            self._wait(answer)
        if 300 <= answer.status < 400:
            raise CheckFailed(
                "the server answered with a redirect, and Backhaul does not follow"
                " redirects; set base_url to the final address"
            )
        if answer.status in (401, 403):
            raise CheckFailed(
                f"the server denied access; check token: {answer.words()}"
            )
        raise CheckFailed(f"the server answered {answer.words()}")

    async def write(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str]
    ) -> Answer:
        """Send once. Raises NeverSent or NoAnswer."""
        content = {"Content-Type": "application/json", **headers}
        return await self._writers.call(
            method, url, headers={**authorization(self._settings), **content}, body=body
        )

    def _wait(self, answer: Answer) -> None:
        seconds = answer.retry_after_seconds or 0.0
        self._pause.begin(seconds)
        raise CheckFailed(f"the server asks Backhaul to wait {seconds:g} s")

    def _require_leave(self) -> None:
        if (left := self._pause.left_seconds) > 0:
            raise CheckFailed(
                f"the server asked Backhaul to wait, and {left:.0f} s are left"
            )


async def push(system: JsonApi, base: str, settings: Push, change: Change) -> Pushed:
    """Send a change once; its id is the Idempotency-Key."""
    try:
        body = json.dumps(find(settings.body, _envelope(change))).encode()
    except Unusable as error:
        return Rejected(f"body: {error}")
    try:
        answer = await system.write(
            settings.method,
            _url(base, settings.path, change),
            body,
            {"Idempotency-Key": change.id},
        )
    except NeverSent as error:
        return NotSent(str(error))
    except NoAnswer as error:
        return Uncertain(str(error))
    said = outcome_of(answer)
    return _applied(settings, answer) if isinstance(said, Applied) else said


def _applied(settings: Push, answer: Answer) -> Pushed:
    if settings.reference is None:
        return Applied()
    try:
        reference = _reference(find(settings.reference, answer.json()))
    except (NotJson, Unusable) as error:
        return Uncertain(f"the server answered {answer.status}, but {error}")
    if reference is None:
        return Uncertain(
            f"the server answered {answer.status}, but its response contains no id"
            " of the new object"
        )
    return Applied(reference)


async def lookup(
    system: JsonApi, base: str, settings: Push, change: Change
) -> LookedUp:
    """Return whether the system has a change. Raises CheckFailed if unreachable."""
    if settings.lookup_path is None:
        return Unknown("no lookup_path is set")
    try:
        answer = await system.read(_url(base, settings.lookup_path, change))
        if answer.status == 404:
            return _absent(answer)
        found = find(settings.lookup_reference, answer.json())
    except (NotJson, Unusable) as error:
        return Unknown(str(error))
    if found is None or found in ([], {}, ""):
        return Absent()
    return Found(_reference(found))


def _absent(answer: Answer) -> LookedUp:
    """A proxy says 404 as well, but not in JSON."""
    try:
        answer.json()
    except NotJson:
        return Unknown("the server answered 404, but not in JSON; check lookup_path")
    return Absent()


def _envelope(change: Change) -> dict[str, Any]:
    return {
        "id": change.id,
        "store": change.store,
        "topic": change.topic,
        "object_id": change.object_id,
        "occurred_at": change.occurred_at,
        "document": dict(change.document),
    }


def _url(base: str, path: str, change: Change) -> str:
    filled = path.replace("{id}", quote(change.id, safe=""))
    return base.rstrip("/") + filled.replace(
        "{object_id}", quote(change.object_id, safe="")
    )


def _reference(value: Any) -> str | None:
    single = value[0] if isinstance(value, list) and value else value
    if isinstance(single, bool) or not isinstance(single, str | int):
        return None
    return str(single) or None


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
            raise ListFailed(
                f"page {number} of the list has the same URL as page {known}{_ADVICE}"
            )

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
            raise ListFailed(
                f"{self._empty} pages of the list in a row are empty{_ADVICE}"
            )
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
            f"the server {url.host} returned an invalid URL of the next page"
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
        raise ListFailed(
            f"the next page of the list on {url.host} is on another host,"
            f" {following.host}, which Backhaul does not trust"
        )
    return following


def _link_in(headers: Mapping[str, str]) -> str:
    for target, parameters in _LINK.findall(headers.get("link", "")):
        if _NEXT.search(parameters):
            return str(target)
    return ""
