"""The dashboard with a real database and a daemon's actions, on a virtual clock."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from aiohttp.test_utils import TestClient, TestServer

from backhaul.admin import routes
from backhaul.admin.accounts import Passwords
from backhaul.admin.context import Services
from backhaul.alerting import find_problems
from backhaul.alerting.problem import Facts, Problem
from backhaul.app.actions import ActionContext, actions
from backhaul.app.jobs import Jobs
from backhaul.connect.record_matching import Matcher
from backhaul.connect.submissions import Submissions
from backhaul.core.clock import to_text
from backhaul.ingest.fold_worker import Reprocessor
from backhaul.ingest.webhook_secrets import SecretRegistry
from backhaul.maintenance.search_indexer import describe
from backhaul.maintenance.self_monitoring import RATES
from backhaul.platform.client import StoreFacts
from backhaul.platform.requests import Dialect
from backhaul.runtime.signals import SharedSignals
from backhaul.settings import Settings
from backhaul.store.matching import NewCommand
from backhaul.store.operators import Role
from backhaul.store.records import Matched, NewRecord
from scenes.clock import VirtualClock
from scenes.damaged_rows import overwrite
from scenes.databases import started_store
from scenes.payloads import STORE_ID
from scenes.stored import rows_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from aiohttp import ClientResponse, web

    from backhaul.store.sqlite.database import SqliteStore

PASSWORD = "correct horse battery staple"
PEOPLE = {"vera": Role.VIEWER, "otto": Role.OPERATOR, "ada": Role.ADMIN}
COOKIE = "backhaul_session"
Deliveries: TypeAlias = "dict[str, Callable[[], Awaitable[Sequence[Any]]]]"
_KEYS = count(1)
_HASHED: dict[str, str] = {}
"""Password hashing is slow on purpose, so all tests share the hashes."""


@dataclass(slots=True)
class Browser:
    """A browser: keeps cookies, and sends an `Origin`."""

    client: TestClient[web.Request, web.Application]
    csrf: str = ""

    async def get(self, path: str, **more: Any) -> ClientResponse:
        return await self.client.get(path, allow_redirects=False, **more)

    async def read(self, path: str) -> str:
        answer = await self.get(path)
        assert answer.status == 200, (path, answer.status, await answer.text())
        return await answer.text()

    async def post(self, path: str, **form: str) -> ClientResponse:
        return await self.send(path, {"csrf": self.csrf} | form, self.form_headers())

    async def send(
        self, path: str, form: dict[str, str], headers: dict[str, str]
    ) -> ClientResponse:
        return await self.client.post(
            path, data=form, headers=headers, allow_redirects=False
        )

    def form_headers(self) -> dict[str, str]:
        """Return the headers with which a browser sends a form of the dashboard."""
        return {
            "Sec-Fetch-Site": "same-origin",
            "Origin": str(self.client.make_url("")),
        }

    async def log_in(self, name: str, password: str = PASSWORD) -> ClientResponse:
        answer = await self.post("/login", name=name, password=password)
        if answer.status == 303:
            found = re.search(r'name="csrf" value="([\w-]+)"', await self.read("/"))
            assert found is not None
            self.csrf = found[1]
        return answer

    @property
    def cookie_name(self) -> str:
        return f"{COOKIE}_{self.client.port}"

    def cookie(self) -> str | None:
        jar = self.client.session.cookie_jar.filter_cookies(self.client.make_url("/"))
        name = self.cookie_name
        return jar[name].value if name in jar else None


@dataclass(slots=True)
class Subscription:
    """Records the requests to the platform; tests/sync sends real ones."""

    requests: list[str] = field(default_factory=list)

    async def send_test(self) -> None:
        self.requests.append("test")

    async def redeliver(self, delivery: str) -> None:
        self.requests.append(delivery)


@dataclass(slots=True)
class OrderBackfill:
    """Records the requested backfills; tests/sync runs real ones."""

    requests: list[str] = field(default_factory=list)
    orders: int | None = 230

    async def count(self, since: str) -> int | None:
        self.requests.append(f"count since {since}")
        return self.orders

    async def request(self, since: str) -> None:
        self.requests.append(f"since {since}")


@dataclass(slots=True)
class Office:
    """A running dashboard with its database, settings and clock."""

    store: SqliteStore
    settings: Settings
    clock: VirtualClock
    app: web.Application
    server: TestServer
    passwords: Passwords
    webhook_secrets: SecretRegistry
    jobs: Jobs
    requests: list[str]
    deliveries: Deliveries
    subscriptions: dict[str, Subscription]
    order_backfills: dict[str, OrderBackfill]
    clients: list[TestClient[web.Request, web.Application]] = field(
        default_factory=list
    )

    @property
    def path(self) -> Path:
        return self.store.path

    async def browser(self, name: str | None = None) -> Browser:
        """Return a new browser, logged in if a user name is given."""
        client = TestClient(self.server)
        self.clients.append(client)
        browser = Browser(client)
        if name is not None:
            assert (await browser.log_in(name)).status == 303
        return browser

    async def add_users(self) -> None:
        """Add one user of each role; all have the same password."""
        if PASSWORD not in _HASHED:
            _HASHED[PASSWORD] = await self.passwords.hash(PASSWORD)
        for name, role in PEOPLE.items():
            await self.store.users.add(name, role, _HASHED[PASSWORD], "the test")

    async def plan(self, target: str = "ord_1", state: str = "planned") -> str:
        """Plan to fulfill an order, and set the command's columns."""
        id_ = f"{next(_KEYS):032x}"
        members = {"tracking_company": "DHL", "tracking_number": "T1", "lines": []}
        command = NewCommand(id_, "fulfill", target, f"order:{target}", members)
        record = NewRecord(f"key-{id_}", b"null", "raw", "", "file:1")
        await self.store.records.accept(
            "courier", "main", [record], None, lambda *_: Matched(command)
        )
        if state != "planned":
            overwrite(self.store.path, "commands", {"state": state}, id=id_)
        return id_

    async def index(self) -> None:
        """Bring the search index up to date."""
        while (await self.store.search.follow(describe, 1.0)).more:
            pass

    def audit(self) -> list[tuple[str, str, str]]:
        """Return the audit entries without logins and changes of users."""
        found = rows_of(self.path, "audit", "who", "action", "detail")
        return [entry for entry in found if not entry[1].startswith("users ")]


@asynccontextmanager
async def open_office(
    folder: Path,
    status: dict[str, Any] | None = None,
    clock: VirtualClock | None = None,
    port: int | None = None,
    **admin: Any,
) -> AsyncIterator[Office]:
    """Serve a dashboard; `admin` are settings of its listener."""
    settings = Settings.model_validate(
        {
            "state_dir": folder,
            "admin": admin,
            "stores": {"main": {"base_url": "https://shop.example", "api_key": "k"}},
            "connectors": {"courier": {"type": "file_drop"}},
        }
    )
    clock = clock or VirtualClock()
    async with started_store(folder / "backhaul.db", clock) as store:
        signers = SecretRegistry(store.webhook_secrets, clock)
        jobs = Jobs(settings, store.job_runs, clock)
        facts = {"main": StoreFacts(STORE_ID, "INR")}
        reprocessor = Reprocessor(store.reprocessing, facts)
        asked: list[str] = []
        deliveries: Deliveries = {}
        subscriptions: dict[str, Subscription] = {}
        order_backfills = {"main": OrderBackfill()}

        async def ask(name: str) -> dict[str, int]:
            asked.append(name)
            return {"accepted": 2}

        async def check(name: str) -> list[str]:
            asked.append(f"check {name}")
            return ["one file is not read"]

        dialects = {"main": Dialect()}
        parts = ActionContext(
            store,
            clock,
            signers,
            reprocessor,
            SharedSignals(),
            dialects,
            jobs,
            ask,
            Submissions(store.records, Matcher(clock, 60.0), lambda _: None),
            subscriptions,
            check,
            order_backfills,
        )
        shown = STATUS | {"started_at": to_text(clock.now())} | (status or {})

        async def read_status() -> dict[str, Any]:
            return {"refused": {}, "news": {}} | shown | jobs.status()

        async def numbers() -> bytes:
            return b""

        async def problems() -> list[Problem]:
            conditions = await store.alert_conditions.current([])
            facts = Facts(
                status=await read_status(),
                conditions=conditions,
                drift_rows=settings.alerts.drift_rows,
                silence={},
                now=clock.now().timestamp(),
                backups_missed=lambda _: False,
                free_bytes=10**12,
            )
            return find_problems(facts)

        app = routes.build_app(lambda: routes.READY, read_status, {}, numbers, problems)
        given = Services(
            settings,
            clock,
            read_status,
            problems,
            actions(parts),
            store,
            deliveries,
        )
        routes.install(app, given)
        server = TestServer(app, port=port)
        await server.start_server(access_log=None)
        office = Office(
            store,
            settings,
            clock,
            app,
            server,
            Passwords(),
            signers,
            jobs,
            asked,
            deliveries,
            subscriptions,
            order_backfills,
        )
        try:
            yield office
        finally:
            for client in office.clients:
                await client.close()
            await server.close()


STATUS: dict[str, Any] = {
    "public_url": "http://127.0.0.1:1",
    "admin_url": "http://127.0.0.1:2",
    "dry_run": [],
    "stores": {"main": {"sending": 0, "stopped": {}}},
    "subscriptions": {"main": ""},
    "rates": dict.fromkeys(RATES, 0.0),
    "mirrored": {},
    "connectors": {
        "courier": {
            "up": True,
            "reason": None,
            "worked_at": "2026-03-01T11:00:00.000Z",
            "notices": ["versand.csv is not read: no pattern takes its name"],
        }
    },
}
