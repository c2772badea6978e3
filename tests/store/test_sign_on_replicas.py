"""A login that begins at one daemon and ends at another one, on PostgreSQL."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest
from aiohttp.test_utils import TestClient, TestServer

from backhaul.admin import routes
from backhaul.admin.accounts import Passwords
from backhaul.admin.auth import BEGUN_COOKIE, COOKIE
from backhaul.admin.context import Services
from backhaul.admin.second_factor import STEP_SECONDS, SecondFactors, code_at
from backhaul.app.actions import user_actions
from backhaul.settings import Settings
from backhaul.store.operations import AuditEntry
from backhaul.store.operators import Role
from backhaul.store.ownership import Member
from backhaul.store.postgres.database import open_store
from scenes.clock import VirtualClock
from scenes.dashboard import PASSWORD, Browser
from scenes.databases import rows
from scenes.identity_provider import open_provider, settings_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from aiohttp import ClientResponse

    from backhaul.store.postgres.database import PostgresStore
    from scenes.identity_provider import IdentityProvider
    from scenes.postgres_databases import PostgresDatabases

pytestmark = pytest.mark.programs
PROXY = "http://127.0.0.1:8751"
"""The address for browsers; a proxy forwards each request to one of the daemons."""


@pytest.fixture
def url(postgres_server: PostgresDatabases) -> Iterator[str]:
    with postgres_server.lent() as lent:
        yield lent


class Replica:
    """A dashboard on a shared database."""

    def __init__(self, store: PostgresStore, settings: Settings, browser: Browser):
        self.store = store
        self.settings = settings
        self.browser = browser

    async def ask(
        self, path: str, cookies: dict[str, str], form: dict[str, str] | None = None
    ) -> ClientResponse:
        """Send a request of one browser; all replicas get the same cookies."""
        client = self.browser.client
        client.session.cookie_jar.clear()
        named = {f"{name}_8751": value for name, value in cookies.items()}
        headers = {"Host": "127.0.0.1:8751"}
        more: dict[str, Any] = {"headers": headers, "cookies": named}
        if form is None:
            return await client.get(path, allow_redirects=False, **more)
        more["headers"] = headers | {"Sec-Fetch-Site": "same-origin", "Origin": PROXY}
        return await client.post(path, data=form, allow_redirects=False, **more)


@asynccontextmanager
async def replica(
    folder: Path, url: str, name: str, provider: IdentityProvider
) -> AsyncIterator[Replica]:
    settings = Settings.model_validate(
        {
            "state_dir": folder / name,
            "database": {"url": url},
            "cluster": {"key": ["k" * 32]},
            "admin": {"url": PROXY, "oidc": settings_of(provider)},
            "stores": {"main": {"base_url": "https://shop.example", "api_key": "k"}},
        }
    )
    store = open_store(url, provider.clock, member=Member(name, name, "0.1.0"))
    store.start()

    async def status() -> dict[str, Any]:
        return {}

    app = routes.build_app(
        lambda: routes.READY, status, {}, cast("Any", None), problems
    )
    changes = user_actions(store)
    given = Services(settings, provider.clock, status, problems, changes, store, {})
    routes.install(app, given)
    server = TestServer(app)
    await server.start_server(access_log=None)
    client = TestClient(server)
    try:
        yield Replica(store, settings, Browser(client))
    finally:
        await client.close()
        await server.close()
        await store.stop()


async def problems() -> list[Any]:
    return []


@pytest.fixture
async def provider() -> AsyncIterator[IdentityProvider]:
    async with open_provider(VirtualClock()) as opened:
        yield opened


@pytest.fixture
async def pair(
    tmp_path: Path, url: str, provider: IdentityProvider
) -> AsyncIterator[tuple[Replica, Replica]]:
    async with (
        replica(tmp_path, url, "a", provider) as first,
        replica(tmp_path, url, "b", provider) as second,
    ):
        yield first, second


def cookie(answer: ClientResponse, name: str) -> dict[str, str]:
    return {name: answer.cookies[f"{name}_8751"].value}


async def test_the_callback_may_reach_another_replica(
    pair: tuple[Replica, Replica], provider: IdentityProvider, url: str
) -> None:
    first, second = pair
    begun = await first.ask("/login/oidc?next=/account", {})
    kept = cookie(begun, BEGUN_COOKIE)
    back = provider.allow(begun.headers["Location"])
    stored = str(rows(url, "SELECT key FROM begun_logins"))
    assert kept[BEGUN_COOKIE] not in stored
    assert (await second.ask(back, {})).status == 400
    answer = await second.ask(back, kept)
    assert answer.status == 200, await answer.text()
    session = cookie(answer, COOKIE)
    for each in pair:
        page = await each.ask("/account", session)
        assert (page.status, "viewer" in await page.text()) == (200, True)
    # each response of the provider counts once, for all replicas together
    for each in pair:
        assert (await each.ask(back, kept)).status == 400
    assert rows(url, "SELECT 1 FROM begun_logins") == []


async def test_a_code_may_reach_another_replica_and_counts_once(
    pair: tuple[Replica, Replica], provider: IdentityProvider, url: str
) -> None:
    first, second = pair
    users, name = first.store.users, "vera"
    factors = SecondFactors(first.settings, users, provider.clock)
    secret = factors.new_secret()
    await users.add(name, Role.VIEWER, await Passwords().hash(PASSWORD), "the test")
    entry = AuditEntry(name, "users totp", "vera: on")
    await users.set_totp(name, factors.seal(name, secret), (), entry)
    assert secret not in str(rows(url, "SELECT * FROM users"))
    step = int(provider.clock.now().timestamp()) // STEP_SECONDS
    form = {"name": name, "password": PASSWORD}
    begun = [
        cookie(await first.ask("/login", {}, form), BEGUN_COOKIE) for _ in range(2)
    ]
    code = {"code": code_at(secret, step)}
    assert (await second.ask("/login/code", begun[0], code)).status == 303
    for each in pair:
        assert (await each.ask("/login/code", begun[1], code)).status == 401
    assert not (first.settings.state_dir / "secrets").exists()


async def test_two_first_logins_at_once_add_one_user(
    pair: tuple[Replica, Replica],
) -> None:
    found = await asyncio.gather(
        *(
            each.store.users.sign_on("https://a 1", "ann", Role.VIEWER, "sso")
            for each in pair * 3
        )
    )
    assert {user.name for user in found} == {"ann"}
    assert len(await pair[0].store.users.list()) == 1
