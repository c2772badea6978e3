"""Pickers find and choose every object of the store, without scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reference_dashboard.conftest import STORE, Browser

if TYPE_CHECKING:
    from scenes.reference_shop import Shop

MANY = 101
ONE = "/stores/demo"


async def old_product(shop: Shop) -> Any:
    """A product after which came as many as a picker lists."""
    old = await shop.product(title="Oldest lantern")
    for number in range(MANY):
        await shop.product(title=f"Lamp {number}")
    return old


async def shelf(shop: Shop, title: str) -> str:
    made = (await shop.control("POST", f"{ONE}/collections", {"title": title})).data
    return str(made["id"])


async def crowded(shop: Shop) -> str:
    """The id of a collection after which came as many as a form lists."""
    old = await shelf(shop, "Oldest shelf")
    for number in range(MANY):
        await shelf(shop, f"Shelf {number}")
    return old


async def test_an_old_product_is_found(browser: Browser) -> None:
    await old_product(browser.shop)
    for path in ("/new-order", "/new-collection", "/navigation/footer"):
        assert "Oldest lantern" not in (await browser.get(STORE + path)).text
        found = await browser.get(f"{STORE}{path}?search=LANTERN")
        assert "Oldest lantern" in found.text
        assert "Lamp 1<" not in found.text


async def test_a_found_product_can_be_added_and_is_not_lost(browser: Browser) -> None:
    old = await old_product(browser.shop)
    refused = await browser.post("/new-collection", title="", add0=old["id"])
    assert refused.status == 422
    assert f'<option value="{old["id"]}" selected>Oldest lantern' in refused.text
    made = await browser.post("/new-collection", title="Old", add0=old["id"])
    assert made.status == 303
    [collection] = (await browser.shop.state())["collections"]
    assert collection["productIds"] == [old["id"]]


async def test_a_menu_links_to_a_found_product(browser: Browser) -> None:
    old = await crowded(browser.shop)
    page = STORE + "/navigation/footer"
    assert old not in (await browser.get(page)).text
    assert old in (await browser.get(page + "?search=oldest")).text
    row = {"label0": "Old", "leads0": f"COLLECTION:{old}"}
    refused = await browser.post("/navigation/footer", title="", **row)
    assert f'<option value="COLLECTION:{old}" selected>' in refused.text
    saved = await browser.post("/navigation/footer", title="Footer", **row)
    assert saved.status == 303
    # What the menu leads to is offered whatever is searched for.
    assert old in (await browser.get(page + "?search=shelf+7")).text


async def test_a_product_is_added_to_a_found_collection_and_stays(
    browser: Browser,
) -> None:
    old, new = await crowded(browser.shop), await shelf(browser.shop, "New")
    product = await browser.shop.product(collectionIds=[new])
    path = f"/products/{product['id']}/edit"
    assert old not in (await browser.get(STORE + path)).text
    found = (await browser.get(f"{STORE}{path}?search=oldest")).text
    assert f'value="{old}"' in found
    assert f'value="{new}" checked' in found
    form = {"title": "Lamp", "handle": "lamp", "price0": "1"}
    form |= {"id0": product["variants"][0]["id"]}
    chosen = {"choosesCollections": [old, new], "collectionIds": [old]}
    refused = await browser.post(path, **{**form, "title": ""}, **chosen)
    assert f'value="{old}" checked' in refused.text
    assert (await browser.post(path, **form, **chosen)).status == 303
    shown = (await browser.shop.v1("GET", f"/products/{product['id']}")).data
    assert shown["collectionIds"] == [old]
    # A box that the form did not have says nothing.
    unseen = {"choosesCollections": [new], "collectionIds": [new]}
    assert (await browser.post(path, **form, **unseen)).status == 303
    shown = (await browser.shop.v1("GET", f"/products/{product['id']}")).data
    assert sorted(shown["collectionIds"]) == sorted([old, new])
