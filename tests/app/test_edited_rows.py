"""A quarantined row that an operator edited is retried at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from backhaul.app.control_socket import Control
from scenes.daemon import connected
from scenes.reference_shop import open_shop
from scenes.stored import count, rows_of, value_of
from scenes.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("engine")

HEADER = "order,tracking_company,tracking_number"


async def test_an_edited_row_does_not_wait_for_the_next_poll(
    tmp_path: Path,
) -> None:
    async with open_shop(tmp_path / "shop") as shop, connected(shop) as (office, _):
        await shop.order(await shop.product(stock=10))
        await until(lambda: count(office.place, "orders") == 1, "the order")
        office.put("fulfillments-1.csv", HEADER, ",DHL,T1")
        await until(lambda: count(office.place, "quarantine") == 1, "the row")
        assert rows_of(office.place, "records", state="waiting") == []
        row = value_of(office.place, "quarantine", "id")
        fields = {"order": "1001", "tracking_number": "T1", "everything": "true"}
        asked = {"row": row, "kind": "fulfill", "fields": fields}
        asked |= {"who": "otto", "reason": "I read it on the parcel"}
        control = Control(office.folder / "state")
        await asyncio.to_thread(control.post, "/api/changes/quarantine/edit", asked)
        await until(lambda: count(office.place, "commands") == 1, "the command")
