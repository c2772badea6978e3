"""Test controls: quirks, faults, fixtures, clock and v1 retirement."""

from decimal import Decimal
from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from backhaul_reference.fixtures import loader
from backhaul_reference.platform import formats, json_codec, quirks
from backhaul_reference.platform.clock import VirtualClock
from backhaul_reference.platform.context import (
    NOTICE_MS,
    PLATFORM,
    Platform,
    Retirement,
)
from backhaul_reference.platform.faults import Rule
from backhaul_reference.platform.http import request_bodies
from backhaul_reference.platform.http.endpoint import Answer, Call, Endpoint, read_raw
from backhaul_reference.platform.http.request_bodies import Body, Instant, Text
from backhaul_reference.platform.http.responses import data_answer
from backhaul_reference.platform.problems import Flaw, invalid, not_found
from backhaul_reference.platform.quirks import Quirks, UnknownQuirkError
from backhaul_reference.platform.state import stores
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx

HttpFault = Literal[
    "latency", "rate429", "5xx", "html", "refuse", "drop-after-commit", "truncate"
]
WebhookFault = Literal["duplicate", "reorder", "delay", "drop", "corrupt-signature"]
YEAR_SECONDS = 366 * 24 * 3600


def _float(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


Number = Annotated[float, BeforeValidator(_float)]
Probability = Annotated[Number, Field(ge=0, le=1)]
Seconds = Annotated[Number, Field(ge=0, le=3600)]
Count = Annotated[int, Field(ge=1, le=10**9)]


class Strict(Body):
    """A body of a test control; unknown members are an error."""

    model_config = ConfigDict(
        strict=True, extra="forbid", alias_generator=to_camel, frozen=True
    )


class FaultRule(Strict):
    probability: Probability = 1.0
    count: Count | None = None
    burst: Count = 1
    seconds: Seconds = 1.0


class HttpRule(FaultRule):
    fault: HttpFault
    method: Text = "*"
    route: Text = "*"
    status: Annotated[int, Field(ge=500, le=599)] = 503

    def rule(self) -> Rule:
        return Rule(**self.model_dump(exclude={"route"}), pattern=self.route)


class WebhookRule(FaultRule):
    fault: WebhookFault
    topic: Text = "*"

    def rule(self) -> Rule:
        return Rule(**self.model_dump(exclude={"topic"}), pattern=self.topic)


class FaultPlan(Strict):
    seed: Annotated[int, Field(ge=0, le=2**62)] = 0
    http: Annotated[list[HttpRule], Field(max_length=50)] = Field(default_factory=list)
    webhooks: Annotated[list[WebhookRule], Field(max_length=50)] = Field(
        default_factory=list
    )

    def rules(self) -> list[Rule]:
        return [
            *(one.rule() for one in self.http),
            *(one.rule() for one in self.webhooks),
        ]


class QuirkList(Strict):
    quirks: Annotated[list[Text], Field(max_length=100)]


class ClockMove(Strict):
    advance: Annotated[Number, Field(ge=0, le=10 * YEAR_SECONDS)] = 0
    freeze: bool | None = None


class Ending(Strict):
    sunset_at: Instant


async def get_retirement(request: web.Request) -> web.Response:
    return _retirement_view(request.app[PLATFORM].retirement)


async def put_retirement(request: web.Request) -> web.Response:
    """Announce the end of v1: from now on every v1 response has its date."""
    platform = request.app[PLATFORM]
    sent = request_bodies.parse(
        Ending, json_codec.decode_object(await read_raw(request))
    )
    now_ms = platform.clock.now_ms()
    if sent.sunset_at < now_ms + NOTICE_MS:
        raise invalid([Flaw("/sunsetAt", "TOO_SMALL", "must be 365 days ahead")])
    platform.retirement.announce(now_ms, sent.sunset_at)
    return _retirement_view(platform.retirement)


async def delete_retirement(request: web.Request) -> web.Response:
    retirement = request.app[PLATFORM].retirement
    retirement.take_back()
    return _retirement_view(retirement)


def _retirement_view(retirement: Retirement) -> web.Response:
    return data_answer(
        {
            "deprecatedAt": formats.to_text_or_none(retirement.deprecated_ms),
            "sunsetAt": formats.to_text_or_none(retirement.sunset_ms),
        }
    )


ONE = "/_control/stores/{subdomain}"
CLOCK: web.AppKey[VirtualClock] = web.AppKey("clock", VirtualClock)


async def get_quirks(call: Call) -> web.Response:
    return data_answer(list(call.store.quirks.texts))


async def put_quirks(call: Call) -> web.Response:
    """Replace the store's quirks; an empty list removes them all."""
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
    if name not in loader.FIXTURES:
        raise not_found("FIXTURE")
    return await _answer_refilled(call, name)


async def reset_store(call: Call) -> web.Response:
    """Reset the store to the fixture loaded last; id, keys and name stay."""
    return await _answer_refilled(call, call.store.fixture)


async def _answer_refilled(call: Call, fixture: str) -> web.Response:
    filled = await refill(call.platform, call.store, fixture)
    return data_answer(stores.control_view(filled))


async def refill(platform: Platform, store: Store, fixture: str) -> Store:
    """Empty a store and fill it again; clears its faults and the rate limits."""
    platform.faults.disarm(store.id)
    words, tokens = platform.quirks, platform.tokens
    filled = await platform.writer.run(
        lambda tx: loader.refill(tx, store, fixture, words, tokens)
    )
    platform.wake_dispatcher()
    platform.limits.reset()
    return filled


async def get_clock(request: web.Request) -> web.Response:
    return data_answer(_clock_view(request.app[CLOCK]))


async def move_clock(request: web.Request) -> web.Response:
    """Advance the clock by `advance` seconds; `freeze` stops or restarts it."""
    clock = request.app[CLOCK]
    move = request_bodies.parse(
        ClockMove, json_codec.decode_object(await read_raw(request))
    )
    if move.freeze is not None:
        (clock.freeze if move.freeze else clock.unfreeze)()
    advance(clock, move)
    return data_answer(_clock_view(clock))


def advance(clock: VirtualClock, move: ClockMove) -> None:
    if clock.now_ms() + move.advance * 1000 > formats.MAX_MS:
        raise invalid([Flaw("/advance", "TOO_BIG", "ends after the year 9999")])
    clock.advance(move.advance)


def _clock_view(clock: VirtualClock) -> json_codec.Document:
    return {
        "now": formats.to_text(clock.now_ms()),
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
