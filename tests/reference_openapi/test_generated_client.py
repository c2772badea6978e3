"""A client generated from the served document works with the store."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_reference.openapi.document import document
from backhaul_reference.platform.json_codec import encode
from backhaul_reference.server import OFFERED
from scenes.reference_shop import ADDRESS, CUSTOMER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scenes.reference_shop import Shop

PACKAGE = "generated_store_client"
SHOPPER = {"x_subdomain": "demo"}


def generate(text: str, folder: Path) -> str:
    """Generate the package into `folder`; return all that the generator printed."""
    source = folder / "openapi.json"
    source.write_text(text)
    tools = str(Path(sys.executable).parent)
    done = subprocess.run(
        [
            *(f"{tools}/openapi-python-client", "generate", "--meta", "none"),
            *("--path", str(source), "--output-path", str(folder / PACKAGE)),
        ],
        # The generator formats what it wrote by a program that it looks for there.
        env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout + done.stderr


class Client:
    """The generated package: its calls by operation, its models by name."""

    def __init__(self, shop: Shop) -> None:
        access = shop.running.access
        package = importlib.import_module(PACKAGE)
        self.open = package.Client(base_url=access.public_url)
        self.keyed = package.AuthenticatedClient(
            base_url=access.public_url, token=access.api_key
        )
        self.models = importlib.import_module(f"{PACKAGE}.models")

    async def call(self, tag: str, operation: str, *places: str, **sent: Any) -> Any:
        """Call an operation; return the parsed answer."""
        module = importlib.import_module(f"{PACKAGE}.api.{tag}.{operation}")
        client = self.keyed if operation.startswith("v1_") else self.open
        answer = await module.asyncio_detailed(*places, client=client, **sent)
        assert answer.parsed is not None, (operation, answer.status_code)
        return answer.parsed

    def body(self, name: str, document: dict[str, Any]) -> Any:
        return getattr(self.models, name).from_dict(document)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Generate the client once; it takes seconds."""
    folder = tmp_path_factory.mktemp("client")
    printed = generate(encode(document(OFFERED)).decode(), folder)
    assert "warning" not in printed.lower(), printed
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture
async def client(shop: Shop, package: Path) -> AsyncIterator[Client]:
    """Return the client of the document that the running server answers."""
    url = f"{shop.running.access.public_url}/openapi.json"
    async with shop.session.get(url) as answer:
        assert await answer.text() == (package / "openapi.json").read_text()
    made = Client(shop)
    async with made.open, made.keyed:
        yield made


async def made_product(client: Client) -> Any:
    body = client.body(
        "V1CreateProductBody",
        {"title": "Lamp", "variants": [{"price": "10.00", "stock": 9, "sku": "L-1"}]},
    )
    return (await client.call("products", "v1_create_product", body=body)).data


async def test_products_are_created_changed_and_counted(client: Client) -> None:
    product = await made_product(client)
    changed = client.body("V1UpdateProductBody", {"title": "Lamp, large"})
    answer = await client.call(
        "products", "v1_update_product", product.id, body=changed
    )
    assert (answer.data.title, answer.data.variants[0].stock) == ("Lamp, large", 9)
    step = {"productId": product.id, "adjustment": -2, "reason": "DAMAGED"}
    body = client.body("V1AdjustBody", step)
    answer = await client.call("inventory", "v1_adjust", body=body)
    assert [level.stock for level in answer.data.levels] == [7]


async def test_an_order_is_quoted_placed_and_fulfilled(client: Client) -> None:
    product = await made_product(client)
    store = (await client.call("storefront", "storefront_get_store", **SHOPPER)).data
    wanted = {
        "storeId": store.id,
        "items": [{"productId": product.id, "quantity": 2, "price": "10.00"}],
        "address": {"country": "IN", "city": "Pune"},
    }
    body = client.body("StorefrontQuoteBody", wanted)
    quote = await client.call("storefront", "storefront_quote", body=body)
    assert quote.total
    cart = {
        "paymentMethod": "COD",
        "items": [{"productId": product.id, "quantity": 2}],
        "customer": CUSTOMER,
        "shippingAddress": ADDRESS,
    }
    body = client.body("StorefrontPlaceOrderBody", cart)
    placed = (
        await client.call("storefront", "storefront_place_order", body=body, **SHOPPER)
    ).data
    orders = (await client.call("orders", "v1_list_orders", limit=100)).data
    order = next(one for one in orders if one.number == placed.number)
    body = client.body("V1FulfillOrderBody", {"trackingNumber": "JD1"})
    answer = await client.call("orders", "v1_fulfill_order", order.id, body=body)
    assert answer.data.fulfillment_status == "FULFILLED"
    assert [one.tracking_number for one in answer.data.shipments] == ["JD1"]
    problem = await client.call(
        "orders",
        "v1_fulfill_order",
        order.id,
        body=client.body("V1FulfillOrderBody", {"trackingNumber": "JD2"}),
    )
    assert (problem.code, problem.status) == ("ORDER_ALREADY_FULFILLED", 409)
    assert order.id in problem.detail
    assert problem.instance == f"/api/v1/orders/{order.id}/fulfill"


async def test_an_order_is_recorded_and_cancelled(client: Client) -> None:
    product = await made_product(client)
    line = {"productId": product.id, "quantity": 1, "price": "10.00"}
    body = client.body("V1CreateOrderBody", {"items": [line]})
    order = (await client.call("orders", "v1_create_order", body=body)).data
    body = client.body("V1CancelOrderBody", {"restock": True, "reason": "CUSTOMER"})
    answer = await client.call("orders", "v1_cancel_order", order.id, body=body)
    assert (answer.data.status, answer.data.cancellation.restocked) == (
        "CANCELLED",
        True,
    )
    assert answer.data.cancellation.skipped_items == []
