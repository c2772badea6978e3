"""Reads one product's stock and its recent stock history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from backhaul.core import strict_json
from backhaul.core.clock import to_text
from backhaul.core.rate_limit import Priority
from backhaul.core.stock import ProductStock
from backhaul.platform import decoding, responses, schemas
from backhaul.platform.client import NOT_OFFERED, ReadRefused
from backhaul.platform.history import MOST_PAGES, PATH, is_past, move_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from backhaul.core.clock import Clock
    from backhaul.platform.client import PlatformClient
    from backhaul.platform.history import HistoryMove


class MirrorUpdates(Protocol):
    """Appends what is read to the inbox; `caught_up` waits until it is folded."""

    caught_up: Callable[[], Awaitable[None]]

    async def append_body(self, topic: str, read_at: str, body: bytes) -> int:
        """Append one document; return the event's id."""
        ...

    async def append_moves(self, moves: Sequence[HistoryMove], read_at: str) -> None:
        """Append the moves of stock that the ledger lacks."""
        ...


class StockReader:
    """Reads one store. Raises NotSent, OutcomeUnknown, ReadRefused or Unusable."""

    def __init__(
        self,
        client: PlatformClient,
        repair: MirrorUpdates,
        clock: Clock,
        currency: Callable[[], str],
        read_orders: Callable[[], Awaitable[object]],
    ) -> None:
        self._client = client
        self._repair = repair
        self._clock = clock
        self._currency = currency
        self._read_orders = read_orders

    async def read_levels(self, product_id: str) -> ProductStock:
        """Read the levels of all variants; empty where the product is gone."""
        _, bodies = await self._bodies(product_id)
        return ProductStock(self._levels(product_id, bodies))

    async def read_with_history(self, product_id: str, since: str) -> ProductStock:
        """Read levels and movements since then, and fold them.

        Where there is no history the orders may tell of a sale.
        """
        began = to_text(self._clock.now())
        topic, bodies = await self._bodies(product_id)
        levels = self._levels(product_id, bodies)
        for body in bodies:
            await self._repair.append_body(topic, began, body)
        moves = await self._moves(product_id, since)
        if moves is None:
            await self._read_orders()
        else:
            whole = [move for move in moves if move.is_whole]
            await self._repair.append_moves(whole, to_text(self._clock.now()))
            # Newer than the levels: it was read after them.
            levels |= {
                move.variant_id: move.entry.stock_after
                for move in moves
                if move.entry.stock_after is not None
            }
        await self._repair.caught_up()
        return ProductStock(levels, is_proved=moves is not None, is_studied=True)

    async def _bodies(self, product_id: str) -> tuple[str, Sequence[bytes]]:
        """Read the levels of a product; what lists none may show them with it."""
        answer = await self._client.ask("/inventory", product_id, Priority.PROOF)
        if answer.ok:
            return "inventory/reread", responses.rows(answer)
        if answer.status not in NOT_OFFERED:
            raise ReadRefused(f"/inventory/{product_id}", answer)
        shown = await self._client.find("/products", product_id, Priority.PROOF)
        bodies = [] if shown is None else [responses.read_object(shown, product_id)]
        return "inventory/shown/reread", bodies

    async def _moves(self, product_id: str, since: str) -> list[HistoryMove] | None:
        """Return the product's moves since then, the oldest first; None without any
        history to read.
        """
        found: dict[str, schemas.Entry] = {}
        for number in range(1, MOST_PAGES + 1):
            filters = {"productId": product_id}
            try:
                page = await self._client.page(PATH, number, Priority.PROOF, filters)
            except ReadRefused as error:
                if error.status in NOT_OFFERED:
                    return None
                raise
            rows = [decoding.entry(strict_json.decode_object(row)) for row in page.rows]
            fresh = [row for row in rows if row.id not in found]
            found |= {row.id: row for row in fresh}
            ended = is_past([row.created_at for row in rows], since)
            if not fresh or ended or page.has_more is False:
                break
        moves = [move_of(row) for row in reversed(found.values())]
        return [m for m in moves if m is not None and m.product_id == product_id]

    def _levels(self, product_id: str, bodies: Sequence[bytes]) -> dict[str, int]:
        """Return the stock by variant, of levels or of the product that shows them."""
        found: dict[str, int] = {}
        for body in bodies:
            document = strict_json.decode_object(body)
            if "variants" in document:
                levels = decoding.product(document, self._currency()).levels
                found |= {level.variant_id: level.stock for level in levels}
                continue
            level, _ = decoding.level(document)
            if level.product_id == product_id:
                found[level.variant_id] = level.stock
        return found
