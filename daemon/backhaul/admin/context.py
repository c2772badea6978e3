"""Page context: database, session, form values and pagination."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from aiohttp import web
from msgspec import Struct, field

from backhaul.admin import rendering
from backhaul.admin.accounts import FirstLoginToken, Passwords, Sessions
from backhaul.admin.http_security import Origin
from backhaul.admin.throttle import PastLogins, Throttle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from backhaul.admin.accounts import Session
    from backhaul.alerting.problem import Problem
    from backhaul.core.clock import Clock
    from backhaul.maintenance.self_monitoring import Sampler
    from backhaul.settings import Settings
    from backhaul.store import Store
    from backhaul.store.operations import User


T = TypeVar("T")


class Services(Struct, frozen=True):
    """Services that the dashboard needs from the daemon.

    `changes` are the actions of `backhaul.app.actions`; `deliveries` read, per store,
    the platform's list of webhook deliveries to this daemon.
    """

    settings: Settings
    clock: Clock
    status: Callable[[], Awaitable[dict[str, Any]]]
    problems: Callable[[], Awaitable[list[Problem]]]
    changes: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]]
    store: Store
    sampler: Sampler
    deliveries: Mapping[str, Callable[[], Awaitable[Sequence[Any]]]]


class PageContext(Struct):
    """Everything that the pages share."""

    services: Services
    sessions: Sessions
    throttle: Throttle
    past_logins: PastLogins
    origin: Origin
    first_token: FirstLoginToken
    passwords: Passwords = field(default_factory=Passwords)

    @classmethod
    def open(cls, services: Services) -> PageContext:
        """Build the context."""
        admin = services.settings.admin
        return cls(
            services,
            Sessions(services.clock),
            Throttle(services.clock),
            PastLogins(services.store.users),
            Origin(admin.url, admin.trusted_proxies),
            FirstLoginToken(services.settings.state_dir),
        )

    def page(
        self, page_request: PageRequest, name: str, /, code: int = 200, **values: Any
    ) -> web.Response:
        """Return a whole page for the user."""
        notices, page_request.session.notices = page_request.session.notices, []
        return rendering.page(
            f"{name}.html",
            self.services.clock.now(),
            code,
            user=page_request.user,
            csrf=page_request.session.csrf,
            notices=notices,
            here=page_request.request.path,
            **values,
        )

    def fragment(
        self, page_request: PageRequest, name: str, /, **values: Any
    ) -> web.Response:
        """Return a part of a page; it shows no notices."""
        now = self.services.clock.now()
        return rendering.page(
            f"{name}.html", now, 200, user=page_request.user, **values
        )

    async def change(
        self, page_request: PageRequest, name: str, /, **values: Any
    ) -> dict[str, Any]:
        """Run an action in the user's name. Raises BackhaulError."""
        return await self.services.changes[name](
            {**values, "who": page_request.user.name}
        )


class PageRequest(Struct, frozen=True):
    """One request of a logged-in user; `form` has the submitted fields."""

    request: web.Request
    user: User
    session: Session
    form: Mapping[str, str]

    def query(self, name: str) -> str | None:
        """Return a parameter of the URL, None if it is missing or empty."""
        return self.request.query.get(name, "").strip() or None

    def redirect(self, path: str) -> web.Response:
        """Redirect the browser after a change."""
        return web.Response(status=303, headers={"Location": path})


CURSOR = "before"
_LARGEST = 2**63 - 1


class Pager(Struct, frozen=True):
    """URLs of the next and the first page; None if there is none."""

    older: str | None
    newest: str | None


def cursor_of(page_request: PageRequest) -> int | None:
    """Return the number of the row after which the page begins."""
    text = page_request.query(CURSOR) or ""
    is_number = text.isascii() and text.isdigit()
    return min(int(text[:19]), _LARGEST) if is_number else None


def paginate(
    page_request: PageRequest, rows: list[T], size: int, key: str = "id"
) -> tuple[list[T], Pager]:
    """Return the rows of one page and its links.

    The caller reads `size` + 1 rows: the extra row shows that there is a next page,
    which begins after the column `key` of the last row shown.
    """
    older = getattr(rows[size - 1], key) if len(rows) > size else None
    return rows[:size], pager(page_request, older)


def pager(page_request: PageRequest, older: object) -> Pager:
    """Return the links of a page; `older` is the cursor of the next one or None."""
    newest = _address(page_request, None) if page_request.query(CURSOR) else None
    return Pager(None if older is None else _address(page_request, older), newest)


def _address(page_request: PageRequest, key: object) -> str:
    kept = [(n, v) for n, v in page_request.request.query.items() if n != CURSOR and v]
    query = urlencode([*kept, (CURSOR, key)] if key is not None else kept)
    return (
        f"{page_request.request.path}?{query}" if query else page_request.request.path
    )
