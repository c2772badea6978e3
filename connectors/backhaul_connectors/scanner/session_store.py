"""The documents of picks and counts: sessions, known scans, and their deletion."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backhaul_connectors.scanner.deduplication import RecentScans
from backhaul_connectors.scanner.scan import bare
from backhaul_sdk import Line, LineInStore
from backhaul_sdk.database import MOST_LISTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backhaul_sdk import Documents, DocumentStore


KEPT = 2_000
"""Finished sessions, and numbered scans outside of sessions, that are remembered for
devices that send a scan again."""
AT_ONCE = 100
"""The documents of a kind that one transaction deletes, in a few milliseconds."""
FINISHED = frozenset({"done", "dropped", "refused"})


async def delete_old(store: DocumentStore, wall: Callable[[], float]) -> None:
    """Delete everything old, page by page; `wall` reads seconds since 1970."""
    for delete in (partial(_expired_keys, wall=wall), _old_commands, _old_sessions):
        after: str | None = ""
        while after is not None:
            after = await store.transact(partial(delete, after=after))


def _expired_keys(
    documents: Documents, *, after: str, wall: Callable[[], float]
) -> str | None:
    """Delete expired keys of a page; return the last key, None at the end."""
    # Not the time when the deletion began: to it, a key of a scan since then would
    # look like one from before the clock was set back.
    return RecentScans(documents, wall()).delete_expired(after, AT_ONCE)


def _old_commands(documents: Documents, *, after: str) -> str | None:
    """Delete the oldest numbered scans outside of sessions, as `_expired_keys` does."""
    kept = Sessions(documents).last_number(LAST_COMMAND) - KEPT
    page = documents.list("command/", after=after, limit=AT_ONCE)
    for key, scan in page:
        if key > command_key(kept):
            return None
        documents.delete(scan_key(scan.decode()))
        documents.delete(key)
    return page[-1][0] if page else None


def _old_sessions(documents: Documents, *, after: str) -> str | None:
    """Delete the oldest finished session; return where to go on, None at the end."""
    sessions = Sessions(documents)
    kept = sessions.last_number(LAST_SESSION) - KEPT
    page = sessions.page(after, AT_ONCE)
    for session in page:
        key = session_key(session.id)
        if session.id > kept:
            return None
        if session.state in FINISHED:
            return key if _delete(documents, session) else after
        after = key
    return after if page else None


def _delete(documents: Documents, session: Session) -> bool:
    """Delete a part of a session; return True if the session is gone."""
    scans = documents.list(scans_of(session.id), limit=AT_ONCE)
    for key, _ in scans:
        documents.delete(scan_key(key.removeprefix(scans_of(session.id))))
        documents.delete(key)
    articles = documents.list(articles_of(session.id), limit=AT_ONCE)
    for key, _ in articles:
        documents.delete(key)
    if AT_ONCE in (len(scans), len(articles)):
        return False
    Sessions(documents).delete(session)
    return True


T = TypeVar("T")
_SEPARATOR = "\x1f"
"""Between an order and a device in a key: no order's name contains it."""
LAST_SESSION, LAST_COMMAND = "last/session", "last/command"


class Session(Struct, frozen=True, omit_defaults=True):
    """A picked order, or a count.

    `state` is `open`, `closed` (complete, not yet stored by the host or in its file),
    `done`, `refused` (quarantined by the host) or `dropped`; `name` is unique forever.
    `lines_in_store` are the lines of the order when they were last looked up, None if
    it was not known. `articles` counts the different articles. `joined` is the session
    that took over the articles.
    """

    id: int
    name: str
    device: str
    mode: str
    order: str
    tracking_company: str | None = None
    tracking_number: str | None = None
    shipped_at: str | None = None
    state: str = "open"
    what: str = ""
    lines_in_store: tuple[LineInStore, ...] | None = None
    articles: int = 0
    joined: int | None = None


class DeviceState(Struct, frozen=True, omit_defaults=True):
    """The mode of a device, and the session that it works on."""

    mode: str
    session: int | None = None


class LatestSession(Struct, frozen=True, omit_defaults=True):
    """A device's latest session of an order.

    `finished_at` is when a scan without number finished it, in seconds since 1970.
    """

    session: int
    finished_at: float | None = None


class CollectedArticle(Struct, frozen=True, omit_defaults=True):
    """An article of a session: its units, and its place among the articles.

    `scanned_at` has the last time of each number of units that a scan without number
    had, in seconds since 1970.
    """

    units: int
    place: int
    scanned_at: dict[int, float] = {}


class KnownScan(Struct, frozen=True, omit_defaults=True):
    """A numbered scan: what was answered, and the session it belongs to.

    A scan that belongs to none, and did not say its mode, has the `mode` that its
    device had: if it comes again, it has that mode again, and so the same record.
    """

    what: str
    session: int | None = None
    mode: str = ""


def session_key(id_: int) -> str:
    """Return the key of a session; keys are in the order of the sessions."""
    return f"session/{id_:010}"


def scan_key(key: str) -> str:
    """Return the key of a numbered scan."""
    return f"scan/{key}"


def scans_of(id_: int) -> str:
    """Return the prefix of the keys that list a session's numbered scans."""
    return f"scans-of/{id_:010}/"


def articles_of(id_: int) -> str:
    """Return the prefix of the keys of a session's articles."""
    return f"article/{id_:010}/"


def command_key(number: int) -> str:
    """Return the key that lists a numbered scan without a session."""
    return f"command/{number:010}"


def devices_of(mode: str, order: str) -> str:
    """Return the prefix of the keys of each device's latest session of an order."""
    return f"order/{mode}/{bare(order)}{_SEPARATOR}"


def latest_key(session: Session) -> str:
    """Return the key of the latest session of the same device and order."""
    return f"{devices_of(session.mode, session.order)}{session.device}"


class Sessions:
    """The sessions of one connection, inside one transaction."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def find(self, id_: int) -> Session | None:
        """Return a session, None if it is too old to be kept."""
        return self._read(session_key(id_), Session)

    def get(self, id_: int) -> Session:
        """Return a session that is not finished, or was a moment ago."""
        found = self.find(id_)
        if found is None:
            raise LookupError(f"there is no session {id_}")
        return found

    def put(self, session: Session) -> Session:
        """Store a session, and return it."""
        self._write(session_key(session.id), session)
        return session

    def begin(self, session: Session) -> Session:
        """Store a new session under the next number, and return it."""
        return self.adopt(replace(session, id=self.last_number(LAST_SESSION) + 1))

    def adopt(self, session: Session) -> Session:
        """Store the newest session of all under its number, and return it."""
        self._write(LAST_SESSION, session.id)
        self._write(latest_key(session), LatestSession(session.id))
        if session.state == "closed":
            self._documents.put(_closed_key(session.id), b"")
        return self.put(session)

    def open_one(self, mode: str, order: str, device: str) -> Session | None:
        """Return the device's open session of an order, or None."""
        key = f"{devices_of(mode, order)}{device}"
        latest = self._read(key, LatestSession)
        found = self.find(latest.session) if latest is not None else None
        return found if found is not None and found.state == "open" else None

    def open_of_order(self, mode: str, order: str) -> list[Session]:
        """Return the open sessions of all devices of an order, the oldest first."""
        latest = self._documents.list(devices_of(mode, order))
        ids = sorted(_decoded(value, LatestSession).session for _, value in latest)
        found = map(self.find, ids)
        return [each for each in found if each is not None and each.state == "open"]

    def finish(
        self, session: Session, state: str, finished_at: float | None = None
    ) -> Session:
        """End a session; its device works on none then."""
        if state == "closed":
            self._documents.put(_closed_key(session.id), b"")
        device = self.device(session.device)
        if device is not None and device.session == session.id:
            self.put_device(session.device, DeviceState(device.mode))
        latest = self._read(latest_key(session), LatestSession)
        if latest is not None and latest.session == session.id:
            self._write(latest_key(session), LatestSession(session.id, finished_at))
        return self.put(replace(session, state=state))

    def end(self, session: Session, state: str, what: str) -> None:
        """Store the outcome of a submitted session."""
        self._documents.delete(_closed_key(session.id))
        self.put(replace(self.get(session.id), state=state, what=what))

    def closed(self) -> list[Session]:
        """Return the complete sessions that were not submitted, the oldest first."""
        keys = self._documents.list("closed/")
        return [self.get(int(key.removeprefix("closed/"))) for key, _ in keys]

    def finished_at(self, mode: str, order: str, device: str) -> float | None:
        """Return when an unnumbered scan finished the device's session of an order."""
        key = f"{devices_of(mode, order)}{device}"
        latest = self._read(key, LatestSession)
        return None if latest is None else latest.finished_at

    def device(self, device: str) -> DeviceState | None:
        """Return the state of a device, None if it was never set."""
        return self._read(f"device/{device}", DeviceState)

    def put_device(self, device: str, state: DeviceState) -> None:
        self._write(f"device/{device}", state)

    def article(self, session: Session, sku: str) -> CollectedArticle | None:
        """Return what was collected of an article."""
        return self._read(f"{articles_of(session.id)}{sku}", CollectedArticle)

    def put_article(
        self, session: Session, sku: str, article: CollectedArticle
    ) -> Session:
        """Store what was collected of an article; return the session."""
        self._write(f"{articles_of(session.id)}{sku}", article)
        if article.place < session.articles:
            return session
        return self.put(replace(session, articles=article.place + 1))

    def articles(self, session: Session) -> Iterator[tuple[str, CollectedArticle]]:
        """Yield everything that was collected, by SKU."""
        prefix, after = articles_of(session.id), ""
        while page := self._documents.list(prefix, after=after):
            after = page[-1][0]
            for key, value in page:
                yield key.removeprefix(prefix), _decoded(value, CollectedArticle)

    def join(self, session: Session, other: Session) -> Session:
        """Move the articles of another session of the order, and end that session."""
        for sku, article in list(self.articles(other)):
            known = self.article(session, sku)
            known = known or CollectedArticle(0, session.articles)
            moved = CollectedArticle(
                known.units + article.units,
                known.place,
                known.scanned_at | article.scanned_at,
            )
            session = self.put_article(session, sku, moved)
            self._documents.delete(f"{articles_of(other.id)}{sku}")
        self.finish(replace(other, joined=session.id, articles=0), "dropped")
        return session

    def known_scan(self, key: str) -> KnownScan | None:
        """Return a numbered scan that was stored before."""
        return self._read(scan_key(key), KnownScan)

    def remember(self, key: str, scan: KnownScan) -> None:
        """Store a numbered scan under its key, so that it is known when it comes again.

        A scan of no session is stored once, under the next number.
        """
        if scan.session is not None:
            self._documents.put(f"{scans_of(scan.session)}{key}", b"")
        elif self.known_scan(key) is None:
            listed = command_key(self.next_number(LAST_COMMAND))
            self._documents.put(listed, key.encode())
        self._write(scan_key(key), scan)

    def page(self, after: str, limit: int) -> list[Session]:
        """Return the first sessions whose keys are behind `after`."""
        page = self._documents.list("session/", after=after, limit=limit)
        return [_decoded(value, Session) for _, value in page]

    def delete(self, session: Session) -> None:
        """Delete a session that has neither articles nor scans any more."""
        latest = self._read(latest_key(session), LatestSession)
        if latest is not None and latest.session == session.id:
            self._documents.delete(latest_key(session))
        self._documents.delete(session_key(session.id))

    def last_number(self, name: str) -> int:
        """Return the last number of a sequence, 0 if there was none."""
        return self._read(name, int) or 0

    def next_number(self, name: str) -> int:
        """Return the next number of a sequence, from 1."""
        number = self.last_number(name) + 1
        self._write(name, number)
        return number

    def _read(self, key: str, kind: type[T]) -> T | None:
        value = self._documents.get(key)
        return None if value is None else _decoded(value, kind)

    def _write(self, key: str, value: object) -> None:
        self._documents.put(key, msgspec.json.encode(value))


def page_of_lines(
    documents: Documents, session: Session, after: str
) -> tuple[list[tuple[int, Line]], str | None]:
    """Return lines of a session with their places, and where the next page begins.

    The first page begins at ""; the last one returns None.
    """
    prefix = articles_of(session.id)
    page = documents.list(prefix, after=after)
    lines = []
    for key, value in page:
        article = _decoded(value, CollectedArticle)
        line = Line(sku=key.removeprefix(prefix), quantity=article.units)
        lines.append((article.place, line))
    return lines, page[-1][0] if len(page) == MOST_LISTED else None


def _closed_key(id_: int) -> str:
    return f"closed/{id_:010}"


def _decoded(value: bytes, kind: type[T]) -> T:
    return msgspec.json.decode(value, type=kind)
