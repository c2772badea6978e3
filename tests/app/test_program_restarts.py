"""A restart of the whole program with an inherited socket loses and refuses nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenes.daemon import office_of
from scenes.reference_process import reference
from scenes.restarts import restarted

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.programs]


async def test_a_restart_of_the_program_under_load_loses_and_refuses_nothing(
    tmp_path: Path,
) -> None:
    with reference(tmp_path) as platform, office_of(platform) as office:
        store = platform.store().id
        found = await restarted(office, store, times=2, per_second=100, each=50)
    assert set(found.statuses) == {200}
    assert (found.lost, found.doubled) == (set(), set())
    assert found.statuses[200] > 150
