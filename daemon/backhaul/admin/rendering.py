"""Renders pages: templates and assets."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

from backhaul.admin import formatting, navigation
from backhaul.store.operators import Role

if TYPE_CHECKING:
    from datetime import datetime

    from jinja2 import Environment


HERE = Path(__file__).parent
ASSETS = HERE / "assets"
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


THEMES = ("system", "light", "dark")
THEME_COOKIE = "backhaul_theme"


def theme_of(request: web.Request) -> str:
    """Return the theme that the browser chose, one of THEMES."""
    chosen = request.cookies.get(THEME_COOKIE, "")
    return chosen if chosen in THEMES else THEMES[0]


def page(name: str, now: datetime, code: int, /, **values: Any) -> web.Response:
    """Render a template; a whole page needs the value `theme`."""
    text = _templates().get_template(name).render(now=now, **values)
    return web.Response(text=text, status=code, content_type="text/html")


@cache
def _templates() -> Environment:
    # Imported here: the first page waits for it, not every start of the daemon.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= formatting.FILTERS
    made.globals |= {"asset": asset, "Role": Role}
    made.globals |= {"reason_words": formatting.reason_words}
    made.globals |= {"object_path": formatting.object_path}
    made.globals |= {"stock_path": formatting.stock_path}
    made.globals |= {"sections": navigation.sections_of, "place": navigation.place_of}
    return made


@cache
def asset(name: str) -> str:
    """Return the URL of an asset; it changes with the content."""
    digest = hashlib.sha256((ASSETS / name).read_bytes()).hexdigest()[:12]
    return f"/assets/{name}?v={digest}"


def plain_text(status: int, text: str) -> web.Response:
    """Return a plain-text response for a client that is not logged in."""
    return web.Response(text=text, status=status)
