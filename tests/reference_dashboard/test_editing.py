"""Products, customers and discounts are edited and deleted as through the API."""

from typing import Any

from reference_dashboard.conftest import STORE, Browser


async def form_of(browser: Browser, product: Any, **changed: Any) -> dict[str, Any]:
    """The edit form as a browser would send it unchanged, but for what is given."""
    form: dict[str, Any] = {
        name: product[name] or "" for name in ("title", "handle", "status")
    }
    for n, variant in enumerate(product["variants"]):
        for name in ("id", "title", "price", "inventoryPolicy"):
            form[f"{name}{n}"] = variant[name]
        form[f"sku{n}"] = variant["sku"] or ""
        form[f"trackInventory{n}"] = "on"
    return {**form, **changed}


async def again(browser: Browser, kind: str, found: Any) -> Any:
    return (await browser.shop.v1("GET", f"/{kind}/{found['id']}")).data


async def test_a_product_is_edited(browser: Browser) -> None:
    product = await browser.shop.product(description="Old", tags=["old"])
    sequence = await browser.shop.sequence()
    form = await form_of(
        browser,
        product,
        title="Reading lamp",
        description="",
        tags="new, warm",
        status="draft",
        price0="120.50",
        url1="https://images.example/lamp.jpg",
    )
    page = await browser.post(f"/products/{product['id']}/edit", **form)
    assert page.status == 303
    found = await again(browser, "products", product)
    assert (found["title"], found["description"]) == ("Reading lamp", None)
    assert (found["tags"], found["status"]) == (["new", "warm"], "draft")
    assert [one["url"] for one in found["images"]] == [
        "https://images.example/lamp.jpg"
    ]
    [variant] = found["variants"]
    assert (variant["price"], variant["stock"]) == ("120.50", 10)
    assert await browser.shop.topics_since(sequence) == ["products/update"]


async def test_an_edit_that_changes_nothing_notifies_no_subscriber(
    browser: Browser,
) -> None:
    product = await browser.shop.product(description="A lamp", tags=["warm"])
    sequence = await browser.shop.sequence()
    form = await form_of(browser, product, description="A lamp", tags="warm")
    page = await browser.post(f"/products/{product['id']}/edit", **form)
    assert page.status == 303
    assert await browser.shop.topics_since(sequence) == []


async def test_variants_are_added_and_removed(browser: Browser) -> None:
    variants = [{"title": one, "price": "10", "stock": 3} for one in ("S", "M")]
    product = await browser.shop.product(variants=variants, price=None, stock=0)
    added = {"title2": "L", "price2": "12", "sku2": "LAMP-L", "remove0": "on"}
    form = await form_of(browser, product, **added)
    page = await browser.post(f"/products/{product['id']}/edit", **form)
    assert page.status == 303
    found = await again(browser, "products", product)
    assert [one["title"] for one in found["variants"]] == ["M", "L"]
    assert [one["stock"] for one in found["variants"]] == [3, 0]
    history = (await browser.shop.v1("GET", "/inventory/history")).data[0]
    assert (history["adjustment"], history["note"]) == (-3, "variant deleted")
    assert history["source"]["type"] == "DASHBOARD"


async def test_a_flaw_of_a_variant_is_shown_in_its_row(browser: Browser) -> None:
    product = await browser.shop.product()
    form = await form_of(browser, product, title2="L", price2="cheap", weightGrams2="x")
    path = f"/products/{product['id']}/edit"
    page = await browser.post(path, **form)
    assert page.status == 422
    assert 'id="field-price2" name="price2" aria-invalid="true"' in page.text
    assert 'value="cheap"' in page.text
    assert page.text.count("Must be a whole number") == 2
    page = await browser.post(path, **{**form, "price0": "", "price2": "1"})
    assert 'href="#field-price0"' in page.text


async def test_a_product_is_deleted(browser: Browser) -> None:
    product = await browser.shop.product()
    sequence = await browser.shop.sequence()
    page = await browser.post(f"/products/{product['id']}/delete")
    assert page.status == 303
    reply = await browser.shop.v1("GET", f"/products/{product['id']}")
    assert reply.status == 404
    assert await browser.shop.topics_since(sequence) == ["products/delete"]


async def test_a_customer_from_first_to_last(browser: Browser) -> None:
    sequence = await browser.shop.sequence()
    form = {"firstName": "Asha", "email": "asha@example.com", "tags": "vip"}
    address = {"address10": "12 MG Road", "city0": "Pune", "country0": "in"}
    page = await browser.post("/new-customer", **form, **address)
    assert page.status == 303
    assert await browser.shop.topics_since(sequence) == ["customers/create"]
    [customer] = (await browser.shop.v1("GET", "/customers")).data
    assert (customer["name"], customer["tags"]) == ("Asha", ["vip"])
    known = customer["addresses"][0]["id"]
    changed = {"name": "Asha Rao", "email": "", "phone": "+91 20 1234", "note": "Tea"}
    second = {"address11": "3 Park Street", "default": "1"}
    path = f"/customers/{customer['id']}"
    page = await browser.post(path + "/edit", id0=known, **address, **changed, **second)
    assert page.status == 303
    found = await again(browser, "customers", customer)
    assert (found["name"], found["email"], found["note"]) == ("Asha Rao", None, "Tea")
    assert [one["id"] == known for one in found["addresses"]] == [True, False]
    assert [one["isDefault"] for one in found["addresses"]] == [False, True]
    page = await browser.post(path + "/edit", name="Asha", email="", phone="")
    assert page.status == 422
    assert "Email or phone is required" in page.text
    assert (await browser.post(path + "/delete")).status == 303
    assert (await browser.shop.v1("GET", path)).status == 404


async def test_a_customer_with_orders_stays(browser: Browser) -> None:
    order = await browser.shop.order(await browser.shop.product())
    path = f"/customers/{order['customer']['id']}"
    page = await browser.post(path + "/delete")
    assert page.status == 409
    assert "has placed orders" in page.text
    assert (await browser.shop.v1("GET", path)).status == 200


async def test_a_discount_is_edited(browser: Browser) -> None:
    await browser.shop.settings(timezone="Asia/Kolkata")
    form = {"code": "SAVE10", "type": "PERCENTAGE", "value": "10", "active": "on"}
    limits = {"usageLimit": 5, "startsAt": "2026-11-01T05:30", "minimumSubtotal": "9"}
    page = await browser.post("/new-discount", **form, **limits)
    assert page.status == 303
    [made] = (await browser.shop.state())["discounts"]
    assert made["startsAt"] == "2026-11-01T00:00:00.000Z"
    path = f"/discounts/{made['id']}"
    shown = (await browser.get(STORE + path)).text
    assert 'value="2026-11-01T05:30:00"' in shown
    emptied = {"usageLimit": "", "startsAt": "", "minimumSubtotal": ""}
    fixed = {"code": "SAVE", "type": "FIXED_AMOUNT", "value": "3"}
    page = await browser.post(path, **fixed, **emptied)
    assert page.status == 303
    [found] = (await browser.shop.state())["discounts"]
    assert (found["code"], found["value"], found["active"]) == ("SAVE", "3.00", False)
    assert (found["usageLimit"], found["startsAt"]) == (None, None)
    assert found["minimumSubtotal"] is None
    ends = {"startsAt": "2026-11-02T00:00", "endsAt": "2026-11-01T00:00"}
    page = await browser.post(path, **fixed, **ends)
    assert page.status == 422
    assert "It ends before it starts" in page.text
    assert (await browser.post(path + "/active", active="yes")).status == 303
    [found] = (await browser.shop.state())["discounts"]
    assert found["active"] is True
    assert (await browser.post(path + "/delete")).status == 303
    assert (await browser.shop.state())["discounts"] == []


async def test_products_of_a_collection_are_chosen(browser: Browser) -> None:
    first, second = [await browser.shop.product() for _ in range(2)]
    page = await browser.post("/new-collection", title="Lights", add0=first["id"])
    assert page.status == 303
    [made] = (await browser.shop.state())["collections"]
    assert made["productIds"] == [first["id"]]
    form = {"title": "Lights", "handle": "lights", "description": ""}
    page = await browser.post(f"/collections/{made['id']}", **form, add1=second["id"])
    assert page.status == 303
    [found] = (await browser.shop.state())["collections"]
    assert found["productIds"] == [second["id"]]
    assert found["published"] is False


async def test_a_webhook_gets_another_address(browser: Browser) -> None:
    form = {"address": "http://127.0.0.1:9/a", "topics": ["orders/create"]}
    await browser.post("/api/webhooks", description="Old", **form)
    [hook] = (await browser.shop.v1("GET", "/webhooks")).data
    path = f"/api/webhooks/{hook['id']}"
    changed = {"address": "http://127.0.0.1:9/b", "topics": ["products/create"]}
    page = await browser.post(path, description="", **changed)
    assert page.status == 303
    [found] = (await browser.shop.v1("GET", "/webhooks")).data
    assert (found["address"], found["topics"]) == tuple(changed.values())
    assert found["description"] is None
    page = await browser.post(path, address="ftp://x", topics=["products/create"])
    assert page.status == 422
    assert 'value="ftp://x"' in page.text
