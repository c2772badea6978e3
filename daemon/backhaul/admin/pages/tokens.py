"""Tokens of the HTTP API, for administrators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.admin.auth import Route
from backhaul.admin.tokens import SCOPES, state_of
from backhaul.core.clock import to_text
from backhaul.store.operators import Role

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest


async def show_tokens(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show the tokens, and a form for a new one."""
    return await _page(context, page_request)


async def create_token(context: PageContext, page_request: PageRequest) -> web.Response:
    """Create a token and show it, this one time.

    The answer is the page itself: a notice for the next page would be stored.
    """
    form = page_request.form
    done = await context.change(
        page_request,
        "tokens/create",
        name=form.get("name", "").strip().lower(),
        scope=form.get("scope", ""),
        expires=form.get("expires", "").strip() or None,
    )
    return await _page(context, page_request, done["name"], done["token"])


async def revoke_token(context: PageContext, page_request: PageRequest) -> web.Response:
    """Revoke a token; programs that have it are refused at once."""
    name = page_request.form.get("name", "")
    await context.change(page_request, "tokens/revoke", name=name)
    page_request.session.add_notice("good", f"The token {name} is revoked.")
    return page_request.redirect("/tokens")


async def _page(
    context: PageContext,
    page_request: PageRequest,
    name: str | None = None,
    token: str | None = None,
) -> web.Response:
    """Return the page, with a new token if there is one."""
    found = await context.services.store.read(lambda reader: reader.tokens())
    now = to_text(context.services.clock.now())
    rows = [(each, state_of(each, now)) for each in found]
    return context.page(
        page_request, "tokens", rows=rows, scopes=SCOPES, created=name, token=token
    )


ROUTES = (
    Route("GET", "/tokens", Role.ADMIN, show_tokens),
    Route("POST", "/tokens/create", Role.ADMIN, create_token),
    Route("POST", "/tokens/revoke", Role.ADMIN, revoke_token),
)
