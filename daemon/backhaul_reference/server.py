"""The server: builds each part once, owns the order of start and stop."""

import asyncio
import random
import secrets
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

import aiohttp
from aiohttp import web
from aiohttp.typedefs import Middleware

from backhaul_reference import listening, quirks, tasks
from backhaul_reference.access import Access, Folder
from backhaul_reference.arguments import Options
from backhaul_reference.clock import Clock, SystemClock
from backhaul_reference.context import PLATFORM, Platform, Reader, TrackingTokens
from backhaul_reference.control import routes as control_routes
from backhaul_reference.control.admission import CONTROL_TOKEN
from backhaul_reference.control.levers import CLOCK
from backhaul_reference.dashboard import routes as dashboard_routes
from backhaul_reference.faults import Faults
from backhaul_reference.fixtures import loading
from backhaul_reference.fixtures.loading import Identity
from backhaul_reference.identifiers import IdSource, RandomBytes
from backhaul_reference.key_uses import KeyUses
from backhaul_reference.limits import Limits
from backhaul_reference.mail import opening
from backhaul_reference.mail.courier import Courier, Office
from backhaul_reference.mail.letters import Desk
from backhaul_reference.public import public_app
from backhaul_reference.roll import ROLL, Roll, take_roll
from backhaul_reference.state.database import open_reader, open_writer
from backhaul_reference.state.writer import Writer
from backhaul_reference.virtual_clock import VirtualClock
from backhaul_reference.web.endpoint import MAX_BODY_BYTES
from backhaul_reference.web.middleware import answer_problems
from backhaul_reference.webhooks.dispatcher import Dispatcher
from backhaul_reference.webhooks.mischief import Mischief
from backhaul_reference.webhooks.sender import Sender
from backhaul_reference.webhooks.targets import PublicResolver


@dataclass(frozen=True, slots=True)
class World:
    """What a simulation replaces: time and chance."""

    clock: Clock
    random_bytes: RandomBytes
    chance: Callable[[], float]


def real_world() -> World:
    return World(SystemClock(), secrets.token_bytes, random.SystemRandom().random)


@dataclass(frozen=True, slots=True)
class Running:
    """A started server."""

    access: Access
    platform: Platform
    stack: AsyncExitStack

    async def stop(self) -> None:
        await self.stack.aclose()


async def start(
    options: Options, world: World | None = None, around: Sequence[Middleware] = ()
) -> Running:
    """Bind, open the state, serve; raises before anything is served.

    `around` is put around every request to the public listener, the first outermost.
    """
    async with AsyncExitStack() as stack:
        return await _start(options, world or real_world(), around, stack)


async def _start(
    options: Options,
    world: World,
    around: Sequence[Middleware],
    stack: AsyncExitStack,
) -> Running:
    clock = VirtualClock(world.clock)
    world = replace(world, clock=clock)
    words, faults = quirks.parse(options.quirks), Faults()
    folder = Folder(options.data)
    stack.callback(listening.close_descriptor, folder.lock())
    public = listening.bind(options.host, options.port)
    stack.callback(public.close)
    control = listening.bind(options.control_host, options.control_port)
    stack.callback(control.close)
    ids = IdSource(world.clock, world.random_bytes)
    writer = Writer(open_writer(folder.database), ids)
    stack.callback(writer.close)
    reader = Reader(open_reader(folder.database))
    stack.callback(reader.connection.close)
    dispatcher = await _dispatcher(options, world, writer, reader, faults, stack)
    tokens = TrackingTokens(folder.token_key())
    desk = Desk(
        opening.tokens_of(options, tokens),
        listening.url_of(public),
        listening.url_of(control),
    )
    sink, sender = opening.sink_of(options), options.mail_from
    office = Office(writer, reader, world.clock, desk, sink, sender)
    courier = await opening.start_courier(office, stack)
    platform = Platform(
        clock=world.clock,
        ids=ids,
        database=folder.database,
        writer=writer,
        reader=reader,
        tokens=tokens,
        limits=Limits(world.clock, enabled=options.limits, quotas=options.quotas),
        allow_private_targets=options.allow_private_webhook_targets,
        quirks=words,
        faults=faults,
        key_uses=KeyUses(writer, world.clock),
        wake_dispatcher=lambda: _wake(dispatcher, courier),
    )
    listed = await writer.run(lambda tx: take_roll(tx, options, platform, folder))
    token = folder.read_access().get("control_token") or secrets.token_urlsafe(32)
    await _serve(public_app(platform, around), public, stack)
    access = Access(
        public_url=listening.url_of(public),
        control_url=listening.url_of(control),
        control_token=token,
        stores=listed,
    )
    control_app = _control_app(platform, Roll(folder, access), options.fixture)
    control_app[CLOCK] = clock
    folder.write_access(access)
    await _serve(control_app, control, stack)
    return Running(access, platform, stack.pop_all())


def _wake(dispatcher: Dispatcher, courier: Courier) -> None:
    dispatcher.wake()
    courier.wake()


async def _dispatcher(
    options: Options,
    world: World,
    writer: Writer,
    reader: Reader,
    faults: Faults,
    stack: AsyncExitStack,
) -> Dispatcher:
    session = await stack.enter_async_context(_session(options))
    sender = Sender(
        session=session,
        clock=world.clock,
        schedule=options.retry_schedule,
        chance=world.chance,
        allow_private=options.allow_private_webhook_targets,
        mischief=Mischief(faults, world.clock),
    )
    dispatcher = Dispatcher(writer, reader, world.clock, sender)
    task = tasks.start(dispatcher.run())
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


def _control_app(platform: Platform, roll: Roll, fixture: str) -> web.Application:
    identity = Identity(roll.access.store_id, roll.access.api_key)

    async def reset() -> None:
        words, tokens = platform.quirks, platform.tokens
        await platform.writer.run(
            lambda tx: loading.reload(tx, fixture, identity, words, tokens)
        )
        platform.faults.by_store.clear()
        platform.limits.forget()
        platform.retirement.take_back()
        await roll.keep_first()

    app = web.Application(middlewares=[answer_problems], client_max_size=MAX_BODY_BYTES)
    app[PLATFORM] = platform
    app[CONTROL_TOKEN] = roll.access.control_token
    app[ROLL] = roll
    app[control_routes.RESET] = reset
    control_routes.add_routes(app)
    dashboard_routes.add_routes(app)
    return app


async def _serve(
    app: web.Application, listener: listening.Listener, stack: AsyncExitStack
) -> None:
    runner = listening.runner(app)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.SockSite(runner, listener.socket).start()
