"""F32 for deliveries: a back office killed during an order gets each order once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from faults.offices import Database, Folder, Rest, Webhooks
from faults.telling import tell_amid_kills
from faults.trials import LONG, tell
from scenes.loop_guard import on_purpose

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from faults.offices import Office

KILLS = 50 if LONG else 2


@pytest.fixture(params=[Webhooks, Rest, Database, Folder])
def office(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Office]:
    with on_purpose():
        made: Office = request.param(tmp_path)
    yield made
    made.close()


@pytest.mark.faults
@pytest.mark.timeout(1_800 if LONG else 600)
async def test_a_killed_office_has_every_order_once(
    tmp_path: Path, office: Office, capsys: pytest.CaptureFixture[str]
) -> None:
    told = await tell_amid_kills(office, tmp_path / "backhaul.db", KILLS)
    tell(capsys, 0, KILLS, f"{len(told.owed)} orders, {told.again} heard again")
    assert len(told.owed) == KILLS * office.orders_a_life
    assert set(told.came) == set(told.owed)
    assert office.repeats or not told.again
