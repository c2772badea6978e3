"""Polls a courier's API for parcels, page by page."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from yarl import URL

from backhaul_sdk import CheckFailed
from backhaul_sdk.calls import CallFailed
from backhaul_sdk.fields import UNREADABLE, rfc3339
from backhaul_sdk.json_paths import find

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from backhaul_connectors.courier.settings import Settings
    from backhaul_sdk.calls import Caller

LOOKING_BACK_SECONDS = 30 * 86_400
OVERLAP_SECONDS = 3_600
MOST_SEEN = 5_000


class SeenStatuses(Struct):
    """The last status of each parcel, and when the list was last read to its end."""

    asked_at: float = 0.0
    words: dict[str, str] = field(default_factory=dict)

    def is_new(self, number: str, word: str) -> bool:
        """Remember a parcel's status; return True if it is new."""
        known = self.words.pop(number, None)
        self.words[number] = word
        while len(self.words) > MOST_SEEN:
            del self.words[next(iter(self.words))]
        return known != word

    def to_text(self) -> str:
        return json.dumps({"asked_at": self.asked_at, "words": self.words})

    @classmethod
    def from_text(cls, text: str | None) -> SeenStatuses:
        """Parse the host's text; invalid text means from the beginning."""
        try:
            found = json.loads(text or "{}")
            words = {str(k): str(v) for k, v in found["words"].items()}
            return cls(float(found["asked_at"]), words)
        except UNREADABLE:
            return cls()


class ParcelList(Struct, frozen=True):
    """A courier's list: its path, its parameter for the start time, and its members."""

    path: str
    since: str
    items: str
    next: str
    cursor: str = ""
    query: Mapping[str, str] = field(default_factory=dict)


LISTINGS = {
    "easypost": ParcelList(
        "/v2/trackers",
        "start_datetime",
        "trackers",
        "has_more && trackers[-1].id || null",
        "before_id",
        {"page_size": "100"},
    ),
    "aftership": ParcelList(
        "/tracking/2024-10/trackings",
        "updated_at_min",
        "data.trackings",
        "data.pagination.has_next_page && data.pagination.next_cursor || null",
        "cursor",
        {"limit": "200"},
    ),
    "sendcloud": ParcelList(
        "/api/v2/parcels", "updated_after", "parcels", "next", "", {"limit": "500"}
    ),
}


def authorization(settings: Settings) -> dict[str, str]:
    """Return the header with the key, in the form of each courier."""
    key = settings.api_key.get_secret_value()
    secret = settings.api_secret.get_secret_value()
    if settings.vendor == "aftership":
        return {"as-api-key": key}
    if settings.vendor == "generic" and not secret:
        return {"Authorization": f"Bearer {key}"} if key else {}
    pair = base64.b64encode(f"{key}:{secret}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


async def pages(
    caller: Caller, settings: Settings, seen: SeenStatuses, now: float
) -> AsyncGenerator[list[Any]]:
    """Yield the rows of each page. Raises CheckFailed."""
    listing = LISTINGS.get(settings.vendor)
    if listing is None:
        listing = ParcelList(settings.api_path, "", settings.events.items, "")
    url: URL | None = _first(settings, listing, seen, now)
    while url is not None:
        document = await read(caller, settings, url)
        rows = find(listing.items, document)
        if not isinstance(rows, list):
            raise CheckFailed(
                f"the response of {url.host} has no list at {listing.items}"
                " (setting items)"
            )
        yield rows
        url = _next(listing, url, document) if rows and listing.next else None


async def read(caller: Caller, settings: Settings, url: URL | str) -> Any:
    """Return the JSON of a URL of the courier's own host. Raises CheckFailed."""
    target = caller.check(url)
    own = URL(settings.base_url)
    if target.origin() != own.origin():
        raise CheckFailed(
            f"the message contains a link to {target.host}, which is not the"
            f" courier's host {own.host}. For safety, Backhaul did not follow the"
            " link"
        )
    answer = await caller.call("GET", target, headers=authorization(settings))
    if not answer.is_success:
        raise CallFailed(f"the courier's host {target.host} answered {answer.words()}")
    return answer.json()


def _first(
    settings: Settings, listing: ParcelList, seen: SeenStatuses, now: float
) -> URL:
    since = max(seen.asked_at - OVERLAP_SECONDS, now - LOOKING_BACK_SECONDS)
    if settings.vendor == "easypost":
        # The list filters by a parcel's creation, not by its last change.
        since = now - LOOKING_BACK_SECONDS
    query = dict(listing.query)
    if listing.since:
        query[listing.since] = rfc3339(datetime.fromtimestamp(since, UTC))
    return URL(settings.base_url + listing.path).update_query(query)


def _next(listing: ParcelList, url: URL, document: Any) -> URL | None:
    found = find(listing.next, document)
    if not isinstance(found, str) or not found:
        return None
    try:
        if listing.cursor:
            following = url.update_query({listing.cursor: found})
        else:
            following = url.join(URL(found))
    except ValueError:
        raise CheckFailed(
            f"the courier's host {url.host} returned an invalid URL of the next page"
        ) from None
    if following == url:
        raise CheckFailed(
            f"the courier's host {url.host} returned the page that was just read as"
            " the next page, so Backhaul cannot read the whole list"
        )
    return following
