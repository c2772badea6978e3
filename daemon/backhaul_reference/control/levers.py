"""What tests pull: quirks, faults, fixtures and time."""

from aiohttp import web

from backhaul_reference import documents, instants, quirks
from backhaul_reference.context import Platform
from backhaul_reference.control.admission import check_token
from backhaul_reference.control.lever_bodies import ClockMove, FaultPlan, QuirkList
from backhaul_reference.fixtures import loading
from backhaul_reference.problems import Flaw, invalid, not_found
from backhaul_reference.quirks import Quirks, UnknownQuirkError
from backhaul_reference.state import stores
from backhaul_reference.state.stores import Store
from backhaul_reference.state.writer import Tx
from backhaul_reference.virtual_clock import VirtualClock
from backhaul_reference.web import bodies
from backhaul_reference.web.answers import data_answer
from backhaul_reference.web.endpoint import Answer, Call, Endpoint, read_raw

ONE = "/_control/stores/{subdomain}"
CLOCK: web.AppKey[VirtualClock] = web.AppKey("clock", VirtualClock)


async def get_quirks(call: Call) -> web.Response:
    return data_answer(list(call.store.quirks.texts))


async def put_quirks(call: Call) -> web.Response:
    """Put these in the place of the store's quirks; an empty list takes all away."""
    chosen = chosen_quirks(call.body)

    def change(tx: Tx) -> Answer:
        stores.change(tx, call.store.id, {"quirks": list(chosen.texts)})
        return Answer(list(chosen.texts))

    return await call.mutate(change)


def chosen_quirks(body: QuirkList) -> Quirks:
    flaws = []
    for n, text in enumerate(body.quirks):
        try:
            quirks.parse([text])
        except UnknownQuirkError as error:
            flaws.append(Flaw(f"/quirks/{n}", "NOT_ALLOWED", str(error)))
    if flaws:
        raise invalid(flaws)
    return quirks.parse(body.quirks)


async def get_faults(call: Call) -> web.Response:
    return data_answer(call.platform.faults.listed(call.store.id))


async def put_faults(call: Call) -> web.Response:
    call.platform.faults.arm(call.store.id, call.body.rules(), call.body.seed)
    return await get_faults(call)


async def delete_faults(call: Call) -> web.Response:
    listed = call.platform.faults.listed(call.store.id)
    call.platform.faults.disarm(call.store.id)
    return data_answer(listed)


async def delete_fault(call: Call) -> web.Response:
    call.platform.faults.disarm_one(call.store.id, call.path("id"))
    return await get_faults(call)


async def load_fixture(call: Call) -> web.Response:
    name = call.path("name")
    if name not in loading.FIXTURES:
        raise not_found("FIXTURE")
    return await _answer_refilled(call, name)


async def reset_store(call: Call) -> web.Response:
    """Back to the fixture that was loaded last; id, keys and name stay."""
    return await _answer_refilled(call, call.store.fixture)


async def _answer_refilled(call: Call, fixture: str) -> web.Response:
    filled = await refill(call.platform, call.store, fixture)
    return data_answer(stores.control_view(filled))


async def refill(platform: Platform, store: Store, fixture: str) -> Store:
    """Empty a store and fill it anew; no fault and no spent limit outlives it."""
    platform.faults.disarm(store.id)
    words, tokens = platform.quirks, platform.tokens
    filled = await platform.writer.run(
        lambda tx: loading.refill(tx, store, fixture, words, tokens)
    )
    platform.wake_dispatcher()
    platform.limits.forget()
    return filled


async def get_clock(request: web.Request) -> web.Response:
    check_token(request)
    return data_answer(_clock_view(request.app[CLOCK]))


async def move_clock(request: web.Request) -> web.Response:
    """Go ahead by `advance` seconds; `freeze` holds the clock or lets it go on."""
    check_token(request)
    clock = request.app[CLOCK]
    move = bodies.parse(ClockMove, documents.decode_object(await read_raw(request)))
    if move.freeze is not None:
        (clock.freeze if move.freeze else clock.unfreeze)()
    advance(clock, move)
    return data_answer(_clock_view(clock))


def advance(clock: VirtualClock, move: ClockMove) -> None:
    if clock.now_ms() + move.advance * 1000 > instants.MAX_MS:
        raise invalid([Flaw("/advance", "TOO_BIG", "ends after the year 9999")])
    clock.advance(move.advance)


def _clock_view(clock: VirtualClock) -> documents.Document:
    return {
        "now": instants.to_text(clock.now_ms()),
        "frozen": clock.frozen,
        "aheadSeconds": clock.ahead_seconds,
    }


ENDPOINTS = (
    Endpoint("GET", ONE + "/quirks", get_quirks),
    Endpoint("PUT", ONE + "/quirks", put_quirks, body=QuirkList),
    Endpoint("GET", ONE + "/faults", get_faults),
    Endpoint("PUT", ONE + "/faults", put_faults, body=FaultPlan),
    Endpoint("DELETE", ONE + "/faults", delete_faults),
    Endpoint("DELETE", ONE + "/faults/{id}", delete_fault),
    Endpoint("POST", ONE + "/fixtures/{name}", load_fixture),
    Endpoint("POST", ONE + "/reset", reset_store),
)
