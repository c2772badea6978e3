"""The context of one dashboard request, and the lists for pickers."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote

from aiohttp import web
from aiohttp.web_request import FileField
from multidict import MultiDict, MultiMapping

from backhaul_reference.dashboard import forms, rendering
from backhaul_reference.dashboard.forms import Form, FormState
from backhaul_reference.dashboard.sessions import (
    LOGIN,
    PATH,
    SESSIONS,
    Session,
    checked_form,
)
from backhaul_reference.platform.context import PLATFORM, Platform
from backhaul_reference.platform.http import query_params, request_bodies
from backhaul_reference.platform.problems import Problem, not_found
from backhaul_reference.platform.state import products, stores
from backhaul_reference.platform.state.database import Rows, Window
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx

T = TypeVar("T")
B = TypeVar("B", bound=request_bodies.Body)
STORE = PATH + "/stores/{store}"
UNSHOWN = {403, 408}
"""Statuses for which the form is not shown again: not our form, or no reader."""


@dataclass(frozen=True, slots=True)
class PageContext:
    """Everything that a page handler needs; `problem` is why its form was rejected."""

    request: web.Request
    platform: Platform
    session: Session
    store: Store
    form: Form
    problem: Problem | None = None

    @property
    def query(self) -> MultiMapping[str]:
        """Return the chosen filters without empty ones."""
        return MultiDict((k, v) for k, v in self.request.query.items() if v)

    def window(self) -> Window:
        return query_params.window(self.query)

    def path(self, name: str) -> str:
        return self.request.match_info[name]

    def url(self, *parts: str) -> str:
        return "/".join((f"{PATH}/stores/{self.store.subdomain}", *map(_quoted, parts)))

    def read(self, question: Callable[[Rows], T]) -> T:
        return self.platform.reader.read(question)

    def body(self, model: type[B], document: dict[str, Any]) -> B:
        return request_bodies.parse(model, document, self.store.exponent)

    async def change(self, operation: Callable[[Tx], T]) -> T:
        done = await self.platform.writer.run(operation)
        self.platform.wake_dispatcher()
        return done

    def go(self, *parts: str, notice: str) -> web.Response:
        """Redirect to a page that shows the notice."""
        self.session.notice = notice
        return web.Response(status=303, headers={"Location": self.url(*parts)})

    def render(self, template: str, **values: Any) -> web.Response:
        shared = {
            "context": self,
            "store": self.store,
            "stores": self.read(stores.every),
            "currency": self.store.currency,
            "timezone": self.store.timezone,
            "csrf": self.session.csrf,
            "notice": None if self.problem else self.session.take_notice(),
            "problem": self.problem,
            "filling": FormState(self.request.path, self.form, self.problem),
            "url": self.url,
            "query": self.query,
            "here": self.request.path,
            "section": template.partition(".")[0].partition("_")[0],
        }
        status = self.problem.status if self.problem else 200
        return rendering.page(self.request, template, shared | values, status)


def _quoted(part: str) -> str:
    return quote(part, safe="")


Handler = Callable[[PageContext], Awaitable[web.Response]]


@dataclass(frozen=True, slots=True)
class Route:
    """One page or one form; a rejected form shows its page again."""

    method: str
    path: str
    handle: Handler
    page: Handler | None = None


def serving(route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def serve(request: web.Request) -> web.StreamResponse:
        session = request.app[SESSIONS].find(request)
        if session is None:
            return web.Response(status=303, headers={"Location": LOGIN})
        try:
            return await _answer(request, session, route)
        except Problem as problem:
            return rendering.error_page(request, problem)

    return serve


async def _answer(
    request: web.Request, session: Session, route: Route
) -> web.StreamResponse:
    platform = request.app[PLATFORM]
    subdomain = request.match_info["store"]
    store = platform.reader.read(lambda rows: stores.by_subdomain(rows, subdomain))
    if store is None:
        raise not_found("STORE")
    context = PageContext(request, platform, session, store, MultiDict())
    try:
        context = replace(context, form=await checked_form(request, session.csrf))
        forms.require_readable_text(context.form)
        return await route.handle(context)
    except Problem as problem:
        if route.page is None or problem.status in UNSHOWN:
            raise
        return await route.page(replace(context, problem=problem))
    finally:
        for sent in context.form.values():
            if isinstance(sent, FileField):
                sent.file.close()


OFFERED = Window(1, 100)
TITLE = "SELECT id, title FROM product WHERE store_id = ? AND id = ?"
SHELVES = """SELECT id, title FROM collection WHERE store_id = ?
AND (? IS NULL OR type = ?) ORDER BY created_ms DESC, id DESC"""


def product_choices(context: PageContext, also: Sequence[str] = ()) -> dict[str, str]:
    """Return titles of products by id: matches of the search, and those in `also`."""
    store, filters = context.store, {"search": query_params.search(context.query)}

    def find(rows: Rows) -> dict[str, str]:
        listed = products.page(rows, store, filters, OFFERED).rows
        found = {one["id"]: one["title"] for one in listed}
        return found | product_titles(rows, store.id, also)

    return context.read(find)


def product_titles(
    rows: Rows, store_id: str, product_ids: Sequence[str]
) -> dict[str, str]:
    """Return the titles of products by id, without deleted ones."""
    found = (rows.one(TITLE, (store_id, product_id)) for product_id in product_ids)
    return {row["id"]: row["title"] for row in found if row is not None}


def collection_choices(
    context: PageContext, also: Collection[str] = (), kind: str | None = None
) -> dict[str, str]:
    """Return titles of collections by id, all or those of one type."""
    wanted = query_params.search(context.query) or ""
    every = context.read(lambda rows: rows.all(SHELVES, (context.store.id, kind, kind)))
    fit = [row["id"] for row in every if wanted in row["title"].casefold()]
    shown = {*fit[: OFFERED.limit], *also}
    return {row["id"]: row["title"] for row in every if row["id"] in shown}
