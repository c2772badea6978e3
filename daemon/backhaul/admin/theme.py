"""The theme of the dashboard: a cookie of the browser, set by a form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.admin.auth import Route
from backhaul.admin.context import local_path
from backhaul.admin.rendering import THEME_COOKIE, THEMES
from backhaul.errors import BackhaulError
from backhaul.store.operators import Role

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest

YEAR_SECONDS = 365 * 86_400


async def choose(context: PageContext, page_request: PageRequest) -> web.Response:
    """Set the theme for this browser, and show the page again."""
    theme = page_request.form.get("theme", "")
    if theme not in THEMES:
        raise BackhaulError(f"there is no theme {theme!r}; choose one of {THEMES}")
    answer = page_request.redirect(local_path(page_request.form.get("next", "/")))
    answer.set_cookie(
        THEME_COOKIE,
        theme,
        path="/",
        max_age=YEAR_SECONDS,
        secure=context.origin.is_https(page_request.request),
        httponly=True,
        samesite="Strict",
    )
    return answer


ROUTES = (Route("POST", "/theme", Role.VIEWER, choose),)
