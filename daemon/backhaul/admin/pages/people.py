"""Users: the own password for everybody, all of them for admins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.admin.guard import Route
from backhaul.admin.throttle import counted
from backhaul.errors import BackhaulError
from backhaul.store.users import ROLES, Role

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.desk import Desk, Visit


async def show_users(desk: Desk, visit: Visit) -> web.Response:
    """Show everybody."""
    people = await desk.given.users.list()
    return desk.page(visit, "users", people=people, roles=list(ROLES))


async def add(desk: Desk, visit: Visit) -> web.Response:
    """Add somebody."""
    form = visit.form
    name = form.get("name", "").strip().lower()
    password = form.get("password", "")
    role = form.get("role", "")
    await desk.change(visit, "users/add", name=name, role=role, password=password)
    visit.session.tell("good", f"{name} may log in now.")
    return visit.back_to("/users")


async def remove(desk: Desk, visit: Visit) -> web.Response:
    """Take somebody away; whoever is logged in under that name is out at once."""
    name = visit.form.get("name", "")
    await desk.change(visit, "users/remove", name=name)
    visit.session.tell("good", f"{name} may not log in any more.")
    return visit.back_to("/users")


async def set_role(desk: Desk, visit: Visit) -> web.Response:
    """Change what somebody may."""
    name, role = visit.form.get("name", ""), visit.form.get("role", "")
    await desk.change(visit, "users/role", name=name, role=role)
    visit.session.tell("good", f"{name} is {role} now.")
    return visit.back_to("/users")


async def show_own(desk: Desk, visit: Visit) -> web.Response:
    """Show who one is."""
    return desk.page(visit, "account")


async def set_own_password(desk: Desk, visit: Visit) -> web.Response:
    """Change the own password, for who knows the old one; ends every session."""
    form, user = visit.form, visit.user
    address = counted(desk.origin.address(visit.request))
    if desk.throttle.wait(user.name, address) > 0:
        raise BackhaulError("too many failed attempts; wait a moment")
    desk.throttle.failed(user.name, address)
    if not await desk.passwords.fits(user.secret, form.get("old", "")):
        raise BackhaulError("that is not your password")
    desk.throttle.succeeded(user.name, address)
    new = form.get("new", "")
    if new != form.get("again", ""):
        raise BackhaulError("the two new passwords differ")
    await desk.change(visit, "users/password", name=user.name, password=new)
    return visit.back_to("/login")


ROUTES = (
    Route("GET", "/account", Role.VIEWER, show_own),
    Route("POST", "/account/password", Role.VIEWER, set_own_password),
    Route("GET", "/users", Role.ADMIN, show_users),
    Route("POST", "/users/add", Role.ADMIN, add),
    Route("POST", "/users/remove", Role.ADMIN, remove),
    Route("POST", "/users/role", Role.ADMIN, set_role),
)
