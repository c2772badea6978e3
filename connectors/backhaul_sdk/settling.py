"""For systems that may still be at work on a request after its line broke."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from backhaul_sdk.outcome import Absent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from backhaul_sdk.outcome import LookedUp


class Settling:
    """Knows until when a change that is not there may still get there.

    `seconds` is how long the system may go on with what nobody waits for any more;
    `clock` returns seconds that never go back.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._until = 0.0

    def may_go_on(self) -> None:
        """Remember that a request may be at work from now on.

        To be called in `open` as well: whoever was here before may have lost an answer
        just now.
        """
        self._until = self._clock() + self._seconds

    async def settled(self, look: Callable[[], Awaitable[LookedUp]]) -> LookedUp:
        """Look; what is absent while a request may be at work is looked for after it.

        Passes on what `look` raises.
        """
        while True:
            is_settled = self._clock() >= self._until
            found = await look()
            if is_settled or not isinstance(found, Absent):
                return found
            await asyncio.sleep(self._until - self._clock())
