"""Login, logout, the start page and static assets."""

import hmac
import secrets
from importlib import resources

from aiohttp import web

from backhaul_reference.control.routes import CONTROL_TOKEN
from backhaul_reference.dashboard import rendering
from backhaul_reference.dashboard.page_context import LOGIN, SESSIONS, checked_form
from backhaul_reference.dashboard.sessions import PATH, set_cookie
from backhaul_reference.data_folder import ACCESS_FILE
from backhaul_reference.platform.clock import SystemClock
from backhaul_reference.platform.context import PLATFORM
from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.rate_limits import Limits, PerMinute
from backhaul_reference.platform.state import stores

TRIES = PerMinute("logins", 10)
NONCE = "backhaul_login"
THROTTLE: web.AppKey[Limits] = web.AppKey("throttle", Limits)
ASSETS = {"style.css": "text/css", "htmx.min.js": "text/javascript"}


def throttle() -> Limits:
    """The login throttle; always on and in real time, because it guards a secret."""
    return Limits(SystemClock(), enabled=True)


def _form(request: web.Request, problem: Problem | None = None) -> web.Response:
    nonce = secrets.token_urlsafe(16)
    values = {
        "csrf": request.app[SESSIONS].login_token(nonce),
        "file": request.app[PLATFORM].database.with_name(ACCESS_FILE),
        "problem": problem,
    }
    status = problem.status if problem else 200
    response = rendering.page(request, "login.html", values, status)
    response.headers.update(problem.headers if problem else {})
    set_cookie(response, NONCE, nonce)
    return response


async def show_login(request: web.Request) -> web.Response:
    return _form(request)


async def log_in(request: web.Request) -> web.Response:
    nonce = request.cookies.get(NONCE, "")
    try:
        form = await checked_form(request, request.app[SESSIONS].login_token(nonce))
        request.app[THROTTLE].count(TRIES, request.remote or "")
        expected = request.app[CONTROL_TOKEN].encode()
        token = str(form.get("token", "")).strip().encode()
        if not hmac.compare_digest(token, expected):
            raise Problem(401, "CONTROL_TOKEN_INVALID", "that is not the control token")
    except Problem as problem:
        return _form(request, problem)
    response = _to(PATH)
    request.app[SESSIONS].close(request, response)
    request.app[SESSIONS].open(response)
    return response


async def log_out(request: web.Request) -> web.Response:
    sessions = request.app[SESSIONS]
    session = sessions.find(request)
    response = _to(LOGIN)
    if session is not None:
        try:
            await checked_form(request, session.csrf)
        except Problem as problem:
            return rendering.error_page(request, problem)
        sessions.close(request, response)
    return response


async def show_home(request: web.Request) -> web.Response:
    if request.app[SESSIONS].find(request) is None:
        return _to(LOGIN)
    found = request.app[PLATFORM].reader.read(stores.every)
    if not found:
        problem = Problem(404, "STORE_NOT_FOUND", "there is no store yet")
        return rendering.error_page(request, problem)
    return _to(f"{PATH}/stores/{found[0].subdomain}/orders")


async def show_absent(request: web.Request) -> web.Response:
    problem = Problem(404, "PAGE_NOT_FOUND", "this page does not exist")
    return rendering.error_page(request, problem)


async def show_asset(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    if name not in ASSETS:
        raise web.HTTPNotFound
    file = resources.files("backhaul_reference.dashboard") / "assets" / name
    return web.Response(
        body=file.read_bytes(), content_type=ASSETS[name], charset="utf-8"
    )


def _to(path: str) -> web.Response:
    return web.Response(status=303, headers={"Location": path})
