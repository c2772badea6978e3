"""The lever that announces the end of v1."""

from aiohttp import web

from backhaul_reference import documents, instants
from backhaul_reference.control.admission import check_token
from backhaul_reference.control.lever_bodies import Ending
from backhaul_reference.problems import Flaw, invalid
from backhaul_reference.retirement import NOTICE_MS, Retirement
from backhaul_reference.web import bodies
from backhaul_reference.web.answers import data_answer
from backhaul_reference.web.endpoint import read_raw

PATH = "/_control/retirement"


async def get(request: web.Request) -> web.Response:
    return _shown(check_token(request).retirement)


async def put(request: web.Request) -> web.Response:
    """From now on every answer of v1 says when it ends."""
    platform = check_token(request)
    sent = bodies.parse(Ending, documents.decode_object(await read_raw(request)))
    now_ms = platform.clock.now_ms()
    if sent.sunset_at < now_ms + NOTICE_MS:
        raise invalid([Flaw("/sunsetAt", "TOO_SMALL", "must be 365 days ahead")])
    platform.retirement.announce(now_ms, sent.sunset_at)
    return _shown(platform.retirement)


async def delete(request: web.Request) -> web.Response:
    retirement = check_token(request).retirement
    retirement.take_back()
    return _shown(retirement)


def _shown(retirement: Retirement) -> web.Response:
    return data_answer(
        {
            "deprecatedAt": instants.to_text_or_none(retirement.deprecated_ms),
            "sunsetAt": instants.to_text_or_none(retirement.sunset_ms),
        }
    )
