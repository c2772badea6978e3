"""A failed connection is retried, but not after a stop or a closed send switch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from backhaul.settings import Push
from scenes.pushing import BrokenTransport, Scene, scene, working
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.store import Place

PRODUCTS = ("prod_1", "prod_2", "prod_3")
ENDS: dict[str, Callable[[Scene], None]] = {
    "signal": lambda stage: stage.dispatcher.stop(),
    "refused key": lambda stage: stage.dispatcher.switch.block_refused_key("401"),
    "fence": lambda stage: stage.dispatcher.switch.hold_for_audit(
        "the clock was set back"
    ),
}


@pytest.mark.parametrize("end", ENDS)
async def test_nothing_leaves_once_sending_has_ended(end: str, database: Place) -> None:
    down = BrokenTransport(httpx.ConnectError("refused"))
    async with scene(database, http=down) as stage:
        planned = [await stage.plan("adjust", product) for product in PRODUCTS]
        async with working(stage):
            await until(lambda: down.requests == len(PRODUCTS), "each was tried once")
            ENDS[end](stage)
            await stage.pass_time(10)
            for command in planned:
                await stage.await_state(command, "planned")
        assert down.requests == len(PRODUCTS)


async def test_a_retry_that_is_still_allowed_is_tried_at_once(database: Place) -> None:
    down = BrokenTransport(httpx.ConnectError("refused"))
    patient = Push.model_validate({"retry_base": "1h", "retry_cap": "2h"})
    async with scene(database, patient, http=down) as stage:
        command = await stage.plan("adjust", "prod_1")
        async with working(stage):
            await until(lambda: down.requests == 1, "it was tried once")
            while stage.state(command) != "planned":
                await stage.pass_time(1)
                await stage.run_pending()
        assert down.requests == 3
