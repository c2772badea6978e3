"""Saves the filter of a list as a view of the user, and deletes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.admin.auth import Route
from backhaul.admin.filtering import SORT, WHERE, address_of
from backhaul.store.filters import LISTS, Sort, parse_filter
from backhaul.store.operators import Role

if TYPE_CHECKING:
    from aiohttp import web

    from backhaul.admin.context import PageContext, PageRequest


async def save(context: PageContext, page_request: PageRequest) -> web.Response:
    """Save the filter and the order of a list under a name."""
    list_ = page_request.request.match_info["list"]
    form = page_request.form
    text, name = form.get(WHERE, "").strip(), form.get("name", "").strip()
    parse_filter(text, LISTS[list_], context.services.clock.now())
    sort = form.get(SORT, Sort.USUAL)
    view = {"list": list_, "name": name, "filter": text, "sort": sort}
    await context.change(
        page_request, "views/save", user=page_request.user.name, view=view
    )
    page_request.session.add_notice("good", f"The view {name} is saved.")
    return page_request.redirect(address_of(list_, text, sort))


async def delete(context: PageContext, page_request: PageRequest) -> web.Response:
    """Delete a view of the user."""
    id_ = int(page_request.request.match_info["id"])
    await context.change(
        page_request, "views/delete", user=page_request.user.name, view=id_
    )
    page_request.session.add_notice("good", "The view is deleted.")
    return page_request.redirect(f"/{page_request.request.match_info['list']}")


_LIST = f"{{list:{'|'.join(LISTS)}}}"
ROUTES = (
    Route("POST", f"/{_LIST}/views", Role.VIEWER, save),
    Route("POST", rf"/{_LIST}/views/{{id:\d{{1,18}}}}/delete", Role.VIEWER, delete),
)
