"""Menus: links follow their targets, and none leads to a hidden object."""

from typing import Any

import pytest

from scenes.merchant import ONE, collection
from scenes.reference_shop import Shop

MAIN = f"{ONE}/menus/main-menu"


def item(kind: str, target: str, *children: Any, label: str = "L") -> dict[str, Any]:
    return {
        "label": label,
        "type": kind,
        "target": target,
        "children": list(children),
    }


async def put(shop: Shop, *items: Any) -> Any:
    reply = await shop.control("PUT", MAIN, {"items": list(items)})
    return reply.data


async def urls(shop: Shop) -> list[Any]:
    """The main menu as nested lists of addresses."""

    def nested(items: list[Any]) -> list[Any]:
        return [
            [one["url"], nested(one["children"])] if one["children"] else one["url"]
            for one in items
        ]

    return nested((await shop.shopper("GET", "/navigation/main-menu")).data["items"])


async def test_a_new_store_has_two_menus(shop: Shop) -> None:
    await shop.control("POST", "/stores", {"subdomain": "other"})
    found = (await shop.shopper("GET", "/navigation", store="other")).data
    assert found == {
        "main-menu": {"handle": "main-menu", "title": "Main menu", "items": []},
        "footer": {"handle": "footer", "title": "Footer", "items": []},
    }
    one = (await shop.shopper("GET", "/navigation/footer", store="other")).data
    assert one == found["footer"]
    reply = await shop.shopper("GET", "/navigation/side")
    assert (reply.status, reply.code) == (404, "MENU_NOT_FOUND")


async def test_items_follow_their_targets(shop: Shop) -> None:
    product, made = await shop.product(title="Shirt"), await collection(shop)
    await put(
        shop,
        item("COLLECTION", made["id"], item("product", product["id"])),
        item("URL", "https://x.example/a"),
        item("PAGE", "about"),
    )
    rest = ["https://x.example/a", "/pages/about"]
    assert await urls(shop) == [["/collections/summer", ["/products/shirt"]], *rest]
    await shop.v1("PUT", f"/products/{product['id']}", {"handle": "blouse"})
    path = f"{ONE}/collections/{made['id']}"
    await shop.control("PUT", path, {"handle": "winter"})
    assert await urls(shop) == [["/collections/winter", ["/products/blouse"]], *rest]


@pytest.mark.parametrize("how", ["draft", "archived", "deleted"])
async def test_a_hidden_target_hides_its_children(shop: Shop, how: str) -> None:
    gone, stays = await shop.product(title="Gone"), await shop.product(title="Stays")
    child = item("PRODUCT", stays["id"])
    await put(shop, item("PRODUCT", gone["id"], child), child)
    assert await urls(shop) == [
        ["/products/gone", ["/products/stays"]],
        "/products/stays",
    ]
    path = f"/products/{gone['id']}"
    if how == "deleted":
        await shop.v1("DELETE", path)
    else:
        await shop.v1("PUT", path, {"status": how})
    assert await urls(shop) == ["/products/stays"]
    merchant = (await shop.control("GET", MAIN)).data["items"]
    assert [one["url"] for one in merchant] == [None, "/products/stays"]
    if how != "deleted":
        await shop.v1("PUT", path, {"status": "active"})
        assert len(await urls(shop)) == 2


async def test_unpublished_collections_are_left_out(shop: Shop) -> None:
    made = await collection(shop)
    await put(shop, item("URL", "/", item("COLLECTION", made["id"])))
    assert await urls(shop) == [["/", ["/collections/summer"]]]
    await shop.control("POST", f"{ONE}/collections/{made['id']}/unpublish")
    assert await urls(shop) == ["/"]


@pytest.mark.parametrize(
    ("sent", "pointer", "code"),
    [
        (item("PRODUCT", "prod_x"), "/items/0/target", "NOT_FOUND"),
        (item("URL", "/", item("COLLECTION", "col_x")),
         "/items/0/children/0/target", "NOT_FOUND"),
        (item("URL", "javascript:alert(1)"), "/items/0", "BAD_FORMAT"),
        (item("PAGE", "/x"), "/items/0", "BAD_FORMAT"),
        (item("LINK", "/"), "/items/0/type", "NOT_ALLOWED"),
        (item("URL", "/", label=""), "/items/0/label", "TOO_SHORT"),
        ({"label": "L", "type": "URL"}, "/items/0/target", "REQUIRED"),
    ],
)  # fmt: skip
async def test_bad_items(shop: Shop, sent: Any, pointer: str, code: str) -> None:
    reply = await shop.control("PUT", MAIN, {"items": [sent]})
    assert reply.status == 422
    errors = [(one["pointer"], one["code"]) for one in reply.body["errors"]]
    assert errors == [(pointer, code)]
    assert await urls(shop) == []


async def test_menus_are_not_endlessly_deep(shop: Shop) -> None:
    deep = item("URL", "/")
    for _ in range(4):
        deep = item("URL", "/", deep)
    await put(shop, deep)
    reply = await shop.control("PUT", MAIN, {"items": [item("URL", "/", deep)]})
    assert reply.body["errors"][0]["code"] == "TOO_DEEP"


async def test_further_menus(shop: Shop) -> None:
    body = {"title": "Side", "items": [item("URL", "#top")]}
    assert (await shop.control("PUT", f"{ONE}/menus/side", body)).status == 200
    found = (await shop.shopper("GET", "/navigation")).data
    assert found.keys() == {"main-menu", "footer", "side"}
    assert (await shop.control("PUT", f"{ONE}/menus/No_Good", body)).status == 404
    kept = (await shop.control("PUT", f"{ONE}/menus/side", {"items": []})).data
    assert kept == {"handle": "side", "title": "Side", "items": []}
    listed = (await shop.control("GET", f"{ONE}/menus")).data
    assert len(listed) == 3


async def test_a_menu_is_deleted(shop: Shop) -> None:
    reply = await shop.control("DELETE", MAIN)
    assert reply.data == {"handle": "main-menu", "deleted": True}
    assert (await shop.shopper("GET", "/navigation")).data.keys() == {"footer"}
    assert (await shop.shopper("GET", "/navigation/main-menu")).code == "MENU_NOT_FOUND"
    assert (await shop.control("DELETE", MAIN)).code == "MENU_NOT_FOUND"
    await put(shop, item("URL", "/"))
    assert await urls(shop) == ["/"]
