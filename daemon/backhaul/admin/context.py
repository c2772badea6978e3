"""Page context: session, form values, pagination, and where a request came from."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, urlencode, urlsplit

from aiohttp import web
from msgspec import Struct, field

from backhaul.admin import rendering
from backhaul.admin.accounts import (
    FirstLoginToken,
    Passwords,
    PastLogins,
    Sessions,
    Throttle,
)
from backhaul.admin.live import LiveUpdates
from backhaul.admin.oidc import Provider
from backhaul.admin.second_factor import SecondFactors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from backhaul.admin.accounts import Session
    from backhaul.alerting.problem import Problem
    from backhaul.core.clock import Clock
    from backhaul.settings import Settings
    from backhaul.store import Store
    from backhaul.store.operators import User


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
    deliveries: Mapping[str, Callable[[], Awaitable[Sequence[Any]]]]


class PageContext(Struct):
    """Everything that the pages share."""

    services: Services
    sessions: Sessions
    throttle: Throttle
    past_logins: PastLogins
    origin: Origin
    first_token: FirstLoginToken
    live: LiveUpdates
    factors: SecondFactors
    provider: Provider | None
    passwords: Passwords = field(default_factory=Passwords)

    @classmethod
    def open(cls, services: Services) -> PageContext:
        """Build the context."""
        admin, users = services.settings.admin, services.store.users
        clock = services.clock
        oidc, url = admin.oidc, admin.url or ""
        return cls(
            services,
            Sessions(services.store.logins),
            Throttle(services.store.logins),
            PastLogins(users),
            Origin(admin.url, admin.trusted_proxies),
            FirstLoginToken(services.settings.state_dir),
            LiveUpdates(services.store),
            SecondFactors(services.settings, users, clock),
            Provider(oidc, url, clock) if oidc.is_configured else None,
        )

    def page(
        self, page_request: PageRequest, name: str, /, code: int = 200, **values: Any
    ) -> web.Response:
        """Return a whole page for the user."""
        notices: list[tuple[str, str]] = []
        if not is_refresh(page_request.request):
            notices, page_request.session.notices = page_request.session.notices, []
        return rendering.page(
            f"{name}.html",
            self.services.clock.now(),
            code,
            user=page_request.user,
            csrf=page_request.session.csrf,
            notices=notices,
            here=page_request.request.path,
            here_query=_address_of(page_request.request),
            theme=rendering.theme_of(page_request.request),
            **values,
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


REFRESH_HEADER = "X-Refresh"


def is_refresh(request: web.Request) -> bool:
    """Return whether a live page asks for its own newest state, and no person."""
    return REFRESH_HEADER in request.headers


def _address_of(request: web.Request) -> str:
    """Return the address of a page that a browser can load again."""
    return request.path_qs if request.method in {"GET", "HEAD"} else "/"


def local_path(path: str) -> str:
    """Return `path` if it is a path of this dashboard, else "/" (no open redirect)."""
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if is_ours and path.isprintable() else "/"


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


HTTPS = "https"


class Origin:
    """Finds the client behind proxies, by `[admin] url` and `trusted_proxies`."""

    def __init__(self, url: str | None, trusted: Iterable[str]) -> None:
        self._url = urlsplit(url or "")
        self._trusted = [ip_network(network, strict=False) for network in trusted]

    def address(self, request: web.Request) -> str:
        """Return the client's address: from a trusted proxy's header, else the peer."""
        address = request.remote or ""
        hops = ",".join(request.headers.getall("X-Forwarded-For", ())).split(",")
        # Each proxy appends the address of its own client. Read from the end and stop
        # at the first address that is not a trusted proxy: anyone can forge the rest.
        while hops and self._is_trusted(address):
            entry = hops.pop().strip()
            if not entry:
                break
            address = _without_port(entry)
        return address

    def is_https(self, request: web.BaseRequest) -> bool:
        """Return whether the browser used https, by a proxy's header or `url`."""
        if self._is_trusted(request.remote or ""):
            scheme = request.headers.get("X-Forwarded-Proto", "")
            if scheme:
                return scheme.strip().lower() == HTTPS
        return self._url.scheme == HTTPS and request.host == self._url.netloc

    def is_local(self, request: web.Request) -> bool:
        """Return whether the browser opened a loopback address, by its Host header.

        A client that forges the header only sends its own password in the clear.
        """
        host = parts_of(f"//{request.host}").hostname or ""
        if host == "localhost":
            return True
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return False

    def is_own_page(self, request: web.Request) -> bool:
        """Return whether a page of this dashboard sent the request."""
        site = request.headers.get("Sec-Fetch-Site")
        origin = request.headers.get("Origin")
        if site is None and origin is None:
            return False
        if site not in {None, "same-origin"}:
            return False
        own = {request.host, self._url.netloc} - {""}
        return origin is None or parts_of(origin).netloc in own

    def _is_trusted(self, peer: str) -> bool:
        try:
            address = ip_address(peer)
        except ValueError:
            return False
        found = getattr(address, "ipv4_mapped", None) or address
        return any(found in network for network in self._trusted)


def _without_port(entry: str) -> str:
    """Return the address of an entry that may have a port, as some proxies write it."""
    if entry.startswith("["):
        return entry[1:].partition("]")[0]
    host, colon, _ = entry.partition(":")
    return host if colon and entry.count(":") == 1 else entry


def parts_of(address: str) -> SplitResult:
    """Return the parts of an untrusted URL; empty parts if it is not a URL."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")
