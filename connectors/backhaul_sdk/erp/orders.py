"""Carries orders into an ERP: every outcome classified, uncertain ones looked up."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Protocol

from backhaul_sdk.calls import LateArrivals
from backhaul_sdk.contract import Applied, CheckFailed, Uncertain
from backhaul_sdk.erp.failures import outcome_of_failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul_sdk.contract import Change, LookedUp, Pushed

ORDER_TOPICS = frozenset({"order.placed", "order.cancelled"})


class OrderBook(Protocol):
    """The ERP's own orders, found by the id of the store's order.

    The methods raise the exceptions of `backhaul_sdk.erp.failures`.
    """

    async def place(self, change: Change) -> str:
        """Create the order, or continue with the one that is there; return its id."""
        ...

    async def cancel(self, change: Change) -> str | None:
        """Cancel the order; return its id, or None if there is none."""
        ...

    async def lookup(self, change: Change) -> LookedUp:
        """Return whether the order is as the change wants it; changes nothing."""
        ...


class OrderDelivery:
    """Delivers order changes to an order book, each once.

    `in_flight_seconds` is how long the server may still process an abandoned request;
    `clock` returns seconds that never go back.
    """

    def __init__(
        self, book: OrderBook, in_flight_seconds: float, clock: Callable[[], float]
    ) -> None:
        self._book = book
        self._late_arrivals = LateArrivals(in_flight_seconds, clock)

    def open(self) -> None:
        """Expect a request of an earlier process to be in progress."""
        self._late_arrivals.request_may_run()

    async def push(self, change: Change) -> Pushed:
        try:
            if change.topic == "order.cancelled":
                return Applied(await self._book.cancel(change))
            return Applied(await self._book.place(change))
        except CheckFailed as error:
            outcome = outcome_of_failure(error)
            if isinstance(outcome, Uncertain):
                self._late_arrivals.request_may_run()
            return outcome
        except asyncio.CancelledError:
            self._late_arrivals.request_may_run()
            raise

    async def lookup(self, change: Change) -> LookedUp:
        return await self._late_arrivals.lookup(partial(self._book.lookup, change))
