"""The logged-in user's own account: the password and the second factor."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from backhaul.admin.accounts import throttle_key
from backhaul.admin.auth import SET_UP, Route
from backhaul.admin.second_factor import (
    new_recovery_codes,
    qr_code,
    recovery_digests,
)
from backhaul.errors import BackhaulError
from backhaul.store.operations import AuditEntry
from backhaul.store.operators import Role

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest


async def show_account(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show the account of the logged-in user."""
    return context.page(
        page_request, "account", is_required=context.factors.is_required
    )


async def set_own_password(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Change the user's own password; requires the old one and ends every session."""
    form, user = page_request.form, page_request.user
    await _prove(context, page_request, form.get("old", ""))
    new = form.get("new", "")
    if new != form.get("again", ""):
        raise BackhaulError(
            "the two new passwords differ; type the same password twice"
        )
    await context.change(page_request, "users/password", name=user.name, password=new)
    return page_request.redirect("/login")


async def _prove(
    context: PageContext, page_request: PageRequest, password: str
) -> None:
    """Raise BackhaulError unless this is the user's password."""
    user = page_request.user
    if user.identity:
        raise BackhaulError(
            "you log in at the identity provider; change your password and your second"
            " factor there"
        )
    address = throttle_key(context.origin.address(page_request.request))
    if await context.throttle.attempt(user.name, address) > 0:
        raise BackhaulError(
            "too many attempts with a wrong password failed; wait, then try again"
        )
    if not await context.passwords.verify(user.secret, password):
        raise BackhaulError("the current password is wrong; type it again")
    await context.throttle.succeeded(user.name, address)


async def show_set_up(context: PageContext, page_request: PageRequest) -> web.Response:
    """Show how to set up the second factor: first the password, then the QR code."""
    if page_request.user.totp or page_request.user.identity:
        return page_request.redirect("/account")
    return await _set_up_page(context, page_request)


async def begin_set_up(context: PageContext, page_request: PageRequest) -> web.Response:
    """Make a secret for ten minutes, in which the user has to confirm it."""
    await _prove(context, page_request, page_request.form.get("password", ""))
    name, factors = page_request.user.name, context.factors
    sealed = factors.seal(name, factors.new_secret())
    logins = context.services.store.logins
    await logins.keep_begun(_set_up_key(page_request), name, sealed)
    return page_request.redirect(SET_UP)


async def confirm_set_up(
    context: PageContext, page_request: PageRequest
) -> web.Response:
    """Turn the second factor on if the code is right, and show the recovery codes."""
    user, factors, store = page_request.user, context.factors, context.services.store
    sealed = await store.logins.find_begun(_set_up_key(page_request))
    if sealed is None or user.totp:
        return page_request.redirect(SET_UP)
    secret = factors.open(user.name, sealed)
    step = factors.step_of(secret, page_request.form.get("code", ""))
    if step is None:
        return await _set_up_page(context, page_request, WRONG_CODE)
    codes = new_recovery_codes()
    entry = AuditEntry(user.name, "users totp", f"{user.name}: on")
    await store.users.set_totp(user.name, sealed, recovery_digests(codes), entry)
    await store.users.use_totp_step(user.name, step)
    await store.logins.take_begun(_set_up_key(page_request))
    return context.page(page_request, "recovery_codes", codes=codes)


async def renew_codes(context: PageContext, page_request: PageRequest) -> web.Response:
    """Replace the recovery codes, and show the new ones once."""
    user, codes = page_request.user, new_recovery_codes()
    await _prove(context, page_request, page_request.form.get("password", ""))
    if user.totp is None:
        raise BackhaulError("you have no second factor; set it up on this page first")
    entry = AuditEntry(user.name, "users totp", f"{user.name}: new recovery codes")
    users = context.services.store.users
    await users.set_recovery_codes(user.name, recovery_digests(codes), entry)
    return context.page(page_request, "recovery_codes", codes=codes)


async def turn_off(context: PageContext, page_request: PageRequest) -> web.Response:
    """Turn the second factor off, unless the configuration requires it."""
    user = page_request.user
    await _prove(context, page_request, page_request.form.get("password", ""))
    if context.factors.is_required:
        raise BackhaulError(
            "every user with a password needs a second factor here: [admin]"
            " require_totp is true. To use another device, ask an administrator to"
            " reset your second factor"
        )
    entry = AuditEntry(user.name, "users totp", f"{user.name}: off")
    await context.services.store.users.set_totp(user.name, None, (), entry)
    page_request.session.add_notice("good", "The second factor is off.")
    return page_request.redirect("/account")


WRONG_CODE = (
    "The code is wrong. Check the clock of your device, and type the code that the app"
    " shows now."
)


async def _set_up_page(
    context: PageContext, page_request: PageRequest, error: str = ""
) -> web.Response:
    user, factors = page_request.user, context.factors
    logins = context.services.store.logins
    sealed = await logins.find_begun(_set_up_key(page_request))
    secret = None if sealed is None else factors.open(user.name, sealed)
    return context.page(
        page_request,
        "second_factor",
        422 if error else 200,
        error=error,
        secret=secret,
        drawn=secret and qr_code(user.name, secret),
        is_required=factors.must_set_up(user),
    )


def _set_up_key(page_request: PageRequest) -> str:
    """Return the key of a secret that is not confirmed: one for each session."""
    text = f"set-up:{page_request.session.key}"
    return hashlib.sha256(text.encode()).hexdigest()


ROUTES = (
    Route("GET", "/account", Role.VIEWER, show_account),
    Route("POST", "/account/password", Role.VIEWER, set_own_password),
    Route("GET", SET_UP, Role.VIEWER, show_set_up),
    Route("POST", f"{SET_UP}/begin", Role.VIEWER, begin_set_up),
    Route("POST", f"{SET_UP}/confirm", Role.VIEWER, confirm_set_up),
    Route("POST", f"{SET_UP}/codes", Role.VIEWER, renew_codes),
    Route("POST", f"{SET_UP}/off", Role.VIEWER, turn_off),
)
