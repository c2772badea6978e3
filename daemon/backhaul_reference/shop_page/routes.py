"""/shop/{subdomain} and the files that it loads."""

import hashlib

from aiohttp import web

from backhaul_reference.context import PLATFORM
from backhaul_reference.problems import not_found
from backhaul_reference.shop_page import assets, documents
from backhaul_reference.shop_page.assets import Assets
from backhaul_reference.state import stores
from backhaul_reference.state.stores import Store
from backhaul_reference.storefront.admission import SUBDOMAIN

ASSETS = web.AppKey("shop_page_assets", Assets)
ONE_YEAR_SECONDS = 365 * 24 * 60 * 60
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
GUARDED = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex, nofollow",
}


def add_routes(app: web.Application) -> None:
    app[ASSETS] = assets.load()
    app.router.add_get("/shop/{subdomain}", show_shop)
    app.router.add_get("/shop-files/{digest}/{name}", send_file)


async def show_shop(request: web.Request) -> web.Response:
    """The same page for everybody: the browser asks the storefront for the rest."""
    store = _store(request)
    if store is None:
        return _page(request, documents.no_shop(request.app[ASSETS]), 404)
    return _page(request, documents.shop(request.app[ASSETS], store), 200)


async def send_file(request: web.Request) -> web.Response:
    """A file of the package by its exact name; no path is ever put together."""
    known = request.app[ASSETS]
    asset = known.files.get(request.match_info["name"])
    if asset is None or request.match_info["digest"] != known.digest:
        raise not_found("FILE")
    cached = f"public, max-age={ONE_YEAR_SECONDS}, immutable"
    return web.Response(
        body=asset.body,
        content_type=asset.media_type,
        charset="utf-8",
        headers={**GUARDED, "Cache-Control": cached},
    )


def _store(request: web.Request) -> Store | None:
    subdomain = request.match_info["subdomain"].lower()
    if not SUBDOMAIN.fullmatch(subdomain):
        return None
    reader = request.app[PLATFORM].reader
    store = reader.read(lambda rows: stores.by_subdomain(rows, subdomain))
    return store if store is not None and store.active else None


def _page(request: web.Request, text: str, status: int) -> web.Response:
    """Kept by browsers, yet asked for each time: a shop can close."""
    tag = hashlib.sha256(text.encode()).hexdigest()[:32]
    headers = {**GUARDED, "Cache-Control": "no-cache"}
    seen = {one.value for one in request.if_none_match or ()}
    if status == 200 and tag in seen:
        answer = web.Response(status=304, headers=headers)
    else:
        answer = web.Response(
            text=text, status=status, content_type="text/html", headers=headers
        )
    answer.etag = tag
    return answer
