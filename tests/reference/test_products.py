"""Products are created, merged, hidden and found."""

from typing import Any

import pytest

from scenes.reference_shop import Shop


async def put(shop: Shop, product: Any, **values: Any) -> Any:
    return await shop.v1("PUT", f"/products/{product['id']}", values)


async def test_create_answers_the_whole_product(shop: Shop) -> None:
    body = {
        "title": "Linen shirt",
        "externalId": "ERP-77",
        "variants": [
            {"title": "S", "sku": "LS-S", "price": 1499.5, "stock": 10},
            {"title": "M", "sku": "LS-M", "price": "1599.00", "trackInventory": False},
        ],
    }
    reply = await shop.v1("POST", "/products", body)
    product = reply.data
    assert reply.status == 201
    assert reply.headers["Location"] == f"/api/v1/products/{product['id']}"
    assert product["handle"] == "linen-shirt"
    assert product["priceRange"] == {"min": "1499.50", "max": "1599.00"}
    assert product["variants"][0]["stock"] == 10
    assert (await shop.v1("GET", f"/products/{product['id']}")).data == product


async def test_handles_skus_and_external_ids_are_unique(shop: Shop) -> None:
    first = await shop.product(sku="A", externalId="E")
    second = await shop.product(sku="B")
    assert second["handle"] == "lamp-1"
    taken = {"title": "X", "price": "1"}
    for values, code in (
        ({"handle": "lamp"}, "HANDLE_TAKEN"),
        ({"sku": "A"}, "SKU_TAKEN"),
        ({"externalId": "E"}, "DUPLICATE_EXTERNAL_ID"),
    ):
        reply = await shop.v1("POST", "/products", {**taken, **values})
        assert (reply.status, reply.code) == (409, code)
        assert reply.body["existingId"] == first["id"]


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"handle": "lamp"}, "HANDLE_TAKEN"),
        ({"externalId": "E"}, "DUPLICATE_EXTERNAL_ID"),
        ({"sku": "A"}, "SKU_TAKEN"),
    ],
)
async def test_a_change_to_a_value_in_use_names_its_owner(
    shop: Shop, values: dict[str, str], code: str
) -> None:
    first = await shop.product(sku="A", externalId="E")
    second = await shop.product(sku="B")
    reply = await shop.v1("PUT", f"/products/{second['id']}", values)
    assert (reply.status, reply.code) == (409, code)
    assert reply.body["existingId"] == first["id"]
    assert (await shop.v1("GET", f"/products/{second['id']}")).data == second


async def test_put_merges_and_null_clears(shop: Shop) -> None:
    product = await shop.product(vendor="V", description="D")
    before = await shop.sequence()
    changed = (await put(shop, product, vendor=None, title="Lantern")).data
    assert (changed["vendor"], changed["description"]) == (None, "D")
    assert changed["version"] == 2
    same = (await put(shop, product, title="Lantern")).data
    assert same == changed
    assert await shop.topics_since(before) == ["products/update"]


async def test_put_requires_the_full_list_of_variants(shop: Shop) -> None:
    sizes = [{"title": "S", "sku": "S", "price": "1", "stock": 4}]
    product = await shop.product(
        variants=[*sizes, {"title": "M", "sku": "M", "price": "1"}]
    )
    kept = {"id": product["variants"][1]["id"], "price": "2.00"}
    added = {"title": "L", "sku": "S", "price": "3"}
    changed = (await put(shop, product, variants=[kept, added])).data
    assert [(v["title"], v["price"]) for v in changed["variants"]] == [
        ("M", "2.00"),
        ("L", "3.00"),
    ]
    state = await shop.state()
    assert sum(row["adjustment"] for row in state["history"]) == 0
    assert (await put(shop, product, variants=[])).status == 422
    assert (await put(shop, product, variants=[{"id": "var_x"}])).status == 422


@pytest.mark.parametrize("title", [None, ""])
async def test_a_variant_without_a_title_is_named_by_its_options(
    shop: Shop, title: str | None
) -> None:
    options = {"Size": "S", "Color": "Red"}
    small = {"title": "Small", "price": "1", "options": options}
    product = await shop.product(variants=[small])
    sent = {"id": product["variants"][0]["id"], "title": title}
    changed = (await put(shop, product, variants=[sent])).data
    assert changed["variants"][0]["title"] == "S / Red"
    sent["options"] = {"Size": "M"}
    changed = (await put(shop, product, variants=[sent])).data
    assert changed["variants"][0]["title"] == "M"
    sent["options"] = {}
    changed = (await put(shop, product, variants=[sent])).data
    assert changed["variants"][0]["title"] == "Default"


async def test_variants_swap_their_skus_in_one_request(shop: Shop) -> None:
    listed = [{"title": one, "sku": one, "price": "1"} for one in ("A", "B")]
    product = await shop.product(variants=listed)
    first, second = [one["id"] for one in product["variants"]]
    swapped = [{"id": first, "sku": "B"}, {"id": second, "sku": "A"}]
    changed = (await put(shop, product, variants=swapped)).data
    assert [one["sku"] for one in changed["variants"]] == ["B", "A"]
    bare = [{"id": first, "sku": None}, {"id": second}]
    changed = (await put(shop, product, variants=bare)).data
    assert [one["sku"] for one in changed["variants"]] == [None, "A"]
    taken = await put(shop, product, variants=[{"id": first, "sku": "A"}, bare[1]])
    assert (taken.status, taken.code) == (409, "SKU_TAKEN")
    assert (await shop.v1("GET", f"/products/{product['id']}")).data == changed


async def test_stock_is_read_only_in_put(shop: Shop) -> None:
    product = await shop.product()
    variant = {"id": product["variants"][0]["id"], "stock": 3}
    reply = await put(shop, product, variants=[variant])
    assert (reply.status, reply.code) == (422, "READ_ONLY")
    assert reply.body["errors"][0]["pointer"] == "/variants/0/stock"


@pytest.mark.parametrize("status", ["draft", "archived"])
async def test_only_active_products_are_shown(shop: Shop, status: str) -> None:
    product = await shop.product()
    for name in (product["id"], product["handle"]):
        shown = (await shop.shopper("GET", f"/products/{name}")).data
        assert "stock" not in str(shown)
        assert shown["collections"] == []
    await put(shop, product, status=status)
    hidden = await shop.shopper("GET", f"/products/{product['id']}")
    absent = await shop.shopper("GET", "/products/nothing")
    for reply in (hidden, absent):
        reply.body.pop("requestId")
    assert hidden.body == absent.body
    assert (await shop.shopper("GET", "/products")).data == []


@pytest.mark.parametrize(
    ("term", "count"), [("LAMP", 2), ("100%", 1), ("_", 0), ("sku-1", 1), ("üb", 1)]
)
async def test_search_is_a_plain_substring(shop: Shop, term: str, count: int) -> None:
    await shop.product(title="Lamp 100% ÜBER", sku="SKU-1")
    await shop.product(tags=["lamp"], title="Other")
    query = {"search": term}
    for ask, path in ((shop.v1, "/products"), (shop.shopper, "/products")):
        reply = await ask("GET", path, params=query)
        assert len(reply.data) == count


async def test_newest_first(shop: Shop) -> None:
    made = [(await shop.product(title=f"P{n}"))["id"] for n in range(3)]
    listed = (await shop.shopper("GET", "/products")).data
    assert [one["id"] for one in listed] == made[::-1]
    none = await shop.shopper("GET", "/products?collectionId=col_x")
    assert (none.data, none.body["meta"]["total"]) == ([], 0)


@pytest.mark.parametrize(
    "price", ["1.005", "-1", "1e2", "NaN", True, None, "", "1,00", 1e20, "٣"]
)
async def test_an_invalid_price_is_refused(shop: Shop, price: Any) -> None:
    body = {"title": "X", "variants": [{"price": price}]}
    reply = await shop.v1("POST", "/products", body)
    assert reply.status == 422
    assert reply.body["errors"][0]["pointer"] == "/variants/0/price"


async def test_currencies_have_their_own_exponents(shop: Shop) -> None:
    created = await shop.control(
        "POST", "/stores", {"subdomain": "tokyo", "currency": "JPY"}
    )
    assert created.status == 201
    key = (await shop.control("POST", "/stores/tokyo/keys")).data["key"]
    body = {"title": "X", "price": "1500"}
    made = (await shop.v1("POST", "/products", body, key=key)).data
    assert made["variants"][0]["price"] == "1500"
    body["price"] = "15.5"
    assert (await shop.v1("POST", "/products", body, key=key)).status == 422
