"""Collections: their products, who sees them, and what changes with them."""

from typing import Any

import pytest

from scenes.merchant import ONE, collection, tagged
from scenes.reference_shop import Shop


async def shown(shop: Shop, handle: str) -> list[str]:
    """The titles in a collection, as its own answer gives them."""
    found = (await shop.shopper("GET", f"/collections/{handle}")).data
    return [one["title"] for one in found["products"]]


async def listed(shop: Shop, collection_id: str) -> list[str]:
    """The titles in a collection, as the product list filters them."""
    reply = await shop.shopper("GET", f"/products?collectionId={collection_id}")
    assert reply.body["meta"]["total"] == len(reply.data)
    return [one["title"] for one in reply.data]


async def test_a_manual_collection_holds_what_was_put_in(shop: Shop) -> None:
    first = await shop.product(title="A")
    second = await shop.product(title="B")
    hidden = await shop.product(title="C", status="draft")
    await shop.product(title="D")
    ids = [one["id"] for one in (first, second, hidden)]
    made = await collection(shop, productIds=ids)
    assert await shown(shop, "summer") == ["B", "A"]
    assert await listed(shop, made["id"]) == ["B", "A"]
    assert made["productCount"] == 2
    assert made["productIds"] == sorted(ids)
    found = (await shop.shopper("GET", "/collections/summer")).data
    assert found["products"][0]["variants"]
    assert found["collection"].keys() == {
        "id", "handle", "title", "description", "imageUrl", "type", "productCount",
        "createdAt", "updatedAt",
    }  # fmt: skip


TAGS = {"A": ["red", "cotton"], "B": ["red"], "C": ["cotton"], "D": []}


@pytest.mark.parametrize(
    ("match", "rules", "expected"),
    [
        ("ALL", [("EQUALS", "red")], "BA"),
        ("ALL", [("EQUALS", "red"), ("EQUALS", "cotton")], "A"),
        ("ANY", [("EQUALS", "red"), ("EQUALS", "cotton")], "CBA"),
        ("ALL", [("NOT_EQUALS", "red")], "DC"),
        ("ALL", [("EQUALS", "cotton"), ("NOT_EQUALS", "red")], "C"),
        ("ANY", [("EQUALS", "cotton"), ("NOT_EQUALS", "red")], "DCA"),
        ("any", [("equals", "blue")], ""),
        ("ALL", [("EQUALS", "re%")], ""),
    ],
)
async def test_rules_decide_which_products_belong(
    shop: Shop, match: str, rules: list[tuple[str, str]], expected: str
) -> None:
    for title, tags in TAGS.items():
        await shop.product(title=title, tags=tags)
    await shop.product(title="E", tags=["red", "cotton"], status="archived")
    sent = [{"column": "TAG", "relation": how, "condition": tag} for how, tag in rules]
    made = await collection(shop, type="AUTOMATIC", match=match, rules=sent)
    assert "".join(await shown(shop, "summer")) == expected
    assert "".join(await listed(shop, made["id"])) == expected
    assert made["productCount"] == len(expected)


async def test_membership_is_computed_when_read(shop: Shop) -> None:
    made = await tagged(shop, "new")
    product = await shop.product(title="A")
    assert await shown(shop, "summer") == []
    await shop.v1("PUT", f"/products/{product['id']}", {"tags": ["new"]})
    assert await shown(shop, "summer") == ["A"]
    single = (await shop.shopper("GET", f"/products/{product['handle']}")).data
    expected = {"id": made["id"], "handle": "summer", "title": "Summer"}
    assert single["collections"] == [expected]
    rules = {"rules": [{"relation": "EQUALS", "condition": "old"}]}
    await shop.control("PUT", f"{ONE}/collections/{made['id']}", rules)
    assert await shown(shop, "summer") == []


async def test_unpublished_and_absent_look_alike(shop: Shop) -> None:
    product = await shop.product()
    made = await collection(shop, published=False, productIds=[product["id"]])
    replies = [
        await shop.shopper("GET", f"/collections/{name}")
        for name in ("summer", "nothing", made["id"])
    ]
    assert {(one.status, one.code) for one in replies} == {
        (404, "COLLECTION_NOT_FOUND")
    }
    assert (await shop.shopper("GET", "/collections")).data == []
    assert await listed(shop, made["id"]) == []
    assert await listed(shop, "col_nothing") == []
    single = f"/products/{product['id']}"
    assert (await shop.shopper("GET", single)).data["collections"] == []
    await shop.control("POST", f"{ONE}/collections/{made['id']}/publish")
    assert await listed(shop, made["id"]) == ["Lamp"]
    assert len((await shop.shopper("GET", "/collections")).data) == 1
    await shop.control("POST", f"{ONE}/collections/{made['id']}/unpublish")
    assert (await shop.shopper("GET", "/collections/summer")).status == 404


async def test_the_list_has_pages(shop: Shop) -> None:
    for number in range(3):
        await collection(shop, title=f"C{number}")
    reply = await shop.shopper("GET", "/collections?limit=2")
    assert [one["title"] for one in reply.data] == ["C2", "C1"]
    assert reply.body["meta"]["total"] == 3
    assert 'rel="next"' in reply.headers["Link"]
    assert (await shop.shopper("GET", "/collections?limit=0")).status == 422


async def test_other_stores_collections_are_unknown(shop: Shop) -> None:
    made = await collection(shop)
    await shop.control("POST", "/stores", {"subdomain": "other"})
    for path in ("/collections/summer", f"/products?collectionId={made['id']}"):
        reply = await shop.shopper("GET", path, store="other")
        assert reply.status == 404 or reply.data == []
    path = f"/stores/other/collections/{made['id']}"
    assert (await shop.control("GET", path)).status == 404


async def test_v1_puts_products_into_collections(shop: Shop) -> None:
    first, second = [await collection(shop, title=one) for one in ("One", "Two")]
    product = await shop.product(collectionIds=[first["id"], first["id"]])
    assert product["collectionIds"] == [first["id"]]
    path, before = f"/products/{product['id']}", await shop.sequence()
    changed = (await shop.v1("PUT", path, {"collectionIds": [second["id"]]})).data
    assert changed["collectionIds"] == [second["id"]]
    assert changed["updatedAt"] > product["updatedAt"]
    assert changed["version"] == product["version"] + 1
    assert await shop.topics_since(before) == ["products/update"]
    same = (await shop.v1("PUT", path, {"collectionIds": [second["id"]]})).data
    assert same == changed
    assert (await shop.v1("PUT", path, {"title": "Lamp"})).data == changed
    cleared = (await shop.v1("PUT", path, {"collectionIds": None})).data
    assert cleared["collectionIds"] == []


async def test_v1_refuses_a_collection_that_is_not_manual(shop: Shop) -> None:
    good, automatic = await collection(shop), await tagged(shop, "x", title="Auto")
    product = await shop.product()
    wanted = {"collectionIds": [good["id"], "col_none", automatic["id"]]}
    for method, path, body in (
        ("POST", "/products", {"title": "T", "price": "1", **wanted}),
        ("PUT", f"/products/{product['id']}", {"title": "New", **wanted}),
    ):
        reply = await shop.v1(method, path, body)
        assert {(one["pointer"], one["code"]) for one in reply.body["errors"]} == {
            ("/collectionIds/1", "NOT_FOUND"),
            ("/collectionIds/2", "NOT_ALLOWED"),
        }
    products = (await shop.v1("GET", "/products")).data
    assert [one["title"] for one in products] == ["Lamp"]


async def test_membership_moves_the_product_without_an_event(shop: Shop) -> None:
    product, other = await shop.product(), await shop.product()
    made, start = await collection(shop), await shop.sequence()
    path = f"{ONE}/collections/{made['id']}/products"
    filled = (await shop.control("PUT", path, {"productIds": [product["id"]]})).data
    assert filled["version"] == made["version"] + 1
    assert filled["updatedAt"] > made["updatedAt"]
    moved = (await shop.v1("GET", f"/products/{product['id']}")).data
    assert moved["updatedAt"] > product["updatedAt"]
    assert moved["version"] == product["version"] + 1
    assert (await shop.v1("GET", f"/products/{other['id']}")).data == other
    again = (await shop.control("PUT", path, {"productIds": [product["id"]]})).data
    assert again == filled
    await shop.control("DELETE", f"{ONE}/collections/{made['id']}")
    left = (await shop.v1("GET", f"/products/{product['id']}")).data
    assert (left["collectionIds"], left["version"]) == ([], moved["version"] + 1)
    assert await shop.topics_since(start) == []


async def test_deleted_products_leave_their_collections(shop: Shop) -> None:
    product = await shop.product()
    made = await collection(shop, productIds=[product["id"]])
    assert (await shop.v1("DELETE", f"/products/{product['id']}")).status == 200
    left = (await shop.control("GET", f"{ONE}/collections/{made['id']}")).data
    assert (left["productIds"], left["productCount"]) == ([], 0)
    assert left["version"] == made["version"] + 1


def rule(**values: Any) -> dict[str, Any]:
    return {"relation": "EQUALS", "condition": "x", **values}


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({}, "/title", "REQUIRED"),
        ({"title": ""}, "/title", "TOO_SHORT"),
        ({"title": "T", "handle": "Not_ok"}, "/handle", "BAD_FORMAT"),
        ({"title": "T", "type": "SMART"}, "/type", "NOT_ALLOWED"),
        ({"title": "T", "type": "AUTOMATIC"}, "", "REQUIRED"),
        ({"title": "T", "rules": [rule()]}, "", "NOT_ALLOWED"),
        (
            {"title": "T", "type": "AUTOMATIC", "rules": [rule(relation="LIKE")]},
            "/rules/0/relation",
            "NOT_ALLOWED",
        ),
        (
            {"title": "T", "type": "AUTOMATIC", "rules": [rule(column="PRICE")]},
            "/rules/0/column",
            "NOT_ALLOWED",
        ),
        ({"title": "T", "productIds": ["prod_x"]}, "/productIds/0", "NOT_FOUND"),
    ],
)
async def test_bad_collections(
    shop: Shop, body: dict[str, Any], pointer: str, code: str
) -> None:
    reply = await shop.control("POST", f"{ONE}/collections", body)
    assert reply.status == 422
    errors = [(one["pointer"], one["code"]) for one in reply.body["errors"]]
    assert errors == [(pointer, code)]


async def test_handles_are_unique(shop: Shop) -> None:
    first = await collection(shop)
    second = await collection(shop)
    assert second["handle"] == "summer-1"
    body = {"title": "T", "handle": "summer"}
    reply = await shop.control("POST", f"{ONE}/collections", body)
    assert (reply.status, reply.code) == (409, "HANDLE_TAKEN")
    assert reply.body["existingId"] == first["id"]
    path = f"{ONE}/collections/{first['id']}"
    reply = await shop.control("PUT", path, {"handle": "summer-1"})
    assert (reply.status, reply.code) == (409, "HANDLE_TAKEN")
    assert reply.body["existingId"] == second["id"]


async def test_a_collection_keeps_its_type(shop: Shop) -> None:
    manual, automatic = await collection(shop), await tagged(shop, "x")
    for made, body in (
        (manual, {"rules": [rule()]}),
        (automatic, {"productIds": []}),
    ):
        path = f"{ONE}/collections/{made['id']}"
        reply = await shop.control("PUT", path, body)
        assert (reply.status, reply.code) == (409, "COLLECTION_TYPE_MISMATCH")
