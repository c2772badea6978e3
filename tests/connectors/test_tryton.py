"""The Tryton connector with a real server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from backhaul.demo.tryton_server import DATABASE, USER
from backhaul_connectors.tryton import Tryton
from backhaul_connectors.tryton.rpc import LOGIN_REST_SECONDS, TrytonClient
from backhaul_connectors.tryton.settings import Settings
from backhaul_sdk import (
    Absent,
    Applied,
    CheckFailed,
    Found,
    Fulfillment,
    Line,
    NotSent,
    Rejected,
    StockLevel,
)
from backhaul_sdk.erp import AccessRefused, NotNow, RequestRefused, ServerFailed
from backhaul_sdk.testing import (
    MemoryHost,
    PullContract,
    PushContract,
    sample_change,
)
from connectors.erp_benches import Sales, Shipped, keep_sample
from scenes.tcp_relay import tcp_relay
from scenes.tryton import PASSWORD, common_folder, tryton
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from backhaul_sdk.testing import Bench, PushBench
    from scenes.tryton import TrytonServer

pytestmark = [pytest.mark.programs]


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrytonServer]:
    common = common_folder(tmp_path_factory)
    with tryton(tmp_path_factory.mktemp("tryton"), common) as running:
        yield running


@pytest.fixture
def server(furnished: TrytonServer) -> TrytonServer:
    furnished.empty()
    return furnished


def settings_of(port: int, **options: Any) -> Settings:
    base = {
        "url": f"http://127.0.0.1:{port}",
        "database": DATABASE,
        "user": USER,
        "password": PASSWORD,
        "customer": "SHOP",
        "in_flight_seconds": 0,
        "lag_seconds": 0,
        "network": {"allow": ["127.0.0.1"], "ports": [port], "allow_http": True},
    }
    return Settings.model_validate({**base, **options})


@pytest.fixture
async def connect(server: TrytonServer) -> AsyncIterator[Callable[..., Tryton]]:
    made: list[Tryton] = []

    def build(port: int = 0, **options: Any) -> Tryton:
        made.append(Tryton("erp", settings_of(port or server.port, **options)))
        return made[-1]

    yield build
    for each in made:
        await each.close()


def ship(server: TrytonServer, reference: str, tracking: str) -> None:
    """Do in Tryton what a warehouse does with a confirmed sale."""
    with server.log_in() as house:
        house.ship(reference, tracking)


async def pull(connector: Tryton, host: MemoryHost) -> MemoryHost:
    await connector.open()
    await host.pull(connector)
    return host


async def pull_until(connector: Tryton, host: MemoryHost, number: int) -> None:
    """Pull until there are so many records; the server's clock shows whole seconds."""
    async with asyncio.timeout(HANG_SECONDS):
        while len(host.records) < number:
            await host.pull(connector)


async def test_stock_is_read_as_of_now(connect: Callable[..., Tryton]) -> None:
    host = await pull(connect(batch_rows=2), MemoryHost())
    levels = [each for each in host.records.values() if isinstance(each, StockLevel)]
    assert [(each.sku, each.quantity) for each in levels] == [
        ("LS-S", 10_000),
        ("LS-M", 20_000),
        ("LS-L", 30_000),
    ]
    before = len(host.records)
    await pull(connect(), host)
    assert len(host.records) == before, "it is read again when that is due"


async def test_picked_units_are_in_stock_until_they_leave(
    connect: Callable[..., Tryton], server: TrytonServer
) -> None:
    change = sample_change(1)
    connector = connect(sale_state="confirmed")
    await connector.push(change)
    await asyncio.to_thread(pick, server, change.object_id)
    assert await in_stock(connector) == 10_000
    await asyncio.to_thread(ship, server, change.object_id, "BD123")
    assert await in_stock(connect()) == 10_000 - 2


def pick(server: TrytonServer, reference: str) -> None:
    with server.log_in() as house:
        assert house.pick(reference).state == "picked"


async def in_stock(connector: Tryton) -> int:
    host = await pull(connector, MemoryHost())
    levels = [each for each in host.records.values() if isinstance(each, StockLevel)]
    (quantity,) = (each.quantity for each in levels if each.sku == "LS-S")
    return quantity


@pytest.mark.parametrize(
    ("wanted", "state"), [("draft", "draft"), ("quotation", "quotation")]
)
async def test_an_order_becomes_one_sale(
    connect: Callable[..., Tryton], server: TrytonServer, wanted: str, state: str
) -> None:
    change = sample_change(1)
    connector = connect(sale_state=wanted)
    assert await connector.lookup(change) == Absent()
    said = [await connector.push(change) for _ in range(3)]
    assert isinstance(said[0], Applied)
    assert said == [said[0]] * 3
    assert await connector.lookup(change) == Found(said[0].reference)
    assert server.rows("SELECT reference, state FROM sale_sale") == [
        (change.object_id, state)
    ]
    lines = server.rows("SELECT quantity, unit_price FROM sale_line")
    assert [(float(q), float(p)) for q, p in lines] == [(2.0, 10.0)]


@pytest.mark.parametrize("options", [{"customer": ""}, {"sale_state": "none"}])
async def test_without_a_customer_or_a_state_no_orders_are_written(
    connect: Callable[..., Tryton], server: TrytonServer, options: dict[str, str]
) -> None:
    connector = connect(**options)
    assert connector.topics() == frozenset()
    assert isinstance(await connector.push(sample_change(1)), Rejected)
    assert server.rows("SELECT * FROM sale_sale") == []


async def test_a_sale_that_was_written_before_the_setting_is_found(
    connect: Callable[..., Tryton],
) -> None:
    """Otherwise the host would send it again, without an end."""
    await connect(sale_state="draft").push(sample_change(1))
    found = await connect(sale_state="none").lookup(sample_change(1))
    assert isinstance(found, Found)


async def test_a_shipment_that_is_done_fulfills_its_order(
    connect: Callable[..., Tryton], server: TrytonServer
) -> None:
    change, other = sample_change(1), sample_change(2)
    connector = connect(sale_state="confirmed", stock_seconds=0)
    for each in (change, other):
        said = await connector.push(each)
        assert isinstance(said, Applied), said
    await asyncio.to_thread(ship, server, change.object_id, "BD123")
    host = MemoryHost()
    await pull_until(connector, host, 1)
    (shipped,) = host.records.values()
    assert isinstance(shipped, Fulfillment)
    assert shipped.order == change.object_id
    assert shipped.tracking_number == "BD123"
    assert shipped.lines == (Line(sku="LS-S", quantity=2),)
    assert [batch async for batch in connector.pull(host.cursor)] == []
    await asyncio.to_thread(ship, server, other.object_id, "BD124")
    await pull_until(connector, host, 2)


async def test_a_delivery_before_the_start_date_is_not_read(
    connect: Callable[..., Tryton], server: TrytonServer
) -> None:
    change = sample_change(1)
    await connect(sale_state="confirmed").push(change)
    await asyncio.to_thread(ship, server, change.object_id, "BD123")
    host = MemoryHost()
    await pull_until(connect(stock_seconds=0, shipped_since="2020-01-01"), host, 1)
    late = connect(stock_seconds=0, shipped_since="2999-01-01")
    assert [batch async for batch in late.pull(None)] == []


async def test_an_order_that_is_cancelled_cancels_its_sale(
    connect: Callable[..., Tryton], server: TrytonServer
) -> None:
    placed, cancelled = sample_change(1), sample_change(1, "order.cancelled")
    connector = connect()
    await connector.push(placed)
    assert isinstance(await connector.push(cancelled), Applied)
    assert isinstance(await connector.lookup(cancelled), Found)
    assert server.rows("SELECT state FROM sale_sale") == [("cancelled",)]


async def test_an_article_that_tryton_lacks_is_named(
    connect: Callable[..., Tryton], server: TrytonServer
) -> None:
    change = sample_change(1)
    item = {**change.document["items"][0], "sku": "NOPE"}
    odd = replace(change, document={**change.document, "items": [item]})
    said = await connect().push(odd)
    assert said == Rejected(
        "Tryton has no product with the code 'NOPE'; create it with this code"
    )
    assert server.rows("SELECT * FROM sale_sale") == []


async def test_an_expired_session_is_renewed(
    connect: Callable[..., Tryton], server: TrytonServer
) -> None:
    connector = connect()
    await pull(connector, MemoryHost())
    server.change("DELETE FROM ir_session")
    assert isinstance(await connector.push(sample_change(1)), Applied)


async def test_too_many_logins_are_waited_for(
    connect: Callable[..., Tryton], server: TrytonServer
) -> None:
    wrong = (
        "INSERT INTO res_user_login_attempt (login, create_date)"
        " SELECT login, datetime('now', 'localtime') FROM res_user"
        " WHERE login = 'admin'"
    )
    server.change(*[wrong] * 6)
    try:
        connector = connect()
        said = [await connector.push(sample_change(1)) for _ in range(2)]
        attempts = server.rows("SELECT count(*) FROM res_user_login_attempt")
    finally:
        server.change("DELETE FROM res_user_login_attempt")
    for each in said:
        assert isinstance(each, NotSent), each
        assert 0 < (each.retry_after_seconds or 0) <= LOGIN_REST_SECONDS
    assert attempts == [(7,)], "each login would be counted, and keep it out for longer"
    assert isinstance(await connect().push(sample_change(1)), Applied)


PARTY = "model.party.party"
FAILURES: list[tuple[str, list[Any], dict[str, Any], type[CheckFailed], str]] = [
    (
        f"{PARTY}.write",
        [[1], {"name": "X"}],
        {"_timestamp": {"party.party,1": "1"}},
        NotNow,
        "modified in the meanwhile",
    ),
    (
        "model.sale.sale.quote",
        [[999_999]],
        {},
        RequestRefused,
        'can not call "quote" on',
    ),
    ("model.currency.currency.create", [[{}]], {}, RequestRefused, "value is required"),
    (f"{PARTY}.nope", [], {}, AccessRefused, "403"),
    (f"{PARTY}.search", [[["nope", "=", 1]]], {}, ServerFailed, "Tryton failed"),
]


@pytest.mark.parametrize(
    ("method", "parameters", "context", "kind", "words"),
    FAILURES,
    ids=[f"{kind.__name__}-{method}" for method, _, _, kind, _ in FAILURES],
)
async def test_errors_of_tryton_are_distinguished(
    server: TrytonServer,
    method: str,
    parameters: list[Any],
    context: dict[str, Any],
    kind: type[CheckFailed],
    words: str,
) -> None:
    rpc = TrytonClient(settings_of(server.port))
    try:
        with pytest.raises(kind, match=words):
            await rpc.write(method, *parameters, **context)
    finally:
        await rpc.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"database": "nope"}, f"is not served at .*; it has: {DATABASE}"),
        (
            {"password": "wrong"},
            f"refuses the login of {USER}; check user and password",
        ),
    ],
)
async def test_check_says_what_to_fix(
    connect: Callable[..., Tryton], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(CheckFailed, match=words):
        await connect(**options).check()


def test_an_address_of_the_own_network_must_be_allowed() -> None:
    options = {"url": "https://10.0.0.1", "database": "x", "user": "x", "password": "x"}
    with pytest.raises(ValidationError, match=r"10\.0\.0\.1"):
        Settings.model_validate(options)


class TestReading(PullContract):
    """Shipments that are done."""

    @pytest.fixture
    async def bench(
        self, server: TrytonServer, connect: Callable[..., Tryton]
    ) -> AsyncIterator[Bench]:
        await keep_sample(server, connect(sale_state="confirmed"))
        async with tcp_relay(server.port) as relay:
            yield Shipped(server, relay, connect)


class TestWriting(PushContract):
    """Orders as sales."""

    @pytest.fixture
    async def bench(
        self, server: TrytonServer, connect: Callable[..., Tryton]
    ) -> AsyncIterator[PushBench]:
        async with tcp_relay(server.port) as relay:
            yield Sales(server, relay, connect)
