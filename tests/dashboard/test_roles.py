"""Every route of the admin listener, and what each kind of caller gets from it.

A caller is anonymous, a user of each role with a session, or a program with a token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.admin import routes
from backhaul.admin.pages.administration import STORE_ACTIONS
from backhaul.admin.pages.commands import PATHS
from backhaul.store.tokens import Scope
from scenes.api import Program, issue
from scenes.dashboard import PEOPLE
from scenes.routes import without_row

if TYPE_CHECKING:
    from backhaul.admin.auth import Route
    from scenes.dashboard import Browser, Office

OUT = 303
"""Sent to the login."""
OPEN = (200, 200, 200, 200)
READ = (OUT, 200, 200, 200)
# Of what is sent with nothing in it: 422 and 404 come from behind the guard.
WHO = ("anonymous", *PEOPLE)
ROW_VERBS = ("edit", "retry", "discard", "alike", "reprocess", "remember")
EXPECTED: dict[str, tuple[int, int, int, int]] = {
    "GET /healthz": OPEN,
    "GET /readyz": OPEN,
    "GET /api/status": OPEN,
    "GET /metrics": OPEN,
    "GET /nothing": (404, 404, 404, 404),
    "GET /login": OPEN,
    "GET /login/code": (OUT, OUT, OUT, OUT),
    "GET /login/oidc": (404, 404, 404, 404),
    "GET /login/oidc/callback": (404, 404, 404, 404),
    "GET /first": (OUT, OUT, OUT, OUT),
    "GET /assets/dashboard.css": OPEN,
    "POST /login": (401, 401, 401, 401),
    "POST /login/code": (401, 401, 401, 401),
    "POST /first": (401, 401, 401, 401),
    "POST /logout": (401, OUT, OUT, OUT),
    "POST /theme": (401, 422, 422, 422),
    "GET /": READ,
    "GET /live": READ,
    "GET /events": READ,
    "GET /events/1": (OUT, 404, 404, 404),
    "POST /events/1/reprocess": (401, 403, 404, 404),
    "GET /events.csv": READ,
    "GET /events.json": READ,
    "GET /commands": READ,
    "GET /commands.csv": READ,
    "GET /commands.json": READ,
    "GET /commands/preview": (OUT, 403, 422, 422),
    "POST /commands/change": (401, 403, 422, 422),
    **dict.fromkeys(
        (
            f"POST /{each}/views"
            for each in ("commands", "events", "deliveries", "stock")
        ),
        (401, 422, 422, 422),
    ),
    "POST /quarantine/views": (401, 422, 422, 422),
    "POST /commands/views/1/delete": (401, 422, 422, 422),
    "GET /deliveries": READ,
    "GET /deliveries.csv": READ,
    "GET /deliveries.json": READ,
    "GET /deliveries/preview": (OUT, 403, 422, 422),
    "GET /deliveries/1": (OUT, 404, 404, 404),
    "POST /deliveries/change": (401, 403, 422, 422),
    "GET /commands/0000": READ,
    "GET /commands/0000/resend": (OUT, 403, 422, 422),
    **dict.fromkeys(
        (f"POST /commands/0000/{verb}" for verb in PATHS.values()), (401, 403, 422, 422)
    ),
    "GET /mirror": READ,
    "GET /orders": READ,
    "GET /products": READ,
    "GET /stock": READ,
    "GET /stock.csv": READ,
    "GET /stock.json": READ,
    "GET /customers": READ,
    "GET /mirror/order/main/o": (OUT, 404, 404, 404),
    "GET /connectors": READ,
    "POST /connectors/run": (401, 403, 422, 422),
    "POST /connectors/check": (401, 403, 422, 422),
    "GET /connectors/courier": READ,
    "GET /targets": READ,
    "POST /stock/release": (401, 403, 422, 422),
    "POST /stock/resume": (401, 403, 422, 422),
    "GET /jobs": READ,
    "POST /jobs/run": (401, 403, 422, 422),
    "POST /jobs/pause": (401, 403, 422, 422),
    "POST /jobs/resume": (401, 403, 422, 422),
    "GET /drift": READ,
    "GET /stores": READ,
    "GET /stores/main/deliveries": (OUT, 403, 422, 422),
    **dict.fromkeys(
        (f"GET /stores/main/{verb}" for verb in STORE_ACTIONS), (OUT, 403, 200, 200)
    ),
    "GET /stores/main/backfill": (OUT, 403, 200, 200),
    "GET /stores/main/backfill?since=2026-01-01": (OUT, 403, 200, 200),
    "POST /stores/main/backfill": (401, 403, 422, 422),
    "POST /stores/main/test": (401, 403, 422, 422),
    "POST /stores/main/redeliver": (401, 403, 422, 422),
    "POST /secrets/revoke": (401, 403, 422, 422),
    "POST /secrets/accept": (401, 403, 422, 422),
    "GET /charts": READ,
    "GET /charts.json": READ,
    "GET /audit": (OUT, 403, 200, 200),
    "GET /incidents": READ,
    "POST /incidents/1/resolve": (401, 403, 422, 422),
    "GET /quarantine": READ,
    "GET /records": READ,
    "GET /quarantine.csv": READ,
    "GET /quarantine.json": READ,
    "GET /quarantine/preview": (OUT, 403, 422, 422),
    "POST /quarantine/change": (401, 403, 422, 422),
    "GET /quarantine/1": (OUT, 404, 404, 404),
    **dict.fromkeys(
        (f"POST /quarantine/1/{verb}" for verb in ROW_VERBS),
        (401, 403, 404, 404),
    ),
    "GET /mappings": READ,
    "GET /mappings/new": (OUT, 403, 422, 422),
    "POST /mappings/add": (401, 403, 422, 422),
    "POST /mappings/1/remove": (401, 403, 422, 422),
    "GET /tokens": (OUT, 403, 403, 200),
    "POST /tokens/create": (401, 403, 403, 422),
    "POST /tokens/revoke": (401, 403, 403, 422),
    "GET /account": READ,
    "POST /account/password": (401, 422, 422, 422),
    "GET /account/totp": READ,
    "POST /account/totp/begin": (401, 422, 422, 422),
    "POST /account/totp/confirm": (401, OUT, OUT, OUT),
    "POST /account/totp/codes": (401, 422, 422, 422),
    "POST /account/totp/off": (401, 422, 422, 422),
    "GET /users": (OUT, 403, 403, 200),
    "POST /users/add": (401, 403, 403, 422),
    "POST /users/remove": (401, 403, 403, 422),
    "POST /users/role": (401, 403, 403, 422),
    **dict.fromkeys(
        (f"POST /users/{verb}" for verb in ("disable", "enable", "resettotp")),
        (401, 403, 403, 422),
    ),
}


V1 = "/backhaul/v1"
PUBLIC, LIST, ONE, OPERATE = (200, 200), (200, 200), (404, 404), (403, 422)
OF_PROGRAMS: dict[str, tuple[int, int]] = {
    f"GET {V1}/openapi.json": PUBLIC,
    f"GET {V1}/nothing": (404, 404),
    **dict.fromkeys(
        (
            f"GET {V1}/{name}"
            for name in (
                *("status", "problems", "stores", "connectors", "jobs", "stream"),
                *("orders", "stock", "commands", "events", "deliveries", "records"),
                *("quarantine", "quarantine/counts"),
            )
        ),
        LIST,
    ),
    **dict.fromkeys(
        (
            f"GET {V1}/{name}"
            for name in (
                *("orders/1001", "commands/0000abcd", "events/1", "records/1"),
                "quarantine/1",
            )
        ),
        ONE,
    ),
    f"GET {V1}/commands/0000abcd/request": (403, 404),
    **dict.fromkeys(
        (
            f"POST {V1}/{name}"
            for name in (
                *("fulfillments", "cancellations", "adjustments", "counts"),
                *("quarantine/preview", "quarantine/change", "events/reprocess"),
                *("quarantine/1/edit", "quarantine/1/discard"),
                *("commands/0000abcd/decision", "deliveries/1/decision"),
                *("connectors/none/run", "jobs/none/run"),
                *("jobs/none/pause", "jobs/none/resume"),
            )
        ),
        OPERATE,
    ),
    **dict.fromkeys(
        (f"POST {V1}/quarantine/1/{verb}" for verb in ("retry", "correct")), (403, 404)
    ),
}
"""What a program gets with a token to read, and with a token to operate."""
TOKENS = ("read", "operate", "expired", "revoked")
NO_TOKEN = {f"GET {V1}/openapi.json": 200, f"GET {V1}/nothing": 404}
"""What the API answers to everybody else, if not 401."""
ENTRANCE = {"POST /login", "POST /first", "POST /logout"}
"""Ends sessions, or counts as a failure: each has a browser of its own."""


async def ask(browser: Browser, asked: str) -> int:
    method, path = asked.split()
    send = browser.get if method == "GET" else browser.post
    return (await send(path)).status


async def test_each_user_gets_exactly_the_rights_of_the_role(office: Office) -> None:
    await office.plan()
    found = {}
    for who in WHO:
        name = None if who == "anonymous" else who
        await office.clock.advance(4_000)
        browser = await office.browser(name)
        for asked in EXPECTED.keys() - ENTRANCE:
            found[asked, who] = await ask(browser, asked)
        for asked in ENTRANCE:
            await office.clock.advance(4_000)
            found[asked, who] = await ask(await office.browser(name), asked)
    expected = {
        (asked, who): status
        for asked, row in EXPECTED.items()
        for who, status in zip(WHO, row, strict=True)
    }
    wrong = {key: status for key, status in found.items() if expected[key] != status}
    assert wrong == {}


async def test_programs_get_what_their_token_allows(office: Office) -> None:
    found = {}
    for kind in TOKENS:
        scope = Scope.READ if kind == "read" else Scope.OPERATE
        seconds = 60.0 if kind == "expired" else None
        program = Program(office, await issue(office.store, scope, kind, seconds))
        if kind == "revoked":
            await office.store.tokens.revoke(kind, "the test")
        for asked in OF_PROGRAMS:
            await office.clock.advance(4_000)  # or refused tokens would have to wait
            method, path = asked.split()
            answer = await program.ask(method, path.removeprefix(V1))
            answer.close()
            found[asked, kind] = answer.status
    expected = {
        (asked, kind): status
        for asked, row in OF_PROGRAMS.items()
        for kind, status in zip(TOKENS, (*row, *[_refused(asked)] * 2), strict=True)
    }
    wrong = {key: status for key, status in found.items() if expected[key] != status}
    assert wrong == {}


def _refused(asked: str) -> int:
    return NO_TOKEN.get(asked, 401)


async def test_no_session_counts_for_the_api(office: Office) -> None:
    for who in WHO:
        browser = await office.browser(None if who == "anonymous" else who)
        found = {asked: await ask(browser, asked) for asked in OF_PROGRAMS}
        assert found == {asked: _refused(asked) for asked in OF_PROGRAMS}, who


async def test_no_token_counts_for_pages(office: Office) -> None:
    token = await issue(office.store)
    browser = await office.browser()
    browser.client.session.headers["Authorization"] = f"Bearer {token}"
    found = {asked: await ask(browser, asked) for asked in EXPECTED.keys() - ENTRANCE}
    assert found == {asked: EXPECTED[asked][0] for asked in found}


async def test_every_route_has_its_row(office: Office) -> None:
    assert without_row(office.app, [*EXPECTED, *OF_PROGRAMS]) == []


@pytest.mark.parametrize("route", routes.ROUTES, ids=lambda one: one.path)
def test_no_get_changes_anything(route: Route) -> None:
    """What only reads is handed nothing that writes: its module says show or search."""
    reads = route.page.__name__.startswith(("show", "search"))
    assert reads is (route.method == "GET")
