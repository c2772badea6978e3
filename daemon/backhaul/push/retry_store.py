"""Retries writing an attempt's result until the database stores it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from loguru import logger

from backhaul.core import strict_json
from backhaul.core.identity import address_digest
from backhaul.errors import Busy, Unusable
from backhaul.platform import personal_data
from backhaul.store.outbox import Told

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from backhaul.core.clock import Clock

T = TypeVar("T")

REST_SECONDS = 0.5
"""Rest after the database refused to write."""


async def insist(write: Callable[[], Awaitable[T]], store: str, clock: Clock) -> T:
    """Write until it is taken: who gave up would have to ask the platform again."""
    while True:
        try:
            return await write()
        except Busy as error:
            tell_busy(store, error)
        await clock.sleep(REST_SECONDS)


def tell_busy(store: str, error: Busy) -> None:
    """Say that the database refuses to write."""
    logger.bind(action="push.busy", store=store).warning("{}", error)


def told_of(store: str, answer: bytes) -> Told | None:
    """Return whom an answer is about, so that it can be kept without them.

    The order is the answer itself, or a member of it: `data`, or what a refusal shows.
    """
    try:
        document = strict_json.decode_object(answer)
    except Unusable:
        return None
    for name, value in {"": document, **document}.items():
        person = personal_data.person_of("", value) if isinstance(value, dict) else None
        if person is not None:
            address = address_digest(store, person.email) if person.email else None
            return Told(person.id, address, partial(_without_person, document, name))
    return None


def _without_person(document: dict[str, Any], name: str) -> bytes:
    left = personal_data.redacted("", document[name] if name else document)
    return strict_json.encode({**document, name: left} if name else left)
