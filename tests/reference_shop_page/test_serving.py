"""How the shop page and its files are served over HTTP."""

import re
from pathlib import Path

import pytest

from backhaul_reference.storefront import shop_page
from scenes.reference_shop import Reply, Shop

FORBIDDEN = ("unsafe-inline", "unsafe-eval", "http:", "https:", "*")


async def get(shop: Shop, path: str, **headers: str) -> Reply:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return await shop.ask("GET", shop.running.access.public_url + path, sent)


async def links(shop: Shop) -> list[str]:
    page = (await get(shop, "/shop/demo")).body
    return re.findall(r'(?:src|href)="(/[^"]+)"', page)


async def test_the_page_names_its_shop(shop: Shop) -> None:
    reply = await get(shop, "/shop/demo")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "<title>Demo Traders</title>" in reply.body
    assert 'data-subdomain="demo"' in reply.body


async def test_case_does_not_matter(shop: Shop) -> None:
    assert (await get(shop, "/shop/DEMO")).status == 200


@pytest.mark.parametrize("path", ["/shop/demo", "/shop/nobody", "file"])
async def test_the_page_sends_and_loads_nothing_elsewhere(
    shop: Shop, path: str
) -> None:
    target = (await links(shop))[0] if path == "file" else path
    headers = (await get(shop, target)).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert not [word for word in FORBIDDEN if word in policy]
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Robots-Tag"] == "noindex, nofollow"
    assert headers["X-Content-Type-Options"] == "nosniff"


async def test_files_are_kept_for_as_long_as_they_are_the_same(shop: Shop) -> None:
    for link in await links(shop):
        reply = await get(shop, link)
        assert reply.status == 200
        assert "immutable" in reply.headers["Cache-Control"]


async def test_the_page_is_requested_again_and_not_sent_again(shop: Shop) -> None:
    first = await get(shop, "/shop/demo")
    assert first.headers["Cache-Control"] == "no-cache"
    again = await get(shop, "/shop/demo", If_None_Match=first.headers["ETag"])
    assert (again.status, again.body) == (304, "")
    other = await get(shop, "/shop/demo", If_None_Match='"other"')
    assert other.status == 200


@pytest.mark.parametrize("name", ["nobody", "No_Name", "a.b", "-", "x" * 64])
async def test_no_such_shop(shop: Shop, name: str) -> None:
    reply = await get(shop, f"/shop/{name}")
    assert reply.status == 404
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "There is no shop here" in reply.body
    assert "<script" not in reply.body


async def test_a_shop_that_closed(shop: Shop) -> None:
    tag = (await get(shop, "/shop/demo")).headers["ETag"]
    await shop.settings(active=False)
    reply = await get(shop, "/shop/demo", If_None_Match=tag)
    assert reply.status == 404


@pytest.mark.parametrize(
    "name",
    ["page.html", "__init__.py", "..%2froutes.py", "%2e%2e%2froutes.py", "%2fetc", ""],
)
async def test_only_the_packages_files(shop: Shop, name: str) -> None:
    root = (await links(shop))[0].rpartition("/")[0]
    assert (await get(shop, f"{root}/{name}")).status == 404


async def test_files_of_another_version_are_gone(shop: Shop) -> None:
    assert (await get(shop, "/shop-files/0000000000000000/main.js")).status == 404


async def test_a_merchants_words_stay_words(shop: Shop) -> None:
    await shop.settings(storeName='<script>alert(1)</script> "$root" ${x}')
    body = (await get(shop, "/shop/demo")).body
    assert "<script>alert" not in body
    assert "&lt;script&gt;" in body
    assert "$root" in body


async def test_other_methods(shop: Shop) -> None:
    url = shop.running.access.public_url + "/shop/demo"
    assert (await shop.ask("POST", url, {})).status == 405
    assert (await shop.ask("HEAD", url, {})).status == 200


def scripts() -> list[Path]:
    return sorted(shop_page.FOLDER.glob("*.js"))


def test_every_import_is_a_file() -> None:
    known = set(shop_page.load_assets().files)
    for script in scripts():
        imported = re.findall(r'from "\./([^"]+)"', script.read_text())
        assert set(imported) <= known, script.name


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.name)
def test_scripts_never_parse_text_as_markup(script: Path) -> None:
    text = script.read_text()
    words = ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "document.write")
    assert not [word for word in words if word in text]
    assert len(text.splitlines()) < 300


def test_the_digest_follows_the_files() -> None:
    assert shop_page.load_assets().digest == shop_page.load_assets().digest
    assert re.fullmatch(r"[0-9a-f]{16}", shop_page.load_assets().digest)
