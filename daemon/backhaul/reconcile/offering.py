"""Which way a list is read where the key or the platform does not offer each."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from backhaul.errors import Unusable
from backhaul.reconcile.kinds import LEVELS, SHOWN_LEVELS
from backhaul.shop.client import ReadRefused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from backhaul.reconcile.kinds import Kind

T = TypeVar("T")

ABSENT = frozenset({403, 404, 405})
"""Answers to a list that the key or the platform does not offer."""


class NotOffered(Unusable):
    """No way to read the list is offered; the text is the last refusal."""


async def first_offered(kind: Kind, read: Callable[[Kind], Awaitable[T]]) -> T:
    """Read by the first way that is offered. Raises NotOffered where none is.

    `read` raises ReadRefused for the list itself only: any other object that is
    refused says nothing about the list.
    """
    refused = ""
    for way in (kind, SHOWN_LEVELS) if kind is LEVELS else (kind,):
        try:
            return await read(way)
        except ReadRefused as error:
            if error.status not in ABSENT:
                raise
            refused = str(error)
    raise NotOffered(refused)
