"""/shop/{subdomain}: the shop's HTML page and its static files."""

import hashlib
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

from aiohttp import web

from backhaul_reference.platform.context import PLATFORM
from backhaul_reference.platform.problems import not_found
from backhaul_reference.platform.state import stores
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.storefront.store_access import SUBDOMAIN

FOLDER = Path(__file__).parent / "static"
TEMPLATE = "page.html"
MEDIA_TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
DIGEST_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is served."""

    body: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class Assets:
    """Every file of the page; `digest` changes when any of them does."""

    files: dict[str, Asset]
    template: Template
    digest: str

    @property
    def root(self) -> str:
        """Where the files are; modules import each other relative to it."""
        return f"/shop-files/{self.digest}"


def load_assets() -> Assets:
    """Load the package's folder once; later files are never served."""
    files = {
        path.name: Asset(path.read_bytes(), MEDIA_TYPES[path.suffix])
        for path in sorted(FOLDER.iterdir())
        if path.suffix in MEDIA_TYPES
    }
    template = Template((FOLDER / TEMPLATE).read_text(encoding="utf-8"))
    return Assets(files, template, _digest(files))


def _digest(files: dict[str, Asset]) -> str:
    whole = hashlib.sha256()
    for name, asset in files.items():
        whole.update(f"{name} {len(asset.body)}\n".encode() + asset.body)
    return whole.hexdigest()[:DIGEST_CHARACTERS]


SCRIPT = '<script type="module" src="{root}/main.js"></script>'
WITHOUT_SCRIPT = """<noscript>
<h1>{name}</h1>
<p>This shop needs JavaScript. Please turn it on and load the page again.</p>
</noscript>"""
NO_SHOP = """<section class="quiet">
<img class="emblem" src="{root}/icon.svg" alt="">
<h1>There is no shop here</h1>
<p>The address may be misspelled, or the shop may have closed.</p>
<p>Please check the link that brought you here once more.</p>
</section>"""


def shop_document(assets: Assets, store: Store) -> str:
    """Return the page that the scripts fill; the merchant's text is escaped."""
    name = escape(store.name)
    return assets.template.substitute(
        root=assets.root,
        title=name,
        subdomain=escape(store.subdomain),
        main=WITHOUT_SCRIPT.format(name=name),
        script=SCRIPT.format(root=assets.root),
    )


def no_shop_document(assets: Assets) -> str:
    return assets.template.substitute(
        root=assets.root,
        title="No shop here",
        subdomain="",
        main=NO_SHOP.format(root=assets.root),
        script="",
    )


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
    app[ASSETS] = load_assets()
    app.router.add_get("/shop/{subdomain}", show_shop)
    app.router.add_get("/shop-files/{digest}/{name}", send_file)


async def show_shop(request: web.Request) -> web.Response:
    """Serve the shop page; the browser reads the rest from the storefront API."""
    store = _store(request)
    if store is None:
        return _page(request, no_shop_document(request.app[ASSETS]), 404)
    return _page(request, shop_document(request.app[ASSETS], store), 200)


async def send_file(request: web.Request) -> web.Response:
    """Serve a file of the package by its exact name; no path is built."""
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
    """Serve the page with revalidation on each visit, because a shop can close."""
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
