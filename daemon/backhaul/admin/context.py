"""Page context: database, session, form values and pagination."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from aiohttp import web
from msgspec import Struct, field

from backhaul.admin import rendering
from backhaul.admin.accounts import FirstToken, Passwords, Sessions
from backhaul.admin.client_address import Origin
from backhaul.admin.throttle import PastLogins, Throttle
from backhaul.store.sqlite.board import Board

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from backhaul.admin.accounts import Session
    from backhaul.core.clock import Clock
    from backhaul.maintenance.self_monitoring import Sampler
    from backhaul.settings import Settings
    from backhaul.store.sqlite.numbers import Numbers
    from backhaul.store.users import User, Users


T = TypeVar("T")


class Given(Struct, frozen=True):
    """What the composition root hands in.

    `changes` are those of `backhaul.app.actions`; `deliveries` ask a store's platform
    for those to this daemon.
    """

    settings: Settings
    clock: Clock
    status: Callable[[], Awaitable[dict[str, Any]]]
    changes: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]]
    users: Users
    numbers: Numbers
    sampler: Sampler
    deliveries: Mapping[str, Callable[[], Awaitable[Sequence[Any]]]]


class Reading:
    """Lends a Board to one question at a time, each in a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: SimpleQueue[Board] = SimpleQueue()
        self._is_closed = False

    async def ask(self, question: Callable[[Board], T]) -> T:
        """Return the answer."""
        return await asyncio.to_thread(self._ask, question)

    def _ask(self, question: Callable[[Board], T]) -> T:
        with self._lend() as board:
            return question(board)

    @contextmanager
    def _lend(self) -> Iterator[Board]:
        try:
            board = self._idle.get_nowait()
        except Empty:
            board = Board(self._path)
        try:
            yield board
        finally:
            self._idle.put(board)
            if self._is_closed:
                self.close()

    def close(self) -> None:
        """Close what is idle now, and what comes back later as soon as it does."""
        self._is_closed = True
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()


class Desk(Struct):
    """Everything that pages share."""

    given: Given
    reading: Reading
    sessions: Sessions
    throttle: Throttle
    past_logins: PastLogins
    origin: Origin
    first_token: FirstToken
    passwords: Passwords = field(default_factory=Passwords)

    @classmethod
    def open(cls, given: Given) -> Desk:
        """Put it together."""
        admin = given.settings.admin
        return cls(
            given,
            Reading(given.settings.database_file),
            Sessions(given.clock),
            Throttle(given.clock),
            PastLogins(given.users),
            Origin(admin.url, admin.trusted_proxies),
            FirstToken(given.settings.state_dir),
        )

    def page(
        self, visit: Visit, name: str, /, code: int = 200, **values: Any
    ) -> web.Response:
        """Return a page for this person."""
        said, visit.session.said = visit.session.said, []
        return rendering.page(
            f"{name}.html",
            self.given.clock.now(),
            code,
            user=visit.user,
            csrf=visit.session.csrf,
            said=said,
            here=visit.request.path,
            **values,
        )

    def fragment(self, visit: Visit, name: str, /, **values: Any) -> web.Response:
        """Return a part of a page, which tells no news."""
        now = self.given.clock.now()
        return rendering.page(f"{name}.html", now, 200, user=visit.user, **values)

    async def change(self, visit: Visit, name: str, /, **asked: Any) -> dict[str, Any]:
        """Change something in this person's name. Raises BackhaulError."""
        return await self.given.changes[name]({**asked, "who": visit.user.name})


class Visit(Struct, frozen=True):
    """One request of somebody who is logged in; `form` is what was sent."""

    request: web.Request
    user: User
    session: Session
    form: Mapping[str, str]

    def asked(self, name: str) -> str | None:
        """Return what the address asks, if anything."""
        return self.request.query.get(name, "").strip() or None

    def back_to(self, path: str) -> web.Response:
        """Send the browser on after a change."""
        return web.Response(status=303, headers={"Location": path})


BEFORE = "before"
_LARGEST = 2**63 - 1


class Pager(Struct, frozen=True):
    """Where the next page is, and the first; None where one is there already."""

    older: str | None
    newest: str | None


def before(visit: Visit) -> int | None:
    """Return the number of the row that the page is to begin after."""
    asked = visit.asked(BEFORE) or ""
    is_number = asked.isascii() and asked.isdigit()
    return min(int(asked[:19]), _LARGEST) if is_number else None


def turned(
    visit: Visit, rows: list[dict[str, Any]], most: int, key: str = "id"
) -> tuple[list[dict[str, Any]], Pager]:
    """Return the page's rows, and where to go on.

    `rows` are one more than a page holds, where there are so many; the row's `key`
    is what the next page begins after.
    """
    older = rows[most - 1][key] if len(rows) > most else None
    return rows[:most], pager(visit, older)


def pager(visit: Visit, older: object) -> Pager:
    """Return the links of a page after which `older` goes on, if anything does."""
    newest = _address(visit, None) if visit.asked(BEFORE) else None
    return Pager(None if older is None else _address(visit, older), newest)


def _address(visit: Visit, key: object) -> str:
    kept = [(n, v) for n, v in visit.request.query.items() if n != BEFORE and v]
    query = urlencode([*kept, (BEFORE, key)] if key is not None else kept)
    return f"{visit.request.path}?{query}" if query else visit.request.path
