"""Customers through v1: created, merged, deleted, and found."""

from typing import Any

import pytest

from scenes.reference_shop import CUSTOMER, Shop

HOME = {"address1": "12 MG Road", "city": "Pune", "country": "in", "zip": "411001"}
WORK = {"address1": "1 Fort", "city": "Mumbai", "country": "IN"}


async def create(shop: Shop, **values: Any) -> Any:
    body = {"email": "ravi@example.com", **values}
    return await shop.v1("POST", "/customers", body)


async def change(shop: Shop, customer: Any, **values: Any) -> Any:
    return await shop.v1("PUT", f"/customers/{customer['id']}", values)


async def test_creating_announces_and_answers_the_whole(shop: Shop) -> None:
    before = await shop.sequence()
    reply = await create(
        shop, firstName="Ravi", lastName="Rao", tags=["vip"], addresses=[HOME, WORK]
    )
    made = reply.data
    assert (reply.status, reply.headers["Location"]) == (
        201,
        f"/api/v1/customers/{made['id']}",
    )
    assert made["name"] == "Ravi Rao"
    assert (made["ordersCount"], made["totalSpent"], made["version"]) == (0, "0.00", 1)
    home, work = made["addresses"]
    assert home["id"].startswith("adr_")
    assert (home["country"], home["isDefault"], work["isDefault"]) == (
        "IN",
        True,
        False,
    )
    assert work["zip"] is None
    assert await shop.topics_since(before) == ["customers/create"]
    assert (await shop.v1("GET", f"/customers/{made['id']}")).data == made


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, ""),
        ({"firstName": "Ravi"}, ""),
        ({"email": "no address"}, "/email"),
        ({"phone": "x"}, "/phone"),
        ({"email": "a@b.example", "tags": "vip"}, "/tags"),
        ({"email": "a@b.example", "addresses": [{"country": "India"}]}, "/addresses"),
        ({"email": "a@b.example", "addresses": [{"id": "adr_x"}]}, "/addresses/0/id"),
    ],
)
async def test_an_invalid_customer_is_refused(
    shop: Shop, body: Any, pointer: str
) -> None:
    reply = await shop.v1("POST", "/customers", body)
    assert (reply.status, reply.code) == (422, "VALIDATION_ERROR")
    assert reply.body["errors"][0]["pointer"].startswith(pointer)


async def test_email_and_external_id_belong_to_one(shop: Shop) -> None:
    first = (await create(shop, externalId="ERP-1")).data
    taken = await create(shop, email="RAVI@Example.com")
    assert (taken.status, taken.code) == (409, "EMAIL_TAKEN")
    assert taken.body["existingId"] == first["id"]
    double = await create(shop, email="b@example.com", externalId="ERP-1")
    assert (double.status, double.code) == (409, "DUPLICATE_EXTERNAL_ID")
    other = (await create(shop, email="b@example.com")).data
    for values, code in (
        ({"email": "ravi@example.com"}, "EMAIL_TAKEN"),
        ({"externalId": "ERP-1"}, "DUPLICATE_EXTERNAL_ID"),
    ):
        reply = await change(shop, other, **values)
        assert (reply.code, reply.body["existingId"]) == (code, first["id"])
    assert (await shop.v1("GET", f"/customers/{other['id']}")).data == other
    found = await shop.v1("GET", "/customers?externalId=ERP-1")
    assert [one["id"] for one in found.data] == [first["id"]]
    assert (await shop.v1("GET", "/customers?externalId=none")).data == []


async def test_put_merges(shop: Shop) -> None:
    made = (
        await create(shop, firstName="Ravi", phone="+91 98", tags=["a"], note="n")
    ).data
    before = await shop.sequence()
    changed = (await change(shop, made, lastName="Rao", note=None)).data
    assert changed == {
        **made,
        "lastName": "Rao",
        "name": "Ravi Rao",
        "note": None,
        "updatedAt": changed["updatedAt"],
        "version": 2,
    }
    assert changed["updatedAt"] > made["updatedAt"]
    assert (await change(shop, made, tags=["a"], unknown=1)).data == changed
    cleared = (await change(shop, made, tags=None, email=None)).data
    assert (cleared["tags"], cleared["email"], cleared["version"]) == ([], None, 3)
    unreachable = await change(shop, made, phone=None)
    assert (unreachable.status, unreachable.code) == (422, "VALIDATION_ERROR")
    assert await shop.topics_since(before) == []
    since = f"/customers?updatedSince={changed['updatedAt']}&sort=updatedAt"
    assert [one["id"] for one in (await shop.v1("GET", since)).data] == [made["id"]]


async def test_addresses_are_the_full_list(shop: Shop) -> None:
    made = (await create(shop, addresses=[HOME, WORK])).data
    home, work = made["addresses"]
    kept = {"id": work["id"], "zip": "400001", "isDefault": True}
    changed = (await change(shop, made, addresses=[kept, HOME])).data
    first, second = changed["addresses"]
    assert first == {**work, "zip": "400001", "isDefault": True}
    assert second["id"] not in {home["id"], work["id"]}
    assert second["isDefault"] is False
    for wrong in (
        [{"id": home["id"]}],
        [kept, kept],
        [{**HOME, "isDefault": True}, {**WORK, "isDefault": True}],
    ):
        assert (await change(shop, made, addresses=wrong)).status == 422
    assert (await change(shop, made, addresses=None)).data["addresses"] == []


async def test_the_default_address_changes_only_on_request(shop: Shop) -> None:
    made = (await create(shop, addresses=[HOME, {**WORK, "isDefault": True}])).data
    home, work = [{"id": one["id"]} for one in made["addresses"]]

    async def default(*addresses: Any) -> Any:
        changed = (await change(shop, made, addresses=addresses)).data
        return [one["id"] for one in changed["addresses"] if one["isDefault"]]

    assert await default(home, work) == [work["id"]]
    assert await default({**HOME}, {**work, "zip": "400001"}, home) == [work["id"]]
    assert await default({**home, "isDefault": False}, work) == [work["id"]]
    assert await default({**work, "isDefault": False}, home) == [home["id"]]
    assert await default({**work, "isDefault": True}, home) == [work["id"]]
    assert await default(home) == [home["id"]]
    assert await default({**home, "isDefault": False}) == [home["id"]]


async def test_deleting_needs_no_orders(shop: Shop) -> None:
    order = await shop.order(await shop.product())
    buyer = order["customer"]["id"]
    kept = await shop.v1("DELETE", f"/customers/{buyer}")
    assert (kept.status, kept.code) == (409, "CUSTOMER_HAS_ORDERS")
    await shop.v1("POST", f"/orders/{order['id']}/cancel")
    assert (await shop.v1("DELETE", f"/customers/{buyer}")).status == 409
    made = (await create(shop)).data
    path = f"/customers/{made['id']}"
    assert (await shop.v1("DELETE", path)).data == {"id": made["id"], "deleted": True}
    for method in ("GET", "DELETE"):
        assert (await shop.v1(method, path)).code == "CUSTOMER_NOT_FOUND"
    assert (await shop.v1("PUT", path, {"note": "x"})).status == 404
    assert (await create(shop)).status == 201


async def test_an_order_finds_the_customer_by_email(shop: Shop) -> None:
    made = (await create(shop, email=CUSTOMER["email"].upper())).data
    before = await shop.sequence()
    order = await shop.order(await shop.product())
    assert order["customer"]["id"] == made["id"]
    assert "customers/create" not in await shop.topics_since(before)
    counted = (await shop.v1("GET", f"/customers/{made['id']}")).data
    assert (counted["ordersCount"], counted["totalSpent"]) == (1, "100.00")
    assert (counted["version"], counted["updatedAt"]) == (1, made["updatedAt"])
