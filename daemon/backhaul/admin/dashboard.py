"""The dashboard: every route of it, put on the admin application."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from loguru import logger

from backhaul.admin import entrance
from backhaul.admin.desk import Desk
from backhaul.admin.guard import Guard, Route
from backhaul.admin.headers import harden
from backhaul.admin.pages import (
    commands,
    events,
    incidents,
    mirror,
    overview,
    people,
    quarantine,
    stores,
    targets,
    work,
)

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.accounts import FirstToken
    from backhaul.admin.desk import Given

ROUTES: tuple[Route, ...] = (
    *overview.ROUTES,
    *events.ROUTES,
    *commands.ROUTES,
    *quarantine.ROUTES,
    *incidents.ROUTES,
    *mirror.ROUTES,
    *work.ROUTES,
    *stores.ROUTES,
    *targets.ROUTES,
    *people.ROUTES,
    *entrance.ROUTES,
)


def install(app: web.Application, given: Given) -> None:
    """Serve the dashboard beside what the application serves already."""
    desk = Desk.open(given)
    guard = Guard(desk)
    for route in ROUTES:
        app.router.add_route(route.method, route.path, guard.pages(route))
    for opened in entrance.OPEN:
        app.router.add_route(opened.method, opened.path, guard.door(opened))
    app.on_response_prepare.append(partial(harden, desk.origin))

    async def begin(_: web.Application) -> None:
        if await given.users.list():
            desk.first_token.spend()
        else:
            _tell_of_first(desk.first_token)

    async def end(_: web.Application) -> None:
        desk.reading.close()

    app.on_startup.append(begin)
    app.on_cleanup.append(end)


def _tell_of_first(token: FirstToken) -> None:
    """Make the token and say where it is; what fails here ends no daemon."""
    try:
        token.make()
    except OSError as error:
        logger.bind(action="dashboard.first").warning(
            "nobody may use the dashboard yet, and the token for the first login cannot"
            " be written: {}; mend it, then open the dashboard",
            error,
        )
        return
    logger.bind(action="dashboard.first").warning(
        "nobody may use the dashboard yet: the token for the first login is in"
        " {}, in state_dir",
        token.file.name,
    )
