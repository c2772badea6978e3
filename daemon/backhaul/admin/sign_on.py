"""The pages of single sign-on: to the identity provider, and back from it."""

from __future__ import annotations

import hashlib
import hmac
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web
from loguru import logger

from backhaul.admin import login
from backhaul.admin.auth import OpenRoute, begun_cookie_name
from backhaul.admin.oidc import CALLBACK, Begun, NoRole, SignOnFailed, printed
from backhaul.errors import BackhaulError, Busy
from backhaul.store.operators import BEGUN_SECONDS

if TYPE_CHECKING:
    from backhaul.admin.context import PageContext
    from backhaul.admin.oidc import Provider

WHO = "single sign-on"
"""Who changes users in the audit log."""
NOT_THIS_BROWSER = (
    "This login did not begin in this browser, it took longer than ten minutes, or it"
    " was already used. Log in again."
)


async def begin(context: PageContext, request: web.Request) -> web.StreamResponse:
    """Send the browser to the identity provider."""
    provider = _provider(context)
    login.require_secure(context, request)
    begun = Begun.new(login.next_path(request))
    try:
        address = await provider.address(begun)
    except SignOnFailed as error:
        return _failed(context, request, 502, error)
    content = msgspec.json.encode(begun).decode()
    client = hashlib.sha256(login.client_key(context, request).encode()).hexdigest()
    await context.services.store.logins.keep_begun(_key(begun.state), client, content)
    answer = web.Response(status=303, headers={"Location": address})
    secure = context.origin.is_https(request)
    answer.set_cookie(
        begun_cookie_name(request, secure=secure),
        begun.state,
        path="/",
        max_age=int(BEGUN_SECONDS),
        secure=secure,
        httponly=True,
        samesite="Lax",  # the provider's page leads back here
    )
    return answer


async def come_back(context: PageContext, request: web.Request) -> web.StreamResponse:
    """Log the user in whom the provider sends back with a code."""
    provider = _provider(context)
    login.require_secure(context, request)
    begun = await _begun(context, request)
    if begun is None:
        return login.show(context, request, 400, NOT_THIS_BROWSER)
    try:
        if refused := request.query.get("error"):
            words = printed(refused, request.query.get("error_description", ""))
            raise SignOnFailed(
                f"the identity provider did not let you in: {words}; log in again, or"
                " ask its administrator"
            )
        found = await provider.finish(request.query.get("code", ""), begun)
        users = context.services.store.users
        user = await users.sign_on(found.identity, found.name, found.role, WHO)
    except NoRole as error:
        with suppress(Busy):
            detail = "the identity provider gives no role"
            users = context.services.store.users
            await users.end_access(error.identity, WHO, detail)
        return _failed(context, request, 403, error)
    except Busy:
        raise
    except BackhaulError as error:
        return _failed(context, request, 403, error)
    # After a redirect from another site a browser sends no strict cookie, so the page
    # itself leads on.
    answer = login.show_continue(context, request, begun.path, "You are logged in")
    await login.begin_session(context, request, user, answer)
    _drop_begun(context, request, answer)
    return answer


async def _begun(context: PageContext, request: web.Request) -> Begun | None:
    """Return what this browser began, once, if the answer belongs to it."""
    secure = context.origin.is_https(request)
    kept = request.cookies.get(begun_cookie_name(request, secure=secure), "")
    state = request.query.get("state", "")
    if not state or not hmac.compare_digest(
        kept.encode(errors="replace"), state.encode(errors="replace")
    ):
        return None
    content = await context.services.store.logins.take_begun(_key(state))
    return None if content is None else msgspec.json.decode(content, type=Begun)


def _drop_begun(
    context: PageContext, request: web.Request, answer: web.Response
) -> None:
    secure = context.origin.is_https(request)
    name = begun_cookie_name(request, secure=secure)
    answer.del_cookie(name, secure=secure, path="/")


def _failed(
    context: PageContext, request: web.Request, status: int, error: BackhaulError
) -> web.Response:
    logger.bind(
        action="dashboard.sign_on_failed", address=login.client_key(context, request)
    ).warning("failed single sign-on at the dashboard: {}", error)
    answer = login.show(context, request, status, _sentence(str(error)))
    _drop_begun(context, request, answer)
    return answer


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _provider(context: PageContext) -> Provider:
    if context.provider is None:
        raise web.HTTPNotFound(text="single sign-on is not set up: see [admin.oidc]")
    return context.provider


def _key(state: str) -> str:
    return hashlib.sha256(f"oidc:{state}".encode(errors="replace")).hexdigest()


OPEN = (
    OpenRoute("GET", "/login/oidc", begin),
    OpenRoute("GET", CALLBACK, come_back),
)
