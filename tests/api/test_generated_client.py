"""A client generated from the OpenAPI document works with the real daemon."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from backhaul.admin.api.routes import described
from scenes.api import issue_by_command
from scenes.daemon import connected
from scenes.reference_shop import Shop, open_shop
from scenes.stored import count, lists
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scenes.daemon import Office

pytestmark = pytest.mark.usefixtures("engine")
PACKAGE = "generated_backhaul_client"


def generate(folder: Path) -> str:
    """Generate the package into `folder`; return all that the generator printed."""
    source = folder / "openapi.json"
    source.write_bytes(msgspec.json.encode(described()))
    tools = str(Path(sys.executable).parent)
    done = subprocess.run(
        [
            *(f"{tools}/openapi-python-client", "generate", "--meta", "none"),
            *("--path", str(source), "--output-path", str(folder / PACKAGE)),
        ],
        env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Generate the client once; it takes seconds."""
    folder = tmp_path_factory.mktemp("client")
    printed = generate(folder)
    assert "warning" not in printed.lower(), printed
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "shop") as opened:
        yield opened


class Client:
    """The generated package: its calls by operation, its models by name."""

    def __init__(self, url: str, token: str) -> None:
        package = importlib.import_module(PACKAGE)
        self._client = package.AuthenticatedClient(base_url=url, token=token)
        self.closing = self._client.get_async_httpx_client()
        self._models = importlib.import_module(f"{PACKAGE}.models")

    async def call(self, tag: str, operation: str, *places: Any, **sent: Any) -> Any:
        """Call an operation; return the parsed answer."""
        module = importlib.import_module(f"{PACKAGE}.api.{tag}.{operation}")
        answer = await module.asyncio_detailed(*places, client=self._client, **sent)
        assert answer.parsed is not None, (operation, answer.status_code)
        assert answer.status_code < 300, answer.parsed
        return answer.parsed

    def body(self, name: str, **values: Any) -> Any:
        return getattr(self._models, name).from_dict(values)


def record_states(office: Office) -> dict[str, str]:
    """Return where the record of each key stands."""
    with lists(office.place) as known:
        records = known.last_records("api", 100)
        found = {}
        for each in records:
            command = known.command(each.command_id) if each.command_id else None
            found[each.key] = command.state if command else each.state
        return found


@pytest.mark.usefixtures("package")
async def test_a_program_ships_an_order_and_retries_a_quarantined_row(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKHAUL_CONNECT__MATCH_WAIT", "1s")
    product = await shop.product(stock=10, sku="LAMP-1")
    order = await shop.order(product)
    async with connected(shop) as (office, daemon), AsyncExitStack() as stack:
        await until(lambda: count(office.place, "orders") == 1, "the order")
        token = await issue_by_command(office)
        client = Client(daemon.admin_url, token)
        stack.push_async_callback(client.closing.aclose)
        sent = client.body("Fulfillment", order="1001", everything=True)
        key = {"idempotency_key": "delivery-note-1"}
        first = await client.call(
            "fulfillments", "submit_fulfillment", body=sent, **key
        )
        assert (first.accepted, first.connection, first.kind) == (
            True,
            "api",
            "fulfill",
        )
        again = await client.call(
            "fulfillments", "submit_fulfillment", body=sent, **key
        )
        assert again.id == first.id

        await until(
            lambda: record_states(office)["delivery-note-1"] == "applied",
            "the parcel is applied",
        )
        assert (
            await client.call("records", "show_record", first.id)
        ).state == "applied"
        shown = (await shop.v1("GET", f"/orders/{order['id']}")).data
        assert (shown["fulfillmentStatus"], len(shown["shipments"])) == ("FULFILLED", 1)

        wrong = client.body("Adjustment", sku="NO-SUCH", delta=-1)
        held = await client.call(
            "adjustments",
            "submit_adjustment",
            body=wrong,
            idempotency_key="a-wrong-sku",
        )

        await until(
            lambda: record_states(office)["a-wrong-sku"] == "quarantined",
            "the unknown SKU is in quarantine",
        )
        assert (
            await client.call("records", "show_record", held.id)
        ).state == "quarantined"
        page = await client.call(
            "quarantine", "list_quarantine", where="reason=unknown_sku"
        )
        (row,) = page.items
        assert (row.subject, row.name) == ("NO-SUCH", "api")
        fields = client.body("RowEdit", fields={"sku": "LAMP-1"})
        done = await client.call("quarantine", "edit_row", row.id, body=fields)
        assert done.row == row.id

        await until(
            lambda: record_states(office)["a-wrong-sku"] == "applied",
            "the edited row is applied",
        )
        assert (await client.call("records", "show_record", held.id)).state == "applied"
        found = await client.call("stock", "list_stock", sku="LAMP-1")
        assert [level.sku for level in found.items] == ["LAMP-1"]
        history = await client.call("orders", "show_order", "1001")
        assert {"record", "fulfill"} <= {entry.what for entry in history.timeline}


@pytest.mark.usefixtures("package")
async def test_a_dry_run_holds_the_record_of_a_program(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKHAUL_PUSH__DRY_RUN", "true")
    product = await shop.product(stock=10)
    order = await shop.order(product)
    async with connected(shop) as (office, daemon), AsyncExitStack() as stack:
        await until(lambda: count(office.place, "orders") == 1, "the order")
        client = Client(daemon.admin_url, await issue_by_command(office))
        stack.push_async_callback(client.closing.aclose)
        done = await client.call(
            "fulfillments",
            "submit_fulfillment",
            body=client.body("Fulfillment", order="1001", everything=True),
            idempotency_key="delivery-note-1",
        )

        def held() -> bool:
            with lists(office.place) as known:
                found = known.command(done.command_id)
            return found is not None and found.hold_reason == "dry_run"

        await until(held, "the dry run holds the command")
        shown = (await shop.v1("GET", f"/orders/{order['id']}")).data
        assert shown["shipments"] == []
