"""First contact with a store: is this address the platform, and is the key its own?

Only the first start stops for an answer it does not like: a wrong address is found when
it is set up. Later an outage must not keep webhooks from being received.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
from loguru import logger

from backhaul.errors import (
    ConfigurationError,
    Finding,
    PlatformUnavailable,
    Unusable,
)
from backhaul.shop.client import LISTS, StoreFacts
from backhaul.shop.transport import InDoubt, NotSent

if TYPE_CHECKING:
    from backhaul.shop.client import ShopClient
    from backhaul.store.contract import Marks


async def known_facts(name: str, marks: Marks) -> StoreFacts | None:
    """Return what an earlier start learnt; None before the first contact."""
    known = await marks.get(_mark(name))
    return None if known is None else msgspec.json.decode(known, type=StoreFacts)


def _mark(name: str) -> str:
    return f"facts:{name}"


async def acquaint(
    name: str, base_url: str, client: ShopClient, marks: Marks
) -> StoreFacts:
    """Return what is known of the store, asking the platform for it.

    Raises PlatformUnavailable or ConfigurationError at the first contact only.
    """
    known = await known_facts(name, marks)
    if known is not None:
        known = replace(known, tracking=client.tracking)
    try:
        await _require_platform(name, base_url, client)
        facts = await client.facts()
    except (PlatformUnavailable, ConfigurationError, NotSent, InDoubt, Unusable) as e:
        if known is None:
            raise _fatal(name, base_url, e) from None
        logger.bind(action="store.unreachable", store=name).warning("{}", e)
        return known
    if known is not None and facts == StoreFacts(tracking=client.tracking):
        return known
    await marks.put(_mark(name), msgspec.json.encode(facts).decode())
    return facts


async def _require_platform(name: str, base_url: str, client: ShopClient) -> None:
    answers = [await client.answer_of(path) for path in LISTS]
    refused = [answer for answer in answers if answer.status == 401]
    if refused:
        problem = f"the platform refuses the key ({refused[0].said()})"
        hint = "create a key under Settings > API & Webhooks"
        finding = Finding("settings", f"stores.{name}.api_key", problem, hint)
        raise ConfigurationError([finding])
    # Lists that are all missing, even in the platform's words: the path is wrong.
    if not any(a.ok or (a.problem() and a.status != 404) for a in answers):
        problem = f"{base_url}/api/v1 does not answer like the platform"
        said = f"GET /orders: {answers[0].status}"
        raise PlatformUnavailable(f"stores.{name}.base_url: {problem} ({said})")
    for path, answer in zip(LISTS, answers, strict=True):
        if answer.status == 403:
            logger.bind(action="store.scope_missing", store=name).warning(
                "store {}: {} cannot be read: {}", name, path[1:], answer.said()
            )


def _fatal(
    name: str, base_url: str, error: Exception
) -> PlatformUnavailable | ConfigurationError:
    if isinstance(error, PlatformUnavailable | ConfigurationError):
        return error
    return PlatformUnavailable(f"stores.{name}.base_url: {base_url}: {error}")
