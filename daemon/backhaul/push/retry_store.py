"""Retries writing an attempt's result until the database stores it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from loguru import logger

from backhaul.core import strict_json
from backhaul.core.identity import address_digest
from backhaul.errors import Unusable
from backhaul.platform import personal_data
from backhaul.runtime.loop import retry_while_busy
from backhaul.store.commands import MentionedCustomer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from backhaul.core.clock import Clock

T = TypeVar("T")


async def retry_until_stored(
    write: Callable[[], Awaitable[T]], store: str, clock: Clock
) -> T:
    """Retry a write until it is stored; a lost result needs another check."""
    return await retry_while_busy(write, clock, partial(log_busy, store))


def log_busy(store: str, error: Exception) -> None:
    """Log that the database refuses writes."""
    logger.bind(action="push.busy", store=store).warning("{}", error)


def mentioned_customer(store: str, answer: bytes) -> MentionedCustomer | None:
    """Return the customer that a response mentions, so that they can be redacted.

    The order is the response itself, or a member of it: `data`, or one of a refusal.
    """
    try:
        document = strict_json.decode_object(answer)
    except Unusable:
        return None
    for name, value in {"": document, **document}.items():
        customer = (
            personal_data.customer_of("", value) if isinstance(value, dict) else None
        )
        if customer is not None:
            address = address_digest(store, customer.email) if customer.email else None
            return MentionedCustomer(
                customer.id, address, partial(_without_customer, document, name)
            )
    return None


def _without_customer(document: dict[str, Any], name: str) -> bytes:
    left = personal_data.redacted("", document[name] if name else document)
    return strict_json.encode({**document, name: left} if name else left)
