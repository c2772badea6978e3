"""Builds the server: sockets, mail, dispatcher; start and stop order."""

import asyncio
import logging
import os
import random
import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import aiohttp
from aiohttp import web
from aiohttp.typedefs import Middleware

from backhaul_reference.arguments import Options, is_loopback
from backhaul_reference.control import routes as control_routes
from backhaul_reference.control.routes import CONTROL_TOKEN
from backhaul_reference.control.test_controls import CLOCK
from backhaul_reference.dashboard import routes as dashboard_routes
from backhaul_reference.data_folder import (
    STORE_REGISTRY,
    Access,
    Folder,
    StoreRegistry,
    load_registry,
)
from backhaul_reference.fixtures import loader
from backhaul_reference.fixtures.loader import Identity
from backhaul_reference.mail.outbox_worker import MailServices, MailWorker
from backhaul_reference.mail.texts import MailRenderer, Tokens
from backhaul_reference.mail.transports import (
    FolderTransport,
    MailLoginError,
    RedactedTokens,
    SmtpLogin,
    StdoutTransport,
    Tls,
    Transport,
    login_of,
)
from backhaul_reference.openapi.document import document
from backhaul_reference.platform import quirks
from backhaul_reference.platform.clock import (
    Clock,
    SystemClock,
    VirtualClock,
    start_task,
)
from backhaul_reference.platform.context import (
    PLATFORM,
    Platform,
    TrackingTokens,
)
from backhaul_reference.platform.faults import Faults
from backhaul_reference.platform.formats import IdSource, RandomBytes
from backhaul_reference.platform.http.endpoint import (
    MAX_BODY_BYTES,
    Call,
    Endpoint,
    mount,
)
from backhaul_reference.platform.http.middleware import (
    DiscreetLogger,
    TemplateAccessLogger,
    answer_problems,
)
from backhaul_reference.platform.http.responses import (
    data_answer,
    json_answer,
    raw_answer,
)
from backhaul_reference.platform.http.test_controls import (
    TEST_CONTROLS,
    answer_by_quirks,
    inject_failure,
)
from backhaul_reference.platform.json_codec import encode
from backhaul_reference.platform.rate_limits import Limits
from backhaul_reference.platform.state import stores
from backhaul_reference.platform.state.api_keys import KeyUses
from backhaul_reference.platform.state.database import Reader, open_reader, open_writer
from backhaul_reference.platform.state.writer import Writer
from backhaul_reference.platform.v1 import (
    customers,
    inventory,
    orders,
    products,
    webhooks,
)
from backhaul_reference.platform.v1.auth import admit
from backhaul_reference.platform.webhooks.dispatcher import Dispatcher
from backhaul_reference.platform.webhooks.sender import DeliveryFaults, Sender
from backhaul_reference.platform.webhooks.ssrf_guard import PublicResolver
from backhaul_reference.storefront import quotes, shop_page
from backhaul_reference.storefront import routes as storefront_routes


async def get_store(call: Call) -> web.Response:
    return data_answer(stores.v1_view(call.store))


STORE_ENDPOINTS = (Endpoint("GET", "/api/v1/store", get_store, "store:read"),)


ENDPOINTS = (
    *products.ENDPOINTS,
    *orders.ENDPOINTS,
    *inventory.ENDPOINTS,
    *customers.ENDPOINTS,
    *STORE_ENDPOINTS,
    *webhooks.ENDPOINTS,
    *webhooks.DELIVERY_ENDPOINTS,
)


def add_v1_routes(app: web.Application) -> None:
    mount(app, ENDPOINTS, admit)


ROBOTS = "User-agent: *\nDisallow: /storefront/orders/track/\n"
OFFERED = (*storefront_routes.ENDPOINTS, quotes.QUOTE, *ENDPOINTS)


def public_app(
    platform: Platform, around: Sequence[Middleware] = ()
) -> web.Application:
    app = web.Application(
        middlewares=[
            *around,
            storefront_routes.allow_browsers,
            inject_failure,
            answer_by_quirks,
            answer_problems,
        ],
        client_max_size=MAX_BODY_BYTES,
    )
    app[PLATFORM] = platform
    app[TEST_CONTROLS] = True
    app.router.add_get("/openapi.json", describe)
    app.router.add_get("/healthz", health)
    app.router.add_get("/robots.txt", robots)
    storefront_routes.add_routes(app)
    add_v1_routes(app)
    shop_page.add_routes(app)
    return app


async def describe(request: web.Request) -> web.Response:
    return raw_answer(_description())


@cache
def _description() -> bytes:
    """The document, which is the same for the life of the program."""
    return encode(document(OFFERED))


async def health(request: web.Request) -> web.Response:
    return json_answer({"status": "ok"})


async def robots(request: web.Request) -> web.Response:
    return web.Response(text=ROBOTS)


def transport_of(options: Options) -> Transport:
    if options.mails == "stdout":
        return StdoutTransport()
    if options.smtp is None:
        return FolderTransport(Path(options.data) / "mails")
    if find_spec("aiosmtplib") is None:
        raise MailLoginError(
            "--smtp needs the package aiosmtplib, which is not installed; install it"
            " with: pip install 'backhaul[mail]'"
        )
    from backhaul_reference.mail.smtp_transport import SmtpTransport

    host, port = options.smtp
    login = login_of(options.smtp_login, os.environ)
    return SmtpTransport(host, port, _tls_for(host, options.smtp_tls, login), login)


def tokens_of(options: Options, tokens: Tokens) -> Tokens:
    """Return the tokens for mails; printed mails get fake ones."""
    return RedactedTokens() if options.mails == "stdout" else tokens


def _tls_for(host: str, wanted: Tls, login: SmtpLogin | None) -> Tls:
    """Return the TLS mode; a login to another machine requires TLS."""
    if login is None:
        return wanted
    if wanted == "off" and not is_loopback(host):
        raise MailLoginError("--smtp-tls off: a login needs TLS to another machine")
    return "starttls" if wanted == "auto" else wanted


async def start_mail_worker(
    services: MailServices, stack: AsyncExitStack
) -> MailWorker:
    """Start the mail worker; the stack stops it, and unsent mails stay queued."""
    mail_worker = MailWorker(services)
    task = start_task(mail_worker.run())
    stack.push_async_callback(_end, task)
    return mail_worker


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


BACKLOG = 512
KEEP_ALIVE_SECONDS = 75.0
SHUTDOWN_SECONDS = 0.7


class PortInUseError(Exception):
    """The address cannot be listened on."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A bound socket."""

    socket: socket.socket

    def close(self) -> None:
        self.socket.close()


def bind(host: str, port: int) -> Listener:
    try:
        return Listener(_bound(host, port))
    except OSError as error:
        reason = error.strerror or "not available"
        raise PortInUseError(f"cannot listen on {host}:{port}: {reason}") from error


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        # Listening now makes a second server fail here and not later.
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def url_of(listener: Listener) -> str:
    host, port = listener.socket.getsockname()[:2]
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  - compared, not bound
    shown = f"[{reachable}]" if ":" in reachable else reachable
    return f"http://{shown}:{port}"


def app_runner(app: web.Application) -> web.AppRunner:
    return web.AppRunner(
        app,
        handle_signals=False,
        access_log_class=TemplateAccessLogger,
        access_log=logging.getLogger("backhaul_reference.access"),
        logger=DiscreetLogger(logging.getLogger("backhaul_reference.http")),
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        shutdown_timeout=SHUTDOWN_SECONDS,
        auto_decompress=False,
    )


def close_descriptor(descriptor: int) -> None:
    os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Environment:
    """The clock and the sources of randomness, which a simulation replaces."""

    clock: Clock
    random_bytes: RandomBytes
    chance: Callable[[], float]


def real_environment() -> Environment:
    return Environment(SystemClock(), secrets.token_bytes, random.SystemRandom().random)


@dataclass(frozen=True, slots=True)
class Running:
    """A started server."""

    access: Access
    platform: Platform
    stack: AsyncExitStack

    async def stop(self) -> None:
        await self.stack.aclose()


async def start(
    options: Options,
    environment: Environment | None = None,
    around: Sequence[Middleware] = (),
) -> Running:
    """Start the server; raises before it serves anything.

    `around` are middlewares of the public listener, the first outermost.
    """
    async with AsyncExitStack() as stack:
        return await _start(options, environment or real_environment(), around, stack)


async def _start(
    options: Options,
    environment: Environment,
    around: Sequence[Middleware],
    stack: AsyncExitStack,
) -> Running:
    clock = VirtualClock(environment.clock)
    environment = replace(environment, clock=clock)
    words, faults = quirks.parse(options.quirks), Faults()
    folder = Folder(options.data)
    stack.callback(close_descriptor, folder.lock())
    public = bind(options.host, options.port)
    stack.callback(public.close)
    control = bind(options.control_host, options.control_port)
    stack.callback(control.close)
    ids = IdSource(environment.clock, environment.random_bytes)
    writer = Writer(open_writer(folder.database), ids)
    stack.callback(writer.close)
    reader = Reader(open_reader(folder.database))
    stack.callback(reader.connection.close)
    dispatcher = await _dispatcher(options, environment, writer, reader, faults, stack)
    tokens = TrackingTokens(folder.token_key())
    renderer = MailRenderer(
        tokens_of(options, tokens),
        url_of(public),
        url_of(control),
    )
    transport, sender = transport_of(options), options.mail_from
    services = MailServices(
        writer, reader, environment.clock, renderer, transport, sender
    )
    mail_worker = await start_mail_worker(services, stack)
    platform = Platform(
        clock=environment.clock,
        ids=ids,
        database=folder.database,
        writer=writer,
        reader=reader,
        tokens=tokens,
        limits=Limits(environment.clock, enabled=options.limits, quotas=options.quotas),
        allow_private_targets=options.allow_private_webhook_targets,
        quirks=words,
        faults=faults,
        key_uses=KeyUses(writer, environment.clock),
        wake_dispatcher=lambda: _wake(dispatcher, mail_worker),
    )
    listed = await writer.run(lambda tx: load_registry(tx, options, platform, folder))
    token = folder.read_access().get("control_token") or secrets.token_urlsafe(32)
    await _serve(public_app(platform, around), public, stack)
    access = Access(
        public_url=url_of(public),
        control_url=url_of(control),
        control_token=token,
        stores=listed,
    )
    control_app = _control_app(platform, StoreRegistry(folder, access), options.fixture)
    control_app[CLOCK] = clock
    folder.write_access(access)
    await _serve(control_app, control, stack)
    return Running(access, platform, stack.pop_all())


def _wake(dispatcher: Dispatcher, mail_worker: MailWorker) -> None:
    dispatcher.wake()
    mail_worker.wake()


async def _dispatcher(
    options: Options,
    environment: Environment,
    writer: Writer,
    reader: Reader,
    faults: Faults,
    stack: AsyncExitStack,
) -> Dispatcher:
    session = await stack.enter_async_context(_session(options))
    sender = Sender(
        session=session,
        clock=environment.clock,
        schedule=options.retry_schedule,
        chance=environment.chance,
        allow_private=options.allow_private_webhook_targets,
        delivery_faults=DeliveryFaults(faults, environment.clock),
    )
    dispatcher = Dispatcher(writer, reader, environment.clock, sender)
    task = start_task(dispatcher.run())
    stack.push_async_callback(_stop, task, dispatcher)
    return dispatcher


def _session(options: Options) -> aiohttp.ClientSession:
    inner = aiohttp.ThreadedResolver()
    allowed = options.allow_private_webhook_targets
    connector = aiohttp.TCPConnector(
        limit=0,  # what one subscription may hold is the dispatcher's to say
        resolver=inner if allowed else PublicResolver(inner),
    )
    return aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
    )


async def _stop(task: asyncio.Task[None], dispatcher: Dispatcher) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await dispatcher.stop()


def _control_app(
    platform: Platform, roll: StoreRegistry, fixture: str
) -> web.Application:
    identity = Identity(roll.access.store_id, roll.access.api_key)

    async def reset() -> None:
        words, tokens = platform.quirks, platform.tokens
        await platform.writer.run(
            lambda tx: loader.reload(tx, fixture, identity, words, tokens)
        )
        platform.faults.by_store.clear()
        platform.limits.reset()
        platform.retirement.take_back()
        await roll.keep_first()

    app = web.Application(middlewares=[answer_problems], client_max_size=MAX_BODY_BYTES)
    app[PLATFORM] = platform
    app[CONTROL_TOKEN] = roll.access.control_token
    app[STORE_REGISTRY] = roll
    app[control_routes.RESET] = reset
    control_routes.add_routes(app)
    dashboard_routes.add_routes(app)
    return app


async def _serve(
    app: web.Application, listener: Listener, stack: AsyncExitStack
) -> None:
    runner = app_runner(app)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.SockSite(runner, listener.socket).start()
